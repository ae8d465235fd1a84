//! One connection of HTTP/2.

use super::exchange::{Slots, fault};
use super::poller::Poller;
use super::stream::{self, Stream};
use super::wire::{Hub, News};
use crate::error::{Failure, Fault};
use crate::plan::Plan;
use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use std::cell::RefCell;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a server may send before it is told that it may send more: of one answer, and of all on a connection. Large, so that it
/// is the server that is measured and not the conversation about it.
const ANSWER_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

type Opened = Result<(SendRequest<Bytes>, Connection<Ours, Bytes>), h2::Error>;

/// How far a session is.
enum State {
    /// The preface is being sent.
    Opening(Pin<Box<dyn Future<Output = Opened>>>),
    Open(SendRequest<Bytes>, Box<Connection<Ours, Bytes>>),
}

pub(super) struct Session {
    /// The line that it is one of.
    pub(super) line: usize,
    pipe: Rc<RefCell<Pipe>>,
    state: State,
    /// Those with a request on it.
    pub(super) slots: Vec<usize>,
    pub(super) answers: u64,
    /// When something came the last time, or when it began.
    pub(super) last_heard: Instant,
    /// A request was put on it that wasn't sent yet.
    pub(super) unsent: bool,
    /// It takes no new requests.
    pub(super) retiring: bool,
    woken: Arc<Bell>,
    waker: Waker,
}

/// What `h2` reads and writes, and we watch.
struct Pipe {
    stream: Stream,
    /// Bytes that came, since it was last set to 0.
    received: u64,
    /// What ended it; `h2` passes on less.
    fault: Option<Fault>,
}

struct Ours(Rc<RefCell<Pipe>>);

/// The session has something to send.
#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Session {
    /// Begins to connect.
    pub(super) fn open(line: usize, address: SocketAddr, plan: &Plan) -> Result<Self, Fault> {
        let stream = Stream::connect(address, plan)?;
        let pipe = Rc::new(RefCell::new(Pipe { stream, received: 0, fault: None }));
        let theirs = Ours(Rc::clone(&pipe));
        let mut builder = Builder::new();
        builder.enable_push(false).initial_window_size(ANSWER_WINDOW);
        builder.initial_connection_window_size(CONNECTION_WINDOW);
        let woken = Arc::new(Bell::default());
        Ok(Self {
            line,
            pipe,
            state: State::Opening(Box::pin(async move { builder.handshake(theirs).await })),
            slots: Vec::new(),
            answers: 0,
            last_heard: Instant::now(),
            unsent: false,
            retiring: false,
            waker: Arc::clone(&woken).into(),
            woken,
        })
    }

    /// Does all that can be done now. An error is the session's end.
    pub(super) fn advance(&mut self, hub: &mut Hub<'_>, slots: &mut Slots) -> Result<(), Fault> {
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            let mut context = Context::from_waker(&self.waker);
            let (send, connection) = match &mut self.state {
                State::Open(send, connection) => (send, connection),
                State::Opening(opening) => match opening.as_mut().poll(&mut context) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(opened) => {
                        let (send, connection) = opened.map_err(|error| self.ended(&error))?;
                        self.state = State::Open(send, Box::new(connection));
                        continue;
                    }
                },
            };
            let mut ended = Vec::new();
            for slot in &self.slots {
                if let Some(news) = slots.begin(*slot, hub.plan, send) {
                    // It takes no more requests; what it has goes on.
                    self.retiring = true;
                    ended.push(*slot);
                    hub.tell(*slot, news);
                }
            }
            let over = Pin::new(connection).poll(&mut context);
            // After GOAWAY it takes no more; one more request would only be refused once more.
            self.retiring |= matches!(send.poll_ready(&mut context), Poll::Ready(Err(_)));
            let received = std::mem::take(&mut self.pipe.borrow_mut().received);
            if received > 0 {
                hub.received += received;
                self.last_heard = Instant::now();
            }
            while let Some((slot, news)) = slots.next_done(hub.plan) {
                if matches!(news, News::Answered(_)) {
                    self.answers += 1;
                    self.retiring |= !hub.plan.keep_alive;
                }
                ended.push(slot);
                hub.tell(slot, news);
            }
            self.slots.retain(|slot| !ended.contains(slot));
            match over {
                Poll::Ready(Ok(())) => return Err(Failure::ClosedEarly.into()),
                Poll::Ready(Err(error)) => return Err(self.ended(&error)),
                Poll::Pending if self.woken.0.load(Ordering::Relaxed) => {}
                Poll::Pending => return Ok(()),
            }
        }
    }

    fn ended(&self, error: &h2::Error) -> Fault {
        self.pipe.borrow_mut().fault.take().unwrap_or_else(|| fault(error))
    }

    pub(super) fn watch(&mut self, poller: &Poller, key: usize) -> Result<(), Fault> {
        self.pipe.borrow_mut().stream.watch(poller, key)
    }
}

impl Pipe {
    /// Nobody is woken by a socket: the reactor knows when there is something.
    fn polled<T>(&mut self, done: io::Result<T>) -> Poll<io::Result<T>> {
        match done {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => {
                self.fault.get_or_insert_with(|| stream::fault(&error));
                Poll::Ready(Err(error))
            }
            done => Poll::Ready(done),
        }
    }
}

impl AsyncRead for Ours {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.0.borrow_mut();
        let read = pipe.stream.read(buffer.initialize_unfilled());
        pipe.polled(read).map_ok(|length| {
            pipe.received += u64::try_from(length).unwrap_or(0);
            buffer.advance(length);
        })
    }
}

impl AsyncWrite for Ours {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.borrow_mut();
        let written = pipe.stream.write(bytes);
        pipe.polled(written)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.0.borrow_mut();
        let flushed = pipe.stream.flush();
        if flushed.is_ok() && pipe.stream.is_blocked() {
            return Poll::Pending;
        }
        pipe.polled(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
