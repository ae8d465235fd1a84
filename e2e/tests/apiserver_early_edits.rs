//! An operator that starts carries an edit out before it has read the cluster to the end, as safely as after that.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::{
    apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service,
    networking::v1::NetworkPolicy,
};
use serde_json::{Value, json};
use workerapp_api::condition::ConditionType;
use workerapp_e2e::{
    Fixture, Operator, app,
    faults::{
        fault::Moment,
        gate::Gate,
        layer::{Fate, Fault},
        request::{Head, Verb},
    },
    fixture::{PATIENCE, SILENCE},
    oracle::FOREIGN,
    recorder::Sent,
    scrape,
    wait::within,
};

/// The kinds of children of which a look at one app needs no whole list.
const KINDS: [&str; 4] = ["deployments", "services", "horizontalpodautoscalers", "networkpolicies"];

/// Holds up the lists of a kind: before they are sent, so that they show all that was done meanwhile, or their answers, which then show
/// the past.
#[derive(Debug)]
struct HeldList {
    plural: &'static str,
    moment: Moment,
    gate: Arc<Gate>,
}

impl Fault for HeldList {
    fn request(&self, head: &Head) -> Fate {
        if head.verb != Verb::List || head.plural != self.plural {
            return Fate::Pass;
        }
        match self.moment {
            Moment::BeforeSend => Fate::HoldRequest(Arc::clone(&self.gate)),
            Moment::AfterSend => Fate::HoldAnswer(Arc::clone(&self.gate)),
        }
    }
}

fn image(deployment: &Deployment) -> Option<&str> {
    deployment.spec.template.spec.as_ref()?.containers[0].image.as_deref()
}

async fn runs(fixture: &Fixture, app: &str, wanted: &str, pods: i32) -> Result<()> {
    let as_wanted =
        |deployment: &Deployment| image(deployment) == Some(wanted) && deployment.spec.replicas == Some(pods);
    fixture.until_is(app, &format!("{pods} pods of {wanted}"), as_wanted).await.map(drop)
}

fn second(more: Value) -> Value {
    let mut spec = app(more);
    spec["image"] = json!("localhost/app:2");
    spec
}

/// While nobody looks: `shop` is edited, `taken` is too and has lost its Service's name to somebody else, and `other` isn't edited, though
/// its Deployment is.
async fn prepare(fixture: &Fixture) -> Result<()> {
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 3, "networkPolicy": {} }))).await?;
    fixture.apply("taken", app(json!({ "replicas": 1 }))).await?;
    fixture.apply("other", app(json!({ "replicas": 1 }))).await?;
    for name in ["shop", "taken", "other"] {
        fixture.until_reconciled(name).await?;
    }
    fixture.at_rest(&operator).await?;
    operator.stop().await?;

    fixture.apply("shop", second(json!({ "autoscaling": { "minReplicas": 2, "maxReplicas": 5 } }))).await?;
    fixture.apply("taken", second(json!({ "replicas": 1, "service": { "port": 81 } }))).await?;
    fixture.delete::<Service>("taken").await?;
    fixture.until("taken", "its end", |service: Option<&Service>| service.is_none()).await?;
    let metadata = json!({ "name": "taken", "labels": { FOREIGN: "true" } });
    fixture.create::<Service>(json!({ "metadata": metadata, "spec": { "ports": [{ "port": 80 }] } })).await?;
    let containers = json!([{ "name": "app", "image": "localhost/somebody:1" }]);
    let edit = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    fixture.strategic::<Deployment>("other", edit).await?;
    Ok(())
}

/// What was sent for children that is no removal: one that an old list brings back for a moment may be removed again.
fn applies(sent: &[Sent]) -> Vec<String> {
    sent.iter().filter(|sent| sent.is_child() && sent.method == "PATCH").map(ToString::to_string).collect()
}

async fn carries_out(plural: &'static str, moment: Moment) -> Result<()> {
    let fixture = Fixture::new().await?;
    prepare(&fixture).await?;
    let foreign = fixture.raw::<Service>("taken").await?;

    let gate = Arc::new(Gate::default());
    let options = fixture.options();
    options.faults.arm(Arc::new(HeldList { plural, moment, gate: Arc::clone(&gate) }));
    let operator = Operator::launch(options).await?;
    gate.reached().await;
    // The edits of before the start: an autoscaler comes, and the number of pods stays as it was; a policy goes.
    runs(&fixture, "shop", "localhost/app:2", 3).await?;
    runs(&fixture, "taken", "localhost/app:2", 1).await?;
    fixture.until_is("shop", "an autoscaler", |_: &HorizontalPodAutoscaler| true).await?;
    fixture.until("shop", "no policy", |policy: Option<&NetworkPolicy>| policy.is_none()).await?;
    // One that a watch tells of, after an app that nobody has looked at yet.
    fixture.apply("fresh", app(json!({ "replicas": 1 }))).await?;
    fixture.apply("shop", second(json!({ "replicas": 4 }))).await?;
    runs(&fixture, "shop", "localhost/app:2", 4).await?;
    let gone = |autoscaler: Option<&HorizontalPodAutoscaler>| autoscaler.is_none();
    fixture.until("shop", "no autoscaler", gone).await?;

    // What belongs to the last of it, such as the end of a hand-over, comes before its look ends.
    within(PATIENCE, "the end of the early looks", async || {
        let (_, metrics) = operator.get("/metrics").await?;
        ensure!(scrape::total(&metrics, "workerapp_operator_running") < 0.5);
        Ok(())
    })
    .await?;

    ensure!(operator.get("/readyz").await?.0 == 503, "the list of {plural} was not held up");
    let early = operator.recorder.history();
    let edited = |sent: &Sent| sent.path.ends_with("/shop") || sent.path.ends_with("/taken");
    let more = early.iter().find(|sent| !sent.is_child() || !edited(sent));
    ensure!(more.is_none(), "{plural}: {} is no edit's child", more.context("none")?);
    ensure!(
        fixture.raw::<Service>("taken").await? == foreign,
        "{plural}: somebody else's Service was changed"
    );

    gate.open();
    runs(&fixture, "other", "localhost/app:1", 1).await?;
    for name in ["shop", "other", "fresh"] {
        fixture.until_reconciled(name).await?;
    }
    fixture.until_condition("taken", ConditionType::Reconciled, "False", "NameClash").await?;
    fixture.at_rest(&operator).await?;
    let since = operator.recorder.history().split_off(early.len());
    let again: Vec<_> = applies(&since).into_iter().filter(|sent| !sent.ends_with("/fresh")).collect();
    ensure!(
        again.len() == 1 && again[0].ends_with("/deployments/other"),
        "{plural}: {again:?} after the lists"
    );
    ensure!(
        fixture.raw::<Service>("taken").await? == foreign,
        "{plural}: somebody else's Service was changed"
    );

    fixture.delete::<Service>("taken").await?;
    fixture.until_reconciled("taken").await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn an_edit_is_carried_out_while_a_list_of_children_is_under_way() -> Result<()> {
    try_join_all(KINDS.map(|plural| carries_out(plural, Moment::BeforeSend))).await.map(drop)
}

#[tokio::test]
async fn a_list_that_shows_what_was_before_an_early_edit_undoes_nothing() -> Result<()> {
    try_join_all(KINDS.map(|plural| carries_out(plural, Moment::AfterSend))).await.map(drop)
}
