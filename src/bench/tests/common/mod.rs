//! Servers with TLS and HTTP/2, each on a port of its own, in a thread with a runtime.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "helpers of tests; each uses some of them"
)]

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate for 127.0.0.1, and the file of the authority that signed it.
pub struct Identity {
    pub authority: PathBuf,
    config: ServerConfig,
}

impl Drop for Identity {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.authority);
    }
}

/// Made anew for each test. `alpn`: what the server speaks; nothing: it chooses nothing.
pub fn identity(name: &str, alpn: &[&str]) -> Identity {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&authority_key).unwrap();
    let path = std::env::temp_dir().join(format!("workerapp-bench-{}-{number}.pem", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(certificate.pem().as_bytes()).unwrap();

    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Identity { authority: path, config }
}

/// Serves each connection as `serve` says; with an identity over TLS.
pub fn serve<F, S>(identity: Option<&Identity>, serve: F) -> SocketAddr
where
    F: Fn(Box<dyn Bytestream>, u64) -> S + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = identity.map(|identity| TlsAcceptor::from(Arc::new(identity.config.clone())));
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let (acceptor, serve) = (acceptor.clone(), Arc::clone(&serve));
                tokio::spawn(async move {
                    let stream: Box<dyn Bytestream> = match acceptor {
                        None => Box::new(stream),
                        // A client that doesn't like the certificate is no fault of the test.
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => Box::new(stream),
                            Err(_) => return,
                        },
                    };
                    serve(stream, number).await;
                });
            }
        });
    });
    address
}

pub trait Bytestream: AsyncRead + AsyncWrite + Send + Unpin {}

impl Bytestream for TcpStream {}
impl Bytestream for tokio_rustls::server::TlsStream<TcpStream> {}

/// Says to whatever it is told that this is nonsense.
pub async fn nonsense(mut stream: Box<dyn Bytestream>) {
    let mut text = Vec::new();
    if matches!(stream.read_buf(&mut text).await, Ok(1..)) {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    }
}

/// HTTP/1.1: reads each request with its body, and answers with so many bytes.
pub async fn http1(mut stream: Box<dyn Bytestream>, body: usize) {
    let mut text = Vec::new();
    let answer =
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n\r\n").into_bytes(), vec![b'x'; body]]
            .concat();
    loop {
        let end = loop {
            if let Some(end) = complete(&text) {
                break end;
            }
            if !matches!(stream.read_buf(&mut text).await, Ok(1..)) {
                return;
            }
        };
        text.drain(..end);
        if stream.write_all(&answer).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Where the first request ends, if all of it is there.
fn complete(text: &[u8]) -> Option<usize> {
    let head = text.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let words = String::from_utf8_lossy(&text[..head]).into_owned();
    let length =
        words.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
    (text.len() >= head + length).then_some(head + length)
}

/// An answer to one request of HTTP/2.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// 200 with so many bytes.
    Body(usize),
    /// Another status, nothing else.
    Status(u16),
    /// The stream is reset for this reason.
    Reset(h2::Reason),
    /// A head, half of what it promises, and the end of the connection.
    Half,
    /// GOAWAY, then 200: this request is the last that is served here.
    Last,
    Never,
}

/// HTTP/2: `answer` says what comes of the n-th request of a connection; at most so many at a time.
pub async fn http2(stream: Box<dyn Bytestream>, most: u32, answer: impl Fn(u64) -> Answer) {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(most).initial_window_size(1 << 20).initial_connection_window_size(1 << 22);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    let (mut number, mut never) = (0, Vec::new());
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let answer = answer(number);
        number += 1;
        match answer {
            Answer::Never => never.push((request, respond)),
            Answer::Reset(reason) => respond.send_reset(reason),
            Answer::Status(status) => drop(head(&mut respond, status, 0, true)),
            Answer::Half => {
                let mut body = head(&mut respond, 200, 100, false).unwrap();
                body.send_data(Bytes::from_static(&[b'x'; 50]), false).unwrap();
                // What was promised is sent, then the connection is gone.
                let _ = tokio::time::timeout(std::time::Duration::from_millis(50), connection.accept()).await;
                return;
            }
            Answer::Last => {
                connection.graceful_shutdown();
                drop(head(&mut respond, 200, 0, true));
            }
            Answer::Body(length) => {
                let empty = length == 0;
                if let Some(mut body) = head(&mut respond, 200, length, empty).filter(|_| !empty) {
                    let _ = body.send_data(Bytes::from(vec![b'x'; length]), true);
                }
            }
        }
    }
}

fn head(
    respond: &mut SendResponse<Bytes>,
    status: u16,
    length: usize,
    end: bool,
) -> Option<h2::SendStream<Bytes>> {
    let head =
        http::Response::builder().status(status).header("content-length", length).header("x-worker", "w1");
    respond.send_response(head.body(()).unwrap(), end).ok()
}

/// HTTP/2 as nginx ends it: after so many requests GOAWAY names the last one that is served, and the connection stays open though what
/// comes later is never answered. `h2` has no such server, so these are its frames.
pub async fn http2_until(mut stream: Box<dyn Bytestream>, last: u32) {
    const PREFACE: usize = 24;
    let frame = |kind: u8, flags: u8, id: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &id.to_be_bytes(), payload].concat()
    };
    let (mut text, mut served) = (Vec::new(), 0);
    let mut out = frame(4, 0, 0, &[]);
    let mut at = PREFACE;
    loop {
        while let Some(head) = text.get(at..at + 9) {
            let head: &[u8] = head;
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if text.len() < at + 9 + length {
                break;
            }
            match (head[3], head[4] & 1) {
                (4, 0) => out.extend(frame(4, 1, 0, &[])),
                (1, _) if served < last => {
                    served += 1;
                    if served == last {
                        // Told at once, while it is still at work on the last one.
                        out.extend(frame(7, 0, 0, &[id.to_be_bytes(), [0; 4]].concat()));
                        let _ = stream.write_all(&std::mem::take(&mut out)).await;
                        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    }
                    // `:status: 200` of the static table, the end of the headers and of the stream.
                    out.extend(frame(1, 5, id, &[0x88]));
                }
                _ => {}
            }
            at += 9 + length;
        }
        let sent = stream.write_all(&out).await.is_ok() && stream.flush().await.is_ok();
        out.clear();
        if !sent || !matches!(stream.read_buf(&mut text).await, Ok(1..)) {
            return;
        }
    }
}
