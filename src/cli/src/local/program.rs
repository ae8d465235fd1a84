//! Finds the supervisor's program, and ports that are free.

use std::{
    env,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
};

use crate::error::Error;

/// The program's name.
const PROGRAM: &str = "workerapp-supervisor";

/// The named program, else the one beside this program, else the one on the PATH.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf, Error> {
    let missing = |looked: &[PathBuf]| {
        let looked: Vec<_> = looked.iter().map(|path| path.display().to_string()).collect();
        Error::NoSupervisor { looked: looked.join(", ") }
    };
    if let Some(named) = named {
        return if named.is_file() { Ok(named.to_owned()) } else { Err(missing(&[named.to_owned()])) };
    }
    let own = env::current_exe().and_then(|path| path.canonicalize()).ok();
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join(PROGRAM));
    let on_path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&on_path).map(|folder| folder.join(PROGRAM));
    let found = beside.iter().cloned().chain(on_path).find(|path| path.is_file());
    let looked: Vec<_> =
        beside.into_iter().chain([PathBuf::from(format!("{PROGRAM} on the PATH"))]).collect();
    found.ok_or_else(|| missing(&looked))
}

/// Whether the port can be listened on, on all addresses.
pub(crate) fn check_free(port: u16, flag: &'static str) -> Result<(), Error> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).map(drop).map_err(|source| Error::PortTaken {
        port,
        flag,
        source,
    })
}

/// `wanted` if it is free, else any free port.
pub(crate) fn free_port(wanted: u16) -> Result<u16, Error> {
    let bound = TcpListener::bind((Ipv4Addr::UNSPECIFIED, wanted))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)));
    let address = bound.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(Error::System)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_told_or_replaced() {
        let holder = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = holder.local_addr().unwrap().port();
        let error = check_free(port, "--port").unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--port"), "{error}");
        assert_ne!(free_port(port).unwrap(), port);
    }

    #[test]
    fn a_supervisor_that_is_not_there_is_told_with_the_way_to_it() {
        let error = find(Some(Path::new("/nowhere/supervisor"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere/supervisor") && error.contains("cargo build -p"), "{error}");
    }
}
