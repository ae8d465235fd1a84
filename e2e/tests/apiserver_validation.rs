//! What `kubectl apply` is answered at once, by the API server itself.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use workerapp_e2e::{Fixture, app};

/// Applies `spec` under `name`; the answer has to hold each of `words`.
async fn refused(fixture: &Fixture, name: &str, spec: Value, words: &[&str]) -> Result<()> {
    match fixture.apply(name, spec.clone()).await {
        Ok(_) => bail!("accepted: {name} {spec}"),
        Err(error) => {
            let message = error.to_string();
            for word in words {
                ensure!(message.contains(word), "{spec}: no {word:?} in {message}");
            }
            Ok(())
        }
    }
}

#[tokio::test]
async fn each_rule_says_what_is_allowed() -> Result<()> {
    let fixture = Fixture::new().await?;
    for (more, words) in [
        (json!({ "command": null }), &["spec.command is required", "docker image inspect"][..]),
        (json!({ "command": [] }), &["spec.command is required"]),
        (
            json!({ "replicas": 2, "autoscaling": { "maxReplicas": 3 } }),
            &["spec.replicas and spec.autoscaling exclude each other"],
        ),
        (json!({ "replicas": -1 }), &["spec.replicas", "greater than or equal to 0"]),
        (json!({ "port": 9913 }), &["spec.supervisor.adminPort (9913 unless set)"]),
        (json!({ "port": 3000, "supervisor": { "adminPort": 3000 } }), &["spec.supervisor.adminPort"]),
        (json!({ "ports": [{ "name": "ws", "port": 9913 }] }), &["spec.supervisor.adminPort"]),
        (json!({ "port": 0 }), &["spec.port"]),
        (json!({ "port": 70000 }), &["spec.port", "65535"]),
        (
            json!({ "ports": [{ "name": "ws", "port": 1 }, { "name": "ws", "port": 2 }] }),
            &["each name in spec.ports may stand there once"],
        ),
        (
            json!({ "ports": [{ "name": "a", "port": 1 }, { "name": "b", "port": 1 }] }),
            &["each port in spec.ports may stand there once"],
        ),
        (json!({ "ports": [{ "name": "a", "port": 3000 }] }), &["spec.port not at all"]),
        (
            json!({ "ports": [{ "name": "admin", "port": 1 }] }),
            &["spec.ports[0].name", "is not app, admin or metrics"],
        ),
        (json!({ "ports": [{ "name": "Web", "port": 1 }] }), &["spec.ports[0].name", "example: ws"]),
        (json!({ "ports": [{ "name": "a-name-of-17-chars", "port": 1 }] }), &["at most 15"]),
        (
            json!({ "supervisor": { "lameDuckSeconds": 30 } }),
            &["must be less than spec.terminationGracePeriodSeconds (30 unless set)"],
        ),
        (json!({ "terminationGracePeriodSeconds": 5 }), &["spec.supervisor.lameDuckSeconds (5 unless set)"]),
        (json!({ "volumes": [{ "name": "workerapp", "emptyDir": {} }] }), &["the volume name `workerapp`"]),
        (
            json!({ "volumeMounts": [{ "name": "x", "mountPath": "/workerapp" }] }),
            &["/workerapp are the supervisor's"],
        ),
        (json!({ "service": { "nodePort": 80 } }), &["spec.service.nodePort", "between 30000 and 32767"]),
        (json!({ "service": { "nodePort": 70000 } }), &["spec.service.nodePort"]),
        (
            json!({ "service": { "type": "ClusterIP", "nodePort": 30000 } }),
            &["remove the nodePort or the type ClusterIP"],
        ),
        (
            json!({ "service": { "type": "ClusterIP", "metrics": { "nodePort": 30000 } } }),
            &["remove the nodePort or the type ClusterIP"],
        ),
        (
            json!({ "service": { "type": "ClusterIP" }, "ports": [{ "name": "ws", "port": 1, "nodePort": 30000 }] }),
            &["a nodePort in spec.ports", "remove the nodePort or the type ClusterIP"],
        ),
        (
            json!({ "service": { "type": "ClusterIP", "externalTrafficPolicy": "Local" } }),
            &["spec.service: Invalid value", "externalTrafficPolicy is about", "type ClusterIP has none"],
        ),
        (
            json!({ "service": { "nodePort": 30000, "metrics": { "nodePort": 30000 } } }),
            &["spec.service: Invalid value", "nodePort and metrics.nodePort must differ"],
        ),
        (
            json!({ "service": { "type": "External" } }),
            &["spec.service.type", "NodePort", "ClusterIP", "LoadBalancer"],
        ),
        (json!({ "service": { "externalTrafficPolicy": "local" } }), &["must be Cluster or Local"]),
        (
            json!({ "autoscaling": { "minReplicas": 5, "maxReplicas": 2 } }),
            &["spec.autoscaling: Invalid value", ": minReplicas must not be above maxReplicas"],
        ),
        (json!({ "autoscaling": { "minReplicas": 0, "maxReplicas": 2 } }), &["spec.autoscaling.minReplicas"]),
        (json!({ "autoscaling": { "maxReplicas": 2, "cpu": {} } }), &["averageUtilization: 50"]),
        (json!({ "workers": { "count": 0 } }), &["spec.workers.count", "at least 1 worker"]),
        (json!({ "workers": { "max": -1 } }), &["spec.workers.max", "at least 1 worker"]),
        (json!({ "workers": { "count": 2000 } }), &["spec.workers.count", "1024"]),
        (json!({ "runtime": "Rails" }), &["spec.runtime", "Node", "Generic"]),
        (json!({ "image": "" }), &["spec.image"]),
        (json!({ "image": null }), &["spec.image", "Required"]),
        (
            json!({ "resources": { "requests": { "cpu": "3" }, "limits": { "cpu": "2" } } }),
            &["spec.resources: Invalid value", "requests.cpu must not be above limits.cpu"],
        ),
        (
            json!({ "resources": { "requests": { "memory": "2Gi" }, "limits": { "memory": "1500Mi" } } }),
            &["requests.memory must not be above limits.memory"],
        ),
        (
            json!({ "metadata": { "pod": { "labels": { "app.kubernetes.io/name": "x" } } } }),
            &["spec.metadata.pod.labels", "set by the operator"],
        ),
        (
            json!({ "metadata": { "service": { "annotations": { "workerapp.dev/applied": "x" } } } }),
            &["spec.metadata.service.annotations", "use another prefix"],
        ),
    ] {
        refused(&fixture, "shop", app(more), words).await?;
    }
    fixture.remove().await
}

#[tokio::test]
async fn k8s_openapi_170_quantities_are_read_as_kubernetes_reads_them_and_nonsense_is_refused() -> Result<()>
{
    let fixture = Fixture::new().await?;
    for cpu in [json!(2), json!("2"), json!("0.5"), json!("500m"), json!("2e0"), json!("0.127")] {
        fixture.apply("shop", app(json!({ "resources": { "limits": { "cpu": cpu } } }))).await?;
    }
    for cpu in
        [json!("abc"), json!(""), json!("1 "), json!("-1"), json!(0), json!("0"), json!("1,5"), json!("NaN")]
    {
        let resources = json!({ "limits": { "cpu": cpu } });
        refused(&fixture, "shop", app(json!({ "resources": resources })), &["spec.resources.limits"]).await?;
    }
    let words = ["spec.workers.memoryPerWorker", "not a quantity"];
    refused(&fixture, "shop", app(json!({ "workers": { "memoryPerWorker": "much" } })), &words).await?;
    fixture.remove().await
}

#[tokio::test]
async fn a_quantity_beyond_reason_is_refused_or_told_and_never_carried_out() -> Result<()> {
    use workerapp_api::condition::ConditionType;
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    for cpu in ["1e400", "5000", "1E"] {
        if fixture.apply("shop", app(json!({ "resources": { "limits": { "cpu": cpu } } }))).await.is_ok() {
            let told = fixture.until_condition("shop", ConditionType::Reconciled, "False", "Invalid").await?;
            ensure!(told.message.contains("at most 1024 are possible"), "{}", told.message);
        }
    }
    fixture.apply("fine", app(json!({}))).await?;
    fixture.until_reconciled("fine").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn scylla_operator_2722_terraform_operator_169_names_that_no_service_can_have_are_refused() -> Result<()>
{
    let fixture = Fixture::new().await?;
    let long = "a".repeat(64);
    for (name, words) in [
        (long.as_str(), &["at most 63 characters"][..]),
        ("1app", &["must begin with a letter"]),
        ("my.app", &["no dots"]),
        ("9", &["must begin with a letter"]),
    ] {
        refused(&fixture, name, app(json!({})), words).await?;
    }
    let operator = fixture.operator().await?;
    let longest = "a".repeat(63);
    fixture.apply(&longest, app(json!({ "autoscaling": { "maxReplicas": 2 } }))).await?;
    fixture.until_reconciled(&longest).await?;
    fixture.end(operator).await
}
