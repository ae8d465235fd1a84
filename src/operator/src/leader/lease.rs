//! Reads and writes the lease. Each write names the version that it is based on, so of two that want it at the same moment
//! one is refused.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, api::PostParams};

use super::{Candidate, clock::Moment, decide::View};

/// How long the API server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The lease of one operator, and what it knows of it.
pub(super) struct Record {
    api: Api<Lease>,
    name: String,
    identity: String,
    duration: Duration,
    known: Option<Lease>,
    view: View,
}

/// What a write came to.
pub(super) enum Written {
    /// The lease is this operator's, counted from this moment.
    Held(Moment),
    /// Another one was faster.
    Lost,
}

impl Record {
    pub(super) fn new(candidate: &Candidate) -> Self {
        let settings = &candidate.settings;
        Self {
            api: Api::namespaced(candidate.client.clone(), &settings.namespace),
            name: settings.name.clone(),
            identity: settings.identity.clone(),
            duration: settings.duration,
            known: None,
            view: View::Free,
        }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Reads the lease, unless it is this operator's: then nobody else writes it, and if somebody does the next renewal is refused.
    pub(super) async fn look(&mut self) -> kube::Result<()> {
        if matches!(self.view, View::Mine { renewed: Some(_) }) {
            return Ok(());
        }
        let found = bounded(self.api.get_opt(&self.name)).await?;
        let same = self.known.as_ref().map(version) == found.as_ref().map(version);
        if !(same && matches!(self.view, View::Theirs { .. })) {
            self.view = self.view_of(found.as_ref());
        }
        self.known = found;
        Ok(())
    }

    fn view_of(&self, lease: Option<&Lease>) -> View {
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        if holder.is_empty() {
            return View::Free;
        }
        if holder == self.identity {
            return View::Mine { renewed: None };
        }
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
        View::Theirs {
            holder: holder.into(),
            seen: Moment::now(),
            duration: seconds.map_or(self.duration, Duration::from_secs),
        }
    }

    /// Writes this operator into the lease.
    pub(super) async fn hold(&mut self) -> kube::Result<Written> {
        let mut spec = self.known.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let now = MicroTime(Timestamp::now());
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions =
                Some(spec.lease_transitions.map_or(0, |transitions| transitions.saturating_add(1)));
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = i32::try_from(self.duration.as_secs()).ok();
        spec.renew_time = Some(now);
        let sent = Moment::now();
        match self.write(spec).await {
            Ok(lease) => {
                self.known = Some(lease);
                self.view = View::Mine { renewed: Some(sent) };
                Ok(Written::Held(sent))
            }
            Err(error) => {
                // What has become of it is to be read: it may be anybody's, this operator's too.
                self.view = View::Free;
                self.known = None;
                match error {
                    kube::Error::Api(status) if status.code == 409 => Ok(Written::Lost),
                    error => Err(error),
                }
            }
        }
    }

    /// Gives the lease up, so that another operator takes it at once.
    pub(super) async fn release(&mut self) -> kube::Result<()> {
        if !matches!(self.view, View::Mine { .. }) {
            return Ok(());
        }
        let known = self.known.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..known
        };
        self.view = View::Free;
        self.write(spec).await.map(drop)
    }

    async fn write(&self, spec: LeaseSpec) -> kube::Result<Lease> {
        let mut lease = self.known.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: None,
        });
        lease.spec = Some(spec);
        lease.metadata.managed_fields = None;
        let params = PostParams::default();
        if self.known.is_some() {
            bounded(self.api.replace(&self.name, &params, &lease)).await
        } else {
            bounded(self.api.create(&params, &lease)).await
        }
    }
}

fn version(lease: &Lease) -> Option<&str> {
    lease.metadata.resource_version.as_deref()
}

async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    tokio::time::timeout(TIMEOUT, request).await.unwrap_or_else(|_| {
        let message = format!("no answer for {} s", TIMEOUT.as_secs());
        Err(kube::Error::Service(message.into()))
    })
}
