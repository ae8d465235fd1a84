//! What is measured: URLs, or the Services that carry the annotation.

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use workerapp_api::names;

use super::Arguments;
use crate::{
    cluster::{Cluster, Place},
    error::Error,
    view::place,
};

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// All addresses at which it answers.
    pub(crate) urls: Vec<String>,
    /// Where its pods are found.
    pub(crate) service: Option<Service>,
}

impl Target {
    /// A server of which nothing is known but where it answers.
    pub(crate) fn of_urls(name: &str, urls: Vec<String>) -> Self {
        Self { name: name.to_owned(), urls, service: None }
    }

    /// Its name and where it answers; a URL without a name is told once.
    pub(crate) fn told(&self) -> String {
        if self.urls == [self.name.as_str()] {
            self.name.clone()
        } else {
            format!("{}: {}", self.name, self.urls.join(" "))
        }
    }
}

/// All servers, and the cluster that they are in.
pub(crate) struct Found {
    pub(crate) targets: Vec<Target>,
    pub(crate) cluster: Option<Cluster>,
    /// For the report.
    pub(crate) versions: Vec<(String, String)>,
}

/// Finds them.
pub(crate) async fn find(arguments: &Arguments, place: &Place) -> Result<Found, Error> {
    if !arguments.targets.is_empty() {
        let targets = arguments.targets.iter().map(|text| named(text)).collect();
        return Ok(Found { targets, cluster: None, versions: Vec::new() });
    }
    let cluster = place.connect().await?;
    let services = cluster.services().await?;
    let hosts = cluster.nodes().await?.map(|nodes| place::node_addresses(&nodes)).unwrap_or_default();
    let targets = select(&services, arguments, &hosts, &cluster.scope.words())?;
    let version = cluster.version().await?;
    let versions = vec![("Kubernetes".to_owned(), version.git_version)];
    Ok(Found { targets, cluster: Some(cluster), versions })
}

/// `NAME=URL`, or a URL, which is its own name.
fn named(text: &str) -> Target {
    // A query may have `=` too: a name has no slash.
    match text.split_once('=').filter(|(name, _)| !name.is_empty() && !name.contains(['/', ':'])) {
        Some((name, url)) => Target::of_urls(name, vec![url.to_owned()]),
        None => Target::of_urls(text, vec![text.to_owned()]),
    }
}

fn select(
    services: &[Service],
    arguments: &Arguments,
    hosts: &[String],
    scope: &str,
) -> Result<Vec<Target>, Error> {
    let exposed = |service: &&Service| {
        service.annotations().get(names::ANNOTATION_EXPOSE).is_some_and(|value| value == "true")
    };
    let mut exposed: Vec<_> = services.iter().filter(exposed).collect();
    exposed.sort_by_key(|service| (service.namespace(), service.name_any()));
    let known = exposed.iter().map(|service| service.name_any()).collect::<Vec<_>>().join(", ");
    for wanted in &arguments.service {
        if !exposed.iter().any(|service| service.name_any() == *wanted) {
            let here = services.iter().any(|service| service.name_any() == *wanted);
            let why = if here { "it lacks the annotation" } else { "there is none" };
            let allowed = format!("{why} in {scope}; annotated are: {known}");
            return Err(Error::Flag { flag: "service", value: wanted.clone(), allowed });
        }
    }
    if !arguments.service.is_empty() {
        exposed.retain(|service| arguments.service.contains(&service.name_any()));
    }
    if exposed.is_empty() {
        return Err(Error::NothingToMeasure {
            annotation: names::ANNOTATION_EXPOSE,
            place: scope.to_owned(),
        });
    }
    // Two of the same name, in different namespaces, need more than that.
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for service in &exposed {
        *counts.entry(service.name_any()).or_default() += 1;
    }
    exposed
        .into_iter()
        .map(|service| target(service, arguments, &arguments.path, hosts, counts[&service.name_any()] > 1))
        .collect()
}

/// A Service as a target; the name with its namespace where that alone tells it from another.
pub(super) fn target(
    service: &Service,
    arguments: &Arguments,
    path: &str,
    hosts: &[String],
    long_name: bool,
) -> Result<Target, Error> {
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let failed = |why: String| Error::Service { name: format!("{namespace}/{name}"), why };
    let Some(port) = place::port(service, arguments.port_name.as_deref()) else {
        let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        let known: Vec<_> = ports.filter_map(|port| port.name.clone()).collect();
        let wanted = arguments.port_name.as_deref().unwrap_or(names::PORT_APP);
        return Err(failed(format!("it has no port {wanted:?}; there are {}", known.join(", "))));
    };
    let urls = if arguments.job.in_cluster {
        vec![place::cluster_url(service, port)]
    } else {
        place::urls(service, port, hosts)
    };
    if urls.is_empty() {
        return Err(failed("no node is ready that would answer at its node port".to_owned()));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let urls = urls.into_iter().map(|url| format!("{url}{slash}{path}")).collect();
    let name = if long_name { format!("{namespace}/{name}") } else { name };
    Ok(Target { name, urls, service: Some(service.clone()) })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(line: &str) -> Arguments {
        let words = std::iter::once("x").chain(line.split(' ').filter(|word| !word.is_empty()));
        Line::try_parse_from(words).unwrap().arguments
    }

    fn service(namespace: &str, name: &str, exposed: &str) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace, "annotations": {names::ANNOTATION_EXPOSE: exposed}},
            "spec": {"type": "NodePort", "ports": [{"name": "metrics", "port": 9090, "nodePort": 30090}, {"name": "app", "port": 80, "nodePort": 30000}]},
        }))
        .unwrap()
    }

    fn selected(line: &str) -> Result<Vec<Target>, Error> {
        let services = [
            service("b", "shop", "true"),
            service("a", "cart", "true"),
            service("a", "hidden", "false"),
            service("c", "shop", "true"),
        ];
        select(&services, &arguments(line), &["10.0.0.1".to_owned(), "10.0.0.2".to_owned()], "any namespace")
    }

    #[test]
    fn annotated_services_are_found_on_all_nodes_by_the_ports_name() {
        let found = selected("--path api").unwrap();
        let names: Vec<_> = found.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["cart", "b/shop", "c/shop"]);
        assert_eq!(found[0].urls, ["http://10.0.0.1:30000/api", "http://10.0.0.2:30000/api"]);
        assert_eq!(
            selected("--service cart --port-name metrics").unwrap()[0].urls[0],
            "http://10.0.0.1:30090/"
        );
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        for (line, expected) in [
            (
                "--service hidden",
                "--service hidden: it lacks the annotation in any namespace; annotated are: cart, shop, shop",
            ),
            ("--service nothing", "there is none"),
            ("--port-name x", "Service a/cart: it has no port \"x\"; there are metrics, app"),
        ] {
            let error = selected(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = select(&[], &arguments(""), &[], "namespace \"x\"").unwrap_err().to_string();
        assert!(error.contains("benchmark.platformatic.dev/expose: \"true\" in namespace \"x\""), "{error}");
    }

    #[test]
    fn a_url_may_have_a_name() {
        assert_eq!(named("old=http://a/").name, "old");
        let plain = named("http://a/?q=1");
        assert_eq!((plain.name.as_str(), plain.urls[0].as_str()), ("http://a/?q=1", "http://a/?q=1"));
        assert_eq!(plain.told(), "http://a/?q=1");
    }
}
