//! One connection's bytes: its socket, TLS where there is some, and what it waits for.

use super::poller::Poller;
use crate::error::{Failure, Fault};
use crate::plan::{Plan, Protocol};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};
use rustls::{CertificateError, ClientConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// HTTP/2 was offered, and the server hasn't taken it yet.
    wants_http2: bool,
    /// The socket took less than there was.
    blocked: bool,
    /// `None`: not watched yet. Else whether for writing too.
    watched: Option<bool>,
}

impl Stream {
    /// Begins to connect. That it failed may come with the first bytes.
    pub(super) fn connect(address: SocketAddr, plan: &Plan) -> Result<Self, Fault> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None).map_err(|_| Failure::Local)?;
        if plan.keep_alive || plan.tls.is_some() {
            // What doesn't fit into one packet must not wait for the acknowledgement of its first.
            net::sockopt::set_tcp_nodelay(&socket, true).map_err(|_| Failure::Local)?;
        }
        match net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(fault(&error.into())),
        }
        let tls = plan.tls.as_ref().map(|tls| tls.connect().map(Box::new)).transpose();
        let tls = tls.map_err(|error| fault(&wrong(error)))?;
        let wants_http2 = tls.is_some() && plan.protocol == Protocol::Http2;
        Ok(Self { socket, tls, wants_http2, blocked: false, watched: None })
    }

    /// Takes as many bytes as it can; with TLS they may be kept until the handshake is over.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            let sent = send(&self.socket, bytes);
            self.blocked = is_block(&sent);
            return sent;
        };
        let taken = tls.writer().write(bytes)?;
        self.flush()?;
        if taken == 0 && !bytes.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Sends what is kept, as far as the socket takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        self.blocked = false;
        while tls.wants_write() {
            match tls.write_tls(&mut Socket(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Is there something that the socket didn't take?
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Reads what is there; 0 is the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(tls) = &mut self.tls else { return receive(&self.socket, buffer) };
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if tls.read_tls(&mut Socket(&self.socket))? == 0 && tls.is_handshaking() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Err(error) = tls.process_new_packets() {
                // The server is told why. It may not listen any more.
                let _ = tls.write_tls(&mut Socket(&self.socket));
                return Err(wrong(error));
            }
            if self.wants_http2 && !tls.is_handshaking() {
                if tls.alpn_protocol() != Some(b"h2") {
                    return Err(wrong(rustls::Error::General("the server takes no HTTP/2".to_owned())));
                }
                self.wants_http2 = false;
            }
            if tls.wants_write() {
                self.flush()?;
            }
        }
    }

    /// Has it watched for bytes to come, and for room if there are some to go.
    pub(super) fn watch(&mut self, poller: &Poller, key: usize) -> Result<(), Fault> {
        let write = self.blocked;
        let done = match self.watched {
            None => poller.add(&self.socket, key, write),
            Some(before) if before != write => poller.change(&self.socket, key, write),
            Some(_) => return Ok(()),
        };
        self.watched = Some(write);
        done.map_err(|_| Failure::Local.into())
    }
}

/// The socket as TLS wants it.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.0, buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(socket, &mut *buffer) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

fn is_block<T>(done: &io::Result<T>) -> bool {
    done.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn wrong(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// What an error of a connection means.
pub(super) fn fault(error: &io::Error) -> Fault {
    if let Some(errno) = Errno::from_io_error(error) {
        return match errno {
            Errno::CONNREFUSED => Failure::Refused,
            Errno::CONNRESET | Errno::PIPE => Failure::Reset,
            Errno::TIMEDOUT => Failure::Timeout,
            Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                Failure::Local
            }
            _ => Failure::Unreachable,
        }
        .into();
    }
    let kind = match error.kind() {
        ErrorKind::ConnectionRefused => return Failure::Refused.into(),
        ErrorKind::ConnectionReset => return Failure::Reset.into(),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::NotConnected => {
            return Failure::ClosedEarly.into();
        }
        _ => Failure::BadResponse,
    };
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => Fault { kind: Failure::Tls, why: Some(in_words(error)) },
        None => Fault { kind, why: Some(error.to_string()) },
    }
}

/// What was wrong, and for a certificate what there is to do.
fn in_words(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(wrong) = error else { return error.to_string() };
    let hint = "--ca names the file of an authority, --insecure checks no certificate";
    match wrong {
        // Only its debug form tells the two apart.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            format!(
                "the server's certificate is an authority's own (CA:TRUE), which is not good for a server; {hint}"
            )
        }
        _ => format!("{error}; {hint}"),
    }
}
