//! Helpers of the tests against real clusters.
//!
//! Nothing here imitates Kubernetes: a test talks to the cluster of `WORKERAPP_TEST_KUBECONFIG`, which
//! `e2e/testbed/testbed exec` sets, and fails where there is none. What no node is there for (pods that get ready) is done by
//! real writes to the API.
//!
//! - [`cli`]: the command line
//! - [`cluster`]: the cluster and the WorkerApp definition in it
//! - [`faults`]: things that go wrong between the operator and the API server
//! - [`fixture`]: a namespace of a test's own, and what is done in it
//! - [`metrics_api`]: the metrics API, inside the test's process
//! - [`nodes`]: the same on real nodes, where pods run
//! - [`operator`]: the operator, inside the test's process
//! - [`oracle`]: what has to hold at the end of a test, whatever went wrong in it
//! - [`procfs`]: what the kernel counts of a process, for benchmarks
//! - [`program`]: the operator as a program of its own
//! - [`recorder`]: every request that changes something, as the client sends it
//! - [`rights`]: rights as the chart gives them
//! - [`scrape`]: the text of metrics
//! - [`wait`]: tries that are repeated until they succeed

pub mod cli;
pub mod cluster;
pub mod faults;
pub mod fixture;
pub mod keda;
pub mod metrics_api;
pub mod nodes;
pub mod operator;
pub mod oracle;
pub mod procfs;
pub mod program;
pub mod recorder;
pub mod rights;
pub mod scrape;
pub mod wait;

pub use faults::Faults;
pub use fixture::{Fixture, Pod, app};
pub use operator::Operator;
pub use program::Program;
pub use recorder::Recorder;
