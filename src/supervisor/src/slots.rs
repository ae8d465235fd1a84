//! The listening sockets, which belong to the supervisor and outlive every worker.
//!
//! For each address that the app binds on a declared port there is a *group* of sockets that share it
//! (`SO_REUSEPORT`), one per *slot*; a worker uses the sockets of its slot, and so does its successor. A socket is
//! made when the app binds and not before: a TCP probe must not succeed early. It is never closed: connections wait
//! in its queue while no worker serves it, and the kernel would renumber the group. A slot that nobody serves is left
//! out by the steering program instead.

use crate::address::Binding;
use crate::balance::Weight;
use crate::fleet::Slot;
use crate::steering::{self, Place, Policy};
use crate::sys::socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The number of a group.
pub(crate) type GroupId = usize;

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    groups: Vec<Group>,
    /// Each slot can be reached alone, from an address that stands for it.
    addressed: bool,
}

#[derive(Debug)]
struct Group {
    binding: Binding,
    seats: Vec<Seat>,
    /// Slots in the order in which their sockets began to listen: the kernel's numbering of the group.
    joined: Vec<Slot>,
}

#[derive(Debug)]
struct Seat {
    slot: Slot,
    socket: OwnedFd,
    inode: u64,
}

impl Slots {
    /// `addressed`: each slot can be reached alone, from an address that stands for it.
    pub(crate) fn new(addressed: bool) -> Self {
        Self { addressed, ..Self::default() }
    }

    /// The group for a binding, and this slot's socket in it; both are made when they do not exist yet.
    pub(crate) fn open(&mut self, binding: Binding, slot: Slot) -> io::Result<(GroupId, BorrowedFd<'_>)> {
        let id = if let Some(id) = self.group_for(&binding) {
            id
        } else {
            // Only a group whose first socket could be bound is worth keeping.
            let seat = Seat::bind(binding, slot)?;
            self.groups.push(Group { binding, seats: vec![seat], joined: Vec::new() });
            self.groups.len() - 1
        };
        let group = self.groups.get_mut(id).ok_or(io::ErrorKind::NotFound)?;
        if !group.seats.iter().any(|seat| seat.slot == slot) {
            group.seats.push(Seat::bind(binding, slot)?);
        }
        let seat = group.seats.iter().find(|seat| seat.slot == slot).ok_or(io::ErrorKind::NotFound)?;
        Ok((id, seat.socket.as_fd()))
    }

    /// The group for a binding.
    pub(crate) fn group_for(&self, binding: &Binding) -> Option<GroupId> {
        self.groups.iter().position(|group| group.binding == *binding)
    }

    /// Where a group listens.
    pub(crate) fn binding(&self, group: GroupId) -> Option<Binding> {
        self.groups.get(group).map(|group| group.binding)
    }

    /// Does a slot's socket listen?
    pub(crate) fn is_listening(&self, group: GroupId, slot: Slot) -> bool {
        self.groups.get(group).is_some_and(|group| group.joined.contains(&slot))
    }

    /// The inode of a slot's socket.
    pub(crate) fn inode(&self, group: GroupId, slot: Slot) -> Option<u64> {
        self.groups.get(group)?.seats.iter().find(|seat| seat.slot == slot).map(|seat| seat.inode)
    }

    /// The group that a socket belongs to, by its inode.
    pub(crate) fn group_of(&self, inode: u64) -> Option<(GroupId, Slot)> {
        self.groups.iter().enumerate().find_map(|(id, group)| {
            group.seats.iter().find(|seat| seat.inode == inode).map(|seat| (id, seat.slot))
        })
    }

    /// Makes a slot's socket listen, unless it does already.
    pub(crate) fn listen(&mut self, group: GroupId, slot: Slot, backlog: i32) -> io::Result<()> {
        let Some(group) = self.groups.get_mut(group) else { return Ok(()) };
        if group.joined.contains(&slot) {
            return Ok(());
        }
        let Some(seat) = group.seats.iter().find(|seat| seat.slot == slot) else { return Ok(()) };
        if group.joined.is_empty() {
            // Before the first socket listens, so that a second one gets nothing before it is wanted.
            if let Some(program) = steering::program(Policy::Even, &[Some(0)]) {
                socket::steer(seat.socket.as_fd(), &program)?;
            }
        }
        socket::listen(seat.socket.as_fd(), backlog)?;
        group.joined.push(slot);
        Ok(())
    }

    /// Sends new connections of each group to its places: the slots of the workers, in the workers' order, without those
    /// that take none, each with its weight.
    pub(crate) fn steer(
        &self,
        policy: Policy,
        places: impl Fn(GroupId) -> Vec<Option<(Slot, Weight)>>,
    ) -> io::Result<()> {
        for (id, group) in self.groups.iter().enumerate() {
            let index =
                |slot: Slot| group.joined.iter().zip(0..).find(|(s, _)| **s == slot).map(|(_, index)| index);
            let place = |place: Option<(Slot, Weight)>| {
                let (slot, weight) = place?;
                Some(Place { index: index(slot)?, weight })
            };
            let places: Vec<Option<Place>> = places(id).into_iter().map(place).collect();
            let first =
                group.joined.first().and_then(|slot| group.seats.iter().find(|seat| seat.slot == *slot));
            if let (Some(seat), Some(program)) = (first, steering::weighted_program(policy, &places)) {
                let joined: Vec<(Slot, u32)> = group.joined.iter().copied().zip(0..).collect();
                let program = if self.addressed { steering::by_slot(&joined, program) } else { program };
                socket::steer(seat.socket.as_fd(), &program)?;
            }
        }
        Ok(())
    }

    /// How many connections wait for the worker of this slot.
    pub(crate) fn queue_length(&self, slot: Slot) -> u32 {
        let seats =
            self.groups.iter().filter(|group| group.joined.contains(&slot)).flat_map(|group| &group.seats);
        seats
            .filter(|seat| seat.slot == slot)
            .filter_map(|seat| socket::queue_length(seat.socket.as_fd()).ok())
            .sum()
    }
}

impl Seat {
    fn bind(binding: Binding, slot: Slot) -> io::Result<Self> {
        let socket = socket::bind_shared(binding.address, binding.v6_only)?;
        let me = std::process::id().cast_signed();
        let inode = crate::procfs::socket_inode(me, socket.as_raw_fd().unsigned_abs())?;
        Ok(Self { slot, socket, inode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::WHOLE;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    fn binding(port: u16) -> Binding {
        Binding { address: SocketAddr::from(([127, 0, 0, 1], port)), v6_only: false }
    }

    #[test]
    fn nothing_listens_before_it_is_told_to() {
        let (port, mut slots) = (free_port(), Slots::default());
        slots.open(binding(port), 0).unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        slots.listen(0, 0, 16).unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert_eq!(slots.queue_length(0), 1);
    }

    #[test]
    fn connections_go_to_serving_slots_alone() {
        let (port, mut slots) = (free_port(), Slots::default());
        // Slot 2 listens first: the kernel's numbering is not ours.
        for slot in [2, 0, 1] {
            slots.open(binding(port), slot).unwrap();
            slots.listen(0, slot, 128).unwrap();
        }
        let connect = |n: usize| -> Vec<TcpStream> {
            (0..n).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect()
        };
        let first = connect(5);
        assert_eq!(
            [0, 1, 2].map(|slot| slots.queue_length(slot)),
            [0, 0, 5],
            "only the first, until told otherwise"
        );
        slots.steer(Policy::Even, |_| vec![None, Some((1, WHOLE)), None]).unwrap();
        let second = connect(7);
        assert_eq!([0, 1, 2].map(|slot| slots.queue_length(slot)), [0, 7, 5]);
        slots.steer(Policy::Even, |_| vec![None; 3]).unwrap();
        let third = connect(1);
        assert_eq!([0, 1, 2].map(|slot| slots.queue_length(slot)), [0, 8, 5], "nobody serves: as before");
        slots.steer(Policy::Even, |_| vec![Some((0, WHOLE)), Some((1, WHOLE)), None]).unwrap();
        let fourth = connect(60);
        let [zero, one, two] = [0, 1, 2].map(|slot| slots.queue_length(slot));
        assert!((zero + one, two) == (68, 5) && zero > 10 && one > 18, "{zero} {one} {two}");
        drop((first, second, third, fourth));
    }

    #[test]
    fn a_slot_keeps_its_socket() {
        let (port, mut slots) = (free_port(), Slots::default());
        let first = slots.open(binding(port), 0).unwrap().1.as_raw_fd();
        slots.open(binding(port), 1).unwrap();
        assert_eq!(slots.open(binding(port), 0).unwrap().1.as_raw_fd(), first);
        let inode = slots.inode(0, 1).unwrap();
        assert_eq!(slots.group_of(inode), Some((0, 1)));
        assert_eq!(slots.group_of(1), None);
    }
}
