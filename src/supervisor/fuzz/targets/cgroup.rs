//! Where a container's limits are found, and what they say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workerapp_supervisor::cgroup::Cgroup;
use workerapp_supervisor::limits::{CpuLimit, memory_limit};

fuzz_target!(|texts: (&str, &str)| {
    let _ = Cgroup::from_text(texts.0, texts.1);
    let _ = (memory_limit(texts.0), CpuLimit::from_v2(texts.0), CpuLimit::from_v1(texts.0, texts.1));
});
