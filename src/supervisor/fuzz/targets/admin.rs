//! Requests to the admin port, and what workers say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workerapp_supervisor::foreign;

fuzz_target!(|bytes: &[u8]| foreign::admin(bytes));
