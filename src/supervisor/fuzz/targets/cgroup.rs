//! Where a container's limits are found, and what they say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workerapp_supervisor::foreign;

fuzz_target!(|texts: (&str, &str)| foreign::cgroup(texts.0, texts.1));
