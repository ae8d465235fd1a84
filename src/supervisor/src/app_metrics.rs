//! The app's own metrics, from every worker, as one page (`--app-metrics`).
//!
//! Workers share a port, so a client cannot say which one it means. The steering program can: connections from 127.64.x.y go to
//! slot x·256+y. Such a source address exists inside this network namespace only, so nobody else can ask for a slot, and no
//! worker has to listen anywhere else or know about it.

use crate::merge::{Page, merge};
use crate::sys::socket;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A worker that takes longer gives no metrics.
const PATIENCE: Duration = Duration::from_secs(3);
/// Nor does one that has more to say.
const LONGEST: u64 = 16 << 20;

/// The first two bytes of addresses that stand for slots.
pub const NETWORK: u32 = 0x7f40;

/// The source address that stands for a slot.
pub fn address_of(slot: usize) -> Option<Ipv4Addr> {
    let slot = u16::try_from(slot).ok()?;
    Some(Ipv4Addr::from((NETWORK << 16) | u32::from(slot)))
}

/// Where the metrics are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `None`: the app's main port.
    pub port: Option<u16>,
    /// With the slash.
    pub path: String,
}

impl Source {
    /// Reads `/metrics` or `9464/metrics`.
    pub fn parse(text: &str) -> Option<Self> {
        let (port, path) = text.split_at(text.find('/')?);
        let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
        let port = if port.is_empty() { None } else { Some(port.parse().ok().filter(|port| *port != 0)?) };
        is_plain.then(|| Self { port, path: path.to_owned() })
    }
}

/// A worker that is to be asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) worker: u32,
    pub(crate) slot: usize,
    pub(crate) address: SocketAddr,
}

/// Asks all of them in a thread of its own and writes the response to `client`; one such thread at a time.
pub(crate) fn answer(client: TcpStream, path: String, targets: Vec<Target>, busy: &Arc<AtomicBool>) {
    if busy.swap(true, Ordering::AcqRel) {
        return;
    }
    let ours = Arc::clone(busy);
    let spawned =
        std::thread::Builder::new().name("metrics".into()).stack_size(128 * 1024).spawn(move || {
            let pages: Vec<Page> = targets.iter().map(|t| (t.worker, ask(t, &path).ok())).collect();
            // A client that has gone away does not need it.
            let _ = respond(client, &merge(&pages));
            ours.store(false, Ordering::Release);
        });
    if spawned.is_err() {
        busy.store(false, Ordering::Release);
    }
}

fn respond(mut client: TcpStream, body: &str) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    client.write_all(body.as_bytes())
}

fn ask(target: &Target, path: &str) -> io::Result<String> {
    let ip = match target.address.ip() {
        ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST,
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => return Err(io::ErrorKind::Unsupported.into()),
    };
    let from = address_of(target.slot).ok_or(io::ErrorKind::Unsupported)?;
    let to = SocketAddrV4::new(ip, target.address.port());
    let mut stream = socket::connect_from(SocketAddrV4::new(from, 0), to, PATIENCE)?;
    // HTTP/1.0: the answer ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n")?;
    let (mut answer, end) = (Vec::new(), Instant::now() + PATIENCE);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            n => answer.extend_from_slice(buffer.get(..n).unwrap_or_default()),
        }
        if Instant::now() > end || answer.len() as u64 > LONGEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    body(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The body of a response with status 200.
fn body(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    (head.starts_with("HTTP/") && head.split(' ').nth(1) == Some("200")).then(|| body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let source = |port, path: &str| Some(Source { port, path: path.into() });
        assert_eq!(Source::parse("/metrics"), source(None, "/metrics"));
        assert_eq!(Source::parse("9464/a?b=c"), source(Some(9464), "/a?b=c"));
        for wrong in ["", "metrics", "0/x", "70000/x", "x/y", "/a b", "/a\r\nX: y"] {
            assert_eq!(Source::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(address_of(258), Some(Ipv4Addr::new(127, 64, 1, 2)));
        assert_eq!(address_of(70_000), None);
    }

    #[test]
    fn bodies() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nx 1\n").as_deref(), Some("x 1\n"));
        assert_eq!(body(b"HTTP/1.1 404 Not Found\r\n\r\nx"), None);
        assert_eq!(body(b""), None);
    }
}
