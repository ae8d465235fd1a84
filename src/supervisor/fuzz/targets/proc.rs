//! Files of /proc.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workerapp_supervisor::procfs::{FileFlags, Process, Protocol, listening_addresses, tcp_sockets};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let _ = (Process::parse(&text), FileFlags::parse(&text), Protocol::parse(bytes), tcp_sockets([&text, &text]));
    assert!(listening_addresses(&text).count() <= text.lines().count());
});
