//! Why workers were started again.

/// What made a restart necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself.
    Exit,
    /// A signal ended it.
    Signal,
    /// The kernel killed it for want of memory.
    OutOfMemory,
    /// It ended before it had listened.
    NeverListened,
    /// It took no connections any more.
    Hung,
    /// Somebody asked for it.
    Requested,
    /// It had run for long enough.
    Age,
    /// It had grown too large.
    Memory,
    /// It had answered enough requests.
    Requests,
}

impl Cause {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Exit,
        Self::Signal,
        Self::OutOfMemory,
        Self::NeverListened,
        Self::Hung,
        Self::Requested,
        Self::Age,
        Self::Memory,
        Self::Requests,
    ];

    /// As metrics and the status call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::OutOfMemory => "oom",
            Self::NeverListened => "never_listened",
            Self::Hung => "hung",
            Self::Requested => "requested",
            Self::Age => "age",
            Self::Memory => "memory",
            Self::Requests => "requests",
        }
    }
}

/// How often a worker was started again, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restarts([u64; Cause::ALL.len()]);

impl Restarts {
    pub(super) fn count(&mut self, cause: Cause) {
        for (count, known) in self.0.iter_mut().zip(Cause::ALL) {
            *count += u64::from(known == cause);
        }
    }

    /// Each cause with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().zip(self.0)
    }
}
