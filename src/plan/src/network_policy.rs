//! The NetworkPolicy: who may reach the pods.
//!
//! The kubelet's probes get through whatever stands here: Kubernetes never refuses traffic between a pod and the node on which it runs.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use workerapp_api::WorkerApp;

use crate::{Facts, digest, metadata, runtime::Profile, supervisor::admin_port};

/// The label that every namespace has, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

pub(crate) fn build(app: &WorkerApp, profile: &Profile, facts: &Facts) -> Option<NetworkPolicy> {
    let asked = app.spec.network_policy.as_ref()?;
    let app_ports = [app.spec.port].into_iter().chain(app.spec.ports.iter().map(|extra| extra.port));
    let mut ingress = vec![NetworkPolicyIngressRule {
        // None means everybody.
        from: Some(asked.from.clone()).filter(|peers| !peers.is_empty()),
        ports: Some(app_ports.map(port).collect()),
    }];
    // The operator asks a pod's supervisor what it waits for.
    let operator = facts.operator_namespace.as_deref().map(namespace);
    let admin_peers: Vec<_> = operator.into_iter().chain(asked.admin_from.iter().cloned()).collect();
    if !admin_peers.is_empty() {
        let admin_ports = [admin_port(app)].into_iter().chain(profile.metrics_port);
        ingress.push(NetworkPolicyIngressRule {
            from: Some(admin_peers),
            ports: Some(admin_ports.map(port).collect()),
        });
    }
    Some(digest::stamp(NetworkPolicy {
        metadata: metadata::child(app, |children| children.network_policy.as_ref()),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(labels(metadata::managed_selector(app))),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(ingress),
            egress: None,
        }),
    }))
}

/// By number: not every network plugin knows the ports' names.
fn port(number: i32) -> NetworkPolicyPort {
    NetworkPolicyPort { port: Some(IntOrString::Int(number)), protocol: Some("TCP".into()), end_port: None }
}

fn namespace(name: &str) -> NetworkPolicyPeer {
    let named = BTreeMap::from([(NAMESPACE_NAME.to_owned(), name.to_owned())]);
    NetworkPolicyPeer { namespace_selector: Some(labels(named)), ..NetworkPolicyPeer::default() }
}

fn labels(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}
