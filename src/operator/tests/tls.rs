//! TLS is spoken by rustls alone: nothing in the lock file is, or links to, another implementation.

use std::path::Path;

/// Names of crates that bring another one. `openssl-probe` only finds the system's certificates.
const OTHERS: [&str; 8] = [
    "boring",
    "boring-sys",
    "hyper-openssl",
    "hyper-tls",
    "native-tls",
    "openssl",
    "openssl-sys",
    "tokio-native-tls",
];

#[test]
fn nothing_else_speaks_tls() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = std::fs::read_to_string(lock).unwrap();
    let names: Vec<_> = lock.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    assert!(names.contains(&"\"rustls\""), "the lock file is read wrongly");
    for other in OTHERS {
        assert!(!names.contains(&&*format!("\"{other}\"")), "{other}");
    }
}
