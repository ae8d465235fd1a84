//! Asks the supervisors: each pod's `/metrics`, again and again.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, sync::watch, time::MissedTickBehavior};

use crate::{page::Reading, run::Shared, store::Target};

/// How many pods are asked at the same time.
const CONCURRENCY: usize = 64;
/// How long a pod may take. One that is slower than that is stopped by its CPU limit, and asked again the next time.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a page may be, in bytes: a supervisor's has some 200 for each worker and series.
const LONGEST: usize = 1 << 20;

/// Why a pod said nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No connection, or it broke off.
    #[error("{0}")]
    Connection(#[from] std::io::Error),
    /// It doesn't speak HTTP.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// Something else answers there.
    #[error("it answered {0}")]
    Status(StatusCode),
    /// No page of text, or too long a one.
    #[error("its page can't be read: {0}")]
    Page(Box<dyn std::error::Error + Send + Sync>),
    /// It takes too long.
    #[error("no answer in {} s", TIMEOUT.as_secs())]
    Late,
}

/// Asks all pods every `interval`, for ever; counts the rounds.
pub(crate) async fn run(interval: Duration, shared: Arc<Shared>, rounds: watch::Sender<usize>) {
    let round = || async {
        let targets = shared.store().targets();
        futures::stream::iter(targets)
            .for_each_concurrent(CONCURRENCY, |target| {
                let shared = Arc::clone(&shared);
                async move { one(&shared, &target).await }
            })
            .await;
        rounds.send_modify(|count| *count += 1);
    };
    round().await;
    // Replicas that were started together would else always ask together.
    tokio::time::sleep(interval.mul_f64(fastrand::f64())).await;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        round().await;
    }
}

async fn one(shared: &Shared, target: &Target) {
    let answer = tokio::time::timeout(TIMEOUT, page(target.admin)).await.unwrap_or(Err(Failure::Late));
    shared.metrics.scrape(answer.is_ok());
    match answer {
        Ok(page) => {
            let reading = Reading::of(&page);
            shared.store().record(&target.key, &target.uid, shared.now(), reading);
        }
        Err(error) => {
            let crate::store::Key { namespace, name } = &target.key;
            tracing::debug!(namespace, name, address = %target.admin, "the supervisor can't be asked: {error}");
        }
    }
}

/// A supervisor's metrics page. A connection for each: keeping one open to every pod would cost both sides more memory than
/// connecting costs time.
async fn page(address: SocketAddr) -> Result<String, Failure> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let request = Request::get("/metrics")
            .header(header::HOST, address.to_string())
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|error| Failure::Page(error.into()))?;
        let answer = sender.send_request(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(Failure::Status(answer.status()));
        }
        let body = Limited::new(answer.into_body(), LONGEST).collect().await.map_err(Failure::Page)?;
        String::from_utf8(body.to_bytes().into()).map_err(|error| Failure::Page(error.into()))
    };
    let mut exchange = std::pin::pin!(exchange);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        page = &mut exchange => page,
        // The connection may be through before the answer was taken up.
        ended = &mut connection => { ended?; exchange.await }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::{Failure, page};

    async fn asked(answer: String) -> Result<String, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /metrics HTTP/1.1\r\n"));
            // What is too long isn't read to its end.
            let _ = stream.write_all(answer.as_bytes()).await;
        });
        let page = page(address).await;
        server.await.unwrap();
        page
    }

    #[tokio::test]
    async fn a_page_is_taken_whole() {
        let body = "a 1\n".repeat(9000);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        assert_eq!(asked(head + &body).await.unwrap(), body);
        assert_eq!(asked("HTTP/1.0 200 OK\r\n\r\nb 2\n".into()).await.unwrap(), "b 2\n");
    }

    #[tokio::test]
    async fn what_is_no_page_is_a_failure() {
        assert!(matches!(asked("HTTP/1.1 404 Not Found\r\n\r\n".into()).await, Err(Failure::Status(_))));
        assert!(matches!(asked("hello".into()).await, Err(Failure::Http(_))));
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(2 << 20));
        assert!(matches!(asked(endless).await, Err(Failure::Page(_))));
    }
}
