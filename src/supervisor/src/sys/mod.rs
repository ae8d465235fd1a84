//! The edge to the kernel: thin, safe wrappers around the system calls that `std` does not offer.
//!
//! This is the only module of the whole project that may hold `unsafe`. Nothing here decides anything; each
//! function is one system call (or one that must happen between `fork` and `exec`) with its result turned into an
//! [`std::io::Result`].

#![allow(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "constants and sizes come in other integer types than the calls that take them"
)]

pub(crate) mod diag;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod seccomp;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod spawn;

use std::io;

/// Turns the C convention "-1 and errno" into a `Result`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
