//! A digest of what is sent, kept as an annotation on each child.
//!
//! Comparing what is wanted with what is there finds every field that differs or is missing, but not one that was sent
//! once and is no longer wanted; the digest of the last sent object does.

use std::{fmt, hash::Hasher as _};

use fnv::FnvHasher;
use kube::Resource;
use serde::Serialize;
use workerapp_api::names;

/// Sets the annotation to the digest of the object without it.
///
/// FNV-1a of the JSON text: stable over releases and machines, which `std`'s hasher is not.
pub(crate) fn stamp<K: Resource + Serialize>(mut object: K) -> K {
    let mut hasher = Feed(FnvHasher::default());
    // Serialising into a hasher fails only where a map has keys that aren't strings; Kubernetes' types have none. Such an
    // object could not be sent either, and the API client would say so.
    if serde_json::to_writer(&mut hasher, &object).is_ok() {
        let digest = format!("{:016x}", hasher.0.finish());
        object
            .meta_mut()
            .annotations
            .get_or_insert_default()
            .insert(names::ANNOTATION_APPLIED.into(), digest);
    }
    object
}

struct Feed(FnvHasher);

impl std::io::Write for Feed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}
