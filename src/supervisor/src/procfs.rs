//! What /proc tells about the processes below us. Parsers of its text, and thin readers over them.

use crate::sys::process::{Pid, extended_attribute};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// One process, from `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// Its parent.
    pub parent: Pid,
    /// Its process group.
    pub group: Pid,
    /// Its session.
    pub session: Pid,
    /// Ended, but not reaped yet.
    pub zombie: bool,
    /// CPU time that it and its reaped children have used, in clock ticks.
    pub cpu_ticks: u64,
    /// Memory that is its own or shared, in pages.
    pub resident_pages: u64,
}

impl Process {
    /// From the text of `/proc/PID/stat`. The name in it may hold anything, brackets and spaces included.
    pub fn parse(stat: &str) -> Option<Self> {
        let (pid, _) = stat.split_once(' ')?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        // Seven fields on: utime, stime, cutime, cstime; seven after these: rss.
        let numbers: Vec<u64> =
            fields.skip(7).take(11).map(|text| text.parse().unwrap_or_default()).collect();
        Some(Self {
            pid: pid.parse().ok()?,
            parent,
            group,
            session,
            zombie: matches!(state, "Z" | "X"),
            cpu_ticks: numbers.iter().take(4).fold(0, |sum, n| sum.saturating_add(*n)),
            resident_pages: numbers.get(10).copied().unwrap_or_default(),
        })
    }
}

/// Every process that can be seen.
pub(crate) fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .filter_map(|entry| {
            Process::parse(&String::from_utf8_lossy(&fs::read(entry.path().join("stat")).ok()?))
        })
        .collect()
}

/// The value of a variable in the environment that a process was started with.
pub(crate) fn environment_variable(pid: Pid, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    find_variable(&environment, name)
}

fn find_variable(environment: &[u8], name: &str) -> Option<String> {
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// Reads a caller's memory. Works where `process_vm_readv` is refused.
pub(crate) fn read_memory(thread: Pid, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    File::open(format!("/proc/{thread}/mem"))?.read_exact_at(buffer, address)
}

/// User and group of a process.
pub(crate) fn owner(pid: Pid) -> io::Result<(u32, u32)> {
    // The owner of /proc/PID is root when the process may not be looked into, so the status has to tell.
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let effective = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    match (effective("Uid:"), effective("Gid:")) {
        (Some(uid), Some(gid)) => Ok((uid, gid)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The flags of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFlags {
    /// Calls on it do not wait.
    pub nonblocking: bool,
    /// It does not survive `exec`.
    pub close_on_exec: bool,
}

impl FileFlags {
    /// From the text of `/proc/PID/fdinfo/FD`.
    pub fn parse(fdinfo: &str) -> Option<Self> {
        const NONBLOCK: u64 = 0o4000;
        const CLOEXEC: u64 = 0o2_000_000;
        let line = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u64::from_str_radix(line.trim(), 8).ok()?;
        Some(Self { nonblocking: flags & NONBLOCK != 0, close_on_exec: flags & CLOEXEC != 0 })
    }
}

/// The flags of a descriptor of another process.
pub(crate) fn file_flags(thread: Pid, fd: u32) -> io::Result<FileFlags> {
    let text = fs::read_to_string(format!("/proc/{thread}/fdinfo/{fd}"))?;
    FileFlags::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A socket's inode: the same for everybody who holds it.
pub(crate) fn socket_inode(thread: Pid, fd: u32) -> io::Result<u64> {
    let metadata = fs::metadata(format!("/proc/{thread}/fd/{fd}"))?;
    Ok(metadata.ino())
}

/// Does this process wait on the file with this inode by `epoll`?
pub(crate) fn is_awaited(thread: Pid, inode: u64) -> io::Result<bool> {
    let entries = fs::read_dir(format!("/proc/{thread}/fd"))?.flatten();
    Ok(entries
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new("anon_inode:[eventpoll]")))
        .any(|entry| {
            let number = entry.file_name();
            let fdinfo = fs::read_to_string(format!("/proc/{thread}/fdinfo/{}", number.display()));
            fdinfo.is_ok_and(|text| awaited(&text).any(|awaited| awaited == inode))
        }))
}

/// The inodes of the files in an epoll set, from the text of its `/proc/PID/fdinfo/FD`, which has them as hexadecimal numbers.
pub fn awaited(fdinfo: &str) -> impl Iterator<Item = u64> {
    let files = fdinfo.lines().filter(|line| line.starts_with("tfd:"));
    files.filter_map(|line| {
        let inode = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("ino:"))?;
        u64::from_str_radix(inode, 16).ok()
    })
}

/// Does any descriptor of this process mean the socket with this inode?
pub(crate) fn holds_socket(pid: Pid, inode: u64) -> bool {
    sockets(pid).any(|known| known == inode)
}

/// The inodes of all sockets that a process has open.
pub(crate) fn sockets(pid: Pid) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// What kind of socket a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP over IPv4 (or MPTCP, which Go prefers; plain TCP serves it too).
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP, a Unix socket, anything that is none of our business.
    Other,
}

impl Protocol {
    /// From the attribute that the kernel gives sockets, for `lsof`'s sake.
    pub fn parse(name: &[u8]) -> Self {
        match name {
            b"TCP" | b"MPTCP" => Self::Tcp4,
            b"TCPv6" | b"MPTCPv6" => Self::Tcp6,
            _ => Self::Other,
        }
    }
}

/// The protocol of a socket of another process. No system call on the socket itself could tell without taking a copy
/// of it, which container sandboxes refuse.
pub(crate) fn protocol(thread: Pid, fd: u32) -> io::Result<Protocol> {
    let path = CString::new(format!("/proc/{thread}/fd/{fd}"))?;
    let mut name = [0; 32];
    let length = extended_attribute(&path, c"system.sockprotoname", &mut name)?;
    let name = name.get(..length).unwrap_or_default();
    Ok(Protocol::parse(name.strip_suffix(&[0]).unwrap_or(name)))
}

/// Addresses with a listening TCP socket, from the text of `/proc/net/tcp` or `tcp6`.
pub fn listening_addresses(table: &str) -> impl Iterator<Item = SocketAddr> {
    const LISTEN: &str = "0A";
    table.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (address, state) = (fields.nth(1)?, fields.nth(1)?);
        let (ip, port) = address.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        (state == LISTEN).then_some(SocketAddr::new(parse_ip(ip)?, port))
    })
}

/// The kernel prints an address as 32-bit words in the machine's own byte order.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut octets = [0; 16];
            for (at, chunk) in octets.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

/// How many TCP sockets of both families there are, from the text of `/proc/net/sockstat` and `sockstat6`.
pub fn tcp_sockets(texts: [&str; 2]) -> usize {
    let in_use = |text: &str, name: &str| -> Option<usize> {
        text.lines().find_map(|line| line.strip_prefix(name)?.split(' ').next()?.parse().ok())
    };
    let [four, six] = texts;
    // It comes before what is merely remembered (`tw`).
    let (four, six) = (in_use(four, "TCP: inuse "), in_use(six, "TCP6: inuse "));
    four.unwrap_or_default().saturating_add(six.unwrap_or_default())
}

/// How many TCP sockets there are in this network namespace. Where nobody tells: any number.
pub(crate) fn sockets_in_use() -> usize {
    let read = |path| fs::read_to_string(path).ok();
    match (read("/proc/net/sockstat"), read("/proc/net/sockstat6")) {
        (None, None) => usize::MAX,
        (four, six) => tcp_sockets([&four.unwrap_or_default(), &six.unwrap_or_default()]),
    }
}

/// Every address with a listening TCP socket in this network namespace.
pub(crate) fn all_listening_addresses() -> Vec<SocketAddr> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening_addresses(&table).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_in_an_epoll_set() {
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t9\n\
                    tfd:        5 events:       19 data: ffffffff00000005  pos:0 ino:1a2b sdev:8\n\
                    tfd:        6 events:        0 data: 6  pos:0 ino:7 sdev:8\ntfd: 7 events: 1 data: 0\n";
        assert_eq!(awaited(text).collect::<Vec<_>>(), [0x1a2b, 7]);
    }

    #[test]
    fn a_process() {
        let process = Process {
            pid: 42,
            parent: 7,
            group: 40,
            session: 9,
            zombie: false,
            cpu_ticks: 0,
            resident_pages: 0,
        };
        for name in ["node", "a b", "x) S 1 1 1", ")("] {
            assert_eq!(
                Process::parse(&format!("42 ({name}) S 7 40 9 0 -1 4194560")),
                Some(process),
                "{name}"
            );
        }
        assert_eq!(Process::parse("42 (x) Z 7 40 9 0"), Some(Process { zombie: true, ..process }));
        let long =
            "42 (x) S 7 40 9 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 777 1000000 88 18446744073709551615";
        assert_eq!(Process::parse(long), Some(Process { cpu_ticks: 100, resident_pages: 88, ..process }));
        for text in ["", "42", "42 (x)", "42 (x) S 7", "x (x) S 7 40 9"] {
            assert_eq!(Process::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn this_process_is_seen() {
        let pid = std::process::id().cast_signed();
        assert!(processes().iter().any(|p| p.pid == pid && !p.zombie));
        let (uid, _) = owner(pid).unwrap();
        assert_eq!(uid, crate::sys::process::effective_uid());
    }

    #[test]
    fn file_flags_of_text() {
        let flags = |text| FileFlags::parse(text).map(|f| (f.nonblocking, f.close_on_exec));
        assert_eq!(flags("pos:\t0\nflags:\t02004002\nmnt_id:\t9\n"), Some((true, true)));
        assert_eq!(flags("pos:\t0\nflags:\t02\n"), Some((false, false)));
        assert_eq!(flags("pos:\t0\n"), None);
        assert_eq!(flags("flags: 9\n"), None);
    }

    #[test]
    fn protocols_of_real_sockets() {
        use std::os::fd::AsRawFd;
        let me = std::process::id().cast_signed();
        let of = |fd: i32| protocol(me, fd.unsigned_abs()).unwrap();
        assert_eq!(of(std::net::TcpListener::bind("127.0.0.1:0").unwrap().as_raw_fd()), Protocol::Tcp4);
        assert_eq!(of(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().as_raw_fd()), Protocol::Other);
        assert_eq!(of(std::os::unix::net::UnixStream::pair().unwrap().0.as_raw_fd()), Protocol::Other);
        if let Ok(six) = std::net::TcpListener::bind("[::1]:0") {
            assert_eq!(of(six.as_raw_fd()), Protocol::Tcp6);
        }
    }

    #[test]
    fn variables() {
        let environment = b"A=1\0WORKER_GENERATION=12\0EMPTY=\0";
        assert_eq!(find_variable(environment, "WORKER_GENERATION").as_deref(), Some("12"));
        assert_eq!(find_variable(environment, "EMPTY").as_deref(), Some(""));
        assert_eq!(find_variable(environment, "WORKER"), None);
    }

    #[test]
    fn listening_sockets_of_text() {
        let table = "  sl  local_address rem_address   st\n\
            0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000\n\
            1: 0100007F:0BB9 0100007F:1234 01 00000000:00000000 00:00000000\n\
            2: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0\n\
            3: zz:zz x 0A\n4: 0A\n";
        let found: Vec<String> = listening_addresses(table).map(|a| a.to_string()).collect();
        assert_eq!(found, ["127.0.0.1:3000", "[::]:8080"]);
    }

    #[test]
    fn sockets_of_text() {
        let four =
            "sockets: used 158\nTCP: inuse 140 orphan 0 tw 1225 alloc 768 mem 30\nUDP: inuse 7 mem 0\n";
        assert_eq!(tcp_sockets([four, "TCP6: inuse 2\nUDP6: inuse 9\n"]), 142);
        assert_eq!(tcp_sockets([four, ""]), 140);
        assert_eq!(tcp_sockets(["TCP: inuse -1", "TCP6: inuse"]), 0);
    }

    #[test]
    fn a_real_listener_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(all_listening_addresses().contains(&listener.local_addr().unwrap()));
    }

    #[test]
    fn a_process_of_any_name() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..5_000 {
            let name: String = (0..random.usize(0..16)).map(|_| random.char(..)).collect();
            let [pid, parent, group, session] = [(); 4].map(|()| random.i32(0..1 << 22));
            let process =
                Process::parse(&format!("{pid} ({name}) R {parent} {group} {session} 0 -1")).unwrap();
            assert_eq!(
                [process.pid, process.parent, process.group, process.session],
                [pid, parent, group, session]
            );
        }
    }

    #[test]
    fn damaged_text_of_proc() {
        let samples = [
            "42 (x) S 7 40 9 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 777 1000000 88 18446744073709551615",
            "pos:\t0\nflags:\t02004002\nmnt_id:\t9\n",
            "  sl  local_address rem_address   st\n   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000\n",
            "   2: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0\n",
            "TCP: inuse 140 orphan 0 tw 1225 alloc 768 mem 30\nTCP6: inuse 7\n",
            "TCPv6",
        ];
        crate::testing::with_damaged_text(&samples, |text| {
            let _ = (Process::parse(text), FileFlags::parse(text), Protocol::parse(text.as_bytes()));
            let _ = tcp_sockets([text, text]);
            assert!(listening_addresses(text).count() <= text.lines().count());
            let _ = find_variable(text.as_bytes(), "WORKER_GENERATION");
        });
    }
}
