//! Text → quantity, as apimachinery's `ParseQuantity` reads it.

use std::str::FromStr;

use super::decimal::{self, Decimal};
use super::error::QuantityError;
use super::{BINARY_SUFFIXES, DECIMAL_SUFFIXES, Format, NANO, Quantity};

/// What a suffix multiplies the number by.
#[derive(Clone, Copy)]
enum Factor {
    PowerOfTwo(u32),
    PowerOfTen(i32, Format),
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Reads `<sign><digits>.<digits><unit>`, where the sign, either side of the point and the unit may be missing:
    /// `500m`, `0.5`, `.5`, `5.`, `+1`, `1Gi`, `1e3`, `1E-3`.
    ///
    /// Units are `n`, `u`, `m`, `k`, `M`, `G`, `T`, `P`, `E` (powers of 1000), `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei` (powers
    /// of 1024), and `e` or `E` with a whole number (powers of 10). No space is allowed anywhere.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let factor = factor(text, suffix)?;

        // A text without any digit is refused only where apimachinery reads the number itself, not in its fast path,
        // which takes the number for a zero. The fast path ends at 15 decimal digits, of which Pi and Ei leave none, and
        // at nano units.
        let bare = whole.is_empty() && fraction.is_empty();
        let digits = format!("{whole}{fraction}");
        let places = decimal::length(fraction);
        match factor {
            Factor::PowerOfTwo(power) if bare && power >= 50 => Err(QuantityError::not_a_number(text)),
            Factor::PowerOfTen(power, _) if bare && i64::from(power) < NANO => {
                Err(QuantityError::not_a_number(text))
            }
            Factor::PowerOfTwo(power) => {
                let number = Decimal::new(&digits, -places).times_power_of_two(power);
                Ok(Self::new(negative, number, Format::BinarySi))
            }
            Factor::PowerOfTen(power, format) => {
                let exponent = power.wrapping_sub(decimal::wrapped(places));
                Ok(Self::new(negative, Decimal::new(&digits, i64::from(exponent)), format))
            }
        }
    }
}

/// The digits at the beginning, and what follows.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// What `suffix`, the end of `text`, stands for.
fn factor(text: &str, suffix: &str) -> Result<Factor, QuantityError> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(known, _)| *known == suffix) {
        return Ok(Factor::PowerOfTen(*power, Format::DecimalSi));
    }
    let binary = (0..).step_by(10).zip(BINARY_SUFFIXES).find(|(_, known)| *known == suffix);
    if let Some((power, _)) = binary {
        return Ok(Factor::PowerOfTwo(power));
    }
    if let Some(exponent) = suffix.strip_prefix(['e', 'E'])
        && exponent.chars().all(|c| matches!(c, '0'..='9' | '+' | '-'))
    {
        return match exponent.parse() {
            // apimachinery reads 64 bits and keeps 32 of them.
            Ok(exponent) => Ok(Factor::PowerOfTen(decimal::wrapped(exponent), Format::DecimalExponent)),
            Err(_) => Err(QuantityError::invalid_exponent(text, suffix)),
        };
    }
    if !text.starts_with(['+', '-', '.']) && text.len() == suffix.len() {
        return Err(QuantityError::not_a_number(text));
    }
    match suffix.chars().find(|c| !matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '+' | '-')) {
        Some(character) => Err(QuantityError::unexpected_character(text, character)),
        None => Err(QuantityError::unknown_suffix(text, suffix)),
    }
}
