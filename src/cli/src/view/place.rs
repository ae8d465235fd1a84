//! Where a Service answers.

use k8s_openapi::api::core::v1::{Node, Pod, Service, ServicePort};
use kube::ResourceExt as _;
use workerapp_api::names;

/// The addresses at which nodes are reached, in order, one for each node that is ready: the internal ones, as `status.url` has them.
pub(crate) fn node_addresses(nodes: &[Node]) -> Vec<String> {
    let mut ready: Vec<_> = nodes.iter().filter(|node| is_ready(node)).collect();
    ready.sort_by_key(|node| node.name_any());
    ready.into_iter().filter_map(address).collect()
}

/// The addresses of the nodes that run these pods, for whoever may not see nodes.
pub(crate) fn host_addresses<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<String> {
    let mut hosts: Vec<_> = pods.into_iter().filter_map(|pod| pod.status.as_ref()?.host_ip.clone()).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// The port that a client means: the named one, else `app`, else the first.
pub(crate) fn port<'a>(service: &'a Service, name: Option<&str>) -> Option<&'a ServicePort> {
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    let named = |name: &str| ports.iter().find(|port| port.name.as_deref() == Some(name));
    match name {
        Some(name) => named(name),
        None => named(names::PORT_APP).or_else(|| ports.first()),
    }
}

/// Every URL at which this port of the Service answers: load balancers, else the node port on each of `hosts`, else the
/// address inside the cluster.
pub(crate) fn urls(service: &Service, port: &ServicePort, hosts: &[String]) -> Vec<String> {
    let type_ = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    let balancers = load_balancers(service);
    if type_ == Some("LoadBalancer") && !balancers.is_empty() {
        return balancers.iter().map(|host| url(host, port.port, is_tls(port))).collect();
    }
    match port.node_port.filter(|number| *number != 0) {
        Some(number) => hosts.iter().map(|host| url(host, number, is_tls(port))).collect(),
        None => vec![cluster_url(service, port)],
    }
}

/// The URL inside the cluster: by address, which needs no name service and is not looked up during a measurement.
pub(crate) fn cluster_url(service: &Service, port: &ServicePort) -> String {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    let address = address.filter(|address| !address.is_empty() && *address != "None").map(str::to_owned);
    let by_name = || format!("{}.{}.svc", service.name_any(), service.namespace().unwrap_or_default());
    url(&address.unwrap_or_else(by_name), port.port, is_tls(port))
}

fn load_balancers(service: &Service) -> Vec<String> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten();
    ingress.filter_map(|one| one.ip.clone().or_else(|| one.hostname.clone())).collect()
}

/// Says the port that it speaks TLS? `appProtocol` is there for that; a name says it where that is missing.
fn is_tls(port: &ServicePort) -> bool {
    let said = port.app_protocol.as_deref().or(port.name.as_deref());
    said.is_some_and(|said| said.eq_ignore_ascii_case("https"))
}

fn url(host: &str, port: i32, tls: bool) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let (scheme, usual) = if tls { ("https", 443) } else { ("http", 80) };
    if port == usual { format!("{scheme}://{host}") } else { format!("{scheme}://{host}:{port}") }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn address(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let of = |type_: &str| addresses.iter().find(|address| address.type_ == type_);
    of("InternalIP").or_else(|| of("ExternalIP")).map(|address| address.address.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: &Value, status: &Value) -> Service {
        serde_json::from_value(
            json!({"metadata": {"name": "shop", "namespace": "web"}, "spec": spec, "status": status}),
        )
        .unwrap()
    }

    fn nodes(list: &[(&str, &str, &str)]) -> Vec<Node> {
        let node = |(name, ip, ready): &(&str, &str, &str)| {
            serde_json::from_value(json!({"metadata": {"name": name}, "status": {
                "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": ip}],
                "conditions": [{"type": "Ready", "status": ready}],
            }}))
            .unwrap()
        };
        list.iter().map(node).collect()
    }

    #[test]
    fn a_node_port_answers_on_all_ready_nodes_and_not_the_first_alone() {
        let hosts = node_addresses(&nodes(&[
            ("b", "10.0.0.2", "True"),
            ("c", "10.0.0.3", "False"),
            ("a", "fd00::1", "True"),
        ]));
        let service = service(
            &json!({"type": "NodePort", "ports": [{"name": "metrics", "port": 9090, "nodePort": 30090}, {"name": "app", "port": 80, "nodePort": 30000}]}),
            &json!(null),
        );
        let found = |name| urls(&service, port(&service, name).unwrap(), &hosts);
        assert_eq!(found(None), ["http://[fd00::1]:30000", "http://10.0.0.2:30000"]);
        assert_eq!(found(Some("metrics")), ["http://[fd00::1]:30090", "http://10.0.0.2:30090"]);
        assert!(port(&service, Some("web")).is_none());
    }

    #[test]
    fn a_load_balancer_answers_at_its_own_address_once_it_has_one() {
        let spec = json!({"type": "LoadBalancer", "ports": [{"name": "web", "port": 80, "nodePort": 30000}]});
        let ready = service(&spec, &json!({"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}));
        let hosts = vec!["10.0.0.2".to_owned()];
        assert_eq!(urls(&ready, port(&ready, None).unwrap(), &hosts), ["http://lb.example.com"]);
        let pending = service(&spec, &json!({"loadBalancer": {}}));
        assert_eq!(urls(&pending, port(&pending, None).unwrap(), &hosts), ["http://10.0.0.2:30000"]);
    }

    #[test]
    fn a_port_that_says_so_speaks_tls() {
        for (port_spec, url) in [
            (json!({"name": "web", "port": 443, "appProtocol": "https"}), "https://10.1.2.3"),
            (json!({"name": "https", "port": 8443}), "https://10.1.2.3:8443"),
            (json!({"name": "https", "port": 8443, "appProtocol": "http"}), "http://10.1.2.3:8443"),
        ] {
            let service = service(
                &json!({"type": "ClusterIP", "clusterIP": "10.1.2.3", "ports": [port_spec]}),
                &json!(null),
            );
            assert_eq!(cluster_url(&service, port(&service, None).unwrap()), url);
        }
    }

    #[test]
    fn a_cluster_ip_answers_inside_the_cluster() {
        let service =
            service(&json!({"type": "ClusterIP", "ports": [{"name": "app", "port": 8080}]}), &json!(null));
        assert_eq!(urls(&service, port(&service, None).unwrap(), &[]), ["http://shop.web.svc:8080"]);
    }
}
