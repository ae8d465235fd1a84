//! `NETLINK_SOCK_DIAG`: the kernel's list of TCP connections. Needs no privilege.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// One connection to a local port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The port here.
    pub(crate) port: u16,
    /// The other side.
    pub(crate) peer: SocketAddr,
    /// The socket's inode; 0 while no program has accepted it.
    pub(crate) inode: u64,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_LENGTH: usize = 72;
const MESSAGE_HEADER: usize = 16;
/// `struct inet_diag_msg`.
const RECORD: usize = 72;
const ESTABLISHED: u32 = 1 << 1;
const CLOSE_WAIT: u32 = 1 << 8;

/// Every connection to one of these ports that is established, or that only the other side has ended.
pub(crate) fn connections(ports: &[u16]) -> io::Result<Vec<Connection>> {
    // SAFETY: no pointers; the descriptor is new.
    let socket = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(super::check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG))?)
    };
    let mut found = Vec::new();
    // With one port the kernel picks its connections; the others, those to databases say, are not even copied.
    let only = if let [port] = ports { *port } else { 0 };
    for family in [libc::AF_INET, libc::AF_INET6] {
        send(&socket, &request(family as u8, only))?;
        while receive(&socket, |record| found.extend(parse(record)))? {}
    }
    found.retain(|connection| ports.contains(&connection.port));
    Ok(found)
}

/// `port` 0: any.
fn request(family: u8, port: u16) -> [u8; REQUEST_LENGTH] {
    let mut bytes = [0; REQUEST_LENGTH];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &(REQUEST_LENGTH as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    put(16, &[family, libc::IPPROTO_TCP as u8]);
    put(20, &(ESTABLISHED | CLOSE_WAIT).to_ne_bytes());
    put(24, &port.to_be_bytes());
    bytes
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `bytes`.
    let n = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one part of a list; answers whether there is more.
fn receive(socket: &OwnedFd, mut record: impl FnMut(&[u8])) -> io::Result<bool> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
    // SAFETY: pointer and length describe `buffer`; only what the kernel has written is looked at.
    let received = unsafe {
        let n = libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0);
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), n.unsigned_abs())
    };
    let mut rest = received;
    while let Some((kind, body, after)) = message(rest) {
        match libc::c_int::from(kind) {
            libc::NLMSG_DONE | libc::NLMSG_ERROR => return Ok(false),
            _ => record(body),
        }
        rest = after;
    }
    Ok(!received.is_empty())
}

/// The first netlink message: its type, its body, and what comes after it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(MESSAGE_HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// One `struct inet_diag_msg`.
fn parse(record: &[u8]) -> Option<Connection> {
    let record = record.get(..RECORD)?;
    let port = |at: usize| Some(u16::from_be_bytes(record.get(at..at + 2)?.try_into().ok()?));
    let address: [u8; 16] = record.get(24..40)?.try_into().ok()?;
    let peer = match libc::c_int::from(*record.first()?) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(address[0], address[1], address[2], address[3])),
        _ => IpAddr::V6(Ipv6Addr::from(address)),
    };
    let inode = u32::from_ne_bytes(record.get(68..72)?.try_into().ok()?);
    Some(Connection { port: port(4)?, peer: SocketAddr::new(peer, port(6)?), inode: inode.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn connections_before_and_after_accept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let peer = client.local_addr().unwrap();
        let find = || {
            let found = connections(&[address.port()]).unwrap();
            assert_eq!(connections(&[address.port(), 1]).unwrap(), found, "one port or several");
            found
        };
        assert_eq!(find(), [Connection { port: address.port(), peer, inode: 0 }]);
        let (accepted, _) = listener.accept().unwrap();
        let inode = std::fs::metadata(format!("/proc/self/fd/{}", accepted.as_raw_fd())).unwrap().ino();
        assert_eq!(find(), [Connection { port: address.port(), peer, inode }]);
    }

    #[test]
    fn text_that_makes_no_sense() {
        assert_eq!(message(&[]), None);
        assert_eq!(message(&[3, 0, 0, 0, 1, 0]), None);
        assert_eq!(message(&[255, 255, 0, 0, 1, 0, 0, 0]), None);
        assert_eq!(parse(&[0; 71]), None);
    }

    /// The kernel does not write such, but a list that never ends would stop everything.
    #[test]
    fn damaged_lists_end() {
        let mut record = vec![0; MESSAGE_HEADER + RECORD];
        record[..4].copy_from_slice(&88_u32.to_ne_bytes());
        record[4..6].copy_from_slice(&20_u16.to_ne_bytes());
        record[16] = 2;
        let two = [&record[..], &record[..]].concat();
        crate::testing::with_damaged(&[&record, &two, &request(2, 80), &request(10, 0)], |bytes| {
            let mut rest = bytes;
            let mut messages = 0;
            while let Some((_, body, after)) = message(rest) {
                let _ = parse(body);
                rest = after;
                messages += 1;
                assert!(messages * MESSAGE_HEADER <= bytes.len());
            }
        });
    }
}
