//! Whether a user may see a metric: the API server decides, asked by SubjectAccessReview.
//!
//! It has decided so already before it passed a request on, by the same rules; this asks again, since whoever holds the front
//! proxy's certificate can come without it. Answers are kept as long as the API server itself keeps those of its own authoriser.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use crate::{GROUP, answer::Question, front_proxy::User, metrics::Metrics};

/// How long a yes counts, and a no: the defaults of kube-apiserver's own `--authorization-webhook-cache-*-ttl`.
const ALLOWED: Duration = Duration::from_mins(5);
const DENIED: Duration = Duration::from_secs(30);
/// How many answers are kept.
const MOST: usize = 4096;
/// How long the API server may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// May do everything, and isn't asked about: the API server itself, when it looks whether this API is there, is in it.
const MASTERS: &str = "system:masters";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Metrics.
    Metric {
        /// The API's version.
        version: String,
        /// The namespace.
        namespace: String,
        /// `pods` or `workerapps.workerapp.dev`.
        resource: String,
        /// A name, or `*`.
        name: String,
        /// The metric.
        metric: String,
    },
    /// A document.
    Path(String),
}

impl Access {
    /// What a question asks for.
    pub fn of(question: &Question) -> Self {
        Self::Metric {
            version: question.version.clone(),
            namespace: question.namespace.clone(),
            resource: question.resource.clone(),
            name: question.name.clone(),
            metric: question.metric.clone(),
        }
    }
}

/// Asks, and remembers the answers.
pub struct Authorizer {
    client: Client,
    metrics: std::sync::Arc<Metrics>,
    known: Mutex<HashMap<(User, Access), (bool, Instant)>>,
}

impl Authorizer {
    /// One that knows nothing yet.
    pub fn new(client: Client, metrics: std::sync::Arc<Metrics>) -> Self {
        Self { client, metrics, known: Mutex::default() }
    }

    /// Whether `user` may.
    ///
    /// # Errors
    /// If the API server doesn't say.
    pub async fn may(&self, user: &User, access: &Access) -> kube::Result<bool> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(true);
        }
        let key = (user.clone(), access.clone());
        let now = Instant::now();
        if let Some((allowed, _)) = self.known().get(&key).filter(|(_, until)| now < *until) {
            return Ok(*allowed);
        }
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = review(user, access);
        let params = PostParams::default();
        let answer = tokio::time::timeout(TIMEOUT, reviews.create(&params, &review)).await;
        let answer = answer.unwrap_or_else(|_| Err(kube::Error::Service("no answer in time".into())));
        self.metrics.review(answer.is_ok());
        let allowed = answer?.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        let until = now + if allowed { ALLOWED } else { DENIED };
        let mut known = self.known();
        if known.len() >= MOST {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, (allowed, until));
        Ok(allowed)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<(User, Access), (bool, Instant)>> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// With the attributes that the API server itself derives from such a path, so that one rule counts for both.
fn review(user: &User, access: &Access) -> SubjectAccessReview {
    let mut spec = SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: user.uid.clone(),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        ..SubjectAccessReviewSpec::default()
    };
    match access {
        Access::Metric { version, namespace, resource, name, metric } => {
            spec.resource_attributes = Some(ResourceAttributes {
                group: Some(GROUP.into()),
                version: Some(version.clone()),
                namespace: Some(namespace.clone()),
                resource: Some(resource.clone()),
                subresource: Some(metric.clone()),
                name: Some(name.clone()),
                verb: Some("get".into()),
                ..ResourceAttributes::default()
            });
        }
        Access::Path(path) => {
            spec.non_resource_attributes =
                Some(NonResourceAttributes { path: Some(path.clone()), verb: Some("get".into()) });
        }
    }
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}
