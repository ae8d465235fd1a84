//! Says why a node port could not be had, and who has it.
//!
//! The API server answers 422 and names neither the holder nor, when the port is freed, that it is: so the holder is
//! looked up, and the app is tried again every few seconds. When no port is left it doesn't name its range either. Apps that ask for each
//! other's ports would wait for ever, which is told.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use tokio::sync::Mutex;
use workerapp_api::WorkerApp;

use super::Owner;
use crate::{
    cache::Key,
    context::{Context, bounded},
    error::Error,
    kind::Kind,
};

/// How long one list of all Services answers for every app that asks.
const FRESH: Duration = Duration::from_secs(3);
/// How many Services are asked for at a time.
const PAGE: u32 = 500;

/// How long the API server's range is remembered.
const FRESH_RANGE: Duration = Duration::from_mins(1);
/// A port that lies in no range anybody uses.
const NO_NODE_PORT: i32 = 1;

/// How many apps a circle may have to be seen as one.
const LONGEST_CIRCLE: usize = 8;

/// Who holds which node port, and from which range they are, as of a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    ports: Mutex<Option<(Instant, Ports)>>,
    range: Mutex<Option<(Instant, String)>>,
}

type Ports = HashMap<i32, Holder>;

/// A port of a Service.
#[derive(Clone, Debug)]
struct Holder {
    service: Key,
    /// Its name, or what else holds the node port.
    port: String,
}

/// The error of a Service that was refused.
pub(super) async fn explain(context: &Context, owner: &Owner, error: kube::Error) -> Error {
    if let Some((port, message)) = refused_port(&error) {
        if message.contains("already allocated") {
            return context.holders.taken(context, owner, port).await;
        }
        if let Some(range) = range_in(&message) {
            return Error::NodePortOutOfRange { port, range };
        }
    }
    if exhausted(&error) {
        return Error::NodePortsExhausted { range: context.holders.range(context, owner).await };
    }
    Error::from_write(Kind::Service, &owner.key.namespace, &owner.key.name, error)
}

/// The node port of which the refusal speaks, and what it says.
///
/// `spec.ports[0].nodePort`, `Invalid value: 30000: provided port is already allocated`.
fn refused_port(error: &kube::Error) -> Option<(i32, String)> {
    let kube::Error::Api(status) = error else { return None };
    let causes = &status.details.as_ref()?.causes;
    let cause = causes.iter().find(|cause| cause.field.ends_with(".nodePort"))?;
    let value = cause.message.strip_prefix("Invalid value: ")?.split(':').next()?;
    Some((value.trim().parse().ok()?, cause.message.clone()))
}

/// `provided port is not in the valid range. The range of valid ports is 30000-32767`.
fn range_in(message: &str) -> Option<String> {
    let range = message.contains("valid range").then(|| message.rsplit(' ').next())??;
    Some(range.trim_end_matches('.').to_owned())
}

/// `failed to allocate a nodePort: range is full`. The addresses of Services have a range too.
fn exhausted(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.message.contains("nodePort: range is full")
}

impl Holders {
    /// The API server's range of node ports. It names it only to someone who asks for a port outside.
    async fn range(&self, context: &Context, owner: &Owner) -> String {
        let mut known = self.range.lock().await;
        if known.as_ref().is_none_or(|(at, _)| at.elapsed() > FRESH_RANGE) {
            *known = Some((Instant::now(), ask_for_range(context, owner).await));
        }
        known.as_ref().map(|(_, range)| range.clone()).unwrap_or_default()
    }

    async fn taken(&self, context: &Context, owner: &Owner, port: i32) -> Error {
        let mut known = self.ports.lock().await;
        if known.as_ref().is_none_or(|(at, _)| at.elapsed() > FRESH) {
            *known = Some((Instant::now(), look_up(context).await));
        }
        let none = Ports::new();
        let ports = known.as_ref().map_or(&none, |(_, ports)| ports);
        if let Some(circle) = circle(ports, &owner.key, port, |key| pinned(context, key)) {
            return Error::NodePortsSwapped { port, circle };
        }
        let holder = ports.get(&port).map_or_else(
            || "a Service in a namespace that the operator may not read".into(),
            |Holder { service, port }| format!("Service {service} (port {port})"),
        );
        Error::NodePortTaken { port, holder }
    }
}

/// The apps that wait for each other, where `app` waits for `port` and one of them for a port of `app`: as text.
fn circle(ports: &Ports, app: &Key, mut port: i32, pinned: impl Fn(&Key) -> Vec<i32>) -> Option<String> {
    let mut links = Vec::new();
    while links.len() < LONGEST_CIRCLE {
        let holder = &ports.get(&port)?.service;
        if holder == app {
            return Some(links.join(", "));
        }
        let wanted = pinned(holder);
        if wanted.contains(&port) {
            // It means to keep it.
            return None;
        }
        let holds = |port: &i32| ports.get(port).is_some_and(|other| other.service == *holder);
        let has = port;
        port = wanted.into_iter().find(|port| !holds(port))?;
        links.push(format!("WorkerApp {holder} has {has} and waits for {port}"));
    }
    None
}

/// The node ports that an app asks for by number.
fn pinned(context: &Context, app: &Key) -> Vec<i32> {
    let app = context.caches[Kind::WorkerApp].get(app).and_then(|object| object.read::<WorkerApp>().ok());
    let Some(spec) = app.map(|app| app.spec) else { return Vec::new() };
    let service = spec.service.unwrap_or_default();
    let further = spec.ports.into_iter().filter_map(|port| port.node_port);
    let metrics = service.metrics.and_then(|metrics| metrics.node_port);
    service.node_port.into_iter().chain(metrics).chain(further).collect()
}

/// The request is refused, with the range in the refusal: the port lies outside, or is taken as all of them are. A dry run is not, as
/// it allocates nothing.
async fn ask_for_range(context: &Context, owner: &Owner) -> String {
    let port = ServicePort { port: 80, node_port: Some(NO_NODE_PORT), ..ServicePort::default() };
    let spec =
        ServiceSpec { type_: Some("NodePort".into()), ports: Some(vec![port]), ..ServiceSpec::default() };
    let metadata = ObjectMeta { generate_name: Some("node-port-range-".into()), ..ObjectMeta::default() };
    let service = Service { metadata, spec: Some(spec), ..Service::default() };
    let api: Api<Service> = Api::namespaced(context.client.clone(), &owner.key.namespace);
    let refused = match bounded(api.create(&PostParams::default(), &service)).await {
        Err(error) => refused_port(&error),
        // That very port is in the range, and was freed at this moment.
        Ok(made) => {
            let _ = bounded(api.delete(&made.name_any(), &DeleteParams::default())).await;
            None
        }
    };
    refused.and_then(|(_, message)| range_in(&message)).unwrap_or_else(|| "the API server's range".into())
}

/// Every node port of the cluster, or of the namespaces that may be read.
async fn look_up(context: &Context) -> Ports {
    let mut services = Vec::new();
    if let Ok(everywhere) = list(&context.client, None).await {
        services = everywhere;
    } else {
        for namespace in &context.settings.namespaces {
            services.extend(list(&context.client, Some(namespace)).await.unwrap_or_default());
        }
    }
    let mut holders = HashMap::new();
    for service in services {
        let key = Key::new(&service.namespace().unwrap_or_default(), &service.name_any());
        let holder = |port: String| Holder { service: key.clone(), port };
        let spec = service.spec.unwrap_or_default();
        for port in spec.ports.into_iter().flatten() {
            if let Some(node_port) = port.node_port {
                let port = port.name.unwrap_or_else(|| port.port.to_string());
                holders.insert(node_port, holder(port));
            }
        }
        if let Some(node_port) = spec.health_check_node_port {
            holders.insert(node_port, holder("healthCheckNodePort".into()));
        }
    }
    holders
}

async fn list(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<Service>> {
    let api: Api<Service> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut services = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = bounded(api.list(&params)).await?;
        services.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(services),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Holder, Key, Ports, circle};

    #[test]
    fn apps_that_wait_for_each_other_are_found_and_those_that_wait_for_one_are_not() {
        let key = |name: &str| Key::new("ns", name);
        let held = [(1, "a"), (2, "b"), (3, "c")];
        let holder = |name: &str| Holder { service: key(name), port: "app".into() };
        let ports: Ports = held.map(|(port, name)| (port, holder(name))).into();
        let found = |wanted: [i32; 3], app: &str, port: i32| {
            circle(&ports, &key(app), port, |app| {
                let at = ["a", "b", "c"].into_iter().position(|name| name == &*app.name);
                at.map(|at| wanted[at]).into_iter().collect()
            })
        };
        assert_eq!(found([2, 1, 3], "a", 2).unwrap(), "WorkerApp ns/b has 2 and waits for 1");
        let three = found([2, 3, 1], "a", 2).unwrap();
        assert_eq!(three, "WorkerApp ns/b has 2 and waits for 3, WorkerApp ns/c has 3 and waits for 1");
        assert_eq!(found([2, 2, 3], "a", 2), None, "b keeps what it has");
        assert_eq!(found([2, 3, 3], "a", 2), None, "c keeps what b waits for");
        assert_eq!(found([9, 2, 3], "a", 9), None, "nobody known has it");
        // A circle of others is their matter.
        assert_eq!(found([2, 3, 2], "a", 2), None);
    }
}
