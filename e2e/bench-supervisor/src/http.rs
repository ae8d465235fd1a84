//! One request on a connection of its own, to see who answers.

use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use workerapp_bench::response::Decoder;

/// The app says which process and thread answered.
pub(crate) const WORKER_HEADER: &str = "X-Worker";
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// The worker that answered.
pub(crate) fn ask(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address(port), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut decoder = Decoder::default();
    decoder.expect(false);
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer)?;
        let bytes = buffer.get(..length).unwrap_or_default();
        match decoder.feed(bytes, Some(WORKER_HEADER))? {
            Some(answer) if answer.status == 200 => {
                return String::from_utf8(decoder.worker().to_vec()).context("the worker's name isn't text");
            }
            Some(answer) => bail!("status {}", answer.status),
            None if length == 0 => bail!("closed early"),
            None => {}
        }
    }
}

/// Who answers, in several requests. Those that fail count as nobody.
pub(crate) fn workers(port: u16) -> Vec<String> {
    let mut found: Vec<String> = (0..24).filter_map(|_| ask(port).ok()).collect();
    found.sort();
    found.dedup();
    found
}
