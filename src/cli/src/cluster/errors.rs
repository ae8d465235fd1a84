//! What the API server or the way to it says, in this program's words.

use std::error::Error as _;

use kube::core::Status;

use super::Cluster;
use crate::error::Error;

impl Cluster {
    /// `what` is what was tried: `WorkerApp shop`.
    pub(super) fn failed(&self, what: &str, error: kube::Error) -> Error {
        let what = what.to_owned();
        match error {
            kube::Error::Api(status) if no_such_kind(&status) => Error::NoDefinition,
            kube::Error::Api(status) if status.code == 403 => Error::Forbidden { what, why: status.message },
            kube::Error::Api(status) => Error::Api { what, why: words(*status) },
            kube::Error::Service(_) | kube::Error::HyperError(_) => {
                let (server, origin) = (self.server.clone(), self.origin.clone());
                Error::Unreachable { server, origin, why: innermost(&error) }
            }
            error => Error::Api { what, why: innermost(&error) },
        }
    }
}

/// The API server has no such kind: the only 404 without a name.
fn no_such_kind(status: &Status) -> bool {
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty())
}

fn words(status: Status) -> String {
    if status.message.is_empty() { format!("HTTP status {}", status.code) } else { status.message }
}

/// The cause at the bottom: the ones above it say the same with fewer facts.
fn innermost(error: &kube::Error) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}
