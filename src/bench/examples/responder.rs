//! A server that does next to nothing, to find out what a load generator can do: `responder [PORT] [THREADS]`. It answers as
//! soon as a request's empty line is there and looks at nothing else but `Connection: close`. The threads share the port.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::net::{self, AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, sockopt};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

const LISTENER: u64 = u64::MAX;
const BODY: &str = "Hello, world!\n";

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u16| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (port, threads) = (number(3999), number(1));
    let others: Vec<_> = (1..threads).map(|_| std::thread::spawn(move || serve(port))).collect();
    serve(port)?;
    others.into_iter().try_for_each(|other| other.join().map_err(|_| io::Error::other("a thread died"))?)
}

fn serve(port: u16) -> io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    sockopt::set_socket_reuseport(&listener, true)?;
    net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    net::listen(&listener, 1024)?;
    let poller = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&poller, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
    let last =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
    let mut open: HashMap<u64, OwnedFd> = HashMap::new();
    let mut events: Vec<Event> = Vec::with_capacity(256);
    let mut buffer = [0; 4096];
    loop {
        events.clear();
        epoll::wait(&poller, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let token = event.data.u64();
            if token == LISTENER {
                while let Ok(connection) = net::accept_with(&listener, flags) {
                    let token = u64::try_from(connection.as_raw_fd()).unwrap_or(0);
                    epoll::add(&poller, &connection, EventData::new_u64(token), EventFlags::IN)?;
                    open.insert(token, connection);
                }
                continue;
            }
            let Some(connection) = open.get(&token) else { continue };
            let request = match rustix::io::read(connection, &mut buffer[..]) {
                Ok(0) | Err(_) => {
                    open.remove(&token);
                    continue;
                }
                Ok(length) => &buffer[..length],
            };
            if !request.ends_with(b"\r\n\r\n") {
                continue;
            }
            let close = request.windows(17).any(|text| text == b"Connection: close");
            let text = if close { &last } else { &answer };
            let sent = net::send(connection, text.as_bytes(), SendFlags::NOSIGNAL);
            if close || sent.is_err() {
                let _ = net::shutdown(connection, Shutdown::Both);
                open.remove(&token);
            }
        }
    }
}
