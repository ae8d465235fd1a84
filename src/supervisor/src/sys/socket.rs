//! Listening sockets: made with the options that slots need, and steered.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::steering::Instruction;
use std::time::Duration;

/// An address in the form that system calls take.
#[derive(Clone, Copy)]
pub(super) struct RawAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: all zeroes is a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
        let length = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage is large enough and aligned for every address.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self { storage, length: length as libc::socklen_t }
    }
}

impl RawAddress {
    /// Does not allocate: it is used between `fork` and `exec` too.
    pub(super) fn bind(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: `storage` holds an address of `length` bytes.
        super::check(unsafe { libc::bind(fd, (&raw const self.storage).cast(), self.length) })?;
        Ok(())
    }
}

fn set(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`.
    super::check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) })?;
    Ok(())
}

fn tcp_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers; the descriptor is new.
    unsafe {
        let fd = super::check(libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A socket that is bound but does not listen; several of them may share one address.
pub(crate) fn bind_shared(address: SocketAddr, v6_only: bool) -> io::Result<OwnedFd> {
    let socket = tcp_socket(address)?;
    let fd = socket.as_raw_fd();
    set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    if address.is_ipv6() {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, i32::from(v6_only))?;
    }
    RawAddress::from(address).bind(fd)?;
    Ok(socket)
}

/// A TCP socket that nobody has bound yet.
pub(crate) fn unbound() -> io::Result<OwnedFd> {
    tcp_socket(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
}

/// A connection from a chosen address; connecting, reading and writing each take at most `patience`.
pub(crate) fn connect_from(
    from: SocketAddrV4,
    to: SocketAddrV4,
    patience: Duration,
) -> io::Result<TcpStream> {
    let stream = TcpStream::from(tcp_socket(to.into())?);
    // It bounds the connecting, too.
    stream.set_write_timeout(Some(patience))?;
    stream.set_read_timeout(Some(patience))?;
    let fd = stream.as_raw_fd();
    RawAddress::from(SocketAddr::V4(from)).bind(fd)?;
    let to = RawAddress::from(SocketAddr::V4(to));
    // SAFETY: `storage` holds an address of `length` bytes.
    super::check(unsafe { libc::connect(fd, (&raw const to.storage).cast(), to.length) })?;
    Ok(stream)
}

/// Starts listening, or changes the backlog of a socket that does.
pub(crate) fn listen(socket: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    super::check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })?;
    Ok(())
}

/// Sets or clears `O_NONBLOCK`, which everybody who holds this socket shares.
pub(crate) fn set_nonblocking(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    // SAFETY: no pointers.
    unsafe {
        let flags = super::check(libc::fcntl(fd, libc::F_GETFL))?;
        let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        super::check(libc::fcntl(fd, libc::F_SETFL, wanted))?;
    }
    Ok(())
}

/// Attaches a program that picks the socket of the group which gets the next connection.
pub(crate) fn steer(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let mut filter: Vec<libc::sock_filter> =
        program.iter().map(|i| libc::sock_filter { code: i.code, jt: i.yes, jf: i.no, k: i.value }).collect();
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        filter: filter.as_mut_ptr(),
    };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: `program` points to `filter`; both outlive the call and the kernel copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            length,
        )
    };
    super::check(result)?;
    Ok(())
}

/// How many connections wait to be accepted.
pub(crate) fn queue_length(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: all zeroes is a valid tcp_info.
    let mut info: libc::tcp_info = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: pointer and length describe `info`; the kernel writes at most that much.
    super::check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    })?;
    // For a listening socket this field holds the length of the accept queue.
    Ok(info.tcpi_unacked)
}

/// A listening socket on every address, IPv4 and IPv6; IPv4 alone where the machine has no IPv6.
pub(crate) fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    let six = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0));
    let four = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
    let listener = match listen_on(six) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
            listen_on(four)?
        }
        other => other?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    const BACKLOG: i32 = 128;
    let socket = tcp_socket(address)?;
    set(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if address.is_ipv6() {
        set(socket.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    }
    RawAddress::from(address).bind(socket.as_raw_fd())?;
    listen(socket.as_fd(), BACKLOG)?;
    Ok(TcpListener::from(socket))
}
