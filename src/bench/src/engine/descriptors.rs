//! File descriptors for all connections.

use crate::error::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process has open besides: its files, and an epoll set and a timer for each thread.
const OTHERS: u64 = 64;

/// Raises the soft limit where it is too low.
pub(super) fn suffice(connections: usize, threads: usize) -> Result<(), Error> {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let wanted = number(connections).saturating_add(2 * number(threads)).saturating_add(OTHERS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let too_many = || Error::Descriptors { connections, limit: maximum.or(current).unwrap_or_default() };
    if maximum.is_some_and(|maximum| maximum < wanted) {
        return Err(too_many());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).map_err(|_| too_many())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_descriptors_are_refused_by_number() {
        assert!(suffice(1, 1).is_ok());
        let limit = getrlimit(Resource::Nofile).maximum;
        let asked = limit.and_then(|limit| usize::try_from(limit).ok()).expect("a limit on this machine");
        let refused = suffice(asked, 1).unwrap_err().to_string();
        assert!(refused.contains(&asked.to_string()) && refused.contains("ulimit -n"), "{refused}");
    }
}
