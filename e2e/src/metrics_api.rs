//! The metrics API, inside the test's process, and supervisors that say what a test wants.
//!
//! A cluster has one `custom.metrics.k8s.io`, so tests that serve it take turns.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::{
        core::v1::{Namespace, Pod, Service},
        discovery::v1::EndpointSlice,
        rbac::v1::ClusterRole,
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::{Mutex as TurnMutex, MutexGuard},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use workerapp_adapter::{Config, Failure, GROUP, Place, VERSIONS};
use workerapp_api::names;

use crate::{
    cluster,
    fixture::{Fixture, PATIENCE},
    wait::within,
};

static TURN: TurnMutex<()> = TurnMutex::const_new(());

/// The right to serve the group. What a test left that failed before is removed.
///
/// # Errors
/// If the API server doesn't answer.
pub async fn turn() -> Result<MutexGuard<'static, ()>> {
    let turn = TURN.lock().await;
    let client = Client::try_from(cluster::config().await?)?;
    let api: Api<APIService> = Api::all(client.clone());
    for left in registered(&client).await? {
        let service = left.spec.as_ref().and_then(|spec| spec.service.as_ref());
        let name = service.and_then(|service| service.name.as_deref());
        ensure!(
            name == Some(NAME) || name == Some(FOREIGN),
            "{} is neither this test's nor anybody's that it knows: is this a cluster for tests?",
            left.name_any()
        );
        match api.delete(&left.name_any(), &DeleteParams::default()).await {
            // Whoever made it has gone meanwhile, and Kubernetes was faster.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            result => drop(result?),
        }
    }
    until_unregistered(&client).await?;
    Ok(turn)
}

/// The Service of another adapter, which isn't there.
pub const FOREIGN: &str = "another-adapter";

/// The name of the Service and the Deployment of the metrics API in a test's namespace.
pub const NAME: &str = "metrics-api";

/// A running metrics API.
pub struct MetricsApi {
    /// Where it answers the API server.
    pub address: SocketAddr,
    /// Where its probes and metrics are.
    pub plain: SocketAddr,
    /// The ClusterRole that owns its APIServices.
    pub role: String,
    client: Client,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Failure>>,
}

impl MetricsApi {
    /// Starts one for the fixture's namespace, with a Service that leads to it, and does not wait.
    ///
    /// # Errors
    /// If the cluster can't be reached.
    pub async fn launch(fixture: &Fixture) -> Result<Self> {
        Self::launch_with(fixture, Duration::ZERO).await
    }

    /// The same, with a time for which it goes on serving after it was told to stop.
    ///
    /// # Errors
    /// If the cluster can't be reached.
    pub async fn launch_with(fixture: &Fixture, lame_duck: Duration) -> Result<Self> {
        let config = cluster::config().await?;
        // The API server connects from where it runs, which on the testbed is where tests run too.
        let api = TcpListener::bind(SocketAddr::new(cluster::host(&config)?, 0))
            .await
            .context("the API server isn't on this machine")?;
        let plain = TcpListener::bind("127.0.0.1:0").await?;
        let (address, plain_address) = (api.local_addr()?, plain.local_addr()?);

        let client = Client::try_from(config)?;
        let namespace = &fixture.namespace;
        let role = format!("{namespace}-{NAME}");
        let roles: Api<ClusterRole> = Api::all(client.clone());
        roles
            .create(&PostParams::default(), &serde_json::from_value(json!({ "metadata": { "name": role } }))?)
            .await?;
        lead(fixture, address).await?;
        let place = Place {
            namespace: namespace.clone(),
            service: NAME.into(),
            port: 443,
            deployment: NAME.into(),
            cluster_role: role.clone(),
            pod: NAME.into(),
        };
        let config = Config {
            namespaces: vec![namespace.clone()],
            interval: Duration::from_secs(1),
            place,
            lame_duck,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(workerapp_adapter::run(config, client.clone(), api, plain, stop.clone()));
        Ok(Self { address, plain: plain_address, role, client, stop, task })
    }

    /// Starts one and waits until the API server answers by it.
    ///
    /// # Errors
    /// If that takes too long.
    pub async fn start(fixture: &Fixture) -> Result<Self> {
        Self::launch(fixture).await?.serving().await
    }

    /// Waits until the API server answers by it.
    ///
    /// # Errors
    /// If that takes too long.
    pub async fn serving(self) -> Result<Self> {
        let api = self;
        for version in VERSIONS {
            eventually("the API server to answer by the metrics API", async || {
                raw(&api.client, &format!("/apis/{GROUP}/{version}")).await.map(drop)
            })
            .await
            .with_context(|| format!("the metrics API is at {}", api.address))?;
        }
        eventually("the metrics API to be ready", async || {
            let (code, text) = api.get("/readyz").await?;
            ensure!(code == 200, "{text}");
            Ok(())
        })
        .await?;
        Ok(api)
    }

    /// `GET path` from its plain port.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        crate::operator::get(self.plain, path).await
    }

    /// Stops it. Its APIServices stay, unless its Deployment is gone.
    ///
    /// # Errors
    /// If it doesn't end.
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .with_context(|| format!("it did not stop in {PATIENCE:?}"))???;
        Ok(())
    }

    /// Does what `helm uninstall` leaves behind: the ClusterRole goes, and Kubernetes deletes what it owned.
    ///
    /// # Errors
    /// If the APIServices stay.
    pub async fn uninstall(self) -> Result<()> {
        let (client, role) = (self.client.clone(), self.role.clone());
        self.stop().await?;
        let roles: Api<ClusterRole> = Api::all(client.clone());
        roles.delete(&role, &DeleteParams::background()).await?;
        until_unregistered(&client).await
    }
}

/// The Service, and where it leads: no pod runs here, so that its endpoints are written by hand.
///
/// # Errors
/// What the API server says.
pub async fn lead(fixture: &Fixture, address: SocketAddr) -> Result<()> {
    fixture
        .create::<Service>(json!({
            "metadata": { "name": NAME },
            "spec": { "ports": [{ "name": "https", "port": 443, "targetPort": address.port() }] },
        }))
        .await?;
    fixture
        .create::<EndpointSlice>(json!({
            "metadata": { "name": NAME, "labels": { "kubernetes.io/service-name": NAME } },
            "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
            "ports": [{ "name": "https", "port": address.port(), "protocol": "TCP" }],
            "endpoints": [{ "addresses": [address.ip().to_string()], "conditions": { "ready": true } }],
        }))
        .await?;
    Ok(())
}

/// The APIServices of the group.
///
/// # Errors
/// If the API server doesn't answer.
pub async fn registered(client: &Client) -> Result<Vec<APIService>> {
    let api: Api<APIService> = Api::all(client.clone());
    let mut found = Vec::new();
    for version in VERSIONS {
        found.extend(api.get_opt(&format!("{version}.{GROUP}")).await?);
    }
    Ok(found)
}

/// Waits until nobody serves the group.
///
/// # Errors
/// If an APIService stays.
pub async fn until_unregistered(client: &Client) -> Result<()> {
    eventually("the APIServices to go", async || {
        let left: Vec<_> = registered(client).await?.iter().map(kube::ResourceExt::name_any).collect();
        ensure!(left.is_empty(), "still there: {left:?}");
        Ok(())
    })
    .await
}

/// `GET path` from the API server, as JSON.
///
/// # Errors
/// What it says.
pub async fn raw(client: &Client, path: &str) -> Result<Value> {
    Ok(client.request(http::Request::get(path).body(Vec::new())?).await?)
}

/// Tries until it succeeds.
///
/// # Errors
/// After [`PATIENCE`], with the last failure.
pub async fn eventually<T>(what: &str, attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    within(PATIENCE, what, attempt).await
}

/// Watches that a namespace can be deleted: one group of the API without a server keeps all of them.
///
/// # Errors
/// After `patience`, with what is left of it.
pub async fn namespaces_still_go(client: &Client, patience: Duration) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let body = serde_json::from_value(json!({ "metadata": { "generateName": "wa-test-gone-" } }))?;
    let name = namespaces.create(&PostParams::default(), &body).await?.name_any();
    namespaces.delete(&name, &DeleteParams::default()).await?;
    within(patience, "a namespace to be deleted", async || {
        let left = namespaces.get_opt(&name).await?;
        ensure!(left.is_none(), "{:?}", left.and_then(|left| left.status));
        Ok(())
    })
    .await
}

/// A supervisor that says what it is told to, in the place of one that a node would run.
#[derive(Debug)]
pub struct Supervisor {
    /// Where it answers.
    pub address: SocketAddr,
    page: Arc<Mutex<Option<String>>>,
    _stop: DropGuard,
}

impl Supervisor {
    /// Starts one.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let page: Arc<Mutex<Option<String>>> = Arc::default();
        let stop = CancellationToken::new();
        let (shown, stopped) = (Arc::clone(&page), stop.clone());
        tokio::spawn(async move {
            let serve = async {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let page = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let _ = stream.read(&mut [0; 1024]).await;
                    // Says nothing, and ends the connection, while it has nothing to say.
                    if let Some(page) = page {
                        let answer =
                            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                }
            };
            tokio::select! { () = serve => {}, () = stopped.cancelled() => {} }
        });
        Ok(Self { address, page, _stop: stop.drop_guard() })
    }

    /// What it says from now on, of one worker: requests in flight, and the event loop's utilisation. `None`: nothing.
    pub fn say(&self, load: Option<(u32, f64)>) {
        let page = load.map(|(in_flight, utilization)| {
            format!(
                "workerapp_worker_requests_in_flight{{worker=\"0\"}} {in_flight}\n\
                 workerapp_worker_queue_length{{worker=\"0\"}} 0\n\
                 workerapp_worker_event_loop_utilization{{worker=\"0\"}} {utilization}\n"
            )
        });
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

/// The labels of an app's pods.
pub fn labels(app: &str) -> Value {
    json!({ names::LABEL_NAME: app, names::LABEL_INSTANCE: app, names::LABEL_MANAGED_BY: names::MANAGED_BY })
}

/// The containers of a pod whose supervisor answers at `port`.
pub fn containers(port: u16) -> Value {
    json!([{
        "name": names::CONTAINER_APP, "image": "localhost/app:1",
        "ports": [{ "name": names::PORT_ADMIN, "containerPort": port }],
    }])
}

/// Writes the status of a pod that serves, with the address of the supervisor.
///
/// # Errors
/// What the API server says.
pub async fn run_pod(fixture: &Fixture, pod: &str, address: IpAddr) -> Result<()> {
    let status = json!({
        "phase": "Running",
        "podIP": address.to_string(),
        "podIPs": [{ "ip": address.to_string() }],
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z" }],
    });
    fixture.merge_status::<Pod>(pod, status).await?;
    Ok(())
}

/// A pod of `app` that serves, and its supervisor.
///
/// # Errors
/// What the API server says.
pub async fn pod(fixture: &Fixture, app: &str, name: &str) -> Result<Supervisor> {
    let supervisor = Supervisor::start().await?;
    fixture
        .create::<Pod>(json!({
            "metadata": { "name": name, "labels": labels(app) },
            "spec": { "containers": containers(supervisor.address.port()) },
        }))
        .await?;
    run_pod(fixture, name, supervisor.address.ip()).await?;
    Ok(supervisor)
}
