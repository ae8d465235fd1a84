//! The children: made with few requests, kept as they should be, and nothing of others touched.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, condition::ConditionType, names};
use workerapp_e2e::{
    Fixture, app,
    fixture::{Namespaced, SILENCE},
};

/// Well within the time for which the operator gathers changes.
const MOMENT: Duration = Duration::from_millis(100);

fn scaled() -> Value {
    app(json!({ "autoscaling": { "minReplicas": 1, "maxReplicas": 5, "cpu": { "averageUtilization": 50 } } }))
}

#[tokio::test]
async fn a_new_app_costs_three_applies_and_two_status_writes() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", scaled()).await?;
    fixture.until_reconciled("shop").await?;
    let counted = |app: &WorkerApp| app.status.as_ref().is_some_and(|status| status.replicas == Some(1));
    fixture.until_is("shop", "the Deployment's numbers", counted).await?;

    let sent = operator.recorder.all();
    let children: Vec<_> = sent.iter().filter(|sent| sent.is_child()).map(ToString::to_string).collect();
    ensure!(children.len() == 3, "{children:?}");
    // What changes within a moment is told at once; on a slow machine a rollout takes several.
    let statuses: Vec<_> = sent.iter().filter(|sent| sent.is_status()).map(|sent| sent.at).collect();
    let moments = statuses
        .get(1)
        .zip(statuses.last())
        .map_or(0, |(second, last)| last.duration_since(*second).as_millis() / MOMENT.as_millis());
    ensure!(u128::try_from(statuses.len())? <= 2 + moments, "{} status writes: {sent:?}", statuses.len());
    fixture.end(operator).await
}

#[tokio::test]
async fn spin_operator_149_what_is_changed_by_hand_comes_back() -> Result<()> {
    let (fixture, operator) = Fixture::settled(scaled()).await?;

    let image = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "app", "image": "other:1" }] } } } });
    fixture.strategic::<Deployment>("shop", image).await?;
    let back = |deployment: &Deployment| {
        let pod = deployment.spec.template.spec.as_ref();
        pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some("localhost/app:1"))
    };
    fixture.until_is("shop", "the app's image", back).await?;

    fixture
        .merge::<Service>("shop", json!({ "spec": { "selector": { names::LABEL_NAME: "else" } } }))
        .await?;
    let back = |service: &Service| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|selector| selector[names::LABEL_NAME] == "shop")
    };
    fixture.until_is("shop", "the app's selector", back).await?;

    fixture.merge::<HorizontalPodAutoscaler>("shop", json!({ "spec": { "maxReplicas": 50 } })).await?;
    let back = |autoscaler: &HorizontalPodAutoscaler| autoscaler.spec.max_replicas == 5;
    fixture.until_is("shop", "the app's maxReplicas", back).await?;

    // Without this label the operator's caches no longer hold it.
    fixture
        .merge::<Service>("shop", json!({ "metadata": { "labels": { names::LABEL_MANAGED_BY: null } } }))
        .await?;
    let back = |service: &Service| service.labels().contains_key(names::LABEL_MANAGED_BY);
    fixture.until_is("shop", "the operator's label", back).await?;

    let sent: Vec<_> =
        operator.recorder.all().into_iter().filter(workerapp_e2e::recorder::Sent::is_child).collect();
    ensure!(sent.len() == 4, "one apply for each: {sent:?}");
    fixture.end(operator).await
}

#[tokio::test]
async fn opentelemetry_operator_2568_what_is_deleted_by_hand_comes_back() -> Result<()> {
    async fn comes_back<K: Namespaced>(fixture: &Fixture) -> Result<()> {
        let before = fixture.until_is("shop", "its being there", |_: &K| true).await?.uid();
        fixture.delete::<K>("shop").await?;
        fixture.until_is("shop", "a new one", |object: &K| object.uid() != before).await?;
        Ok(())
    }
    let (fixture, operator) = Fixture::settled(scaled()).await?;
    comes_back::<HorizontalPodAutoscaler>(&fixture).await?;
    comes_back::<Service>(&fixture).await?;
    comes_back::<Deployment>(&fixture).await?;
    fixture.until_reconciled("shop").await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn starrocks_operator_223_the_autoscaler_goes_with_its_spec_and_is_deleted_once() -> Result<()> {
    let (fixture, operator) = Fixture::settled(scaled()).await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until("shop", "its end", |hpa: Option<&HorizontalPodAutoscaler>| hpa.is_none()).await?;
    fixture.until_reconciled("shop").await?;
    let app: WorkerApp = fixture.api().get("shop").await?;
    let conditions = app.status.map(|status| status.conditions).unwrap_or_default();
    ensure!(!conditions.iter().any(|condition| condition.type_ == "ScalingActive"), "{conditions:?}");

    // Each look at the app from now on finds none, and sends nothing for it.
    for n in 0..3 {
        let spec = workerapp_e2e::app(json!({ "env": [{ "name": "N", "value": n.to_string() }] }));
        fixture.apply("shop", spec).await?;
        fixture.until_reconciled("shop").await?;
    }
    let sent = operator.recorder.all();
    let deletes: Vec<_> = sent.iter().filter(|sent| sent.method == "DELETE").collect();
    ensure!(deletes.len() == 1, "{deletes:?}");
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}

/// Objects of the app's name that belong to someone else.
fn foreign(kind: &str) -> Value {
    let metadata = json!({ "name": "shop", "labels": { "owner": "someone" } });
    match kind {
        "Deployment" => json!({ "metadata": metadata, "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "x": "y" } },
            "template": { "metadata": { "labels": { "x": "y" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } },
        } }),
        "Service" => {
            json!({ "metadata": metadata, "spec": { "ports": [{ "port": 1234 }], "selector": { "x": "y" } } })
        }
        _ => json!({ "metadata": metadata, "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "other" }, "maxReplicas": 3,
        } }),
    }
}

/// Everything but `kind` is made (and for a Deployment its autoscaler), the foreign object stays, and the app takes over once it is gone.
async fn clash<K: Namespaced>(kind: &str) -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let before = fixture.create::<K>(foreign(kind)).await?.uid();
    fixture.apply("shop", scaled()).await?;

    let told = fixture.until_condition("shop", ConditionType::Reconciled, "False", "NameClash").await?;
    ensure!(told.message.contains(&format!("{kind} shop exists and belongs to nobody")), "{}", told.message);
    fixture.until_condition("shop", ConditionType::Ready, "False", "NameClash").await?;
    for other in
        ["Deployment", "Service", "HorizontalPodAutoscaler"].into_iter().filter(|other| *other != kind)
    {
        match other {
            "Deployment" => drop(fixture.until_is("shop", "the app's", |_: &Deployment| true).await?),
            "Service" => drop(fixture.until_is("shop", "the app's", |_: &Service| true).await?),
            // It would scale what isn't the app's.
            _ if kind == "Deployment" => {}
            _ => drop(fixture.until_is("shop", "the app's", |_: &HorizontalPodAutoscaler| true).await?),
        }
    }

    // It is tried again and again, which is told once and touches nothing.
    tokio::time::sleep(Duration::from_secs(4)).await;
    fixture.told_once(&operator, "shop", "NameClash").await?;
    let now = fixture.raw::<K>("shop").await?;
    ensure!(now["metadata"]["uid"].as_str().map(str::to_owned) == before);
    let managers = now["metadata"]["managedFields"].to_string();
    ensure!(!managers.contains(names::FIELD_MANAGER), "the operator wrote it: {managers}");

    fixture.delete::<K>("shop").await?;
    fixture.until_reconciled("shop").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn hpa_operator_11_a_foreign_autoscaler_is_left_alone() -> Result<()> {
    clash::<HorizontalPodAutoscaler>("HorizontalPodAutoscaler").await
}

#[tokio::test]
async fn a_foreign_service_is_left_alone() -> Result<()> {
    clash::<Service>("Service").await
}

#[tokio::test]
async fn a_foreign_deployment_is_left_alone() -> Result<()> {
    clash::<Deployment>("Deployment").await
}

#[tokio::test]
async fn threescale_operator_1175_a_foreign_autoscaler_outlives_an_app_without_one() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    // Even one that carries the operator's label, as a copied manifest does.
    let mut body = foreign("HorizontalPodAutoscaler");
    body["metadata"]["labels"] = json!({ names::LABEL_MANAGED_BY: names::MANAGED_BY });
    let before = fixture.create::<HorizontalPodAutoscaler>(body).await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    let after: HorizontalPodAutoscaler = fixture.api().get("shop").await?;
    ensure!(before.uid() == after.uid());
    fixture.end(operator).await
}

#[tokio::test]
async fn spin_operator_102_an_app_that_cannot_be_reconciled_can_be_deleted() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.create::<Service>(foreign("Service")).await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_condition("shop", ConditionType::Reconciled, "False", "NameClash").await?;
    fixture.delete::<WorkerApp>("shop").await?;
    fixture.until("shop", "its end", |app: Option<&WorkerApp>| app.is_none()).await?;
    // Kubernetes deletes what the app owned, and the foreign Service stays.
    fixture.until("shop", "its end", |deployment: Option<&Deployment>| deployment.is_none()).await?;
    fixture.api::<Service>().get("shop").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn kubernetes_124307_apps_with_alike_names_have_pods_of_their_own() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    for name in ["a", "a-b"] {
        fixture.apply(name, app(json!({ "replicas": 1 }))).await?;
    }
    for name in ["a", "a-b"] {
        fixture.until_reconciled(name).await?;
        let pods = fixture.pods(name, 1).await?;
        ensure!(pods[0].name_any().starts_with(&format!("{name}-")), "{}", pods[0].name_any());
        let service: Service = fixture.api().get(name).await?;
        let selector = service.spec.and_then(|spec| spec.selector).unwrap_or_default();
        let own = selector.iter().filter(|(label, _)| *label != names::LABEL_MANAGED_BY);
        ensure!(own.clone().count() == 2 && own.clone().all(|(_, value)| value == name), "{selector:?}");
    }
    let labels = json!({ "pod": { "labels": { names::LABEL_INSTANCE: "a" } } });
    let refused = fixture.apply("a-b", app(json!({ "metadata": labels }))).await;
    ensure!(refused.is_err_and(|error| error.to_string().contains("set by the operator")));
    fixture.end(operator).await
}

#[tokio::test]
async fn infinispan_operator_1736_the_spec_stays_as_it_was_written() -> Result<()> {
    let (fixture, operator) = Fixture::settled(scaled()).await?;
    let app = fixture.raw::<WorkerApp>("shop").await?;
    ensure!(app["spec"] == scaled(), "{}", app["spec"]);
    ensure!(app["metadata"]["finalizers"].is_null());
    for entry in app["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let ours = entry["manager"] == names::FIELD_MANAGER;
        ensure!(!ours || entry["subresource"] == "status", "{entry}");
        ensure!(!ours || entry["fieldsV1"]["f:spec"].is_null(), "{entry}");
    }
    fixture.end(operator).await
}

#[tokio::test]
async fn an_app_with_odd_values_everywhere_is_settled_also_after_a_restart() -> Result<()> {
    let spec = app(json!({
        "imagePullPolicy": "IfNotPresent",
        "ports": [{ "name": "ws", "port": 3001 }],
        "env": [
            { "name": "EMPTY", "value": "" },
            { "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": "CPUS", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": 1 } } },
            { "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k", "optional": false } } },
        ],
        "envFrom": [{ "configMapRef": { "name": "c", "optional": true } }],
        "resources": { "requests": { "cpu": "0.5", "memory": "0.5Gi" }, "limits": { "cpu": "1.5e0", "memory": 1_073_741_824 } },
        "minReadySeconds": 0,
        "startupProbe": { "tcpSocket": { "port": "app" }, "periodSeconds": 0, "initialDelaySeconds": 0 },
        "readinessProbe": { "httpGet": { "port": 3000, "path": "/health", "httpHeaders": [{ "name": "X", "value": "" }] } },
        "lifecycle": { "preStop": { "sleep": { "seconds": 1 } } },
        "volumes": [
            { "name": "tmp", "emptyDir": { "sizeLimit": "1024Mi" } },
            { "name": "conf", "configMap": { "name": "c", "items": [{ "key": "a", "path": "b" }] } },
            { "name": "all", "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } },
        ],
        "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp", "readOnly": false, "subPath": "" }, { "name": "conf", "mountPath": "/conf" }],
        "securityContext": { "runAsUser": 0, "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        "podSecurityContext": { "fsGroup": 0, "sysctls": [{ "name": "net.ipv4.tcp_syncookies", "value": "1" }] },
        "automountServiceAccountToken": false,
        "imagePullSecrets": [{ "name": "r" }],
        "nodeSelector": { "kubernetes.io/arch": "amd64" },
        "tolerations": [{ "key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0 }, { "operator": "Exists" }],
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 1, "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "a": "b" } } } },
        ] } },
        "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { "a": "b" } } }],
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "50%", "maxUnavailable": 0 } },
        "revisionHistoryLimit": 0,
        "service": { "metrics": {}, "externalTrafficPolicy": "Local" },
        "autoscaling": { "maxReplicas": 3, "behavior": {
            "scaleDown": { "stabilizationWindowSeconds": 0, "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 15 }] },
        } },
        "metadata": { "pod": { "labels": { "a": "b" }, "annotations": { "empty": "" } }, "service": { "annotations": { "x": "y: 'z'" } } },
    }));
    let (fixture, operator) = Fixture::settled(spec).await?;
    operator.stop().await?;
    // The second operator knows nothing of the first one's writes.
    let operator = fixture.operator().await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    ensure!(operator.recorder.history().is_empty(), "{:?}", operator.recorder.history());
    fixture.end(operator).await
}

#[tokio::test]
async fn a_spec_can_change_between_things_that_exclude_each_other() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    for more in [
        json!({ "strategy": { "type": "RollingUpdate" } }),
        json!({ "strategy": { "type": "Recreate" } }),
        json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 2 } } }),
        json!({}),
        json!({ "readinessProbe": { "tcpSocket": { "port": 3000 } } }),
        json!({ "readinessProbe": { "exec": { "command": ["true"] } } }),
        json!({ "readinessProbe": { "grpc": { "port": 3000 } } }),
        json!({ "volumes": [{ "name": "v", "emptyDir": {} }], "volumeMounts": [{ "name": "v", "mountPath": "/a" }] }),
        json!({ "volumes": [{ "name": "v", "configMap": { "name": "c" } }], "volumeMounts": [{ "name": "v", "mountPath": "/b" }] }),
        json!({ "volumes": [{ "name": "v", "hostPath": { "path": "/x" } }], "volumeMounts": [{ "name": "v", "mountPath": "/b" }] }),
        json!({ "env": [{ "name": "A", "value": "x" }] }),
        json!({ "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] }),
        json!({ "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }] }),
        json!({ "lifecycle": { "preStop": { "sleep": { "seconds": 1 } } } }),
        json!({ "lifecycle": { "preStop": { "exec": { "command": ["true"] } } } }),
        json!({ "service": { "type": "LoadBalancer", "externalTrafficPolicy": "Local" } }),
        json!({ "service": { "type": "ClusterIP" } }),
    ] {
        fixture.apply("shop", app(more.clone())).await?;
        fixture.until_reconciled("shop").await.map_err(|error| error.context(more.to_string()))?;
    }
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}

/// Fields that Kubernetes fills in beside those of the spec go with them.
#[tokio::test]
async fn an_autoscaler_falls_back_to_kubernetes_own_behavior() -> Result<()> {
    let behavior = json!({ "scaleDown": { "selectPolicy": "Disabled" }, "scaleUp": { "stabilizationWindowSeconds": 60 } });
    let scaled = app(json!({ "autoscaling": { "maxReplicas": 3, "behavior": behavior } }));
    let (fixture, operator) = Fixture::settled(scaled).await?;
    let autoscaler: HorizontalPodAutoscaler = fixture.api().get("shop").await?;
    let down = autoscaler.spec.behavior.and_then(|behavior| behavior.scale_down);
    ensure!(down.is_some_and(|rules| rules.select_policy.as_deref() == Some("Disabled")));
    fixture.apply("shop", app(json!({ "autoscaling": { "maxReplicas": 3 } }))).await?;
    let plain = |autoscaler: &HorizontalPodAutoscaler| autoscaler.spec.behavior.is_none();
    fixture.until_is("shop", "no behavior of its own", plain).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn dapr_7813_kubernetes_79365_the_autoscaler_measures_the_apps_own_container() -> Result<()> {
    let (fixture, operator) = Fixture::settled(scaled()).await?;
    let autoscaler: HorizontalPodAutoscaler = fixture.api().get("shop").await?;
    let metrics = autoscaler.spec.metrics.unwrap_or_default();
    ensure!(metrics.len() == 1, "{metrics:?}");
    let measured = metrics[0].container_resource.as_ref();
    ensure!(
        measured.is_some_and(|one| one.container == names::CONTAINER_APP && one.name == "cpu"),
        "{metrics:?}"
    );
    // And what is put beside it has a request of its own.
    let deployment: Deployment = fixture.api().get("shop").await?;
    let pod = deployment.spec.template.spec.unwrap_or_default();
    for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        ensure!(requests.is_some_and(|requests| requests.contains_key("cpu")), "{}", container.name);
    }
    fixture.end(operator).await
}
