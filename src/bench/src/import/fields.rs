//! Numbers of a JSON document, with the names of their fields for the errors.

use super::Error;
use serde_json::Value;

/// Part of a document.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    format: &'static str,
    /// `latency.`
    path: String,
    value: &'a Value,
}

const NUMBER: &str = "it must be a number that is not negative";

impl<'a> Fields<'a> {
    pub(super) fn new(format: &'static str, value: &'a Value) -> Self {
        Self { format, path: String::new(), value }
    }

    /// The object of this name.
    pub(super) fn within(&self, name: &str) -> Result<Self, Error> {
        match self.value.get(name) {
            Some(value @ Value::Object(_)) => {
                Ok(Self { format: self.format, path: format!("{}{name}.", self.path), value })
            }
            other => Err(self.wrong(name, other, "it must be an object")),
        }
    }

    /// [`Fields::within`], if it is there.
    pub(super) fn maybe_within(&self, name: &str) -> Result<Option<Self>, Error> {
        if self.value.get(name).is_none_or(Value::is_null) { Ok(None) } else { self.within(name).map(Some) }
    }

    pub(super) fn wrong(&self, name: &str, found: Option<&Value>, allowed: &'static str) -> Error {
        let found = found.map_or_else(|| "nothing".to_owned(), |value| shortened(&value.to_string()));
        Error::Field { format: self.format, field: format!("{}{name}", self.path), found, allowed }
    }

    /// A number that may be missing.
    pub(super) fn maybe(&self, name: &str) -> Result<Option<f64>, Error> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64().filter(|number| number.is_finite() && *number >= 0.0) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(name, Some(value), NUMBER)),
            },
        }
    }

    /// A number that must be there.
    pub(super) fn number(&self, name: &str) -> Result<f64, Error> {
        self.maybe(name)?.ok_or_else(|| self.wrong(name, None, NUMBER))
    }

    /// A number above 0 that must be there.
    pub(super) fn positive(&self, name: &str) -> Result<f64, Error> {
        let number = self.number(name)?;
        if number > 0.0 {
            Ok(number)
        } else {
            Err(self.wrong(name, self.value.get(name), "it must be above 0"))
        }
    }

    /// A whole number, 0 if it is missing.
    pub(super) fn count(&self, name: &str) -> Result<u64, Error> {
        Ok(self.maybe(name)?.map_or(0, whole))
    }

    /// Empty if it is missing.
    pub(super) fn text(&self, name: &str) -> String {
        self.value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// Rounded; what is too large is the largest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float stops at the ends"
)]
pub(super) fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// So that an error stays readable.
pub(super) fn shortened(text: &str) -> String {
    if text.chars().count() > 80 {
        text.chars().take(77).chain("...".chars()).collect()
    } else {
        text.to_owned()
    }
}
