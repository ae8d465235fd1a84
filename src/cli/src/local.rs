//! The supervisor on this machine: what `run` starts.
//!
//! - `launch`: plan → the supervisor's command line and environment, pure
//! - `variables`: the environment, as the kubelet would make it
//! - `program`: finds the supervisor
//! - `forward`: the node port
//! - `admin`: asks the supervisor
//! - `line`: the last line of a terminal

pub(crate) mod admin;
pub(crate) mod forward;
pub(crate) mod launch;
pub(crate) mod line;
pub(crate) mod program;
pub(crate) mod variables;
