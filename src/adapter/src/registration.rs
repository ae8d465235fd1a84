//! The APIServices: by them the API server finds this API, and which CAs it is to trust.
//!
//! They are made here and not by the chart, since an API group may have one server only: where another adapter has
//! `custom.metrics.k8s.io`, it is left alone, in both versions (whichever is preferred would hide the other). They are owned by
//! the installation's ClusterRole, so that Kubernetes deletes them when the chart is uninstalled; and the last replica takes
//! them along when its Deployment goes, as when a whole namespace is deleted: an APIService without a server behind
//! it would keep every namespace of the cluster from being deleted.

use std::{collections::BTreeMap, time::SystemTime};

use k8s_openapi::{
    ByteString,
    api::{apps::v1::Deployment, rbac::v1::ClusterRole},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec, ServiceReference},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, PostParams, Preconditions},
};
use rustls::pki_types::CertificateDer;
use workerapp_api::names;

use crate::{GROUP, Place, VERSIONS, bundle};

/// Below the groups that kubectl prefers for a short name; the same as other adapters of this group.
const GROUP_PRIORITY: i32 = 100;

/// Where the registration stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not written yet.
    Pending,
    /// The APIServices lead here.
    Registered,
    /// Someone else serves the group, which is left alone.
    Foreign(String),
    /// They can't be read or written, for the reason given.
    Failed(String),
}

/// The APIServices of the group, in the order of [`VERSIONS`].
type Found = [Option<APIService>; VERSIONS.len()];

/// Looks after the APIServices.
pub(crate) struct Registrar {
    pub(crate) client: Client,
    pub(crate) place: Place,
}

impl Registrar {
    /// Makes the APIServices lead here and trust the `own` CAs, unless someone else has the group.
    pub(crate) async fn look(&self, own: &[CertificateDer<'static>]) -> State {
        match self.try_look(own).await {
            Ok(state) => state,
            // Another replica wrote at the same time; the next look is soon.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                State::Pending
            }
            Err(error) => {
                State::Failed(format!("the APIServices of {GROUP} can't be read or written: {error}"))
            }
        }
    }

    async fn try_look(&self, own: &[CertificateDer<'static>]) -> kube::Result<State> {
        let found = self.found().await?;
        if let Some(holder) = foreign(&found, &self.place) {
            // Ours in another version would hide theirs, or the other way round.
            self.remove(found).await?;
            return Ok(State::Foreign(holder));
        }
        let owner = self.owner().await?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for (version, found) in VERSIONS.into_iter().zip(found) {
            let current = found.as_ref().and_then(|found| found.spec.as_ref()?.ca_bundle.as_ref());
            let current = current.map_or(&[][..], |bundle| &bundle.0);
            let bundle = bundle::with(current, own, &self.place.pod, now);
            let wanted = wanted(&self.place, version, owner.clone(), bundle.as_deref().unwrap_or(current));
            match found {
                None => drop(self.api().create(&PostParams::default(), &wanted).await?),
                Some(found) if bundle.is_some() || !stands(&found, &wanted) => {
                    // With the version that was read: what another replica added meanwhile must not be lost.
                    let name = wanted.name_any();
                    let wanted = over(found, wanted);
                    self.api().replace(&name, &PostParams::default(), &wanted).await?;
                }
                Some(_) => {}
            }
        }
        Ok(State::Registered)
    }

    /// Removes the APIServices if the Deployment is going, or gone, or has no replicas: nobody will answer.
    pub(crate) async fn leave(&self) {
        match self.is_last().await {
            Ok(false) => {}
            Ok(true) => match self.withdraw().await {
                Ok(()) => {
                    tracing::info!("the APIServices of {GROUP} are removed: nobody is left to serve them");
                }
                Err(error) => tracing::warn!("the APIServices of {GROUP} can't be removed: {error}"),
            },
            Err(error) => tracing::warn!("whether the Deployment stays can't be read: {error}"),
        }
    }

    async fn is_last(&self) -> kube::Result<bool> {
        if self.place.deployment.is_empty() {
            return Ok(false);
        }
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.place.namespace);
        let deployment = deployments.get_opt(&self.place.deployment).await?;
        Ok(deployment.is_none_or(|deployment| {
            deployment.metadata.deletion_timestamp.is_some() || deployment.spec.replicas == Some(0)
        }))
    }

    async fn withdraw(&self) -> kube::Result<()> {
        let found = self.found().await?;
        self.remove(found).await
    }

    async fn found(&self) -> kube::Result<Found> {
        let mut found: Found = Default::default();
        for (version, place) in VERSIONS.into_iter().zip(&mut found) {
            *place = self.api().get_opt(&name(version)).await?;
        }
        Ok(found)
    }

    /// Deletes those that are ours.
    async fn remove(&self, found: Found) -> kube::Result<()> {
        for service in found.into_iter().flatten().filter(|service| is_ours(service, &self.place)) {
            let preconditions = Preconditions { uid: service.uid(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match self.api().delete(&service.name_any(), &params).await {
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
                result => drop(result?),
            }
        }
        Ok(())
    }

    async fn owner(&self) -> kube::Result<Option<OwnerReference>> {
        if self.place.cluster_role.is_empty() {
            return Ok(None);
        }
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let role = roles.get_opt(&self.place.cluster_role).await?;
        Ok(role.filter(|role| role.metadata.deletion_timestamp.is_none()).map(|role| OwnerReference {
            api_version: "rbac.authorization.k8s.io/v1".into(),
            kind: "ClusterRole".into(),
            name: role.name_any(),
            uid: role.uid().unwrap_or_default(),
            ..OwnerReference::default()
        }))
    }

    fn api(&self) -> Api<APIService> {
        Api::all(self.client.clone())
    }
}

fn name(version: &str) -> String {
    format!("{version}.{GROUP}")
}

fn is_ours(service: &APIService, place: &Place) -> bool {
    let service = service.spec.as_ref().and_then(|spec| spec.service.as_ref());
    service.is_some_and(|service| {
        service.namespace.as_deref() == Some(&place.namespace)
            && service.name.as_deref() == Some(&place.service)
    })
}

/// Who else has the group.
fn foreign(found: &Found, place: &Place) -> Option<String> {
    let other = found.iter().flatten().find(|service| !is_ours(service, place))?;
    let service = other.spec.as_ref().and_then(|spec| spec.service.as_ref());
    let holder = match service {
        Some(ServiceReference { namespace, name, .. }) => format!(
            "Service {}/{}",
            namespace.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default()
        ),
        None => "the API server itself".into(),
    };
    Some(format!(
        "APIService {} leads to {holder}, which is left alone: an API group has one server only; delete that APIService if nothing needs it, or switch this metrics API off (metricsApi.enabled=false) and let the other adapter serve the workers' metrics",
        other.name_any()
    ))
}

fn wanted(place: &Place, version: &str, owner: Option<OwnerReference>, bundle: &[u8]) -> APIService {
    let place_of_version = VERSIONS.iter().position(|other| *other == version).unwrap_or_default();
    APIService {
        metadata: ObjectMeta {
            name: Some(name(version)),
            labels: Some(BTreeMap::from([
                (names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into()),
                ("app.kubernetes.io/part-of".into(), "workerapp".into()),
            ])),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(APIServiceSpec {
            group: Some(GROUP.into()),
            version: Some(version.into()),
            group_priority_minimum: GROUP_PRIORITY,
            // The first one is preferred.
            version_priority: if place_of_version == 0 { 200 } else { 100 },
            ca_bundle: Some(ByteString(bundle.into())),
            insecure_skip_tls_verify: None,
            service: Some(ServiceReference {
                namespace: Some(place.namespace.clone()),
                name: Some(place.service.clone()),
                port: Some(place.port.into()),
            }),
        }),
        status: None,
    }
}

/// Whether all but the bundle is as it should be.
fn stands(found: &APIService, wanted: &APIService) -> bool {
    let plain = |service: &APIService| {
        let mut spec = service.spec.clone().unwrap_or_default();
        spec.ca_bundle = None;
        // `false` and unset are the same.
        spec.insecure_skip_tls_verify = spec.insecure_skip_tls_verify.filter(|skip| *skip);
        spec
    };
    let labelled = wanted.labels().iter().all(|(key, value)| found.labels().get(key) == Some(value));
    plain(found) == plain(wanted) && labelled && found.owner_references() == wanted.owner_references()
}

/// `wanted` in the place of what was found, with the labels and annotations of others.
fn over(found: APIService, wanted: APIService) -> APIService {
    let mut metadata = found.metadata;
    metadata.labels.get_or_insert_default().extend(wanted.metadata.labels.unwrap_or_default());
    metadata.owner_references = wanted.metadata.owner_references;
    APIService { metadata, spec: wanted.spec, status: found.status }
}

#[cfg(test)]
mod tests {
    use super::{Found, foreign, over, stands, wanted};
    use crate::Place;

    fn place() -> Place {
        Place {
            namespace: "system".into(),
            service: "metrics".into(),
            port: 443,
            deployment: "metrics".into(),
            cluster_role: "metrics".into(),
            pod: "metrics-1".into(),
        }
    }

    /// `keda_2093`: the second adapter of a group silently takes it from the first.
    #[test]
    fn keda_2093_a_group_that_someone_else_serves_is_seen_in_either_version() {
        let ours = || Some(wanted(&place(), "v1beta2", None, b""));
        let theirs = || {
            let mut service =
                wanted(&Place { namespace: "monitoring".into(), ..place() }, "v1beta1", None, b"");
            service.metadata.labels = None;
            Some(service)
        };
        let nobody: [Found; 3] = [[None, None], [ours(), None], [None, ours()]];
        for found in nobody {
            assert_eq!(foreign(&found, &place()), None);
        }
        for found in [[theirs(), None], [None, theirs()], [ours(), theirs()]] {
            let holder = foreign(&found, &place()).unwrap();
            assert!(holder.contains("leads to Service monitoring/metrics"), "{holder}");
        }
        let mut local = ours().unwrap();
        local.spec.as_mut().unwrap().service = None;
        assert!(foreign(&[Some(local), None], &place()).unwrap().contains("the API server itself"));
    }

    #[test]
    fn what_was_edited_is_put_right_and_others_labels_stay() {
        let wanted = wanted(&place(), "v1beta1", None, b"ca");
        let mut found = wanted.clone();
        found.metadata.resource_version = Some("7".into());
        found.metadata.labels.as_mut().unwrap().insert("team".into(), "platform".into());
        found.spec.as_mut().unwrap().insecure_skip_tls_verify = Some(false);
        assert!(stands(&found, &wanted));
        found.spec.as_mut().unwrap().insecure_skip_tls_verify = Some(true);
        assert!(!stands(&found, &wanted));
        let written = over(found, wanted.clone());
        assert!(stands(&written, &wanted));
        assert_eq!(written.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(written.metadata.labels.unwrap()["team"], "platform");
        assert_eq!(written.spec.unwrap().insecure_skip_tls_verify, None);
    }
}
