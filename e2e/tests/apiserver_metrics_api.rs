//! The metrics API behind a real API server: what `kubectl get --raw` says, a real HorizontalPodAutoscaler, who is let in, whose
//! the API group is, and what is left when it goes.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Pod, events::v1::Event},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use workerapp_e2e::{
    Fixture, app, cluster,
    fixture::PATIENCE,
    metrics_api::{
        self, FOREIGN, MetricsApi, NAME, Supervisor, containers, eventually, labels, namespaces_still_go,
        pod, raw, registered, run_pod,
    },
    nodes::run,
};

const IN_FLIGHT: &str = "workerapp_requests_in_flight";

fn path(fixture: &Fixture, version: &str, what: &str) -> String {
    format!("/apis/custom.metrics.k8s.io/{version}/namespaces/{}/{what}", fixture.namespace)
}

/// Names and values of the answer.
async fn values(fixture: &Fixture, what: &str) -> Result<Vec<(String, String)>> {
    let list = raw(&fixture.client, &path(fixture, "v1beta2", what)).await?;
    let items = list["items"].as_array().context("no items")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(items.iter().map(|item| (text(&item["describedObject"]["name"]), text(&item["value"]))).collect())
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn kubectl_reads_pods_and_apps() -> Result<()> {
    let _turn = metrics_api::turn().await?;
    let fixture = Fixture::new().await?;
    let api = MetricsApi::start(&fixture).await?;
    let (first, second) = (pod(&fixture, "web", "web-1").await?, pod(&fixture, "web", "web-2").await?);
    let other = pod(&fixture, "shop", "shop-1").await?;
    first.say(Some((3, 0.5)));
    second.say(Some((4, 0.75)));
    other.say(Some((1, 0.25)));

    let all = format!("pods/*/{IN_FLIGHT}");
    eventually("all pods to be heard", async || {
        let found = values(&fixture, &all).await?;
        ensure!(found == pairs(&[("shop-1", "1"), ("web-1", "3"), ("web-2", "4")]), "{found:?}");
        Ok(())
    })
    .await?;
    let web = format!("pods/*/{IN_FLIGHT}?labelSelector=app.kubernetes.io%2Finstance%3Dweb");
    assert_eq!(values(&fixture, &web).await?, pairs(&[("web-1", "3"), ("web-2", "4")]));
    let one = format!("pods/web-2/{IN_FLIGHT}");
    assert_eq!(values(&fixture, &one).await?, pairs(&[("web-2", "4")]));
    let app = "workerapps.workerapp.dev/web";
    assert_eq!(values(&fixture, &format!("{app}/{IN_FLIGHT}")).await?, pairs(&[("web", "7")]));
    let utilization = values(&fixture, &format!("{app}/workerapp_event_loop_utilization")).await?;
    assert_eq!(utilization, pairs(&[("web", "625m")]));
    // The older version, by kubectl as a person would ask.
    let text = run("kubectl", &["get", "--raw", &path(&fixture, "v1beta1", &one)]).await?;
    assert_eq!(serde_json::from_str::<Value>(&text)?["items"][0]["metricName"], IN_FLIGHT);
    let resources = run("kubectl", &["get", "--raw", "/apis/custom.metrics.k8s.io/v1beta2"]).await?;
    ensure!(resources.contains(&format!("pods/{IN_FLIGHT}")), "{resources}");
    // The API server takes up what the API says of itself.
    eventually("OpenAPI", async || {
        let paths = raw(&fixture.client, "/openapi/v3").await?;
        let known = &paths["paths"]["apis/custom.metrics.k8s.io/v1beta2"]["serverRelativeURL"];
        raw(&fixture.client, known.as_str().context("not there yet")?).await.map(drop)
    })
    .await?;

    // One that falls silent has no value: neither its last one nor a zero.
    second.say(None);
    eventually("web-2 to have no value", async || {
        let found = values(&fixture, &web).await?;
        ensure!(found == pairs(&[("web-1", "3")]), "{found:?}");
        Ok(())
    })
    .await?;
    let error = values(&fixture, &format!("{app}/{IN_FLIGHT}")).await.unwrap_err().to_string();
    ensure!(error.contains("pod web-2 has not told this"), "{error}");

    fixture.delete::<Pod>("web-2").await?;
    let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let _ = fixture.api::<Pod>().delete("web-2", &params).await;
    eventually("the pod to be forgotten", async || {
        let app = values(&fixture, &format!("{app}/{IN_FLIGHT}")).await?;
        ensure!(app == pairs(&[("web", "3")]), "{app:?}");
        Ok(())
    })
    .await?;

    api.uninstall().await?;
    fixture.remove().await
}

async fn as_user(user: &str) -> Result<Client> {
    let mut config = cluster::config().await?;
    config.auth_info.impersonate = Some(user.into());
    Ok(Client::try_from(config)?)
}

#[tokio::test]
async fn only_the_api_server_and_only_who_may() -> Result<()> {
    let _turn = metrics_api::turn().await?;
    let fixture = Fixture::new().await?;
    let api = MetricsApi::start(&fixture).await?;
    let supervisor = pod(&fixture, "web", "web-1").await?;
    supervisor.say(Some((3, 0.5)));
    let one = path(&fixture, "v1beta2", &format!("pods/web-1/{IN_FLIGHT}"));
    eventually("the pod to be heard", async || raw(&fixture.client, &one).await.map(drop)).await?;

    let nobody = as_user("jane").await?;
    let refused = raw(&nobody, &one).await.unwrap_err().to_string();
    ensure!(refused.contains("forbidden"), "{refused}");
    // Past the API server: with the certificate of an ordinary client, and with none.
    let direct = |config: kube::Config| {
        let mut config = config;
        config.cluster_url = format!("https://{}", api.address).parse()?;
        config.accept_invalid_certs = true;
        config.default_retry = false;
        anyhow::Ok(Client::try_from(config)?)
    };
    let admin = direct(cluster::config().await?)?;
    let refused = raw(&admin, &one).await.unwrap_err().to_string();
    ensure!(refused.contains("requestheader-allowed-names"), "{refused}");
    let mut anonymous = cluster::config().await?;
    anonymous.auth_info = kube::config::AuthInfo::default();
    let refused = raw(&direct(anonymous)?, &one).await;
    ensure!(refused.is_err(), "without a certificate: {refused:?}");

    // Whoever holds the front proxy's certificate can name any user, and is asked about that user's rights.
    let proxy = front_proxy().await?;
    let asked = async |user: &str| {
        let request = http::Request::get(&one).header("X-Remote-User", user).body(Vec::new())?;
        anyhow::Ok(direct(proxy.clone())?.request::<Value>(request).await)
    };
    let refused = asked("jane").await?.unwrap_err().to_string();
    ensure!(refused.contains("\"jane\" may not get"), "{refused}");
    asked("system:serviceaccount:kube-system:horizontal-pod-autoscaler")
        .await?
        .context("the autoscaler may")?;
    let unnamed = raw(&direct(proxy.clone())?, &one).await.unwrap_err().to_string();
    ensure!(unnamed.contains("no header names a user"), "{unnamed}");

    api.uninstall().await?;
    fixture.remove().await
}

/// The API server's own certificate for asking others, which lies beside the testbed's kubeconfig.
async fn front_proxy() -> Result<kube::Config> {
    let kubeconfig = std::env::var(cluster::VARIABLE)?;
    let pki = std::path::Path::new(&kubeconfig).parent().context("no folder")?.join("pki");
    let mut config = cluster::config().await?;
    let file = |name: &str| Some(pki.join(name).to_string_lossy().into_owned());
    config.auth_info = kube::config::AuthInfo {
        client_certificate: file("front-proxy.crt"),
        client_key: file("front-proxy.key"),
        ..kube::config::AuthInfo::default()
    };
    Ok(config)
}

async fn deployment(fixture: &Fixture, name: &str, app: &str, port: u16) -> Result<()> {
    fixture
        .create::<Deployment>(json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app.kubernetes.io/instance": app } },
                "template": { "metadata": { "labels": labels(app) }, "spec": { "containers": containers(port) } },
            },
        }))
        .await?;
    Ok(())
}

/// `kubernetes_119788`, `kubernetes_61007`: what is missing neither blocks nor scales down.
#[tokio::test]
async fn kubernetes_61007_an_autoscaler_follows_the_workers_and_holds_when_they_are_silent() -> Result<()> {
    let _turn = metrics_api::turn().await?;
    let fixture = Fixture::new().await?;
    let api = MetricsApi::start(&fixture).await?;
    let supervisor = Arc::new(Supervisor::start().await?);
    supervisor.say(Some((20, 0.9)));
    deployment(&fixture, "web", "web", supervisor.address.port()).await?;
    fixture
        .create::<HorizontalPodAutoscaler>(json!({
            "metadata": { "name": "web" },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 1, "maxReplicas": 4,
                "metrics": [{ "type": "Pods", "pods": {
                    "metric": { "name": IN_FLIGHT }, "target": { "type": "AverageValue", "averageValue": "5" },
                } }],
                "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
            },
        }))
        .await?;
    let scaled = async |pods: i32| {
        eventually(&format!("{pods} pods to be wanted"), async || {
            // No node makes them run.
            for pod in fixture.api::<Pod>().list(&ListParams::default()).await? {
                run_pod(&fixture, &pod.name_any(), supervisor.address.ip()).await?;
            }
            let wanted = fixture.api::<Deployment>().get("web").await?.spec.replicas;
            let autoscaler = fixture.api::<HorizontalPodAutoscaler>().get("web").await?;
            // It scales first and writes its own status after that: a reader in between sees the conditions of before.
            let written = autoscaler.status.as_ref().map(|status| status.desired_replicas);
            ensure!(wanted == Some(pods) && written == wanted, "{wanted:?}: {:?}", autoscaler.status);
            Ok(())
        })
        .await
    };
    scaled(4).await?;

    supervisor.say(None);
    let fallen_silent = |autoscaler: &HorizontalPodAutoscaler| {
        let conditions = autoscaler.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|one| one.type_ == "ScalingActive" && one.status == "False")
    };
    let what = "the autoscaler to see that metrics are missing";
    let autoscaler = fixture.until_is::<HorizontalPodAutoscaler>("web", what, fallen_silent).await?;
    assert_eq!(autoscaler.status.map(|status| status.desired_replicas), Some(4));
    let wanted = fixture.api::<Deployment>().get("web").await?.spec.replicas;
    assert_eq!(wanted, Some(4), "no scale-down on data that is missing");

    supervisor.say(Some((1, 0.1)));
    scaled(1).await?;
    api.uninstall().await?;
    fixture.remove().await
}

async fn create_foreign(client: &Client, version: &str) -> Result<APIService> {
    let body = json!({
        "metadata": { "name": format!("{version}.custom.metrics.k8s.io") },
        "spec": {
            "group": "custom.metrics.k8s.io", "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": { "namespace": "monitoring", "name": FOREIGN }, "insecureSkipTLSVerify": true,
        },
    });
    let services: Api<APIService> = Api::all(client.clone());
    Ok(services.create(&PostParams::default(), &serde_json::from_value(body)?).await?)
}

/// `keda_2093`, `custom_metrics_apiserver_70`: two adapters of one group, of which the second silently replaces the first.
#[tokio::test]
async fn keda_2093_what_someone_else_serves_is_left_alone() -> Result<()> {
    let _turn = metrics_api::turn().await?;
    let fixture = Fixture::new().await?;
    let services: Api<APIService> = Api::all(fixture.client.clone());
    let name = "v1beta1.custom.metrics.k8s.io";
    let foreign = create_foreign(&fixture.client, "v1beta1").await?;
    deployment(&fixture, NAME, "api", 1).await?;
    let api = MetricsApi::launch(&fixture).await?;
    let told = async || {
        eventually("it to be told", async || {
            let (code, text) = api.get("/readyz").await?;
            let named = text.contains("leads to Service monitoring/another-adapter, which is left alone");
            ensure!(code == 503 && named, "{text}");
            Ok(())
        })
        .await
    };
    told().await?;
    eventually("an event", async || {
        let events = fixture.api::<Event>().list(&ListParams::default()).await?;
        let mut reasons = events.iter().filter_map(|event| event.reason.as_deref());
        ensure!(reasons.any(|reason| reason == "ForeignAPIService"));
        Ok(())
    })
    .await?;
    let found = registered(&fixture.client).await?;
    ensure!(found.len() == 1 && found[0].spec == foreign.spec, "{found:?}");

    // Once the other one is gone, both versions are served; when it comes back, both are left to it.
    services.delete(name, &DeleteParams::default()).await?;
    eventually("both versions", async || {
        let found = registered(&fixture.client).await?;
        ensure!(found.len() == 2 && found.iter().all(|one| !one.owner_references().is_empty()), "{found:?}");
        for service in found {
            let spec = service.spec.context("no spec")?;
            ensure!(spec.insecure_skip_tls_verify != Some(true) && spec.ca_bundle.is_some(), "{spec:?}");
        }
        Ok(())
    })
    .await?;
    // It says so after they are there: until then what it was told before stands.
    eventually("it to be ready", async || {
        let (code, text) = api.get("/readyz").await?;
        ensure!(code == 200, "{text}");
        Ok(())
    })
    .await?;
    let theirs = json!({ "spec": {
        "service": { "namespace": "monitoring", "name": FOREIGN },
        "caBundle": null, "insecureSkipTLSVerify": true,
    } });
    let params = kube::api::PatchParams::default();
    services.patch(name, &params, &kube::api::Patch::Merge(theirs)).await?;
    told().await?;
    let names: Vec<_> = registered(&fixture.client).await?.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, [name], "the version that was ours would hide theirs");

    services.delete(name, &DeleteParams::default()).await?;
    api.uninstall().await?;
    fixture.remove().await
}

/// `kubernetes_83332`, `kubernetes_56430`: an APIService without a server keeps every namespace from being deleted.
#[tokio::test]
async fn kubernetes_83332_nothing_dead_is_left_behind() -> Result<()> {
    let _turn = metrics_api::turn().await?;
    // As `helm uninstall` does it: Kubernetes deletes what the ClusterRole owned.
    let fixture = Fixture::new().await?;
    let api = MetricsApi::start(&fixture).await?;
    namespaces_still_go(&fixture.client, PATIENCE).await.context("while it serves")?;
    api.uninstall().await?;
    namespaces_still_go(&fixture.client, PATIENCE).await.context("after it was uninstalled")?;
    fixture.remove().await?;

    // Its Deployment goes, and nothing else does: the last replica takes the APIServices along.
    let fixture = Fixture::new().await?;
    deployment(&fixture, NAME, "api", 1).await?;
    let api = MetricsApi::start(&fixture).await?;
    api.stop().await?;
    assert_eq!(registered(&fixture.client).await?.len(), 2, "another replica may serve");
    let scale = json!({ "spec": { "replicas": 0 } });
    fixture.merge::<Deployment>(NAME, scale).await?;
    let namespace = fixture.namespace.clone();
    let again = Fixture { client: fixture.client.clone(), namespace };
    for kind in ["service", "endpointslice"] {
        run("kubectl", &["-n", &again.namespace, "delete", kind, NAME]).await?;
    }
    run("kubectl", &["delete", "clusterrole", &format!("{}-{NAME}", again.namespace)]).await?;
    // Longer than it takes until the APIServices are looked at again: they must not be made anew meanwhile.
    let api = MetricsApi::launch_with(&again, Duration::from_secs(13)).await?.serving().await?;
    let client = again.client.clone();
    api.stop().await?;
    metrics_api::until_unregistered(&client).await?;
    namespaces_still_go(&client, PATIENCE).await.context("after its Deployment was scaled to 0")?;
    again.remove().await
}

/// `kubernetes_119788`, `kubernetes_61007`: one metric that is unknown blocks scale-down for ever.
#[tokio::test]
async fn kubernetes_119788_an_app_scales_on_a_metric_only_while_somebody_serves_it() -> Result<()> {
    let _turn = metrics_api::turn().await?;
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let autoscaling = json!({ "maxReplicas": 4, "inFlight": { "averageValue": 20 } });
    fixture.apply("shop", app(json!({ "autoscaling": autoscaling }))).await?;
    let scales_on = async |kind: &str| {
        let what = format!("the autoscaler to go by {kind} alone");
        let goes_by = |autoscaler: &HorizontalPodAutoscaler| {
            let metrics = autoscaler.spec.metrics.iter().flatten();
            metrics.map(|metric| metric.type_.as_str()).eq([kind])
        };
        fixture.until_is::<HorizontalPodAutoscaler>("shop", &what, goes_by).await
    };
    scales_on("ContainerResource").await?;
    let told = fixture.until_reconciled("shop").await?.message;
    ensure!(told.contains("autoscaling.inFlight") && told.contains("scales on CPU alone"), "{told}");

    let api = MetricsApi::start(&fixture).await?;
    scales_on("Pods").await?;
    eventually("the warning to go", async || {
        let told = fixture.until_reconciled("shop").await?.message;
        ensure!(!told.contains("inFlight"), "{told}");
        Ok(())
    })
    .await?;
    api.uninstall().await?;
    scales_on("ContainerResource").await?;
    fixture.end(operator).await
}
