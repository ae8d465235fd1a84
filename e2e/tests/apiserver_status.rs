//! The status: what it says, about which generation, and how rarely it is written.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{LimitRange, ResourceQuota, Service},
    },
    jiff::{SignedDuration, Timestamp},
};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UdpSocket},
};
use workerapp_api::{
    ConditionStatus, WorkerApp, WorkerAppStatus,
    condition::ConditionType::{self, Reconciled, ScalingActive},
    names,
};
use workerapp_e2e::{
    Fixture, Pod, app,
    fixture::{SILENCE, condition},
    metrics_api::eventually,
};

fn status(app: &WorkerApp) -> WorkerAppStatus {
    app.status.clone().unwrap_or_default()
}

#[tokio::test]
async fn cloudnative_pg_11390_ready_speaks_of_the_generation_that_was_reconciled() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 2 }))).await?;
    fixture.until_condition("shop", ConditionType::Ready, "False", "RollingOut").await?;
    fixture.serve("shop", 2).await?;
    let ready = fixture.until_condition("shop", ConditionType::Ready, "True", "Ready").await?;
    ensure!(ready.message.contains("pods: 2, workers in each: 2"), "{}", ready.message);
    // The pods' address comes by another watch than their number.
    let told = |app: &WorkerApp| {
        let now = status(app);
        let url = now.node_port.map(|port| format!("http://192.0.2.7:{port}"));
        url.is_some() && now.url == url && now.ready_replicas == Some(2) && now.updated_replicas == Some(2)
    };
    fixture.until_is("shop", "its numbers and its address", told).await?;

    // A spec that can't be carried out: the pods serve on, and the app is not Ready.
    let bad = json!({ "replicas": 2, "ports": [{ "name": "ws", "port": 80 }] });
    let generation = fixture.apply("shop", app(bad)).await?.metadata.generation;
    fixture.until_condition("shop", ConditionType::Ready, "False", "Invalid").await?;
    let app_now = fixture.api::<WorkerApp>().get("shop").await?;
    ensure!(status(&app_now).observed_generation == generation);
    let available = condition(&app_now, ConditionType::Available).context("no Available")?;
    ensure!(available.status == ConditionStatus::True, "{available:?}");

    // A new template is not Ready before its own pods serve.
    let newer = json!({ "replicas": 2, "env": [{ "name": "A", "value": "b" }] });
    fixture.apply("shop", app(newer)).await?;
    fixture.until_reconciled("shop").await?;
    let app_now = fixture.api::<WorkerApp>().get("shop").await?;
    let ready = condition(&app_now, ConditionType::Ready).context("no Ready")?;
    ensure!(ready.status == ConditionStatus::False, "{ready:?}");
    fixture.end(operator).await
}

#[tokio::test]
async fn keycloak_operator_121_mitos_241_the_status_moves_with_the_generation_and_not_with_the_clock()
-> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.at_rest(&operator).await?;
    let before = fixture.api::<WorkerApp>().get("shop").await?;
    operator.recorder.take();

    // Looked at again for a change that means nothing.
    fixture.merge::<WorkerApp>("shop", json!({ "metadata": { "annotations": { "note": "x" } } })).await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    let after = fixture.api::<WorkerApp>().get("shop").await?;
    ensure!(status(&before) == status(&after));

    // A change of the spec that changes nothing in the status but the generation.
    operator.recorder.take();
    let generation = fixture.apply("shop", app(json!({ "replicas": 1, "revisionHistoryLimit": 3 }))).await?;
    let moved = |app: &WorkerApp| status(app).observed_generation == generation.metadata.generation;
    fixture.until_is("shop", "the new generation", moved).await?;
    fixture.until_quiet(&operator).await?;
    let after = status(&fixture.api::<WorkerApp>().get("shop").await?);
    for (before, after) in status(&before).conditions.iter().zip(&after.conditions) {
        ensure!(after.observed_generation == generation.metadata.generation, "{after:?}");
        ensure!(before.last_transition_time == after.last_transition_time, "{before:?} {after:?}");
    }
    fixture.end(operator).await
}

/// A LimitRange whose default lies below the app's request.
fn limit_range(cpu: &str) -> Value {
    json!({ "metadata": { "name": "small" }, "spec": { "limits": [{ "type": "Container", "default": { "cpu": cpu } }] } })
}

#[tokio::test]
async fn kubernetes_51430_pods_that_a_limit_range_refuses_are_told() -> Result<()> {
    let fixture = Fixture::new().await?;
    fixture.create::<LimitRange>(limit_range("100m")).await?;
    let operator = fixture.operator().await?;
    let resources = json!({ "requests": { "cpu": "500m" } });
    fixture.apply("shop", app(json!({ "replicas": 1, "resources": resources }))).await?;
    let told = fixture.until_condition("shop", ConditionType::Ready, "False", "PodsRefused").await?;
    ensure!(told.message.contains("must be less than or equal to cpu limit"), "{}", told.message);
    let warned = fixture.until_reconciled("shop").await?;
    ensure!(warned.message.contains("LimitRange small sets a cpu limit of 100m"), "{}", warned.message);
    fixture.told_once(&operator, "shop", "LimitBelowRequest").await?;

    // The operator that comes after it repeats no warning.
    operator.stop().await?;
    let operator = fixture.operator().await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    let history = operator.recorder.history();
    ensure!(!history.iter().any(workerapp_e2e::recorder::Sent::is_event), "{history:?}");
    fixture.end(operator).await
}

#[tokio::test]
async fn pods_that_a_quota_refuses_are_told() -> Result<()> {
    let fixture = Fixture::new().await?;
    let quota = json!({ "metadata": { "name": "tight" }, "spec": { "hard": { "requests.cpu": "150m" } } });
    fixture.create::<ResourceQuota>(quota).await?;
    let measured = |quota: &ResourceQuota| quota.status.as_ref().is_some_and(|status| status.used.is_some());
    fixture.until_is("tight", "being measured", measured).await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 2 }))).await?;
    let told = fixture.until_condition("shop", ConditionType::Ready, "False", "PodsRefused").await?;
    ensure!(told.message.contains("exceeded quota: tight"), "{}", told.message);
    fixture.end(operator).await
}

#[tokio::test]
async fn a_service_that_a_quota_refuses_is_told_and_the_pods_run() -> Result<()> {
    let fixture = Fixture::new().await?;
    let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": { "services.nodeports": "0" } } });
    fixture.create::<ResourceQuota>(quota).await?;
    let measured = |quota: &ResourceQuota| quota.status.as_ref().is_some_and(|status| status.used.is_some());
    fixture.until_is("none", "being measured", measured).await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    let told = fixture.until_condition("shop", Reconciled, "False", "QuotaExceeded").await?;
    ensure!(told.message.contains("Service shop was refused by a ResourceQuota"), "{}", told.message);
    fixture.pods("shop", 1).await?;
    fixture.apply("shop", app(json!({ "replicas": 1, "service": { "type": "ClusterIP" } }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn devantler_tech_1727_workers_follow_the_limit_that_nobody_wrote() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let resources = json!({ "requests": { "cpu": "1" } });
    fixture.apply("shop", app(json!({ "replicas": 1, "resources": resources }))).await?;
    fixture.until_is("shop", "1 worker", |app: &WorkerApp| status(app).workers == Some(1)).await?;
    fixture.until_quiet(&operator).await?;
    let before = fixture.api::<Deployment>().get("shop").await?;

    // The app hears of a LimitRange that comes later, too; its pods are not restarted for it.
    fixture.create::<LimitRange>(limit_range("3")).await?;
    let app = fixture.until_is("shop", "3 workers", |app: &WorkerApp| status(app).workers == Some(3)).await?;
    let reason = status(&app).workers_reason.unwrap_or_default();
    ensure!(reason.contains("set by LimitRange small"), "{reason}");
    fixture.until_quiet(&operator).await?;
    let after = fixture.api::<Deployment>().get("shop").await?;
    ensure!(before.metadata.generation == after.metadata.generation);
    fixture.told_once(&operator, "shop", "LimitFromLimitRange").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn a_pod_that_cannot_start_is_told_in_its_own_words() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    let pod = fixture.pods("shop", 1).await?[0].name_any();
    let container = |state: Value, last: Value| {
        json!({ "phase": "Pending", "containerStatuses": [{
            "name": names::CONTAINER_APP, "image": "localhost/app:1", "imageID": "", "ready": false, "restartCount": 1,
            "state": state, "lastState": last,
        }] })
    };
    for (pod_status, reason, words) in [
        (
            json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/3 nodes are available: 3 Insufficient cpu." }] }),
            "Unschedulable",
            "3 Insufficient cpu; lower spec.resources.requests",
        ),
        (
            container(
                json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image: ErrImagePull: no such host" } }),
                json!({}),
            ),
            "ImagePullBackOff",
            "image localhost/app:1 can't be pulled: no such host; check spec.image and spec.imagePullSecrets",
        ),
        (
            container(json!({ "waiting": { "reason": "InvalidImageName" } }), json!({})),
            "InvalidImageName",
            "is no image name",
        ),
        (
            container(
                json!({ "waiting": { "reason": "CreateContainerConfigError", "message": "secret \"s\" not found" } }),
                json!({}),
            ),
            "CreateContainerConfigError",
            "secret \"s\" not found; create it, or correct spec.env",
        ),
        (
            container(
                json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s" } }),
                json!({ "terminated": { "exitCode": 127, "reason": "Error", "message": "workerapp: nodee: command not found" } }),
            ),
            "CrashLoopBackOff",
            "exit code 127 again and again: workerapp: nodee: command not found",
        ),
        (
            container(
                json!({ "running": {} }),
                json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } }),
            ),
            "OOMKilled",
            "raise spec.resources.limits.memory",
        ),
    ] {
        fixture.merge_status::<Pod>(&pod, pod_status).await?;
        let told = fixture.until_condition("shop", ConditionType::Ready, "False", reason).await?;
        ensure!(told.message.contains(words), "{}", told.message);
        ensure!(told.message.contains(&pod), "{}", told.message);
    }
    fixture.serve("shop", 1).await?;
    fixture.until_condition("shop", ConditionType::Ready, "True", "Ready").await?;
    for reason in ["ImagePullBackOff", "CrashLoopBackOff", "OOMKilled", "Ready"] {
        fixture.told_once(&operator, "shop", reason).await?;
    }
    fixture.end(operator).await
}

/// This computer's address beside the loopback one, as a pod's own would be.
async fn own_address() -> Result<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    // Nothing is sent: the kernel only chooses the way.
    socket.connect("198.18.0.11:9").await?;
    Ok(socket.local_addr()?.ip())
}

/// Answers every request as a supervisor whose workers don't listen, and counts them.
async fn complaining_supervisor(listener: TcpListener, asked: Arc<AtomicUsize>) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let count = asked.fetch_add(1, Ordering::SeqCst);
        let mut request = [0; 1024];
        let size = stream.read(&mut request).await?;
        ensure!(request[..size].starts_with(b"GET /readyz HTTP/1.1"), "an odd request");
        let line = |worker: u8| format!("worker {worker} has not listened yet ({count} s)\n");
        let body = line(0) + &line(1);
        let answer =
            format!("HTTP/1.1 503 Service Unavailable\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await?;
    }
}

#[tokio::test]
async fn a_pod_that_is_not_ready_is_told_in_its_supervisors_words() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let address = own_address().await?;
    let listener = TcpListener::bind((address, 0)).await?;
    let port = listener.local_addr()?.port();
    let asked = Arc::new(AtomicUsize::new(0));
    tokio::spawn(complaining_supervisor(listener, Arc::clone(&asked)));

    fixture.apply("shop", app(json!({ "replicas": 1, "supervisor": { "adminPort": port } }))).await?;
    let pod = fixture.pods("shop", 1).await?[0].name_any();
    let started = Timestamp::now() - SignedDuration::from_secs(12);
    let unready = json!({
        "phase": "Running", "hostIP": "192.0.2.7", "hostIPs": [{ "ip": "192.0.2.7" }],
        "podIP": address, "podIPs": [{ "ip": address }],
        "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z" }],
        "containerStatuses": [{
            "name": names::CONTAINER_APP, "image": "a", "imageID": "a", "ready": false, "restartCount": 0,
            "state": { "running": { "startedAt": started } },
        }],
    });
    fixture.merge_status::<Pod>(&pod, unready).await?;

    // A supervisor that is slow to answer is asked again, and what it says is told then.
    let words = "worker 0 has not listened yet (and 1 other worker); its log";
    let log = format!("`kubectl logs {pod} -c app`");
    let told = |app: &WorkerApp| {
        let ready = condition(app, ConditionType::Ready).filter(|ready| ready.reason == "NotReady");
        ready.is_some_and(|ready| ready.message.contains(words) && ready.message.contains(&log))
    };
    fixture.until_is("shop", words, told).await?;
    fixture.told_once(&operator, "shop", "NotReady").await?;

    // It is asked again, and that costs no write: the seconds that differ are not told.
    fixture.at_rest(&operator).await?;
    operator.recorder.take();
    let (before, begun) = (asked.load(Ordering::SeqCst), Instant::now());
    eventually("the supervisor to be asked again", async || {
        ensure!(asked.load(Ordering::SeqCst) > before, "it was asked {before} times");
        Ok(())
    })
    .await?;
    fixture.until_quiet(&operator).await?;
    ensure!(operator.recorder.all().is_empty(), "{:?}", operator.recorder.all());
    let (times, seconds) = (asked.load(Ordering::SeqCst) - before, begun.elapsed().as_secs());
    ensure!(u64::try_from(times)? <= 2 + seconds / 10, "asked {times} times in {seconds} s");

    // Nobody asks a pod that is ready.
    fixture.serve("shop", 1).await?;
    fixture.until_condition("shop", ConditionType::Ready, "True", "Ready").await?;
    fixture.at_rest(&operator).await?;
    let before = asked.load(Ordering::SeqCst);
    fixture.silent(&operator, "shop", SILENCE).await?;
    ensure!(asked.load(Ordering::SeqCst) == before);
    fixture.end(operator).await
}

#[tokio::test]
async fn a_missing_metrics_server_is_told_with_the_remedy() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "autoscaling": { "minReplicas": 1, "maxReplicas": 3 } }))).await?;
    let told = fixture.until_condition("shop", ScalingActive, "False", "MetricsUnavailable").await?;
    ensure!(told.message.contains("is metrics-server installed?"), "{}", told.message);
    // That the app can't be scaled doesn't keep it from serving.
    fixture.serve("shop", 1).await?;
    fixture.until_condition("shop", ConditionType::Ready, "True", "Ready").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn an_app_that_cannot_be_read_is_told_and_delays_no_other() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    // The schema of a field that is a number or a name bounds no number: this passes it, and fits no type.
    let huge = app(json!({ "readinessProbe": { "httpGet": { "port": 5_000_000_000_i64 } } }));
    // Not by its type, which couldn't read the answer.
    fixture.apply_raw("huge", huge).await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;
    let unreadable = |app: &Value| {
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["reason"] == "Unreadable" && one["type"] == "Reconciled")
    };
    let told = eventually("it to be told", async || {
        unreadable(&fixture.raw::<WorkerApp>("huge").await?).context("nothing was told")
    })
    .await?;
    let message = told["message"].as_str().unwrap_or_default();
    ensure!(message.contains("spec.readinessProbe.httpGet.port can't be read"), "{message}");

    // An operator that starts with it in the list works too, and it recovers by an edit.
    operator.stop().await?;
    let operator = fixture.operator().await?;
    fixture.apply("huge", app(json!({ "readinessProbe": { "httpGet": { "port": 3000 } } }))).await?;
    fixture.until_reconciled("huge").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn events_are_few() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.serve("shop", 1).await?;
    fixture.until_condition("shop", ConditionType::Ready, "True", "Ready").await?;
    for port in [81, 82] {
        fixture.apply("shop", app(json!({ "replicas": 1, "service": { "port": port } }))).await?;
        fixture
            .until_is("shop", "the port", |service: &Service| {
                service
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.ports.as_ref())
                    .is_some_and(|ports| ports[0].port == port)
            })
            .await?;
        fixture.until_condition("shop", ConditionType::Ready, "True", "Ready").await?;
    }
    fixture.told_once(&operator, "shop", "Ready").await?;
    let events = fixture.events("shop").await?;
    ensure!(events.len() == 1, "{events:?}");
    fixture.end(operator).await
}
