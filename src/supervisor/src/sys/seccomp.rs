//! seccomp user notification: a process asks the kernel to hand some of its system calls to somebody else.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

// Offsets in `struct seccomp_data`. Arguments are 64 bits wide; both architectures have the low half first.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const SECOND_ARGUMENT: u32 = 24;
const THIRD_ARGUMENT: u32 = 32;

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// `bind`, `listen` and the setting of `IPV6_V6ONLY` are handed over, everything else runs as usual. So do calls of another
/// architecture (32-bit programs): their numbers would mean something else.
const FILTER: [libc::sock_filter; 12] = [
    instruction(LOAD, 0, 0, ARCH),
    instruction(JUMP_IF_EQUAL, 0, 8, ARCHITECTURE),
    instruction(LOAD, 0, 0, NUMBER),
    instruction(JUMP_IF_EQUAL, 7, 0, libc::SYS_bind as u32),
    instruction(JUMP_IF_EQUAL, 6, 0, libc::SYS_listen as u32),
    instruction(JUMP_IF_EQUAL, 0, 4, libc::SYS_setsockopt as u32),
    instruction(LOAD, 0, 0, SECOND_ARGUMENT),
    instruction(JUMP_IF_EQUAL, 0, 2, libc::IPPROTO_IPV6 as u32),
    instruction(LOAD, 0, 0, THIRD_ARGUMENT),
    instruction(JUMP_IF_EQUAL, 1, 0, libc::IPV6_V6ONLY as u32),
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
];

/// Puts the filter on the calling process and answers the descriptor of its listener.
///
/// Called between `fork` and `exec`: it must not allocate.
pub(super) fn install() -> io::Result<RawFd> {
    let filter = FILTER;
    let program = libc::sock_fprog { len: FILTER.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: no pointers. Without it an unprivileged process may not install a filter.
    super::check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let with = |flags: libc::c_ulong| {
        // SAFETY: `program` and the filter it points to outlive the call; the kernel copies both.
        let fd = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
        };
        RawFd::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)
    };
    // Since Linux 5.19 a call that is being answered is not restarted by other signals (Go sends itself many).
    let listener =
        with(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    match listener {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => with(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER),
        other => other,
    }
}

/// The system calls that the filter hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// `bind(fd, address, length)`
    Bind,
    /// `listen(fd, backlog)`
    Listen,
    /// `setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, value, length)`
    SetV6Only,
}

/// One call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    id: u64,
    /// The *thread* that made the call, as we see it.
    pub(crate) thread: i32,
    pub(crate) call: Call,
    pub(crate) arguments: [u64; 6],
}

/// How a call is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The kernel carries it out as if nobody had looked.
    Continue,
    /// It succeeded.
    Success,
    /// It failed with this errno.
    Errno(i32),
}

/// The end at which calls of one process tree arrive.
#[derive(Debug)]
pub(crate) struct Listener {
    fd: OwnedFd,
}

impl Listener {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The next call. `None`: the caller died, or was interrupted, before we looked.
    pub(crate) fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: a zeroed `seccomp_notif` is what the kernel asks for; it is plain data.
        let mut raw: libc::seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the kernel writes one `seccomp_notif`, which `raw` is.
        let result =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
        match super::check(result) {
            Ok(_) => {}
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => return Ok(None),
            Err(e) => return Err(e),
        }
        let call = match i64::from(raw.data.nr) {
            libc::SYS_bind => Call::Bind,
            libc::SYS_listen => Call::Listen,
            _ => Call::SetV6Only,
        };
        Ok(Some(Notification { id: raw.id, thread: raw.pid.cast_signed(), call, arguments: raw.data.args }))
    }

    /// Does the caller still wait? If not, its thread id may belong to somebody else by now and what was read
    /// through it is worthless.
    pub(crate) fn still_waits(&self, call: &Notification) -> bool {
        // SAFETY: the kernel reads one u64.
        unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0
        }
    }

    /// Puts `socket` in place of the caller's descriptor `number`.
    pub(crate) fn replace(
        &self,
        call: &Notification,
        number: u32,
        socket: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let request = libc::seccomp_notif_addfd {
            id: call.id,
            flags: libc::SECCOMP_ADDFD_FLAG_SETFD as u32,
            srcfd: socket.as_raw_fd().cast_unsigned(),
            newfd: number,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        // SAFETY: the kernel reads one `seccomp_notif_addfd`.
        let result =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const request) };
        super::check(result)?;
        Ok(())
    }

    /// Lets the caller go on. A caller that is gone is no error.
    pub(crate) fn answer(&self, call: &Notification, answer: Answer) -> io::Result<()> {
        let (error, flags) = match answer {
            Answer::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Success => (0, 0),
            Answer::Errno(errno) => (-errno, 0),
        };
        let response = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
        // SAFETY: the kernel reads one `seccomp_notif_resp`.
        let result =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response) };
        match super::check(result) {
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
            _ => Ok(()),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Sends one descriptor over a Unix socket. Called between `fork` and `exec`: it must not allocate.
pub(super) fn send_descriptor(socket: RawFd, descriptor: RawFd) -> io::Result<()> {
    let mut byte = [0_u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    let mut control = [0_u64; 4];
    // SAFETY: all pointers are to locals that outlive the call; `control` is aligned for and larger than one
    // cmsghdr with one int.
    unsafe {
        let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        if libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Receives the descriptor that [`send_descriptor`] sent. `None`: the other side closed without sending one.
pub(super) fn receive_descriptor(socket: RawFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0_u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    let mut control = [0_u64; 4];
    // SAFETY: as in `send_descriptor`; the received descriptor is new and owned by nobody else.
    unsafe {
        let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let received = loop {
            let n = libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC);
            if n >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break n;
            }
        };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if received == 0 || header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Ok(None);
        }
        Ok(Some(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned())))
    }
}
