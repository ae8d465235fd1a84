//! Writes JSON; nothing here reads it.

use std::fmt::Write;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    Decimal(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub(super) fn text(value: &(impl ToString + ?Sized)) -> Self {
        Self::Text(value.to_string())
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Integer(value) => push(out, format_args!("{value}")),
            Self::Decimal(value) if value.is_finite() => push(out, format_args!("{value:.3}")),
            Self::Null | Self::Decimal(_) => out.push_str("null"),
            Self::Text(value) => write_text(value, out),
            Self::List(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    value.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_text(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u16> for Json {
    fn from(value: u16) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<i32> for Json {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Null, Self::Integer)
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(arguments);
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => push(out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let value = Json::Object(vec![
            ("a", Json::List(vec![1_u32.into(), Json::Null, true.into()])),
            ("b", Json::text("q\"\\\n\u{1}é")),
            ("c", Json::Decimal(1.5)),
            ("d", Json::Decimal(f64::NAN)),
            ("e", Json::from(None::<u16>)),
        ]);
        let mut out = String::new();
        value.write(&mut out);
        assert_eq!(out, r#"{"a":[1,null,true],"b":"q\"\\\n\u0001é","c":1.500,"d":null,"e":null}"#);
    }
}
