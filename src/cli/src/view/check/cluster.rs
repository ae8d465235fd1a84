//! Checks of the cluster and the operator.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use super::{Evidence, Finding, some, unread, unread_of_cluster};
use crate::output::counted;

/// The oldest Kubernetes that the operator supports.
const OLDEST: (u32, u32) = (1, 30);
/// The first kernel with what the supervisor shares ports by.
const OLDEST_KERNEL: (u32, u32) = (5, 9);

pub(super) fn api_server(evidence: &Evidence) -> Finding {
    let (major, minor) = match &evidence.version {
        Ok(version) => version,
        Err(why) => {
            let remedy =
                "check the context (--context) and that the cluster runs: kubectl cluster-info".into();
            return Finding::Failure { seen: why.clone(), remedy };
        }
    };
    let seen = format!("Kubernetes {major}.{minor}");
    match (number(major), number(minor)) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => Finding::Failure {
            seen,
            remedy: format!("upgrade the cluster to {}.{} or newer", OLDEST.0, OLDEST.1),
        },
        _ => Finding::Well(seen),
    }
}

pub(super) fn permissions(evidence: &Evidence) -> Finding {
    match &evidence.denied {
        Err(why) => unread(why),
        Ok(denied) if denied.is_empty() => Finding::Well("apps, pods, logs and supervisors".into()),
        Ok(denied) => Finding::Warning {
            seen: format!("denied: {}", denied.join(", ")),
            remedy: "ask for a role with these; without pods/proxy nothing is seen of single workers".into(),
        },
    }
}

pub(super) fn definition(evidence: &Evidence) -> Finding {
    match &evidence.definition {
        Err(why) => unread_of_cluster(why),
        Ok(Some(definition)) => Finding::Well(definition.name_any()),
        Ok(None) => Finding::Failure {
            seen: "there is no workerapps.workerapp.dev".into(),
            remedy:
                "install the operator: helm upgrade --install workerapp-operator charts/workerapp-operator"
                    .into(),
        },
    }
}

pub(super) fn definition_current(evidence: &Evidence) -> Finding {
    let Ok(Some(live)) = &evidence.definition else {
        return Finding::Skipped("it isn't seen".into());
    };
    let schema = |definition: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition| {
        let version = definition.spec.versions.first()?;
        serde_json::to_value(version.schema.as_ref()?.open_api_v3_schema.as_ref()?).ok()
    };
    let (live, own) =
        (schema(live).unwrap_or_default(), schema(&workerapp_api::crd::manifest()).unwrap_or_default());
    // The API server fills in and drops nothing in a schema that was sent by apply.
    let fields = |schema: &serde_json::Value| -> Vec<String> {
        let properties = schema.pointer("/properties/spec/properties").and_then(serde_json::Value::as_object);
        properties.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let (here, there) = (fields(&own), fields(&live));
    let lacking: Vec<_> = here.iter().filter(|name| !there.contains(name)).cloned().collect();
    let newer: Vec<_> = there.iter().filter(|name| !here.contains(name)).cloned().collect();
    match (lacking.as_slice(), newer.as_slice()) {
        ([], []) => Finding::Well(format!("the fields of version {}", env!("CARGO_PKG_VERSION"))),
        ([], newer) => Finding::Warning {
            seen: format!("the cluster knows fields that this program doesn't: {}", newer.join(", ")),
            remedy: "use the kubectl-workerapp of the operator's version".into(),
        },
        (lacking, _) => Finding::Failure {
            seen: format!("the cluster doesn't know spec fields of this version: {}", lacking.join(", ")),
            remedy: "upgrade the operator's release (helm upgrade); where Helm doesn't hold the definition: kubectl apply --server-side -f crds/".into(),
        },
    }
}

pub(super) fn operator(evidence: &Evidence) -> Finding {
    let operators = match &evidence.operators {
        Err(why) => return unread_of_cluster(why),
        Ok(operators) => operators,
    };
    let place = |deployment: &k8s_openapi::api::apps::v1::Deployment| {
        format!("{}/{}", deployment.namespace().unwrap_or_default(), deployment.name_any())
    };
    let available = |deployment: &&k8s_openapi::api::apps::v1::Deployment| {
        deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default() > 0
    };
    let running: Vec<_> = operators.iter().filter(available).map(place).collect();
    match (operators.first(), running.as_slice()) {
        (None, _) => Finding::Failure {
            seen: "there is no Deployment of an operator".into(),
            remedy: "install it: helm upgrade --install workerapp-operator charts/workerapp-operator; one that runs elsewhere isn't seen here".into(),
        },
        (Some(first), []) => Finding::Failure {
            seen: format!("{} has no available pod", place(first)),
            remedy: format!("kubectl -n {} describe deployment,pods -l app.kubernetes.io/name=workerapp-operator", first.namespace().unwrap_or_default()),
        },
        (_, [one]) => Finding::Well(one.clone()),
        (_, several) => Finding::Warning {
            seen: format!("{} run: {}", several.len(), several.join(", ")),
            remedy: "let each look after namespaces of its own (the chart's value `namespaces`), or remove all but one".into(),
        },
    }
}

pub(super) fn metrics_api(evidence: &Evidence) -> Finding {
    let scales = evidence
        .looks
        .as_ref()
        .is_ok_and(|looks| looks.iter().any(|look| look.app.spec.autoscaling.is_some()));
    match &evidence.metrics {
        Err(why) => unread(why),
        Ok(true) => Finding::Well("metrics.k8s.io".into()),
        Ok(false) if scales => Finding::Failure {
            seen: "metrics.k8s.io isn't offered, and apps have spec.autoscaling".into(),
            remedy: "install metrics-server".into(),
        },
        Ok(false) => Finding::Skipped("metrics.k8s.io isn't offered; no app needs it".into()),
    }
}

pub(super) fn nodes(evidence: &Evidence) -> Finding {
    let nodes =
        evidence.looks.as_ref().ok().and_then(|looks| looks.iter().find_map(|look| look.nodes.clone()));
    let Some(nodes) = nodes else { return Finding::Skipped("no nodes are seen".into()) };
    let old: Vec<_> = nodes.iter().filter_map(too_old).collect();
    if old.is_empty() {
        return Finding::Well(counted(nodes.len(), "node"));
    }
    Finding::Warning {
        seen: some(&old),
        remedy: format!(
            "upgrade to Linux {}.{} or newer: of workers of one process each only one runs there, or all with Node 22.12, 23.1 or newer",
            OLDEST_KERNEL.0, OLDEST_KERNEL.1
        ),
    }
}

fn too_old(node: &Node) -> Option<String> {
    let kernel = &node.status.as_ref()?.node_info.as_ref()?.kernel_version;
    let mut parts = kernel.split(['.', '-', '+']);
    let version = (number(parts.next()?)?, number(parts.next()?)?);
    (version < OLDEST_KERNEL).then(|| format!("node {} has kernel {kernel}", node.name_any()))
}

/// The digits at the start: some clusters write `30+`.
fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}
