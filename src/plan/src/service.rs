//! The Service: the app's port first, then its further ports, then metrics.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec as KubeServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use workerapp_api::{MetricsPort, ServiceType, WorkerApp, names};

use crate::{digest, metadata, runtime::Profile};

/// The metrics port of the Service unless the spec says otherwise: what Prometheus uses itself.
pub(crate) const DEFAULT_METRICS_PORT: i32 = 9090;

pub(crate) fn build(app: &WorkerApp, profile: &Profile) -> Service {
    let service = app.spec.service.clone().unwrap_or_default();
    let mut metadata = metadata::child(app, |children| children.service.as_ref());
    if service.expose.unwrap_or(true) {
        let annotations = metadata.annotations.get_or_insert_with(BTreeMap::new);
        annotations.entry(names::ANNOTATION_EXPOSE.into()).or_insert_with(|| "true".into());
    }
    let type_ = match service.type_.unwrap_or_default() {
        ServiceType::NodePort => "NodePort",
        ServiceType::ClusterIP => "ClusterIP",
        ServiceType::LoadBalancer => "LoadBalancer",
    };
    digest::stamp(Service {
        metadata,
        spec: Some(KubeServiceSpec {
            type_: Some(type_.into()),
            selector: Some(metadata::managed_selector(app)),
            ports: Some(ports(app, profile)),
            external_traffic_policy: service.external_traffic_policy,
            session_affinity: service.session_affinity,
            ..KubeServiceSpec::default()
        }),
        status: None,
    })
}

/// The ports in the order in which they stand in the Service: benchmark tools take the first.
pub(crate) fn ports(app: &WorkerApp, profile: &Profile) -> Vec<ServicePort> {
    let service = app.spec.service.clone().unwrap_or_default();
    let mut ports = vec![port(
        names::PORT_APP,
        service.port.unwrap_or(i32::from(names::DEFAULT_SERVICE_PORT)),
        names::PORT_APP,
        service.node_port,
    )];
    ports.extend(
        app.spec.ports.iter().map(|extra| port(&extra.name, extra.port, &extra.name, extra.node_port)),
    );

    let metrics = service.metrics.or_else(|| profile.metrics_port.map(|_| MetricsPort::default()));
    if let Some(metrics) = metrics {
        let target = if profile.metrics_port.is_some() { names::PORT_METRICS } else { names::PORT_ADMIN };
        ports.push(port(
            names::PORT_METRICS,
            metrics.port.unwrap_or(DEFAULT_METRICS_PORT),
            target,
            metrics.node_port,
        ));
    }
    ports
}

fn port(name: &str, port: i32, target: &str, node_port: Option<i32>) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port,
        target_port: Some(IntOrString::String(target.into())),
        protocol: Some("TCP".into()),
        node_port,
        ..ServicePort::default()
    }
}
