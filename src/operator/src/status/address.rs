//! Where an app answers.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use workerapp_api::names;

use super::pods::{self, Pod};
use crate::cache::Key;

/// The app's port on every node.
pub(super) fn node_port(service: &Service) -> Option<i32> {
    app_port(service)?.node_port.filter(|port| *port != 0)
}

/// A URL under which the app answers now: the load balancer's, else a node's, else the one inside the cluster.
pub(super) fn url(app: &Key, service: &Service, pods: &[Pod]) -> Option<String> {
    let port = app_port(service)?.port;
    let type_ = service.spec.as_ref()?.type_.as_deref();
    if type_ == Some("LoadBalancer")
        && let Some(host) = load_balancer(service)
    {
        return Some(http(&host, port));
    }
    match node_port(service) {
        Some(node_port) => pods::host_address(pods).map(|address| http(&bracketed(address), node_port)),
        None => Some(http(&format!("{}.{}.svc", app.name, app.namespace), port)),
    }
}

fn app_port(service: &Service) -> Option<&ServicePort> {
    let mut ports = service.spec.as_ref()?.ports.iter().flatten();
    ports.find(|port| port.name.as_deref() == Some(names::PORT_APP))
}

fn load_balancer(service: &Service) -> Option<String> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?;
    let address = ingress.ip.as_ref().map(|ip| ip.parse().map_or_else(|_| ip.clone(), bracketed));
    address.or_else(|| ingress.hostname.clone())
}

fn http(host: &str, port: i32) -> String {
    if port == 80 { format!("http://{host}") } else { format!("http://{host}:{port}") }
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Pod, url};
    use crate::cache::Key;

    #[test]
    fn the_address_follows_the_kind_of_service() {
        let pods = |addresses: &[&str]| -> Vec<Pod> {
            let pods = addresses.iter().map(|ip| json!({"status": {"phase": "Running", "hostIP": ip}}));
            serde_json::from_value(Value::Array(pods.collect())).unwrap()
        };
        let port = |node_port: Option<i32>| json!([{"name": "metrics", "port": 9090}, {"name": "app", "port": 80, "nodePort": node_port}]);
        for (service, addresses, expected) in [
            (
                json!({"spec": {"type": "NodePort", "ports": port(Some(30000))}}),
                &["10.0.0.12", "10.0.0.3"][..],
                Some("http://10.0.0.3:30000"),
            ),
            (
                json!({"spec": {"type": "NodePort", "ports": port(Some(30000))}}),
                &["fd00::2"][..],
                Some("http://[fd00::2]:30000"),
            ),
            (json!({"spec": {"type": "NodePort", "ports": port(Some(30000))}}), &[][..], None),
            (
                json!({"spec": {"type": "ClusterIP", "ports": port(None)}}),
                &["10.0.0.3"][..],
                Some("http://shop.web.svc"),
            ),
            (
                json!({"spec": {"type": "ClusterIP", "ports": [{"name": "app", "port": 8080}]}}),
                &[][..],
                Some("http://shop.web.svc:8080"),
            ),
            (
                json!({"spec": {"type": "LoadBalancer", "ports": port(Some(30000))}, "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.5"}]}}}),
                &["10.0.0.3"][..],
                Some("http://203.0.113.5"),
            ),
        ] {
            let service = serde_json::from_value(service).unwrap();
            assert_eq!(url(&Key::new("web", "shop"), &service, &pods(addresses)).as_deref(), expected);
        }
    }
}
