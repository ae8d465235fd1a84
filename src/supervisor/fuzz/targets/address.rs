//! Addresses in a worker's memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workerapp_supervisor::foreign;

fuzz_target!(|input: (&[u8], &[u8], bool)| foreign::addresses(input.0, input.1, input.2));
