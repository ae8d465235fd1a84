//! Label selectors as they stand in a request: `a=b,c in (d,e),!f`.

use std::collections::BTreeSet;

use kube::core::{Expression, Selector};

/// Why a selector can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the label selector can't be read at {0:?}: write it as in a=b,c!=d,e in (f,g),h,!i")]
pub struct Malformed(String);

/// Reads a selector; an empty one selects all.
///
/// # Errors
/// Names the part that can't be read.
pub fn parse(text: &str) -> Result<Selector, Malformed> {
    parts(text).into_iter().filter(|part| !part.is_empty()).map(expression).collect()
}

/// The requirements, split at the commas outside of parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|c| {
        inside = match c {
            '(' => true,
            ')' => false,
            _ => inside,
        };
        c == ',' && !inside
    })
    .map(str::trim)
    .collect()
}

fn expression(part: &str) -> Result<Expression, Malformed> {
    let malformed = || Malformed(part.to_owned());
    let known = |key: &str| {
        let key = key.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        (!key.is_empty() && key.chars().all(plain)).then(|| key.to_owned()).ok_or_else(malformed)
    };
    let value = |value: &str| {
        let value = value.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        value.chars().all(plain).then(|| value.to_owned()).ok_or_else(malformed)
    };
    if let Some(list) = part.strip_suffix(')') {
        let (key, list) = list.split_once('(').ok_or_else(malformed)?;
        let values = list.split(',').map(value).collect::<Result<BTreeSet<_>, _>>()?;
        let (key, operator) = key.trim_end().rsplit_once(' ').ok_or_else(malformed)?;
        return match operator {
            "in" => Ok(Expression::In(known(key)?, values)),
            "notin" => Ok(Expression::NotIn(known(key)?, values)),
            _ => Err(malformed()),
        };
    }
    if let Some((key, wanted)) = part.split_once("!=") {
        return Ok(Expression::NotEqual(known(key)?, value(wanted)?));
    }
    if let Some((key, wanted)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Expression::Equal(known(key)?, value(wanted)?));
    }
    match part.strip_prefix('!') {
        Some(key) => Ok(Expression::DoesNotExist(known(key)?)),
        None => Ok(Expression::Exists(known(part)?)),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::SelectorExt as _;

    use super::parse;

    #[test]
    fn selectors_match_as_kubernetes_says() {
        let labels =
            [("app", "web"), ("tier", "front")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = labels.into_iter().collect();
        for (selector, matches) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app=web,tier=back", false),
            ("app!=web", false),
            ("missing!=x", true),
            ("app in (api, web)", true),
            ("app notin (api,web),tier", false),
            ("missing notin (a)", true),
            ("tier", true),
            ("!tier", false),
            ("!example.com/missing", true),
        ] {
            assert_eq!(parse(selector).unwrap().matches(&labels), matches, "{selector}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for selector in ["app=web,=", "app in web)", "app within (web)", "a b", "app=we b", "(a)"] {
            let error = parse(selector).unwrap_err();
            assert!(error.to_string().contains("write it as in"), "{selector}: {error}");
        }
    }
}
