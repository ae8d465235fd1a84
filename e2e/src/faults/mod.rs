//! Things that go wrong between the operator and the API server, and what has to come of it: the same as if nothing had.
//!
//! A layer under the operator's client crashes it between two writes, shows it the past, loses, delays and cuts off its watches, and
//! gives it wrong answers. The API server, its controllers and everything else are real. Each case tells a story (`scenario`) with one
//! fault (`table`) in a namespace of its own, and compares the end with that of the same story undisturbed (`case`).
//!
//! - [`request`]: what a request is about
//! - [`layer`]: lets requests pass, or not
//! - `following`: the same for the events of watches
//! - [`gate`]: holds a request up for as long as a test says
//! - [`fault`]: what can go wrong; a new one is a `Fault` here and a row in
//! - [`table`]: the rows of the matrix
//! - [`answer`]: what the API server may answer instead
//! - [`scenario`]: the stories, one row each
//! - [`case`](mod@case): one case, and what has to hold in it
//! - [`specs`]: specs for campaigns, from a seed
//! - [`campaign`]: several of them one after the other
//! - [`runner`]: many cases at the same time

pub mod answer;
pub mod campaign;
pub mod case;
pub mod fault;
mod following;
pub mod gate;
pub mod layer;
pub mod request;
pub mod runner;
pub mod scenario;
pub mod specs;
pub mod table;

pub use layer::Faults;
