//! The servers that are asked.

use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The example `responder`, with one thread. Ended when it is dropped.
pub(crate) struct Responder {
    child: Child,
    pub(crate) address: SocketAddr,
}

const PATIENCE: Duration = Duration::from_secs(5);

impl Responder {
    pub(crate) fn start(program: &Path) -> Result<Self> {
        // A port that was free a moment ago.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let child = Command::new(program).arg(address.port().to_string()).arg("1").spawn();
        let child = child.with_context(|| format!("{} can't be started", program.display()))?;
        let server = Self { child, address };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > PATIENCE {
                bail!("{} doesn't listen on {address}", program.display());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that answers the n-th request when `wait` says, a thread for each connection. It lives as long as the process.
pub(crate) fn slow(wait: impl Fn(u64) -> Duration + Send + Sync + 'static) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let shared = Arc::new((wait, std::sync::atomic::AtomicU64::new(0)));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let mut buffer = [0; 4096];
                // Requests have no body and come one after the other.
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    let ends = buffer.get(..length).is_some_and(|text| text.ends_with(b"\r\n\r\n"));
                    if ends {
                        let number = shared.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        thread::sleep((shared.0)(number));
                        if stream.write_all(ANSWER).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    Ok(address)
}
