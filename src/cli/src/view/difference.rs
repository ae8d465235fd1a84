//! Differences of two texts, as `diff -u` writes them.

use similar::TextDiff;

use crate::output::{self, CYAN, GREEN, PLAIN, RED};

/// Lines around a change.
const CONTEXT: usize = 3;

/// What changes from `before` to `after`; nothing where they are the same.
pub(crate) fn unified(name: &str, before: &str, after: &str, colors: bool) -> String {
    if before == after {
        return String::new();
    }
    let head = |text: &str, when: &str| {
        if text.is_empty() { "/dev/null".to_owned() } else { format!("{name} ({when})") }
    };
    let text = TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&head(before, "live"), &head(after, "merged"))
        .to_string();
    if !colors {
        return text;
    }
    output::lines(text.lines().map(painted))
}

fn painted(line: &str) -> String {
    let color = match line.as_bytes().first() {
        Some(b'+') => GREEN,
        Some(b'-') => RED,
        Some(b'@') => CYAN,
        _ => return line.to_owned(),
    };
    format!("{color}{line}{PLAIN}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_lines_around_it() {
        let text = unified("Service web/shop", "a\nb\n", "a\nc\n", false);
        assert_eq!(
            text,
            "--- Service web/shop (live)\n+++ Service web/shop (merged)\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
        );
        assert_eq!(unified("x", "a\n", "a\n", true), "");
        assert!(unified("x", "", "a\n", false).starts_with("--- /dev/null\n+++ x (merged)\n"));
    }

    #[test]
    fn colours_tell_old_from_new() {
        let text = unified("x", "a\n", "b\n", true);
        assert!(text.contains("\x1b[31m-a\x1b[0m\n\x1b[32m+b\x1b[0m\n"), "{text:?}");
    }
}
