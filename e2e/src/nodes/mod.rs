//! Tests on real nodes: the operator is installed by Helm, pods run, node ports answer.
//!
//! What a test sees is what a user sees: objects, `kubectl`, connections to a node's address, the supervisor's admin port.
//!
//! - [`requests`]: connections to apps, one by one and as load
//! - `spread`: whether every worker of every pod answers

pub mod requests;
mod spread;

use std::{
    env,
    net::{IpAddr, SocketAddr},
    ops::Deref,
    panic::AssertUnwindSafe,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::FutureExt as _;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Namespace, Node},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, LogParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use tokio::process::Command;
use workerapp_api::{Condition, ConditionStatus, WorkerApp, condition::ConditionType, names};

use crate::{
    cluster,
    fixture::{self, Fixture, NAMESPACE_PREFIX, Namespaced, Pod},
    wait::within,
};

pub use spread::{Answers, until_all_answer};

/// How long anything may take on busy nodes before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_mins(5);
/// The namespace of the operator, as `e2e/install.sh` installs it.
pub const OPERATOR_NAMESPACE: &str = "workerapp-system";
/// The operator's Deployment, and its Helm release.
pub const OPERATOR: &str = "workerapp-operator";
/// The image of the small app in `e2e/apps/hello`.
pub const HELLO: &str = "localhost/hello:1";
/// The image of the Next.js app in `e2e/apps/next`, which also holds pm2 and Watt.
pub const NEXT: &str = "localhost/next:1";

/// A namespace of a test's own on a cluster with nodes.
pub struct Nodes {
    fixture: Fixture,
    /// The address of each node.
    pub addresses: Vec<IpAddr>,
}

impl Deref for Nodes {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

/// The small app with one pod of two workers, with the fields of `more` on top; a field that is null there is left out.
pub fn hello(more: Value) -> Value {
    let mut spec = fixture::app(json!({
        "image": HELLO,
        "resources": { "requests": { "cpu": "100m", "memory": "64Mi" }, "limits": { "cpu": "2" } },
        // The nodes' tables follow within a fraction of a second here.
        "supervisor": { "lameDuckSeconds": 3 },
    }));
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
        spec.retain(|_, value| !value.is_null());
    }
    spec
}

/// Runs a test in a namespace of its own, which is removed at the end, whatever that is. When the test fails, what the namespace
/// looked like is printed first.
///
/// # Errors
/// The test's own, or that there is no cluster with the operator.
pub async fn on_nodes(what: &str, test: impl AsyncFnOnce(&Nodes) -> Result<()>) -> Result<()> {
    on_labelled_nodes(what, json!({}), test).await
}

/// The same with labels of the namespace.
///
/// # Errors
/// The test's own, or that there is no cluster with the operator.
pub async fn on_labelled_nodes(
    what: &str,
    labels: Value,
    test: impl AsyncFnOnce(&Nodes) -> Result<()>,
) -> Result<()> {
    let nodes = Nodes::new(what, &labels).await?;
    let result = AssertUnwindSafe(Box::pin(test(&nodes))).catch_unwind().await;
    if !matches!(result, Ok(Ok(()))) {
        nodes.show().await;
    }
    nodes.fixture.remove().await?;
    match result {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Polls until `attempt` succeeds.
///
/// # Errors
/// After [`PATIENCE`], with the last attempt's error.
pub async fn eventually<T>(what: &str, attempt: impl AsyncFn() -> Result<T>) -> Result<T> {
    Box::pin(within(PATIENCE, what, attempt)).await
}

/// Runs a program and returns what it prints.
///
/// # Errors
/// If it fails, with what it said.
pub async fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", env::var_os(cluster::VARIABLE).unwrap_or_default())
        .stdin(Stdio::null())
        .output()
        .await
        .with_context(|| format!("{program} could not be run; `testbed exec` puts it on the PATH"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments:?}: {}: {said}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Nodes {
    async fn new(what: &str, labels: &Value) -> Result<Self> {
        let client = Client::try_from(cluster::config().await?)?;
        let advice = "run these tests by `e2e/test.sh cluster`, or install the operator with e2e/install.sh";
        let operators: Api<Deployment> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
        let operator = operators.get_opt(OPERATOR).await.context("the cluster does not answer")?;
        let operator = operator.with_context(|| format!("there is no operator in this cluster: {advice}"))?;
        let available = operator.status.and_then(|status| status.available_replicas).unwrap_or_default();
        ensure!(available > 0, "the operator in this cluster is not available: {advice}");

        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
        let addresses: Vec<IpAddr> = nodes.items.iter().filter_map(address).collect();
        ensure!(!addresses.is_empty(), "the cluster has no nodes: {advice}");

        let namespaces: Api<Namespace> = Api::all(client.clone());
        let name = format!("{NAMESPACE_PREFIX}{what}-");
        let body = serde_json::from_value(json!({ "metadata": { "generateName": name, "labels": labels } }))?;
        let namespace = namespaces.create(&PostParams::default(), &body).await?.name_any();
        let fixture = Fixture { client, namespace };
        Ok(Self { fixture, addresses })
    }

    /// Runs kubectl in the namespace and returns what it prints.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        run("kubectl", &[&["--namespace", &self.namespace], arguments].concat()).await
    }

    /// Waits until an object is as `wanted` says, and returns it.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was there instead.
    pub async fn wait<K: Namespaced>(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&K) -> bool + Send + Sync,
    ) -> Result<K> {
        let condition = |object: Option<&K>| object.is_some_and(&wanted);
        let wait = Box::pin(await_condition(self.api::<K>(), name, condition));
        if let Ok(found) = tokio::time::timeout(PATIENCE, wait).await {
            return found?.context("it is gone");
        }
        let found = serde_json::to_string_pretty(&self.api::<K>().get_opt(name).await?)?;
        bail!("{} {name}: waited {PATIENCE:?} for {what}; it is {found}", K::kind(&()))
    }

    /// Applies an app and waits until it is Ready.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was there instead.
    pub async fn serve_app(&self, name: &str, spec: Value) -> Result<WorkerApp> {
        self.apply(name, spec).await?;
        self.until_ready(name).await
    }

    /// Waits until the newest generation of an app is Ready.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was there instead.
    pub async fn until_ready(&self, name: &str) -> Result<WorkerApp> {
        Box::pin(self.wait(name, "Ready=True", |app: &WorkerApp| {
            ready(app).is_some_and(|ready| ready.status == ConditionStatus::True)
        }))
        .await
    }

    /// Waits until the newest generation of an app is not Ready for this reason, and returns the condition.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was there instead.
    pub async fn until_not_ready(&self, name: &str, reason: &str) -> Result<Condition> {
        let app = Box::pin(self.wait(name, &format!("Ready=False {reason}"), |app: &WorkerApp| {
            ready(app).is_some_and(|ready| ready.status == ConditionStatus::False && ready.reason == reason)
        }))
        .await?;
        ready(&app).cloned().context("the condition is gone")
    }

    /// Where an app answers: its node port on every node, once it does.
    ///
    /// # Errors
    /// If it has none, or a node doesn't answer.
    pub async fn endpoints(&self, app: &WorkerApp) -> Result<Vec<SocketAddr>> {
        let status = app.status.as_ref().context("no status")?;
        let port = u16::try_from(status.node_port.context("no status.nodePort")?)?;
        let endpoints =
            self.addresses.iter().map(|address| SocketAddr::new(*address, port)).collect::<Vec<_>>();
        // A pod is Ready a moment before every node's tables know it.
        for endpoint in &endpoints {
            eventually(&format!("{endpoint} to answer"), async || requests::get(*endpoint, "/").await)
                .await?;
        }
        Ok(endpoints)
    }

    /// The app's pods that are Ready and stay.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn ready_pods(&self, app: &str) -> Result<Vec<Pod>> {
        let mut pods = self.all_pods(app).await?;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none() && pod_is_ready(pod));
        Ok(pods)
    }

    /// The app's only pod, which is Ready.
    ///
    /// # Errors
    /// If there are more, or none.
    pub async fn only_pod(&self, app: &str) -> Result<Pod> {
        let mut pods = self.ready_pods(app).await?;
        ensure!(pods.len() == 1, "{app} has {} pods that are Ready", pods.len());
        pods.pop().context("no pod")
    }

    /// The app's pods, also those that come and go.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn all_pods(&self, app: &str) -> Result<Vec<Pod>> {
        let params = ListParams::default().labels(&format!("{}={app}", names::LABEL_INSTANCE));
        Ok(self.api::<Pod>().list(&params).await?.items)
    }

    /// `GET path` from the admin port of a pod's supervisor, through the API server.
    ///
    /// # Errors
    /// If there is no answer, or a failure.
    pub async fn admin(&self, pod: &Pod, path: &str) -> Result<String> {
        let namespace = &self.namespace;
        let (name, port) = (pod.name_any(), names::DEFAULT_ADMIN_PORT);
        let url = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy{path}");
        Ok(self.client.request_text(http::Request::get(url).body(Vec::new())?).await?)
    }

    /// The supervisor's own account of a pod.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn supervisor(&self, pod: &Pod) -> Result<Value> {
        Ok(serde_json::from_str(&self.admin(pod, "/status").await?)?)
    }

    /// What the app's container has logged, in all pods, before and after its last restart.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn logs(&self, app: &str) -> Result<String> {
        let mut logs = String::new();
        for pod in self.all_pods(app).await? {
            for previous in [true, false] {
                let params = LogParams {
                    container: Some(names::CONTAINER_APP.into()),
                    previous,
                    ..LogParams::default()
                };
                // There are none of a container that has not started.
                logs += &self.api::<Pod>().logs(&pod.name_any(), &params).await.unwrap_or_default();
            }
        }
        Ok(logs)
    }

    /// Waits until the app has logged something.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was logged instead.
    pub async fn until_logged(&self, app: &str, words: &str) -> Result<()> {
        eventually(&format!("{words:?} in the logs of {app}"), async || {
            let logs = self.logs(app).await?;
            ensure!(logs.contains(words), "it logged: {logs}");
            Ok(())
        })
        .await
    }

    /// Prints what the namespace looks like.
    async fn show(&self) {
        eprintln!("--- the namespace {}", self.namespace);
        for arguments in [
            &["get", "workerapps,deployments,replicasets,hpa,services,pods", "-o", "wide"][..],
            &[
                "get",
                "workerapps",
                "-o",
                "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{range .status.conditions[*]}  {.type} {.status} {.reason}: {.message}{\"\\n\"}{end}{end}",
            ],
            &["get", "events", "--sort-by=.lastTimestamp"],
        ] {
            eprintln!("{}", self.kubectl(arguments).await.unwrap_or_else(|error| error.to_string()));
        }
        for pod in self.api::<Pod>().list(&ListParams::default()).await.into_iter().flatten() {
            let name = pod.name_any();
            let logs = ["logs", &name, "--all-containers", "--prefix", "--tail=30"];
            eprintln!("{}", self.kubectl(&logs).await.unwrap_or_else(|error| error.to_string()));
        }
    }
}

/// The Ready condition, if it speaks of the newest generation.
pub fn ready(app: &WorkerApp) -> Option<&Condition> {
    fixture::condition(app, ConditionType::Ready)
        .filter(|ready| ready.observed_generation == app.metadata.generation)
}

/// Whether a pod is Ready.
pub fn pod_is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What the kubelet says of the app's container.
pub fn container(pod: &Pod) -> Option<&ContainerStatus> {
    let mut containers = pod.status.as_ref()?.container_statuses.iter().flatten();
    containers.find(|container| container.name == names::CONTAINER_APP)
}

/// How often the app's container was restarted.
pub fn restarts(pod: &Pod) -> i32 {
    container(pod).map_or(0, |container| container.restart_count)
}

fn address(node: &Node) -> Option<IpAddr> {
    let mut addresses = node.status.as_ref()?.addresses.iter().flatten();
    addresses.find(|address| address.type_ == "InternalIP")?.address.parse().ok()
}
