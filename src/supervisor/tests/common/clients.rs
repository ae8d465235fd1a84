//! Clients.

use super::app;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// One request on a connection of its own: status and body.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_mins(1))).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: test\r\n\r\n").as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// A POST without a body: status and answer.
pub(crate) fn post(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream.write_all(format!("POST {path} HTTP/1.0\r\nContent-Length: 0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// A connection that is kept.
pub(crate) struct Kept(TcpStream);

/// One answer on it.
pub(crate) struct KeptAnswer {
    /// It is the last.
    pub(crate) closes: bool,
    pub(crate) body: String,
}

impl Kept {
    pub(crate) fn connect(port: u16) -> Self {
        Self(TcpStream::connect(("127.0.0.1", port)).unwrap())
    }

    pub(crate) fn send(&mut self) {
        self.send_to("/");
    }

    pub(crate) fn send_to(&mut self, path: &str) {
        let _ = self.0.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
    }

    /// `None`: the connection ended without an answer.
    pub(crate) fn receive(&mut self) -> Option<KeptAnswer> {
        let mut text = String::new();
        let mut buffer = [0; 1024];
        loop {
            let n = self.0.read(&mut buffer).ok().filter(|n| *n > 0)?;
            text.push_str(&String::from_utf8_lossy(&buffer[..n]));
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            let length: usize = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
            if body.len() >= length {
                return Some(KeptAnswer {
                    closes: head.contains("connection: close"),
                    body: body.to_owned(),
                });
            }
        }
    }

    pub(crate) fn ask(&mut self) -> Option<KeptAnswer> {
        self.send();
        self.receive()
    }
}

/// Clients in a process of their own.
pub(crate) struct Load {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Load {
    /// Half of the clients open a connection for each request, half keep theirs.
    pub(crate) fn on(port: u16) -> Self {
        Self::of("both", port, "/")
    }

    /// Every request has a connection of its own.
    pub(crate) fn short(port: u16, path: &str) -> Self {
        Self::of("short", port, path)
    }

    fn of(kinds: &str, port: u16, path: &str) -> Self {
        let script = app("load.mjs");
        let mut child = Command::new("node")
            .args([&script, &port.to_string(), kinds, path])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        Self { child, stdin, stdout }
    }

    /// Ends it; answers how many requests were answered on short and on kept connections, and what was lost.
    pub(crate) fn end(mut self) -> (u32, u32, String) {
        self.stdin.take();
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        self.child.wait().unwrap();
        let number = |name: &str| -> u32 {
            let rest = text.split(&format!("\"{name}\":")).nth(1).unwrap();
            rest.split(',').next().unwrap().parse().unwrap()
        };
        let lost = text.split("\"lost\":[").nth(1).unwrap().split(']').next().unwrap().to_owned();
        (number("short"), number("kept"), lost)
    }
}

/// A client with an address of its own.
pub(crate) struct Client {
    pub(crate) address: [u8; 4],
}

impl Client {
    pub(crate) fn get(&self, port: u16) -> Option<String> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
        bind(&socket, &SocketAddr::from((self.address, 0))).ok()?;
        connect(&socket, &SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
        let mut stream = TcpStream::from(socket);
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }
}
