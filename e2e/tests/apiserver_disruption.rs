//! The disruption budget and the network policy: made, kept, and gone with their spec.

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment, networking::v1::NetworkPolicy, policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client, ResourceExt as _, api::EvictParams};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, condition::ConditionType, names};
use workerapp_e2e::{
    Fixture, Pod, app, cluster,
    fixture::{Namespaced, SILENCE, condition},
};

/// Waits until the object's spec is as wanted.
async fn until_spec<K: Namespaced>(
    fixture: &Fixture,
    what: &str,
    wanted: impl Fn(&Value) -> bool + Send + Sync,
) -> Result<()> {
    let holds = |object: &K| serde_json::to_value(object).is_ok_and(|object| wanted(&object["spec"]));
    fixture.until_is("shop", what, holds).await.map(drop)
}

async fn until_gone<K: Namespaced>(fixture: &Fixture) -> Result<()> {
    fixture.until("shop", "its end", |object: Option<&K>| object.is_none()).await.map(drop)
}

/// Waits until the disruption controller has counted so many pods that may go.
async fn until_allowed(fixture: &Fixture, allowed: i32) -> Result<()> {
    let counted = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().is_some_and(|status| status.disruptions_allowed.unwrap_or_default() == allowed)
    };
    fixture.until_is("shop", &format!("{allowed} allowed disruptions"), counted).await.map(drop)
}

#[tokio::test]
async fn the_budget_follows_the_smallest_number_of_pods_and_their_template_does_not() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 2 }))).await?;
    until_spec::<PodDisruptionBudget>(&fixture, "one pod", |spec| spec["maxUnavailable"] == 1).await?;
    fixture.until_reconciled("shop").await?;
    let template = fixture.api::<Deployment>().get("shop").await?.spec.template;

    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    until_gone::<PodDisruptionBudget>(&fixture).await?;
    let scaled = json!({ "autoscaling": { "minReplicas": 3, "maxReplicas": 5 } });
    fixture.apply("shop", app(scaled)).await?;
    until_spec::<PodDisruptionBudget>(&fixture, "one pod", |spec| spec["maxUnavailable"] == 1).await?;
    ensure!(fixture.api::<Deployment>().get("shop").await?.spec.template == template, "pods were restarted");

    // From the one field to the other, which exclude each other.
    for budget in
        [json!({ "minAvailable": 2 }), json!({ "maxUnavailable": "50%" }), json!({ "minAvailable": "34%" })]
    {
        fixture.apply("shop", app(json!({ "replicas": 3, "disruptionBudget": budget }))).await?;
        let wanted = budget.clone();
        until_spec::<PodDisruptionBudget>(&fixture, &budget.to_string(), move |spec| {
            ["minAvailable", "maxUnavailable"].iter().all(|field| spec[*field] == wanted[*field])
        })
        .await?;
        fixture.until_reconciled("shop").await?;
    }
    fixture.silent(&operator, "shop", SILENCE).await?;

    // What would block every drain is not done, and told.
    fixture.apply("shop", app(json!({ "replicas": 3, "disruptionBudget": { "minAvailable": 3 } }))).await?;
    until_spec::<PodDisruptionBudget>(&fixture, "one pod", |spec| spec["maxUnavailable"] == 1).await?;
    let told = fixture.until_reconciled("shop").await?;
    ensure!(told.message.contains("minAvailable 3 would let none of 3 pods be evicted"), "{}", told.message);
    for budget in [json!({ "maxUnavailable": 0 }), json!({ "minAvailable": "100%" })] {
        let refused = fixture.apply("shop", app(json!({ "replicas": 3, "disruptionBudget": budget }))).await;
        ensure!(refused.is_err_and(|error| error.to_string().contains("could be emptied")), "{budget}");
    }
    let both = json!({ "maxUnavailable": 1, "minAvailable": 1 });
    let refused = fixture.apply("shop", app(json!({ "disruptionBudget": both }))).await;
    ensure!(refused.is_err_and(|error| error.to_string().contains("exclude each other")));
    fixture.end(operator).await
}

#[tokio::test]
async fn a_drain_takes_one_ready_pod_at_a_time_and_never_waits_for_one_that_is_not() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 2 }))).await?;
    fixture.serve("shop", 2).await?;
    until_allowed(&fixture, 1).await?;

    // The test's usual client would repeat what is refused for now.
    let mut config = cluster::config().await?;
    config.default_retry = false;
    let pods: Api<Pod> = Api::namespaced(Client::try_from(config)?, &fixture.namespace);
    let names: Vec<_> = fixture.pods("shop", 2).await?.iter().map(kube::ResourceExt::name_any).collect();
    pods.evict(&names[0], &EvictParams::default()).await?;
    let refused = pods.evict(&names[1], &EvictParams::default()).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 429), "{refused:?}");

    // Its successor is ready, and the drain goes on.
    fixture.serve("shop", 2).await?;
    until_allowed(&fixture, 1).await?;
    pods.evict(&names[1], &EvictParams::default()).await?;

    // Pods that run and are not ready may go, however few are.
    for pod in fixture.pods("shop", 2).await? {
        let broken = json!({ "phase": "Running", "conditions": [
            { "type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z" },
        ] });
        fixture.merge_status::<Pod>(&pod.name_any(), broken).await?;
    }
    until_allowed(&fixture, 0).await?;
    for pod in fixture.pods("shop", 2).await? {
        pods.evict(&pod.name_any(), &EvictParams::default()).await?;
    }
    fixture.end(operator).await
}

#[tokio::test]
async fn a_budget_that_somebody_made_for_the_same_pods_stays_the_only_one() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 2 }))).await?;
    fixture.until_is("shop", "the app's budget", |_: &PodDisruptionBudget| true).await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_quiet(&operator).await?;

    let selector = json!({ "matchLabels": { names::LABEL_INSTANCE: "shop" } });
    let theirs =
        json!({ "metadata": { "name": "theirs" }, "spec": { "maxUnavailable": 1, "selector": selector } });
    fixture.create::<PodDisruptionBudget>(theirs).await?;
    until_gone::<PodDisruptionBudget>(&fixture).await?;
    let told = |app: &WorkerApp| {
        let reconciled = condition(app, ConditionType::Reconciled);
        reconciled
            .is_some_and(|it| it.message.contains("PodDisruptionBudget theirs is for the pods of this app"))
    };
    fixture.until_is("shop", "the warning", told).await?;
    fixture.serve("shop", 2).await?;
    let counted = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().is_some_and(|status| status.disruptions_allowed == Some(1))
    };
    fixture.until_is("theirs", "one that may go", counted).await?;
    let pod = fixture.pods("shop", 2).await?[0].name_any();
    fixture.api::<Pod>().evict(&pod, &EvictParams::default()).await?;

    fixture.delete::<PodDisruptionBudget>("theirs").await?;
    fixture.until_is("shop", "the app's budget", |_: &PodDisruptionBudget| true).await?;
    fixture.until_is("shop", "no warning", |app: &WorkerApp| !told(app)).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn budget_and_policy_are_kept_as_they_should_be() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let peer =
        json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "monitoring" } } });
    let spec = app(json!({
        "replicas": 2,
        "ports": [{ "name": "ws", "port": 3001 }],
        "networkPolicy": { "from": [{ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } }], "adminFrom": [peer] },
        "metadata": { "networkPolicy": { "labels": { "team": "web" } }, "disruptionBudget": { "annotations": { "a": "b" } } },
    }));
    fixture.apply("shop", spec).await?;
    fixture.until_reconciled("shop").await?;
    let policy = fixture.api::<NetworkPolicy>().get("shop").await?;
    ensure!(policy.labels().get("team").is_some_and(|team| team == "web"));
    let wanted = serde_json::to_value(&policy.spec)?;
    let admin = &wanted["ingress"][1];
    ensure!(admin["ports"] == json!([{ "port": 9913, "protocol": "TCP" }]), "{wanted}");
    // The operator's namespace, which outside a cluster is that of the kubeconfig, and who was named.
    ensure!(admin["from"].as_array().is_some_and(|from| from.len() == 2 && from[1] == peer), "{wanted}");
    fixture.silent(&operator, "shop", SILENCE).await?;

    // Edits are undone, what was added to lists that are taken as a whole among them.
    fixture.merge::<PodDisruptionBudget>("shop", json!({ "spec": { "maxUnavailable": 0 } })).await?;
    until_spec::<PodDisruptionBudget>(&fixture, "one pod", |spec| spec["maxUnavailable"] == 1).await?;
    fixture.merge::<NetworkPolicy>("shop", json!({ "spec": { "ingress": [{}] } })).await?;
    until_spec::<NetworkPolicy>(&fixture, "its rules", |spec| *spec == wanted).await?;
    let mut opened = wanted.clone();
    opened["ingress"][1]["from"]
        .as_array_mut()
        .into_iter()
        .for_each(|from| from.push(json!({ "podSelector": {} })));
    fixture.merge::<NetworkPolicy>("shop", json!({ "spec": opened })).await?;
    until_spec::<NetworkPolicy>(&fixture, "its rules", |spec| *spec == wanted).await?;
    fixture.delete::<PodDisruptionBudget>("shop").await?;
    fixture.delete::<NetworkPolicy>("shop").await?;
    until_spec::<PodDisruptionBudget>(&fixture, "its being back", |_| true).await?;
    until_spec::<NetworkPolicy>(&fixture, "its being back", |spec| *spec == wanted).await?;
    fixture.silent(&operator, "shop", SILENCE).await?;

    // They go with what asked for them, each by one request.
    operator.recorder.take();
    fixture.apply("shop", app(json!({ "replicas": 2, "disruptionBudget": { "enabled": false } }))).await?;
    until_gone::<PodDisruptionBudget>(&fixture).await?;
    until_gone::<NetworkPolicy>(&fixture).await?;
    fixture.until_reconciled("shop").await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn what_others_own_under_the_apps_name_is_left_alone() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    // Even with the operator's label, as a copied manifest has it.
    let labels = json!({ names::LABEL_MANAGED_BY: names::MANAGED_BY });
    let selector = json!({ "matchLabels": { "x": "y" } });
    let metadata = json!({ "name": "shop", "labels": labels });
    let budget = json!({ "metadata": metadata, "spec": { "maxUnavailable": 3, "selector": selector } });
    fixture.create::<PodDisruptionBudget>(budget).await?;
    let policy = json!({ "metadata": metadata, "spec": { "podSelector": selector } });
    fixture.create::<NetworkPolicy>(policy).await?;

    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.apply("shop", app(json!({ "replicas": 2, "networkPolicy": {} }))).await?;
    let told = fixture.until_condition("shop", ConditionType::Reconciled, "False", "NameClash").await?;
    for kind in ["PodDisruptionBudget", "NetworkPolicy"] {
        ensure!(
            told.message.contains(&format!("{kind} shop exists and belongs to nobody")),
            "{}",
            told.message
        );
    }
    // A tool that waits for the app learns that nothing will come of it by itself.
    fixture.until_condition("shop", ConditionType::Stalled, "True", "NameClash").await?;
    until_spec::<PodDisruptionBudget>(&fixture, "being as it was", |spec| spec["maxUnavailable"] == 3)
        .await?;

    fixture.delete::<PodDisruptionBudget>("shop").await?;
    fixture.delete::<NetworkPolicy>("shop").await?;
    fixture.until_reconciled("shop").await?;
    until_spec::<PodDisruptionBudget>(&fixture, "the app's", |spec| spec["maxUnavailable"] == 1).await?;
    fixture.end(operator).await
}
