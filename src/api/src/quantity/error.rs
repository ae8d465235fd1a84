//! Why a text is not a quantity.

/// Why a text is not a quantity. Every message names the text and what would be allowed in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// There is no text at all.
    #[error("a quantity must not be empty: write a number and a unit, such as 500m, 2 or 1.5Gi")]
    Empty,

    /// It does not begin with a number.
    #[error("{value:?} is not a quantity: it must begin with a number, such as 500m, 2 or 1.5Gi")]
    NotANumber {
        /// The text, shortened if it is long.
        value: String,
    },

    /// There is a character that no quantity has: a space, an underscore, a second decimal point.
    #[error(
        "{value:?} is not a quantity: {character:?} is not allowed here; \
         write a number and its unit with nothing between or around them, such as 500m, 2 or 1.5Gi"
    )]
    UnexpectedCharacter {
        /// The text, shortened if it is long.
        value: String,
        /// The first character that is not allowed.
        character: char,
    },

    /// What stands behind the number is no unit. Units are case-sensitive and have no `B`.
    #[error(
        "{value:?} is not a quantity: {suffix:?} is not a unit; allowed are n, u, m, k, M, G, T, P, E, \
         Ki, Mi, Gi, Ti, Pi, Ei or none, such as 500m, 2 or 1.5Gi"
    )]
    UnknownSuffix {
        /// The text, shortened if it is long.
        value: String,
        /// What stands where the unit belongs, shortened if it is long.
        suffix: String,
    },

    /// The exponent has no digits, or does not fit in 64 bits.
    #[error(
        "{value:?} is not a quantity: {exponent:?} is not an exponent; \
         write e or E and a whole number, such as 1e3 or 25e-1"
    )]
    InvalidExponent {
        /// The text, shortened if it is long.
        value: String,
        /// What stands where the exponent belongs, shortened if it is long.
        exponent: String,
    },
}

impl QuantityError {
    pub(super) fn not_a_number(value: &str) -> Self {
        Self::NotANumber { value: shortened(value) }
    }

    pub(super) fn unexpected_character(value: &str, character: char) -> Self {
        Self::UnexpectedCharacter { value: shortened(value), character }
    }

    pub(super) fn unknown_suffix(value: &str, suffix: &str) -> Self {
        Self::UnknownSuffix { value: shortened(value), suffix: shortened(suffix) }
    }

    pub(super) fn invalid_exponent(value: &str, exponent: &str) -> Self {
        Self::InvalidExponent { value: shortened(value), exponent: shortened(exponent) }
    }
}

/// The message ends up in a condition, an event and a terminal: a value of a megabyte must not.
fn shortened(text: &str) -> String {
    const MOST: usize = 64;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
