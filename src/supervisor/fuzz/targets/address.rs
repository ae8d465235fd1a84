//! Addresses in a worker's memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workerapp_supervisor::address::{Binding, parse};

fuzz_target!(|input: (&[u8], &[u8], bool)| {
    if let (Some(one), Some(other)) = (parse(input.0), parse(input.1)) {
        let one = Binding { address: one, v6_only: input.2 };
        let other = Binding { address: other, v6_only: false };
        assert_eq!(one.conflicts_with(&other), other.conflicts_with(&one));
    }
});
