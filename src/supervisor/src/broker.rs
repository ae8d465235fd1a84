//! Answers the workers' bind and listen calls.

use crate::address::{self, Binding};
use crate::fleet::Slot;
use crate::inspect::as_caller;
use crate::procfs::{self, FileFlags, Protocol};
use crate::slots::{GroupId, Slots};
use crate::sys::seccomp::{Answer, Call, Listener, Notification};
use crate::sys::socket;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// What is known about the calls of one worker's process tree.
#[derive(Debug)]
pub(crate) struct Watched {
    slot: Slot,
    listener: Listener,
    /// `IPV6_V6ONLY` of sockets that are not bound yet, by inode.
    v6_only: Recent<bool>,
    /// What sockets that are none of our business were bound to.
    bound: Recent<Binding>,
    /// The names of Unix sockets.
    named: Recent<String>,
    /// Groups whose socket this tree was given.
    given: BTreeSet<GroupId>,
    /// Groups in which it listens.
    listens_in: BTreeSet<GroupId>,
}

impl Watched {
    pub(crate) fn new(slot: Slot, listener: Listener) -> Self {
        Self {
            slot,
            listener,
            v6_only: Recent::default(),
            bound: Recent::default(),
            named: Recent::default(),
            given: BTreeSet::new(),
            listens_in: BTreeSet::new(),
        }
    }

    pub(crate) fn listens_in(&self, group: GroupId) -> bool {
        self.listens_in.contains(&group)
    }

    /// It has had its chance to call `listen` on a socket that needs no call.
    pub(crate) fn assume_listening(&mut self, group: GroupId) {
        self.listens_in.insert(group);
    }
}

/// Values by inode, the latest few. A program may open any number of sockets, and nobody tells us when it closes one;
/// but what is done to a listening socket is done at once.
#[derive(Debug)]
struct Recent<T>(VecDeque<(u64, T)>);

impl<T: Clone> Recent<T> {
    const MOST: usize = 64;

    fn put(&mut self, inode: u64, value: T) {
        self.0.retain(|(known, _)| *known != inode);
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back((inode, value));
    }

    fn get(&self, inode: u64) -> Option<T> {
        self.0.iter().find(|(known, _)| *known == inode).map(|(_, value)| value.clone())
    }
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

/// What the rest of the supervisor has to know about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing.
    Nothing,
    /// The tree listens here now.
    Listens(SocketAddr),
    /// The tree listens on a Unix socket of this name now.
    ListensOnUnix(String),
    /// It was given a socket of this group, which listens already: a predecessor has seen to that. Some programs look,
    /// and then do not call `listen` (gunicorn).
    MayListen(GroupId),
    /// The tree takes the port for itself: no other worker and no successor can have it too; a line for the log.
    KeepsPort(String),
    /// A call could not be handled as it should be; a line for the log.
    Trouble(String),
    /// The caller may not be looked into, so its calls say nothing; a line for the log.
    Blind(String),
}

/// The sockets, and the rules by which they are handed out.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) slots: Slots,
    /// The declared ports; empty when the command shares them by itself.
    ports: Vec<u16>,
    /// What an IPv6 socket is whose `IPV6_V6ONLY` nobody has set.
    v6_only_by_default: bool,
}

impl Broker {
    /// `addressed`: each slot can be reached alone.
    pub(crate) fn new(ports: Vec<u16>, addressed: bool) -> Self {
        let sysctl = std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only");
        Self {
            slots: Slots::new(addressed),
            ports,
            v6_only_by_default: sysctl.is_ok_and(|text| text.trim() == "1"),
        }
    }

    /// Handles the next call of a tree. `holds` tells whether any of its processes still has a socket open.
    pub(crate) fn handle(&mut self, tree: &mut Watched, holds: impl Fn(u64) -> bool) -> Outcome {
        let call = match tree.listener.receive() {
            Ok(Some(call)) => call,
            Ok(None) => return Outcome::Nothing,
            Err(e) => return Outcome::Trouble(format!("cannot receive a worker's call: {e}")),
        };
        let handled = match call.call {
            Call::Bind => self.bind(tree, &call, holds),
            Call::Listen => self.listen(tree, &call),
            Call::SetV6Only => remember_v6_only(tree, &call).map(|()| (Answer::Continue, Outcome::Nothing)),
        };
        let (answer, outcome) = match handled {
            Ok(handled) => handled,
            // The caller may be gone, or wrong about its own memory; then the kernel tells it so.
            Err(_) if !tree.listener.still_waits(&call) => return Outcome::Nothing,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                // It changed its user without an exec, and only CAP_SYS_PTRACE may look into such a process.
                let why = "a worker gave up its user before it bound its port, so that the port cannot be shared: \
                           let the container run as that user (securityContext.runAsUser)";
                (Answer::Continue, Outcome::Blind(why.to_owned()))
            }
            Err(e) => (Answer::Continue, Outcome::Trouble(format!("cannot look into a worker's call: {e}"))),
        };
        match tree.listener.answer(&call, answer) {
            Ok(()) => outcome,
            Err(e) => Outcome::Trouble(format!("cannot answer a worker's call: {e}")),
        }
    }

    fn bind(
        &mut self,
        tree: &mut Watched,
        call: &Notification,
        holds: impl Fn(u64) -> bool,
    ) -> io::Result<(Answer, Outcome)> {
        let proceed = Ok((Answer::Continue, Outcome::Nothing));
        let request = match BindRequest::read(call)? {
            Bind::Tcp(request) => request,
            Bind::Unix { name, inode } => {
                tree.named.put(inode, name);
                return proceed;
            }
            Bind::Other => return proceed,
        };
        let v6_only = tree.v6_only.get(request.inode).unwrap_or(self.v6_only_by_default);
        let binding = Binding { address: request.address, v6_only: request.address.is_ipv6() && v6_only };
        if !self.ports.contains(&binding.address.port()) {
            tree.bound.put(request.inode, binding);
            return proceed;
        }
        if self.slots.group_of(request.inode).is_some() {
            // Bound already; the kernel has an error for that.
            return proceed;
        }
        if self.is_taken_by(tree, &binding, holds) {
            return Ok((Answer::Errno(libc::EADDRINUSE), Outcome::Nothing));
        }
        let is_awaited = || as_caller(call.thread, || procfs::is_awaited(call.thread, request.inode));
        if self.slots.group_for(&binding).is_none() && is_awaited()? {
            tree.bound.put(request.inode, binding);
            return Ok((Answer::Continue, Outcome::KeepsPort(keeps_to_itself(&binding))));
        }
        let (group, socket) = match self.slots.open(binding, tree.slot) {
            Ok(opened) => opened,
            Err(e) => return Ok(refused(&binding, &e)),
        };
        socket::set_nonblocking(socket, request.flags.nonblocking)?;
        if !tree.listener.still_waits(call) {
            return proceed;
        }
        tree.listener.replace(call, request.fd, socket.as_fd(), request.flags.close_on_exec)?;
        tree.given.insert(group);
        let listens = self.slots.is_listening(group, tree.slot);
        Ok((Answer::Success, if listens { Outcome::MayListen(group) } else { Outcome::Nothing }))
    }

    /// Sockets of a group do not get into each other's way, but to the program they are ordinary sockets.
    fn is_taken_by(&self, tree: &Watched, binding: &Binding, holds: impl Fn(u64) -> bool) -> bool {
        tree.given.iter().any(|group| {
            let conflicts = self.slots.binding(*group).is_some_and(|other| other.conflicts_with(binding));
            conflicts && self.slots.inode(*group, tree.slot).is_some_and(&holds)
        })
    }

    fn listen(&mut self, tree: &mut Watched, call: &Notification) -> io::Result<(Answer, Outcome)> {
        let fd = first_argument(call);
        let inode = as_caller(call.thread, || procfs::socket_inode(call.thread, fd))?;
        if let Some((group, slot)) = self.slots.group_of(inode) {
            #[allow(clippy::cast_possible_truncation, reason = "an int in a register")]
            let backlog = call.arguments[1] as i32;
            self.slots.listen(group, slot, backlog)?;
            tree.listens_in.insert(group);
            let address = self.slots.binding(group).map(|binding| binding.address);
            return Ok((Answer::Continue, address.map_or(Outcome::Nothing, Outcome::Listens)));
        }
        let bound = tree.bound.get(inode).map(|bound| Outcome::Listens(bound.address));
        let outcome = bound.or_else(|| tree.named.get(inode).map(Outcome::ListensOnUnix));
        let outcome = outcome.unwrap_or(Outcome::Nothing);
        Ok((Answer::Continue, outcome))
    }
}

/// The epoll set would keep the socket that is exchanged, and the program never hear of a connection.
fn keeps_to_itself(binding: &Binding) -> String {
    format!(
        "a worker has put its socket into an epoll set before it binds {}, so that it gets the port for itself, and no other \
         worker and no successor can share it: Netty's native transport does that, its NIO transport doesn't",
        binding.address
    )
}

fn refused(binding: &Binding, error: &io::Error) -> (Answer, Outcome) {
    let errno = error.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL);
    let why = match errno {
        libc::EADDRINUSE => "a process that is none of the workers has it already".to_owned(),
        libc::EACCES => "ports below 1024 need a privilege here".to_owned(),
        _ => error.to_string(),
    };
    (Answer::Errno(errno), Outcome::Trouble(format!("{} cannot be bound: {why}", binding.address)))
}

#[allow(clippy::cast_possible_truncation, reason = "an int in a register")]
fn first_argument(call: &Notification) -> u32 {
    call.arguments[0] as u32
}

/// A bind call.
enum Bind {
    Tcp(BindRequest),
    Unix {
        name: String,
        inode: u64,
    },
    /// The kernel may handle it alone.
    Other,
}

/// One that may be for a declared port.
struct BindRequest {
    fd: u32,
    address: SocketAddr,
    inode: u64,
    flags: FileFlags,
}

impl BindRequest {
    fn read(call: &Notification) -> io::Result<Bind> {
        let fd = first_argument(call);
        let length = usize::try_from(call.arguments[2]).unwrap_or(usize::MAX).min(address::LONGEST);
        as_caller(call.thread, || {
            let mut buffer = [0; address::LONGEST];
            let buffer = buffer.get_mut(..length).unwrap_or_default();
            procfs::read_memory(call.thread, call.arguments[1], buffer)?;
            if let Some(name) = address::unix_name(buffer) {
                return Ok(Bind::Unix { name, inode: procfs::socket_inode(call.thread, fd)? });
            }
            let Some(address) = address::parse(buffer).filter(|address| address.port() != 0) else {
                return Ok(Bind::Other);
            };
            let wanted = if address.is_ipv4() { Protocol::Tcp4 } else { Protocol::Tcp6 };
            // Where the kernel does not tell, a declared TCP port most likely means TCP.
            if procfs::protocol(call.thread, fd).unwrap_or(wanted) != wanted {
                return Ok(Bind::Other);
            }
            let flags = procfs::file_flags(call.thread, fd)?;
            let inode = procfs::socket_inode(call.thread, fd)?;
            Ok(Bind::Tcp(Self { fd, address, inode, flags }))
        })
    }
}

/// There is no way to ask another process's socket for this option, so it is noted when it is set.
fn remember_v6_only(tree: &mut Watched, call: &Notification) -> io::Result<()> {
    let fd = first_argument(call);
    let (inode, on) = as_caller(call.thread, || {
        let mut value = [0; size_of::<i32>()];
        procfs::read_memory(call.thread, call.arguments[3], &mut value)?;
        Ok((procfs::socket_inode(call.thread, fd)?, value != [0; size_of::<i32>()]))
    })?;
    tree.v6_only.put(inode, on);
    Ok(())
}

impl std::os::fd::AsRawFd for Watched {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.listener.as_raw_fd()
    }
}
