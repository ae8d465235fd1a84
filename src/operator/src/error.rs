//! What can go wrong with an app: one variant per cause.
//!
//! A variant's name is the condition's reason, the event's reason and the metric's label, all through [`Error::reason`].
//! Each text names the object or field, the value and the remedy.

use std::time::Duration;

use thiserror::Error as ThisError;
use workerapp_api::condition::Reason;
use workerapp_plan::Invalid;

use crate::kind::Kind;

/// A field of the stored object that doesn't fit its type.
#[derive(Clone, Debug, ThisError)]
#[error(
    "{field} can't be read: {message}; correct it, and see that the installed WorkerApp definition is this operator's (`workerapp-operator crd`)"
)]
pub struct Unreadable {
    /// Where.
    pub field: String,
    /// What is wrong there.
    pub message: String,
}

/// One thing that is wrong.
#[derive(Debug, ThisError)]
pub enum Error {
    /// The stored object doesn't fit the type, which a definition of another version allows.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The spec can't be carried out.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is an object of the child's name that isn't the app's.
    #[error(
        "{kind} {name} exists and belongs to {owner}: it is left alone; delete or rename it, or give the app another name"
    )]
    NameClash {
        /// The child's kind.
        kind: Kind,
        /// The child's name.
        name: String,
        /// Who controls it.
        owner: String,
    },
    /// The child is on its way out.
    #[error(
        "{kind} {name} is being deleted; what the spec asks for instead waits until it is gone (if it stays, see its metadata.finalizers)"
    )]
    ChildTerminating {
        /// The child's kind.
        kind: Kind,
        /// The child's name.
        name: String,
    },
    /// A pinned node port is in use.
    #[error(
        "node port {port} is taken by {holder}: choose another one, leave nodePort out to have one picked, or free it, after which it is taken up within seconds"
    )]
    NodePortTaken {
        /// The port.
        port: i32,
        /// The Service and its port that have it.
        holder: String,
    },
    /// Apps ask for each other's node ports.
    #[error(
        "node port {port} can't be had: {circle}, and none of them can go first; give one of these apps another free node port, and the one that it is to have once the others have theirs"
    )]
    NodePortsSwapped {
        /// The port that this app asks for.
        port: i32,
        /// Who has it and waits for which one, up to the one that waits for this app's.
        circle: String,
    },
    /// A pinned node port lies outside the range.
    #[error(
        "node port {port} is outside the API server's range {range}: choose one inside, or leave nodePort out to have one picked"
    )]
    NodePortOutOfRange {
        /// The port.
        port: i32,
        /// The range in the server's words.
        range: String,
    },
    /// No node port is left to pick.
    #[error(
        "every node port of {range} is taken: delete Services of type NodePort, set spec.service.type to ClusterIP, or widen the API server's --service-node-port-range"
    )]
    NodePortsExhausted {
        /// The API server's range in its own words.
        range: String,
    },
    /// The API server refused a child.
    #[error("{kind} {name} was refused: {message}")]
    Rejected {
        /// The child's kind.
        kind: Kind,
        /// The child's name.
        name: String,
        /// The server's words.
        message: String,
    },
    /// A quota refused a child.
    #[error("{kind} {name} was refused by a ResourceQuota: {message}")]
    QuotaExceeded {
        /// The child's kind.
        kind: Kind,
        /// The child's name.
        name: String,
        /// The server's words.
        message: String,
    },
    /// The operator may not do what it has to.
    #[error(
        "the operator may not write {kind} {name}: {message}; give its ServiceAccount that permission (the Helm chart does)"
    )]
    Forbidden {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
        /// The server's words.
        message: String,
    },
    /// The namespace is on its way out.
    #[error("namespace {namespace} is being deleted: nothing new can be made in it")]
    NamespaceTerminating {
        /// The namespace.
        namespace: String,
    },
    /// Two writes met.
    #[error("{kind} {name} was changed by someone else at the same moment; it is tried again")]
    Conflict {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
    },
    /// No answer, or not now.
    #[error("the API server did not carry out a request for {kind} {name}: {message}; it is tried again")]
    ApiUnavailable {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
        /// What was seen.
        message: String,
        /// How long the API server asked to be left alone.
        retry_after: Option<Duration>,
    },
}

impl Error {
    /// The variant's name, as a reason.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Unreadable(_) => Reason::Unreadable,
            Self::Invalid(_) => Reason::Invalid,
            Self::NameClash { .. } => Reason::NameClash,
            Self::ChildTerminating { .. } => Reason::ChildTerminating,
            Self::NodePortTaken { .. } => Reason::NodePortTaken,
            Self::NodePortsSwapped { .. } => Reason::NodePortsSwapped,
            Self::NodePortOutOfRange { .. } => Reason::NodePortOutOfRange,
            Self::NodePortsExhausted { .. } => Reason::NodePortsExhausted,
            Self::Rejected { .. } => Reason::Rejected,
            Self::QuotaExceeded { .. } => Reason::QuotaExceeded,
            Self::Forbidden { .. } => Reason::Forbidden,
            Self::NamespaceTerminating { .. } => Reason::NamespaceTerminating,
            Self::Conflict { .. } => Reason::Conflict,
            Self::ApiUnavailable { .. } => Reason::ApiUnavailable,
        }
    }

    /// Whether it stays until somebody changes something.
    pub fn needs_help(&self) -> bool {
        !matches!(
            self,
            Self::ChildTerminating { .. }
                | Self::NamespaceTerminating { .. }
                | Self::Conflict { .. }
                | Self::ApiUnavailable { .. }
        )
    }

    /// The longest wait until it is tried again, for causes that go away without an event that would wake the app.
    pub fn longest_wait(&self) -> Option<Duration> {
        match self {
            Self::NodePortTaken { .. }
            | Self::NodePortsSwapped { .. }
            | Self::NodePortsExhausted { .. }
            | Self::NameClash { .. } => Some(Duration::from_secs(10)),
            // All apps are affected at once, and all of them are to be right soon after the API server is back.
            Self::ApiUnavailable { .. } => Some(Duration::from_secs(15)),
            _ => None,
        }
    }

    /// The shortest wait until it is tried again.
    pub fn shortest_wait(&self) -> Option<Duration> {
        match self {
            Self::ApiUnavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// What the API server answered when `kind` `name` was written, or what kept it from answering.
    pub fn from_write(kind: Kind, namespace: &str, name: &str, error: kube::Error) -> Self {
        let name = name.to_owned();
        let status = match error {
            kube::Error::Api(status) => status,
            other => {
                return Self::ApiUnavailable { kind, name, message: chain(&other), retry_after: None };
            }
        };
        let message = status.message.clone();
        let cause = |wanted: &str| {
            let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
            causes.iter().any(|cause| cause.reason == wanted)
        };
        let about_namespace = status.details.as_ref().is_some_and(|details| details.kind == "namespaces");

        match status.code {
            404 if about_namespace => Self::NamespaceTerminating { namespace: namespace.into() },
            403 if cause("NamespaceTerminating") => {
                Self::NamespaceTerminating { namespace: namespace.into() }
            }
            403 if message.contains("exceeded quota") => Self::QuotaExceeded { kind, name, message },
            403 if message.contains("User ") && message.contains("cannot ") => {
                Self::Forbidden { kind, name, message }
            }
            409 | 404 => Self::Conflict { kind, name },
            400 | 403 | 422 => Self::Rejected { kind, name, message: server_words(&status) },
            // The server's own way of refusing a list with the same key twice, or a value of the wrong form.
            500 if message.contains("failed to create typed patch object")
                || message.contains("unable to convert unstructured") =>
            {
                Self::Rejected { kind, name, message }
            }
            code => {
                let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                Self::ApiUnavailable { kind, name, message: format!("{message} ({code})"), retry_after }
            }
        }
    }
}

/// The fields and messages of a refusal, without the head that repeats the object's name.
fn server_words(status: &kube::core::Status) -> String {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let words: Vec<_> = causes
        .iter()
        .map(|cause| {
            if cause.field.is_empty() {
                cause.message.clone()
            } else {
                format!("{}: {}", cause.field, cause.message)
            }
        })
        .collect();
    if words.is_empty() { status.message.clone() } else { words.join("; ") }
}

/// An error with its causes, each of them once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
