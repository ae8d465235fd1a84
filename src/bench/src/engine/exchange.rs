//! A request of HTTP/2 and its answer.

use super::wire::{Again, News};
use crate::error::{Failure, Fault};
use crate::plan::Plan;
use crate::response::Answer;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How far a slot is.
#[derive(Default)]
pub(super) enum Exchange {
    #[default]
    None,
    /// The plan's request of this number waits for its session to open.
    Queued(usize),
    /// The head of the answer is expected.
    Head(ResponseFuture),
    /// Its body.
    Body(RecvStream, Answer),
}

/// The slots of a thread.
pub(super) struct Slots {
    all: Vec<Slot>,
    woken: Arc<Woken>,
}

struct Slot {
    exchange: Exchange,
    worker: Vec<u8>,
    waker: Waker,
}

/// Slots that have something to do.
#[derive(Default)]
struct Woken(Mutex<Vec<usize>>);

impl Woken {
    fn push(&self, slot: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    fn pop(&self) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Wakes one slot.
struct Bell(usize, Arc<Woken>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.1.push(self.0);
    }
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        let woken = Arc::new(Woken::default());
        let slot = |number| Slot {
            exchange: Exchange::None,
            worker: Vec::new(),
            waker: Arc::new(Bell(number, Arc::clone(&woken))).into(),
        };
        Self { all: (0..count).map(slot).collect(), woken }
    }

    pub(super) fn set(&mut self, slot: usize, exchange: Exchange) {
        if let Some(slot) = self.all.get_mut(slot) {
            slot.exchange = exchange;
        }
    }

    pub(super) fn take(&mut self, slot: usize) -> Exchange {
        self.all.get_mut(slot).map(|slot| std::mem::take(&mut slot.exchange)).unwrap_or_default()
    }

    pub(super) fn worker(&self, slot: usize) -> &[u8] {
        self.all.get(slot).map(|slot| slot.worker.as_slice()).unwrap_or_default()
    }

    /// Sends the slot's request, if it waits for that. What became of it, if that is known at once.
    pub(super) fn begin(&mut self, slot: usize, plan: &Plan, send: &SendRequest<Bytes>) -> Option<News> {
        let place = self.all.get_mut(slot)?;
        let Exchange::Queued(number) = place.exchange else { return None };
        let message = plan.requests.get(number)?.message.as_ref()?;
        // A clone for each request: one alone takes no second while its first waits for a free stream.
        let begun = send.clone().send_request(message.head.clone(), message.body.is_empty());
        let head = begun.and_then(|(head, mut body)| {
            if !message.body.is_empty() {
                body.send_data(message.body.clone(), true)?;
            }
            Ok(head)
        });
        match head {
            Ok(head) => {
                place.exchange = Exchange::Head(head);
                self.woken.push(slot);
                None
            }
            // It never left this machine.
            Err(error) => {
                place.exchange = Exchange::None;
                Some(News::Failed(fault(&error), Again::Yes))
            }
        }
    }

    /// What became of the slots that were woken.
    pub(super) fn next_done(&mut self, plan: &Plan) -> Option<(usize, News)> {
        while let Some(number) = self.woken.pop() {
            let Some(slot) = self.all.get_mut(number) else { continue };
            if let Poll::Ready(news) = slot.poll(plan) {
                slot.exchange = Exchange::None;
                return Some((number, news));
            }
        }
        None
    }
}

impl Slot {
    fn poll(&mut self, plan: &Plan) -> Poll<News> {
        let context = &mut Context::from_waker(&self.waker);
        loop {
            match &mut self.exchange {
                Exchange::None | Exchange::Queued(_) => return Poll::Pending,
                Exchange::Head(head) => match std::task::ready!(Pin::new(head).poll(context)) {
                    // The connection has ended: its session knows more, and tells it of all its slots.
                    Err(error) if error.is_io() => return Poll::Pending,
                    Err(error) => return Poll::Ready(failed(&error, true)),
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        self.worker.clear();
                        let name = plan.worker_header.as_ref().and_then(|name| head.headers.get(name));
                        self.worker
                            .extend_from_slice(name.map(http::HeaderValue::as_bytes).unwrap_or_default());
                        let status = head.status.as_u16();
                        self.exchange = Exchange::Body(body, Answer { status, keep_alive: true, body: 0 });
                    }
                },
                Exchange::Body(body, answer) => {
                    if body.is_end_stream() {
                        return Poll::Ready(News::Answered(*answer));
                    }
                    match std::task::ready!(body.poll_data(context)) {
                        Some(Ok(data)) => {
                            answer.body += u64::try_from(data.len()).unwrap_or(0);
                            // It fails only for a stream that has ended meanwhile, which the next poll tells.
                            let _ = body.flow_control().release_capacity(data.len());
                        }
                        Some(Err(error)) if error.is_io() => return Poll::Pending,
                        Some(Err(error)) => return Poll::Ready(failed(&error, false)),
                        // What may follow are trailers.
                        None => {
                            return Poll::Ready(match std::task::ready!(body.poll_trailers(context)) {
                                Ok(_) => News::Answered(*answer),
                                Err(error) => failed(&error, false),
                            });
                        }
                    }
                }
            }
        }
    }
}

fn failed(error: &h2::Error, untouched: bool) -> News {
    // RFC 9113 § 8.7: neither was processed.
    let refused = error.reason() == Some(Reason::REFUSED_STREAM)
        || error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    let again = if untouched && refused { Again::Yes } else { Again::No };
    News::Failed(fault(error), again)
}

/// What an error of HTTP/2 means.
pub(super) fn fault(error: &h2::Error) -> Fault {
    if let Some(error) = error.get_io() {
        return super::stream::fault(error);
    }
    // Ended by the server, or by us since it broke the rules.
    let kind = if error.is_remote() { Failure::Reset } else { Failure::BadResponse };
    Fault { kind, why: Some(format!("HTTP/2: {error}")) }
}
