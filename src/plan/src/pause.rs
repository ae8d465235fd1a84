//! Whether the operator is to leave an app's children alone.

use kube::ResourceExt as _;
use workerapp_api::{WorkerApp, names};

/// What pauses an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// `spec.paused: true`.
    Field,
    /// The annotation `workerapp.dev/paused: "true"`.
    Annotation,
}

impl Pause {
    /// What pauses `app`, if anything does.
    pub fn of(app: &WorkerApp) -> Option<Self> {
        let annotated = app.annotations().get(names::ANNOTATION_PAUSED).is_some_and(|value| value == "true");
        match app.spec.paused {
            Some(true) => Some(Self::Field),
            _ => annotated.then_some(Self::Annotation),
        }
    }

    /// What it is, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Field => "spec.paused",
            Self::Annotation => "the annotation workerapp.dev/paused",
        }
    }
}
