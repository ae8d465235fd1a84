//! Passes on what the workers write, with their numbers before each line (`--log-prefix on`).
//!
//! Each of the container's two streams has a thread of its own, which reads pipes and writes in the ordinary, waiting way. If
//! nobody reads the container's log, that thread stands still, the pipes fill, and the workers wait as they would without us;
//! the event loop goes on. Our own lines take the same way, so that they do not get between a worker's.

use crate::lines::Lines;
use crate::sys::poll::{Interest, Poll};
use crate::sys::socket::set_nonblocking;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is still on its way when everything has ended gets so much time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Both streams.
#[derive(Debug)]
pub(crate) struct Relay {
    out: Stream,
    errors: Stream,
}

/// One stream and its thread.
#[derive(Debug)]
struct Stream {
    shared: Arc<Shared>,
    /// Our own lines; while it is open the thread runs.
    own: PipeWriter,
    /// Tells, by its end, that the thread has finished.
    finished: Receiver<()>,
}

#[derive(Debug)]
struct Shared {
    poll: Poll,
    sources: Mutex<BTreeMap<u64, (PipeReader, Lines)>>,
    last_id: AtomicU64,
}

impl Relay {
    pub(crate) fn start() -> io::Result<Self> {
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let errors = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let turn = Arc::default();
        // Where both are one pipe, long writes of two threads would get into each other.
        let is_same = identity(&out)? == identity(&errors)?;
        let other_turn = if is_same { Arc::clone(&turn) } else { Arc::default() };
        Ok(Self { out: Stream::start(out, turn)?, errors: Stream::start(errors, other_turn)? })
    }

    /// Where a worker's standard output and standard error go.
    pub(crate) fn for_worker(&self, worker: u32) -> io::Result<[Stdio; 2]> {
        let mark = format!("[worker {worker}] ");
        Ok([self.out.shared.pipe(&mark)?.into(), self.errors.shared.pipe(&mark)?.into()])
    }

    /// Where our own lines go. It never waits: without room, a write fails.
    pub(crate) fn for_us(&self) -> io::Result<PipeWriter> {
        self.errors.own.try_clone()
    }

    /// Waits, but not for ever, until everything is written. The workers are gone, and so is what [`Self::for_us`] gave.
    pub(crate) fn finish(self) {
        for stream in [self.out, self.errors] {
            drop(stream.own);
            // An end of the channel is what is waited for. If nobody reads the log there is nobody to tell.
            let _ = stream.finished.recv_timeout(PATIENCE);
        }
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let about = file.metadata()?;
    Ok((about.dev(), about.ino()))
}

impl Stream {
    /// `turn` is held for each write.
    fn start(to: File, turn: Arc<Mutex<()>>) -> io::Result<Self> {
        let sources = Mutex::new(BTreeMap::new());
        let shared = Arc::new(Shared { poll: Poll::new()?, sources, last_id: AtomicU64::new(0) });
        let own = shared.pipe("")?;
        set_nonblocking(own.as_fd(), true)?;
        let (running, finished) = sync_channel(0);
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("log".into()).stack_size(128 * 1024).spawn(move || {
            theirs.run(to, &turn);
            drop(running);
        })?;
        Ok(Self { shared, own, finished })
    }
}

impl Shared {
    fn sources(&self) -> MutexGuard<'_, BTreeMap<u64, (PipeReader, Lines)>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new source; what is written into the answer is passed on.
    fn pipe(&self, mark: &str) -> io::Result<PipeWriter> {
        let (reader, writer) = io::pipe()?;
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let mut sources = self.sources();
        self.poll.add(&reader, id, Interest::Read)?;
        sources.insert(id, (reader, Lines::new(mark)));
        Ok(writer)
    }

    /// Passes on until no source is left.
    fn run(&self, mut to: File, turn: &Mutex<()>) {
        let mut buffer = vec![0; 16 * 1024];
        let mut out = Vec::new();
        while let Ok(ready) = self.poll.wait(None) {
            let is_empty = {
                let mut sources = self.sources();
                for ready in ready {
                    let Some((reader, lines)) = sources.get_mut(&ready.token) else { continue };
                    match reader.read(&mut buffer) {
                        Ok(n @ 1..) => lines.push(buffer.get(..n).unwrap_or_default(), &mut out),
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        _ => {
                            lines.finish(&mut out);
                            sources.remove(&ready.token);
                        }
                    }
                }
                sources.is_empty()
            };
            // The sources are not locked here: this is where the thread stands still when nobody reads. A log that is closed
            // takes nothing; the workers must be able to go on.
            {
                let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = to.write_all(&out);
            }
            out.clear();
            if is_empty {
                return;
            }
        }
    }
}
