//! For fuzzing: what parses text from others and is no part of this crate's interface otherwise.

/// A request to the admin port.
pub fn request(bytes: &[u8]) {
    crate::admin::fuzz_request(bytes);
}

/// What a worker says over its channel.
pub fn channel(bytes: &[u8]) {
    crate::admin::fuzz_channel(bytes);
}
