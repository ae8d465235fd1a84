//! Starting a worker: what must happen in the child between `fork` and `exec`.

use super::process::Pid;
use super::seccomp::{self, Listener};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A worker that runs.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: Pid,
    /// Where its bind and listen calls arrive, when that was asked for.
    pub(crate) listener: Option<Listener>,
}

/// Starts `command` in a session of its own, tied to our life; with `watched`, its bind and listen calls are handed
/// to us.
pub(crate) fn spawn(mut command: Command, watched: bool) -> io::Result<Spawned> {
    let channel = if watched { Some(UnixStream::pair()?) } else { None };
    let child_end: Option<RawFd> = channel.as_ref().map(|(_, theirs)| theirs.as_raw_fd());
    let parent = std::process::id().cast_signed();
    // SAFETY: the closure only makes system calls and does not allocate, take a lock or panic; `child_end` stays
    // open across the fork, since `channel` is dropped later.
    unsafe {
        command.pre_exec(move || {
            // A session marks the tree: members are recognised by it even after their parents died.
            super::check(libc::setsid())?;
            super::signal::unblock_all()?;
            die_with(parent)?;
            if let Some(channel) = child_end {
                let listener = seccomp::install()?;
                seccomp::send_descriptor(channel, listener)?;
                // The worker must not be able to answer its own calls.
                libc::close(listener);
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    let listener = match channel {
        None => None,
        Some((ours, theirs)) => {
            drop(theirs);
            seccomp::receive_descriptor(ours.as_raw_fd())?.map(Listener::new)
        }
    };
    // Children are reaped together with the orphans, so the handle has done its duty.
    Ok(Spawned { pid: child.id().cast_signed(), listener })
}

/// SIGKILL for the calling process as soon as its parent dies.
fn die_with(parent: Pid) -> io::Result<()> {
    // SAFETY: no pointers.
    unsafe {
        super::check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        // The parent may have died before the line above took effect.
        if libc::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}

/// Forks a process that binds one socket under the filter and exits with the errno it got (0: success).
///
/// It shows, before any worker exists, what this kernel and sandbox allow.
pub(crate) fn trial(socket: &impl AsRawFd, address: std::net::SocketAddrV4) -> io::Result<(Pid, Listener)> {
    let (ours, theirs) = UnixStream::pair()?;
    let address = super::socket::RawAddress::from(std::net::SocketAddr::V4(address));
    // SAFETY: this process has one thread; the child only makes system calls, does not allocate, and leaves with
    // `_exit`.
    let pid = unsafe { super::check(libc::fork())? };
    if pid == 0 {
        let code = match seccomp::install().and_then(|fd| seccomp::send_descriptor(theirs.as_raw_fd(), fd)) {
            Ok(()) => match address.bind(socket.as_raw_fd()) {
                Ok(()) => 0,
                Err(e) => e.raw_os_error().unwrap_or(255),
            },
            Err(e) => {
                report(theirs.as_raw_fd(), &e);
                255
            }
        };
        // SAFETY: ends this process at once, without running anything that belongs to the parent.
        unsafe { libc::_exit(code) };
    }
    drop(theirs);
    match seccomp::receive_descriptor(ours.as_raw_fd()) {
        Ok(Some(fd)) => Ok((pid, Listener::new(fd))),
        Ok(None) => {
            let errno = read_report(&ours);
            wait(pid);
            Err(io::Error::from_raw_os_error(errno))
        }
        Err(e) => {
            wait(pid);
            Err(e)
        }
    }
}

/// Tells the parent why the filter could not be installed: one byte that says so, then the errno.
fn report(socket: RawFd, error: &io::Error) {
    let errno = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
    let message = [0, errno[0], errno[1], errno[2], errno[3]];
    // SAFETY: pointer and length describe `message`. If it fails the parent sees the end of the stream.
    unsafe { libc::send(socket, message.as_ptr().cast(), message.len(), libc::MSG_NOSIGNAL) };
}

fn read_report(socket: &UnixStream) -> i32 {
    use std::io::Read;
    let mut errno = [0; 4];
    let mut socket = socket;
    // The first byte went to the attempt to receive a descriptor.
    match socket.read_exact(&mut errno) {
        Ok(()) => i32::from_ne_bytes(errno),
        Err(_) => libc::EIO,
    }
}

/// Waits for one child and answers its exit code.
pub(crate) fn wait(pid: Pid) -> Option<i32> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let result = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    (result == pid && libc::WIFEXITED(status)).then(|| libc::WEXITSTATUS(status))
}

/// Waits at most `milliseconds` for something to read.
pub(crate) fn readable_within(fd: &impl AsRawFd, milliseconds: i32) -> bool {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `entry` is one pollfd and outlives the call.
    unsafe { libc::poll(&raw mut entry, 1, milliseconds) == 1 && entry.revents & libc::POLLIN != 0 }
}
