//! Processes: signals to them, their ends, and whose rights we look into them with.

use super::signal::Signal;
use std::io;

/// A process id.
pub type Pid = i32;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(Signal),
    /// By the kernel, since the container reached its memory limit.
    OutOfMemory,
}

impl ExitStatus {
    /// The code that a shell would report: 128 + n for a signal.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal.0,
            Self::OutOfMemory => 128 + Signal::KILL.0,
        }
    }
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "{signal}"),
            Self::OutOfMemory => f.write_str(
                "SIGKILL from the kernel: the container reached its memory limit; raise it or run fewer workers",
            ),
        }
    }
}

/// What [`reap`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// This child ended.
    Child(Pid, ExitStatus),
    /// There are children, but none that ended.
    NoneEnded,
    /// There are no children at all.
    NoChildren,
}

/// Collects one ended child, whoever started it: orphans are ours too.
pub(crate) fn reap() -> io::Result<Reaped> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match super::check(pid) {
        Ok(0) => Ok(Reaped::NoneEnded),
        Ok(pid) if libc::WIFSIGNALED(status) => {
            Ok(Reaped::Child(pid, ExitStatus::Signal(Signal(libc::WTERMSIG(status)))))
        }
        Ok(pid) => Ok(Reaped::Child(pid, ExitStatus::Code(libc::WEXITSTATUS(status)))),
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => Ok(Reaped::NoChildren),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Reaped::NoneEnded),
        Err(e) => Err(e),
    }
}

/// Sends a signal to one process. One that is gone already is no error.
pub(crate) fn kill(pid: Pid, signal: Signal) {
    debug_assert!(pid > 1, "0, -1 and 1 would reach processes that are not ours");
    // SAFETY: no pointers. ESRCH is what we want to ignore; EPERM can only happen to a process that changed its
    // user, and then there is nothing that we could do instead.
    unsafe { libc::kill(pid, signal.0) };
}

/// Sends a signal to a process group. One that is gone already is no error.
pub(crate) fn kill_group(leader: Pid, signal: Signal) {
    debug_assert!(leader > 1, "-1 would reach every process there is");
    // SAFETY: as in `kill`.
    unsafe { libc::kill(-leader, signal.0) };
}

/// Orphans among our descendants become our children, so that they can be stopped and reaped, although we may not
/// be process 1.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    // SAFETY: no pointers.
    super::check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })?;
    Ok(())
}

/// The effective user id.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: cannot fail, no pointers.
    unsafe { libc::geteuid() }
}

/// Clock ticks a second, in which the kernel counts CPU time.
pub(crate) fn ticks_per_second() -> u64 {
    system_constant(libc::_SC_CLK_TCK).unwrap_or(100)
}

/// Bytes in a page, in which the kernel counts memory.
pub(crate) fn page_size() -> u64 {
    system_constant(libc::_SC_PAGESIZE).unwrap_or(4096)
}

fn system_constant(name: libc::c_int) -> Option<u64> {
    // SAFETY: no pointers.
    u64::try_from(unsafe { libc::sysconf(name) }).ok().filter(|value| *value > 0)
}

/// Is this descriptor a terminal?
pub(crate) fn is_terminal(fd: i32) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::isatty(fd) == 1 }
}

/// For as long as it lives, /proc is read with this user's and group's rights.
///
/// A server that was started as root and gave up root (`gosu`, `su-exec`) may not be looked into by a root that has
/// no `CAP_SYS_PTRACE`, which is what containers give. The rights of the program's own user suffice.
#[derive(Debug)]
pub(crate) struct FileIdentity {
    uid: u32,
    gid: u32,
}

impl FileIdentity {
    pub(crate) fn assume(uid: u32, gid: u32) -> Self {
        // SAFETY: no pointers; both calls answer the previous id and cannot fail otherwise.
        unsafe {
            let gid = libc::setfsgid(gid).cast_unsigned();
            let uid = libc::setfsuid(uid).cast_unsigned();
            Self { uid, gid }
        }
    }
}

impl Drop for FileIdentity {
    fn drop(&mut self) {
        // SAFETY: as above; going back to one's own effective id is always allowed.
        unsafe {
            libc::setfsuid(self.uid);
            libc::setfsgid(self.gid);
        }
    }
}

/// Reads an extended attribute into `buffer`; the answer is its length.
pub(crate) fn extended_attribute(
    path: &std::ffi::CStr,
    name: &std::ffi::CStr,
    buffer: &mut [u8],
) -> io::Result<usize> {
    // SAFETY: the strings end with NUL; pointer and length describe `buffer`.
    let n = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n.unsigned_abs()) }
}
