//! The events of a watch, one by one, with what the fault in force does to them.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt as _, StreamBody};
use kube::client::DynBody;
use tokio::sync::watch;
use tower::BoxError;

use super::layer::{Body, Faults, Turn, gone};

fn gone_event() -> Bytes {
    Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", gone()))
}

/// A watch's answer, read event by event.
struct Following {
    faults: Faults,
    plural: String,
    body: BodyDataStream<Box<DynBody>>,
    cuts: watch::Receiver<u64>,
    /// What came in and is no whole line yet.
    rest: BytesMut,
    late: Duration,
    muted: bool,
    ended: bool,
}

impl Faults {
    /// Lets through what comes of a watch.
    pub(super) fn follow(&self, plural: String, body: Box<DynBody>) -> Body {
        let following = Following {
            faults: self.clone(),
            plural,
            body: BodyDataStream::new(body),
            cuts: self.cuts(),
            rest: BytesMut::new(),
            late: Duration::ZERO,
            muted: false,
            ended: false,
        };
        let frames = stream::unfold(following, |mut following| async move {
            let next = following.next().await?;
            Some((next.map(Frame::data), following))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

impl Following {
    /// The next event that arrives.
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        while !self.ended {
            let line = match self.line().await {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            };
            if self.ended {
                return Some(Ok(line));
            }
            let fault = Arc::clone(&self.faults.fault());
            // A bookmark is an event too: it would carry the watch past those that were dropped.
            match fault.event(&self.plural) {
                Turn::Pass => {}
                Turn::Drop => continue,
                Turn::End => return None,
                Turn::Late(by) => self.late = by,
                Turn::Mute => {
                    self.muted = true;
                    continue;
                }
                Turn::Gone => {
                    self.ended = true;
                    return Some(Ok(gone_event()));
                }
            }
            if !self.late.is_zero() {
                tokio::time::sleep(self.late).await;
            }
            return Some(Ok(line));
        }
        None
    }

    /// The next line, or the end of the watch; one that is cut ends with the word that it is too old.
    async fn line(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.rest.split_to(end + 1).freeze()));
            }
            tokio::select! {
                biased;
                _ = self.cuts.changed() => {
                    self.ended = true;
                    return Ok(Some(gone_event()));
                }
                chunk = self.body.next(), if !self.muted => match chunk {
                    Some(chunk) => self.rest.extend_from_slice(&chunk?),
                    None => return Ok(None),
                },
            }
        }
    }
}
