//! The JSON text of an object in little room: packed against the first text of its kind.
//!
//! Apps and their children are alike but for names, uids and a few numbers. LZ4 with a text of the same kind as its dictionary
//! leaves less than a tenth of a Deployment, in a microsecond or two; with thousands of apps the texts would else be most of
//! what the operator needs.

use std::sync::OnceLock;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use crate::kind::Kind;

/// How far back LZ4 can refer.
const WINDOW: usize = 64 * 1024;

/// The first text of each kind. It never changes, or what was packed against it could not be read any more.
static FIRST: [OnceLock<Box<[u8]>>; Kind::ALL.len()] = [const { OnceLock::new() }; Kind::ALL.len()];

/// A text, packed. The same text of the same kind is always packed alike.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packed {
    kind: Kind,
    length: usize,
    bytes: Box<[u8]>,
}

impl Packed {
    pub(super) fn new(kind: Kind, text: &[u8]) -> Self {
        Self { kind, length: text.len(), bytes: compress_with_dict(text, like(kind, text)).into() }
    }

    /// The text again.
    pub(super) fn text(&self) -> Vec<u8> {
        // What was packed here can be read here. Were it otherwise, the object would be one that doesn't fit its type.
        decompress_with_dict(&self.bytes, self.length, like(self.kind, &[])).unwrap_or_default()
    }
}

/// What texts of this kind are packed against: the end of `text`, if it is the first.
fn like(kind: Kind, text: &[u8]) -> &'static [u8] {
    let begin = text.len().saturating_sub(WINDOW);
    FIRST[kind as usize].get_or_init(|| text[begin..].into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_can_be_read_and_takes_little_room() {
        let template =
            serde_json::json!({"image": "registry.example.com/shop:1", "ports": [{"containerPort": 3000}]})
                .to_string();
        let text =
            |name: &str| format!("{{\"name\":\"{name}\",\"template\":{}}}", template.repeat(20)).into_bytes();
        let (first, second) =
            (Packed::new(Kind::ScaledObject, &text("a")), Packed::new(Kind::ScaledObject, &text("b")));
        assert_eq!((first.text(), second.text()), (text("a"), text("b")));
        assert!(second.bytes.len() * 10 < text("b").len(), "{} bytes", second.bytes.len());
        assert!(first != second && second == Packed::new(Kind::ScaledObject, &text("b")));
        // Larger than the window, and unlike everything else.
        let mut random = fastrand::Rng::with_seed(1);
        let large: Vec<u8> = (0..3 * WINDOW).map(|_| random.alphanumeric() as u8).collect();
        assert_eq!(Packed::new(Kind::ScaledObject, &large).text(), large);
        assert_eq!(Packed::new(Kind::ScaledObject, b"").text(), b"");
    }
}
