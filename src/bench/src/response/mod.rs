//! Finds where an answer ends, whatever pieces it comes in, and what of it matters.
//!
//! Bodies are counted, never kept, so that an endless one costs no memory.

mod chunked;
mod head;

use chunked::Chunked;
use head::Framing;

/// Bytes that a head may have, and separately the trailers.
pub const MAX_HEAD: usize = 64 << 10;
/// Header lines that a head may have.
pub const MAX_HEADERS: usize = 128;
/// Interim answers (1xx) that may come before the final one.
pub const MAX_INTERIM: u8 = 16;

/// How an answer breaks HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It doesn't begin with a status line, or a header line is none.
    #[error("its head isn't HTTP/1.1: {0}")]
    Head(&'static str),
    /// More than [`MAX_HEAD`] bytes.
    #[error("its head has more than {} KiB", MAX_HEAD >> 10)]
    HeadTooLong,
    /// More than [`MAX_HEADERS`] lines.
    #[error("it has more than {MAX_HEADERS} headers")]
    TooManyHeaders,
    /// A Content-Length that is no number, too large for one, or there twice with different values.
    #[error("its Content-Length is none")]
    ContentLength,
    /// A chunk's size isn't a hexadecimal number with a line end.
    #[error("the size of a chunk isn't one")]
    ChunkSize,
    /// A chunk isn't followed by a line end.
    #[error("a chunk is longer than its size says")]
    ChunkEnd,
    /// Trailers that don't end.
    #[error("its trailers have more than {} KiB", MAX_HEAD >> 10)]
    TrailersTooLong,
    /// 101, though no upgrade was asked for.
    #[error("it switches to another protocol without being asked")]
    Switch,
    /// More than [`MAX_INTERIM`] answers with a status of 1xx.
    #[error("more than {MAX_INTERIM} interim answers")]
    TooManyInterim,
    /// Bytes after its end.
    #[error("it goes on after its end")]
    Surplus,
}

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status, 200 to 999.
    pub status: u16,
    /// Another request may follow on this connection.
    pub keep_alive: bool,
    /// Bytes of the body, without the framing.
    pub body: u64,
}

/// Reads one answer after another.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// The answer is to a HEAD request.
    no_body: bool,
    /// Some of the answer has come.
    begun: bool,
    interim: u8,
    /// A head that hasn't come as a whole yet.
    head: Vec<u8>,
    answer: Answer,
    worker: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            state: State::Head,
            no_body: false,
            begun: false,
            interim: 0,
            head: Vec::new(),
            answer: Answer { status: 0, keep_alive: false, body: 0 },
            worker: Vec::new(),
        }
    }
}

impl Decoder {
    /// Prepares for the answer to a request; `head`: to a HEAD request.
    pub fn expect(&mut self, head: bool) {
        self.state = State::Head;
        self.no_body = head;
        self.begun = false;
        self.interim = 0;
        self.head.clear();
        self.worker.clear();
        self.answer.body = 0;
    }

    /// Has any byte of the answer come?
    pub fn begun(&self) -> bool {
        self.begun
    }

    /// The value of the header that names the worker; empty without it.
    pub fn worker(&self) -> &[u8] {
        &self.worker
    }

    /// Takes the next bytes; `worker_header` is the name of a header whose value is kept. `Some` when the answer is complete.
    pub fn feed(&mut self, bytes: &[u8], worker_header: Option<&str>) -> Result<Option<Answer>, Malformed> {
        self.begun |= !bytes.is_empty();
        let mut rest = bytes;
        loop {
            let (used, complete) = match &mut self.state {
                State::Head => match self.feed_head(rest, worker_header)? {
                    Some((used, complete)) => (used, complete),
                    None => return Ok(None),
                },
                State::Length(missing) => {
                    let used =
                        usize::try_from(*missing).map_or(rest.len(), |missing| missing.min(rest.len()));
                    *missing -= as_u64(used);
                    self.answer.body += as_u64(used);
                    (used, *missing == 0)
                }
                State::Chunked(chunked) => chunked.feed(rest, &mut self.answer.body)?,
                State::UntilClose => {
                    self.answer.body += as_u64(rest.len());
                    (rest.len(), false)
                }
            };
            rest = rest.get(used..).unwrap_or_default();
            match (complete, rest.is_empty()) {
                (true, true) => return Ok(Some(self.answer)),
                (true, false) => return Err(Malformed::Surplus),
                (false, true) => return Ok(None),
                (false, false) => {}
            }
        }
    }

    /// The server closed the connection: an answer whose end is just that is complete now.
    pub fn end(&self) -> Option<Answer> {
        matches!(self.state, State::UntilClose).then_some(self.answer)
    }

    /// How many bytes the head took, and whether the answer ends with it. `None`: the head isn't complete.
    fn feed_head(
        &mut self,
        bytes: &[u8],
        worker_header: Option<&str>,
    ) -> Result<Option<(usize, bool)>, Malformed> {
        let before = self.head.len();
        let parsed = if before == 0 {
            head::parse(bytes, worker_header)?
        } else {
            self.head.extend_from_slice(bytes);
            // Only a line's end can complete it: bytes that come one by one aren't parsed again and again.
            if bytes.contains(&b'\n') { head::parse(&self.head, worker_header)? } else { None }
        };
        let Some(parsed) = parsed else {
            if before == 0 {
                self.head.extend_from_slice(bytes);
            }
            return if self.head.len() > MAX_HEAD { Err(Malformed::HeadTooLong) } else { Ok(None) };
        };
        if parsed.length > MAX_HEAD {
            return Err(Malformed::HeadTooLong);
        }
        let used = parsed.length.saturating_sub(before);
        self.worker.clear();
        self.worker.extend_from_slice(parsed.worker);
        let (status, keep_alive, framing) = (parsed.status, parsed.keep_alive, parsed.framing);
        self.head.clear();
        match status {
            101 => return Err(Malformed::Switch),
            100..=199 => {
                self.interim += 1;
                return if self.interim > MAX_INTERIM {
                    Err(Malformed::TooManyInterim)
                } else {
                    Ok(Some((used, false)))
                };
            }
            _ => {}
        }
        let framing =
            if self.no_body || status == 204 || status == 304 { Framing::Length(0) } else { framing };
        self.answer = Answer { status, keep_alive: keep_alive && framing != Framing::UntilClose, body: 0 };
        self.state = match framing {
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::default()),
            Framing::UntilClose => State::UntilClose,
        };
        Ok(Some((used, framing == Framing::Length(0))))
    }
}

fn as_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
