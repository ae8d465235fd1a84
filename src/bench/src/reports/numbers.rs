//! Numbers as people read them.

use std::fmt::Display;

/// `1,621`, `3,321.2`: at most so many decimals, none that are zero, commas between thousands.
pub(super) fn grouped(value: f64, decimals: usize) -> String {
    let text = trimmed(value, decimals);
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, part) = text.split_once('.').map_or((text, ""), |(whole, part)| (whole, part));
    let mut groups = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && digit.is_ascii_digit() {
            groups.push(',');
        }
        groups.push(digit);
    }
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{groups}{point}{part}")
}

/// At most so many decimals, none that are zero.
pub(super) fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Three digits that matter: `0.123`, `4.56`, `78.9`, `1,234`.
pub(super) fn short(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    grouped(value, decimals)
}

/// `1 run`, `2 runs`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {one}{ending}")
}

/// `–` where there is none.
pub(super) fn or_dash(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (value, decimals, text) in [
            (1621.0, 2, "1,621"),
            (3321.2, 2, "3,321.2"),
            (417.58, 2, "417.58"),
            (1_234_567.005, 2, "1,234,567"),
            (-1234.5, 1, "-1,234.5"),
            (0.0, 2, "0"),
            (-0.001, 2, "0"),
            (999.0, 0, "999"),
            (f64::NAN, 2, "NaN"),
        ] {
            assert_eq!(grouped(value, decimals), text);
        }
        for (value, text) in [(0.1234, "0.123"), (4.567, "4.57"), (78.91, "78.9"), (1234.4, "1,234")] {
            assert_eq!(short(value), text);
        }
        assert_eq!(or_dash(None, short), "–");
        assert_eq!(
            [counted(0_u64, "run"), counted(1_u32, "CPU"), counted(2_usize, "round")],
            ["0 runs", "1 CPU", "2 rounds"]
        );
    }
}
