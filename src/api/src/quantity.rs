//! Exact Kubernetes resource quantities: `500m` CPU, `1.5Gi` of memory.
//!
//! The rules are those of `k8s.io/apimachinery/pkg/api/resource` (v0.37): what its `ParseQuantity` accepts is accepted
//! here, with the same value, and [`Quantity`]'s `Display` is byte for byte the canonical form that the API server
//! stores. That matters because desired objects are compared with live ones: a `0.5` that comes back as `500m` would
//! otherwise be a difference for ever. `tests/data/quantities.tsv` holds that package's answers for a few thousand
//! inputs, and `tests/quantity_oracle.rs` compares every one of them with this module's.
//!
//! No floating point takes part: a value is its decimal digits and a power of ten.
//!
//! What in apimachinery may surprise, and is the same here:
//! - A number without digits is zero (`+`, `.`, `Ki`), unless it needs the slow path there (`Ei`, `e-10`): that is refused.
//! - Only binary quantities (`Ki` … `Ei`) are capped, at 2^63-1. `1e400` is exactly that.
//! - What is finer than a nano unit is rounded away from zero: `0.1n` is `1n`.
//! - A decimal exponent is cut to 32 bits: `1e4294967296` is `1`.
//! - `DecimalSI` has no unit above `E`, and the canonical form then loses its power of ten: see [`Quantity`]'s `Display`.

mod decimal;
mod error;
mod parse;
mod wire;

pub use error::QuantityError;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use decimal::Decimal;

/// Powers of ten of the units that values are read in.
const UNITS: i64 = 0;
const MILLI: i64 = -3;
const NANO: i64 = -9;

/// The units of the canonical form that are powers of ten, with the power.
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The units of the canonical form that are powers of 1024; the index is the power.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Which family of units a quantity was written in. The canonical form stays in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    /// `12Mi`: 12 × 2^20.
    BinarySi,
    /// `12M`: 12 × 10^6.
    #[default]
    DecimalSi,
    /// `12e6`.
    DecimalExponent,
}

/// An exact amount of a resource, in the resource's own unit: cores for CPU, bytes for memory.
///
/// Equality, order and hash are those of the value: `1Gi` equals `1073741824`, though they are written differently.
/// The default is `0`.
///
/// ```
/// use workerapp_api::Quantity;
///
/// let cpu: Quantity = "1.5".parse()?;
/// assert_eq!(cpu.to_string(), "1500m");
/// assert_eq!(cpu.ceil(), 2);
/// assert!(cpu < "2".parse()?);
/// # Ok::<(), workerapp_api::QuantityError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    /// Never set for zero, so that the value has one representation only.
    negative: bool,
    magnitude: Decimal,
    format: Format,
}

impl Quantity {
    /// `milli` thousandths of a unit: `from_milli(500)` is `500m`, half a core.
    pub fn from_milli(milli: i128) -> Self {
        Self::new(milli < 0, Decimal::new(&milli.unsigned_abs().to_string(), MILLI), Format::DecimalSi)
    }

    /// `bytes` whole units, written with the binary units that memory is usually given in: `from_bytes(1 << 30)` is `1Gi`.
    ///
    /// From 2^63 on the value is 2^63-1, the most that Kubernetes takes in these units.
    pub fn from_bytes(bytes: u64) -> Self {
        Self::new(false, Decimal::new(&bytes.to_string(), UNITS), Format::BinarySi)
    }

    /// Every quantity is made here, so that the rules for rounding and capping hold for all of them.
    fn new(negative: bool, magnitude: Decimal, format: Format) -> Self {
        let mut magnitude = magnitude.rounded_up(NANO);
        if format == Format::BinarySi {
            let most = Decimal::new(&i64::MAX.to_string(), UNITS);
            magnitude = magnitude.min(most);
        }
        Self { negative: negative && !magnitude.is_zero(), magnitude, format }
    }

    /// The exact value in billionths of a unit. Beyond `i128` (1.7e29 units) it is the nearest `i128`.
    pub fn nanos(&self) -> i128 {
        self.signed(self.magnitude.ceil_at(NANO))
    }

    /// The value in thousandths of a unit (millicores for CPU), a fraction rounded away from zero: `1.0001` is `1001`.
    ///
    /// This is what apimachinery's `MilliValue` promises. Beyond `i128` it is the nearest `i128`, where that overflows.
    pub fn milli_ceil(&self) -> i128 {
        self.signed(self.magnitude.ceil_at(MILLI))
    }

    /// The value as a plain number without a unit, rounded as [`Self::milli_ceil`] does: `1500m` is `1.5`.
    pub fn plain(&self) -> String {
        let milli = self.milli_ceil();
        let text = format!("{}.{:03}", milli / 1000, milli % 1000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// The value in whole units (cores, bytes), a fraction rounded away from zero: `1500m` is `2`, `-1500m` is `-2`.
    ///
    /// This is what apimachinery's `Value` promises. Beyond `i128` it is the nearest `i128`, where that overflows.
    pub fn ceil(&self) -> i128 {
        self.signed(self.magnitude.ceil_at(UNITS))
    }

    /// The whole units (cores, bytes) that are entirely there, a fraction dropped: `1500m` is `1`, `-1500m` is `-1`.
    ///
    /// Beyond `i128` it is the nearest `i128`.
    pub fn floor(&self) -> i128 {
        self.signed(self.magnitude.floor_at(UNITS))
    }

    /// The value as a number of bytes, a fraction rounded up. Below zero it is 0, beyond `u64` it is [`u64::MAX`].
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.ceil().max(0)).unwrap_or(u64::MAX)
    }

    /// Whether the value is exactly zero.
    pub fn is_zero(&self) -> bool {
        self.magnitude.is_zero()
    }

    /// Whether the value is above zero.
    pub fn is_positive(&self) -> bool {
        !self.negative && !self.is_zero()
    }

    /// The value rounded away from zero to thousandths of a unit.
    ///
    /// The API server does this to `resources.requests` and `resources.limits` of every container it stores
    /// (`SetDefaults_ResourceList`), so `100n` there comes back as `1m`.
    #[must_use]
    pub fn rounded_to_milli(&self) -> Self {
        Self { magnitude: self.magnitude.clone().rounded_up(MILLI), ..*self }
    }

    fn signed(&self, magnitude: u128) -> i128 {
        match (i128::try_from(magnitude), self.negative) {
            (Ok(value), false) => value,
            (Ok(value), true) => -value,
            (Err(_), false) => i128::MAX,
            (Err(_), true) => i128::MIN,
        }
    }

    /// Digits and suffix of the canonical form in binary units, or `None` where apimachinery turns to decimal ones: below
    /// 1024 and for values with a fraction, neither of which has an exact binary form.
    fn binary_form(&self) -> Option<(u128, &'static str)> {
        let mut value = self.magnitude.ceil_at(UNITS);
        if self.format != Format::BinarySi || !self.magnitude.is_whole() || value < 1024 {
            return None;
        }
        let mut suffixes = BINARY_SUFFIXES.into_iter();
        let mut suffix = suffixes.next()?;
        while value.is_multiple_of(1024) {
            let Some(larger) = suffixes.next() else { break };
            value /= 1024;
            suffix = larger;
        }
        Some((value, suffix))
    }

    /// The canonical form in decimal units: no fraction, and the largest exponent that is a multiple of three.
    fn decimal_form(&self) -> String {
        // 32 bits that wrap, because that is what apimachinery has: the API server's `10e2147483647` is to be ours.
        let exponent = decimal::wrapped(self.magnitude.exponent());
        let (zeros, exponent) = match exponent % 3 {
            1 | -2 => ("0", exponent.wrapping_sub(1)),
            2 | -1 => ("00", exponent.wrapping_sub(2)),
            _ => ("", exponent),
        };
        let digits = self.magnitude.digits();
        if self.format == Format::DecimalExponent {
            return if exponent == 0 {
                format!("{digits}{zeros}")
            } else {
                format!("{digits}{zeros}e{exponent}")
            };
        }
        let known = DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == exponent);
        // apimachinery ignores that there is no suffix, so its canonical form of 1000E is "1".
        let suffix = known.map_or("", |(suffix, _)| suffix);
        format!("{digits}{zeros}{suffix}")
    }
}

/// The canonical form, as the API server stores it: `0.5` → `500m`, `1024Mi` → `1Gi`, `1.5Gi` → `1536Mi`, `1E3` → `1e3`.
///
/// Reading it back gives the same value, with one exception that is apimachinery's own: from 1000E on, a value in
/// `DecimalSI` whose digits end in zeros loses them (`1000E` → `1`), since there is no unit for them.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.pad("0");
        }
        let sign = if self.negative { "-" } else { "" };
        match self.binary_form() {
            Some((value, suffix)) => f.pad(&format!("{sign}{value}{suffix}")),
            None => f.pad(&format!("{sign}{}", self.decimal_form())),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude.cmp(&other.magnitude),
            (true, true) => other.magnitude.cmp(&self.magnitude),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.negative.hash(state);
        self.magnitude.hash(state);
    }
}
