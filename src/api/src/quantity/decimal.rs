//! A decimal number of any size that is not negative.

use std::cmp::Ordering;

/// `digits` × 10^`exponent`, always in its one shortest form, so that derived equality and hash are those of the value.
///
/// Digits rather than an integer type, because apimachinery caps neither the digits nor the exponent of a decimal
/// quantity: no integer holds `1e400`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    /// ASCII digits that neither begin nor end with a zero; empty for zero.
    digits: String,
    /// 0 for zero.
    exponent: i64,
}

impl Decimal {
    /// `digits` (ASCII digits only, any number of them) × 10^`exponent`.
    pub(super) fn new(digits: &str, exponent: i64) -> Self {
        let significant = digits.trim_end_matches('0');
        let zeros = length(digits) - length(significant);
        match significant.trim_start_matches('0') {
            "" => Self::default(),
            digits => Self { digits: digits.to_owned(), exponent: exponent.saturating_add(zeros) },
        }
    }

    pub(super) fn digits(&self) -> &str {
        &self.digits
    }

    pub(super) fn exponent(&self) -> i64 {
        self.exponent
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Whether there is nothing behind the decimal point.
    pub(super) fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// The value times 2^`power`, for powers up to 60.
    pub(super) fn times_power_of_two(&self, power: u32) -> Self {
        let mut carry: u128 = 0;
        let mut reversed = String::with_capacity(self.digits.len() + 20);
        for digit in self.digits.bytes().rev() {
            carry += u128::from(digit - b'0') << power;
            reversed.push(last_digit(carry));
            carry /= 10;
        }
        while carry > 0 {
            reversed.push(last_digit(carry));
            carry /= 10;
        }
        Self::new(&reversed.chars().rev().collect::<String>(), self.exponent)
    }

    /// The value rounded up to a multiple of 10^`exponent`.
    pub(super) fn rounded_up(self, exponent: i64) -> Self {
        if self.exponent >= exponent {
            return self;
        }
        // The last digit is not zero, so cutting any off always leaves a remainder: the rest goes up by one. Nines at its
        // end become zeros, which the shortest form does not have.
        let kept = self.digits_above(exponent);
        let head = kept.trim_end_matches('9');
        let exponent = exponent + (length(kept) - length(head));
        match head.as_bytes().split_last() {
            None => Self { digits: "1".to_owned(), exponent },
            Some((last, _)) => {
                let mut digits = head.to_owned();
                digits.pop();
                digits.push(char::from(last + 1));
                Self { digits, exponent }
            }
        }
    }

    /// How many 10^`exponent` it is, a fraction rounded up. Beyond `u128` it is [`u128::MAX`].
    pub(super) fn ceil_at(&self, exponent: i64) -> u128 {
        let fraction = u128::from(self.exponent < exponent);
        self.floor_at(exponent).saturating_add(fraction)
    }

    /// How many whole 10^`exponent` it has. Beyond `u128` it is [`u128::MAX`].
    pub(super) fn floor_at(&self, exponent: i64) -> u128 {
        if self.is_zero() {
            return 0;
        }
        if self.exponent < exponent {
            let kept = self.digits_above(exponent);
            return if kept.is_empty() { 0 } else { kept.parse().unwrap_or(u128::MAX) };
        }
        let zeros = u32::try_from(self.exponent.saturating_sub(exponent)).unwrap_or(u32::MAX);
        let factor = 10_u128.checked_pow(zeros);
        let digits = self.digits.parse::<u128>().ok();
        digits.zip(factor).and_then(|(digits, factor)| digits.checked_mul(factor)).unwrap_or(u128::MAX)
    }

    /// The digits that stand for 10^`exponent` and more; `exponent` is above the number's own.
    fn digits_above(&self, exponent: i64) -> &str {
        let cut = usize::try_from(exponent.saturating_sub(self.exponent)).unwrap_or(usize::MAX);
        &self.digits[..self.digits.len().saturating_sub(cut)]
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        // Compared as 0.digits × 10^magnitude. Digits of equal magnitude compare as text: a missing one is a zero, and
        // the shortest form has none at its end.
        let key = |number: &Self| (!number.is_zero(), length(&number.digits).saturating_add(number.exponent));
        key(self).cmp(&key(other)).then_with(|| self.digits.cmp(&other.digits))
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The low 32 bits of `number`, as Go's `int32(number)` has them.
pub(super) fn wrapped(number: i64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// The number of bytes, signed because it is added to exponents.
pub(super) fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

fn last_digit(number: u128) -> char {
    u8::try_from(number % 10).map_or('0', |digit| char::from(b'0' + digit))
}
