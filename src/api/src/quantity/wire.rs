//! Quantities in JSON and YAML, in the CRD's schema, and in the types of `k8s-openapi`.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Quantity, QuantityError};

/// The canonical form, always a string.
impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From a string, an integer or a number with a fraction: `"500m"`, `2`, `0.5`.
///
/// A number stands for the shortest decimal text that means it, so `0.1` is exactly `100m`. The error names the value and
/// what is allowed, as [`QuantityError`] does.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a number or a string with a number and a unit, such as 500m, 2 or 1.5Gi")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        // The text that Go's JSON encoder writes for the number: with an exponent only for the very small and very large.
        let size = number.abs();
        if size != 0.0 && !(1e-6..1e21).contains(&size) {
            self.visit_str(&format!("{number:e}"))
        } else {
            self.visit_str(&number.to_string())
        }
    }
}

/// Kubernetes' int-or-string. In place rather than by reference, which a CRD's schema cannot have.
impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::Quantity").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

impl From<&Quantity> for ApiQuantity {
    fn from(quantity: &Quantity) -> Self {
        Self(quantity.to_string())
    }
}

impl From<Quantity> for ApiQuantity {
    fn from(quantity: Quantity) -> Self {
        Self::from(&quantity)
    }
}

impl TryFrom<&ApiQuantity> for Quantity {
    type Error = QuantityError;

    fn try_from(quantity: &ApiQuantity) -> Result<Self, QuantityError> {
        quantity.0.parse()
    }
}

impl TryFrom<ApiQuantity> for Quantity {
    type Error = QuantityError;

    fn try_from(quantity: ApiQuantity) -> Result<Self, QuantityError> {
        Self::try_from(&quantity)
    }
}
