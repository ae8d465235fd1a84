//! The way to the API server, with the fence at its sockets.
//!
//! A request that has passed the fence still has a way to go: a connection may have to be made, other tasks run first, and the
//! process may be stopped anywhere between. So requests that change something have connections of their own, and these look at
//! the fence before each write to the socket.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response, Uri};
use hyper_util::{
    client::legacy::{
        Client as HttpClient,
        connect::{Connected, Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use super::{
    Fence,
    fence::{NotLeader, Passage, bound},
};
use crate::outage::Outage;

/// A client by `config` whose writes reach the socket only while `fence` is open.
///
/// # Errors
/// If `config` has certificates or credentials that can't be used.
pub fn client(config: Config, fence: &Fence) -> kube::Result<Client> {
    let namespace = config.default_namespace.clone();
    let writes = writer(&config, fence)?;
    let reads = Client::try_from(config)?;
    let either = service_fn(move |request: Request<Body>| {
        let client = if request.method().is_safe() { &reads } else { &writes };
        let client = client.clone();
        async move { client.send(request).await }
    });
    Ok(Client::new(either, namespace))
}

/// The part that writes.
fn writer(config: &Config, fence: &Fence) -> kube::Result<Client> {
    let connector = config.rustls_https_connector_with_connector(sockets(config, fence))?;
    let connections = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Makes connections with the fence before them.
fn sockets(
    config: &Config,
    fence: &Fence,
) -> impl Service<
    Uri,
    Response = TokioIo<Fenced>,
    Error: std::error::Error + Send + Sync + 'static,
    Future: Send + 'static,
> + Clone
+ Send
+ Sync
+ 'static {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(config.connect_timeout);
    // What was written in time must not arrive when it no longer may: a network that comes back would deliver it.
    connector.set_tcp_user_timeout(fence.delivery());
    let fence = fence.clone();
    ServiceBuilder::new()
        .map_response(move |socket: TokioIo<TcpStream>| {
            TokioIo::new(Fenced { socket: socket.into_inner(), fence: fence.clone() })
        })
        .service(connector)
}

/// A connection that takes bytes only while the fence is open.
struct Fenced {
    socket: TcpStream,
    fence: Fence,
}

impl Fenced {
    fn pass(&self) -> io::Result<()> {
        if self.fence.is_open() { Ok(()) } else { Err(io::Error::new(io::ErrorKind::BrokenPipe, NotLeader)) }
    }
}

impl AsyncWrite for Fenced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pass()?;
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pass()?;
        Pin::new(&mut self.socket).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl AsyncRead for Fenced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl Connection for Fenced {
    fn connected(&self) -> Connected {
        self.socket.connected()
    }
}

/// The client that the operator works with: every request passes the fence, and whether the API server answers is noted.
pub(crate) fn guarded(client: Client, fence: Fence, outage: Arc<Outage>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let guard = service_fn(move |request: Request<Body>| {
        let passage = fence.passage(request.method());
        pass(client.clone(), request, passage, Arc::clone(&outage))
    });
    Client::new(guard, namespace)
}

async fn pass(
    client: Client,
    mut request: Request<Body>,
    passage: Passage,
    outage: Arc<Outage>,
) -> kube::Result<Response<Body>> {
    let answer = match passage {
        Passage::Refused => return Err(kube::Error::Service(NotLeader.into())),
        Passage::Free => client.send(request).await,
        Passage::Within(time) => {
            bound(&mut request, time);
            tokio::select! {
                // Looked at first: after a long stop both are true, and what was not sent by then has to be dropped.
                biased;
                () = tokio::time::sleep(time) => {
                    let message = format!("no answer for {:.1} s", time.as_secs_f64());
                    return Err(kube::Error::Service(message.into()));
                }
                answer = client.send(request) => answer,
            }
        }
    };
    match &answer {
        Ok(_) => outage.answered(),
        Err(error) => outage.failed(error),
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::{Fence, Fenced};
    use crate::leader::clock::Moment;

    #[tokio::test]
    async fn not_a_byte_leaves_once_the_moment_has_passed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let fence = Fence::closed(Duration::from_secs(5));
        let mut fenced = Fenced { socket, fence: fence.clone() };

        fence.open_until(Moment::now() + Duration::from_mins(1));
        fenced.write_all(b"in time ").await.unwrap();
        fence.open_until(Moment::now());
        fenced.write_all(b"too late").await.unwrap_err();
        drop(fenced);
        let mut received = String::new();
        server.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "in time ");
    }
}
