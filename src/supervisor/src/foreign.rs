//! What fuzzing calls: everything that parses text from others, with what must hold whatever that text is.
//!
//! `fuzz/` calls each for as long as one likes; the tests below call each with some ten thousand damaged samples.

use crate::address::{self, Binding};
use crate::cgroup::Cgroup;
use crate::limits::{CpuLimit, memory_limit};
use crate::procfs::{FileFlags, Process, Protocol, awaited, listening_addresses, tcp_sockets};

/// A request to the admin port, and what a worker says over its channel.
pub fn admin(bytes: &[u8]) {
    crate::admin::fuzz_request(bytes);
    crate::admin::fuzz_channel(bytes);
}

/// Addresses in a worker's memory.
///
/// # Panics
/// When one of two bindings is in the other's way, but not the other way round.
pub fn addresses(one: &[u8], other: &[u8], v6_only: bool) {
    if let (Some(one), Some(other)) = (address::parse(one), address::parse(other)) {
        let one = Binding { address: one, v6_only };
        let other = Binding { address: other, v6_only: false };
        assert_eq!(one.conflicts_with(&other), other.conflicts_with(&one));
    }
}

/// Where a container's limits are found, and what they say.
pub fn cgroup(one: &str, other: &str) {
    let _ = (Cgroup::from_text(one, other), memory_limit(one), CpuLimit::from_v2(one));
    let _ = CpuLimit::from_v1(one, other);
}

/// Files of `/proc`.
///
/// # Panics
/// When more addresses, or files in an epoll set, are found than there are lines.
pub fn proc(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (Process::parse(&text), FileFlags::parse(&text), Protocol::parse(bytes));
    let _ = tcp_sockets([&text, &text]);
    assert!(listening_addresses(&text).count() <= text.lines().count());
    assert!(awaited(&text).count() <= text.lines().count());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{with_damaged, with_damaged_text};

    #[test]
    fn damaged_requests() {
        with_damaged(
            &[
                b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                b"POST /restart HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
                b"POST /channel?generation=7 HTTP/1.1\r\nHost: a\r\nUpgrade: workerapp\r\n\r\n",
                b"stats 1 2 3 4 5\ndrained\nlistens 0.0.0.0 3000\n",
            ],
            admin,
        );
    }

    #[test]
    fn damaged_addresses() {
        let mut four = [0; 16];
        four[..8].copy_from_slice(&[2, 0, 0x0b, 0xb8, 127, 0, 0, 1]);
        let mut six = [0; 28];
        six[..4].copy_from_slice(&[10, 0, 0x0b, 0xb8]);
        let mut mapped = six;
        mapped[18..24].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        let samples: [&[u8]; 3] = [&four, &six, &mapped];
        with_damaged(&samples, |bytes| {
            for sample in samples {
                addresses(bytes, sample, bytes.len().is_multiple_of(2));
            }
        });
    }

    #[test]
    fn damaged_cgroup_files() {
        let samples = [
            "4:memory:/kubepods/pod1/c1\n3:cpu,cpuacct:/kubepods/pod1/c1\n0::/a/b\n",
            "25 21 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
            "150000 100000\n",
            "max 100000\n",
            "-1\n",
            "9223372036854771712\n",
        ];
        with_damaged_text(&samples, |text| samples.iter().for_each(|sample| cgroup(text, sample)));
    }

    #[test]
    fn damaged_proc_files() {
        with_damaged(
            &[
                b"42 (a) b (c) S 7 42 42 0 -1 4194560 1 0 0 0 120 30 0 0 20 0 1 0 100 1 1 18446744073709551615\n",
                b"pos:\t0\nflags:\t02004002\nmnt_id:\t10\nino:\t4321\n",
                b"TCP\0",
                b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                  0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4321 1\n",
                b"   1: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A \
                  00000000:00000000 00:00000000 00000000 0 0 4322 1\n",
            ],
            proc,
        );
    }
}
