//! Connections to a port for probes and metrics, the operator's as well as the metrics API's: a bounded number, and none that says
//! nothing for long, so that whoever opens many of them takes neither file descriptors nor the probes away.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep},
};

/// How many there may be; who comes after that waits in the kernel's queue.
const MOST: usize = 64;
/// How long one may say nothing.
const IDLE: Duration = Duration::from_secs(10);

/// A listener with bounds.
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    idle: Duration,
}

impl Bounded {
    /// Takes at most 64 connections at a time from `listener`, and ends one that says nothing for 10 s.
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, slots: Arc::new(Semaphore::new(MOST)), idle: IDLE }
    }
}

impl Listener for Bounded {
    type Io = Bound;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Bound, SocketAddr) {
        // The semaphore is never closed.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let silent = Box::pin(tokio::time::sleep(self.idle));
        (Bound { stream, silent, idle: self.idle, _slot: slot }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection.
#[derive(Debug)]
pub struct Bound {
    stream: TcpStream,
    silent: Pin<Box<Sleep>>,
    idle: Duration,
    _slot: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Bound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(result) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            let until = Instant::now() + self.idle;
            self.silent.as_mut().reset(until);
            return Poll::Ready(result);
        }
        // As if the other side had closed.
        self.silent.as_mut().poll(context).map(Ok)
    }
}

impl AsyncWrite for Bound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use axum::{Router, routing::get};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::{Bounded, MOST};

    #[tokio::test]
    async fn a_crowd_that_says_nothing_holds_the_probes_up_for_a_moment_only() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut bounded = Bounded::new(listener);
        bounded.idle = Duration::from_millis(300);
        let router = Router::new().route("/livez", get(|| async { "ok" }));
        tokio::spawn(async move { axum::serve(bounded, router).await });

        let mut crowd = Vec::new();
        for _ in 0..MOST {
            crowd.push(TcpStream::connect(address).await.unwrap());
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe.write_all(b"GET /livez HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        assert!(
            tokio::time::timeout(Duration::from_millis(100), probe.read_to_string(&mut answer))
                .await
                .is_err(),
            "all places are taken"
        );
        tokio::time::timeout(Duration::from_secs(5), probe.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    }
}
