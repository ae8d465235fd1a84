//! One case: a story told twice, once undisturbed and once with something going wrong, and the end has to be the same.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Service},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams},
};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, names};
use workerapp_operator::kind::Kind;

use super::{
    fault::{Crash, Moment},
    layer::{Fault, Faults},
    scenario::{Scenario, Step},
    table::{Lasts, Meets, Row},
};
use crate::{
    Fixture, Operator,
    fixture::SILENCE,
    operator::Options,
    oracle::{FOREIGN, Snapshot},
};

/// How often apps are looked at although nothing happened: well within the window of silence.
pub const RESYNC: Duration = Duration::from_secs(1);
/// How long a case may take to come to its end: seconds, as a rule, and much longer where the machine has other things to do.
const LONGEST: Duration = Duration::from_mins(4);
/// The same for slow ones: a dead watch is noticed after two minutes.
const LONGEST_OF_SLOW: Duration = Duration::from_mins(6);

/// How a story ends when nothing goes wrong.
#[derive(Clone, Debug)]
pub struct Reference {
    /// What stands then.
    pub end: Snapshot,
    /// Which children are still those from before.
    kept: Vec<Kind>,
    /// How many children were written, and how much in all.
    pub children: usize,
    /// All writes.
    pub writes: usize,
}

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The fault came, and all ended well.
    Fault,
    /// All ended well before the fault could come.
    Nothing,
}

/// A namespace with an operator, somebody else's objects, and whatever stands before the story begins.
struct Stage {
    fixture: Fixture,
    operator: Operator,
    foreign: Vec<Value>,
    uids: Vec<(Kind, Option<String>)>,
    /// The resource versions between the steps.
    versions: Vec<String>,
}

const CHILDREN: [Kind; 3] = [Kind::Deployment, Kind::Service, Kind::HorizontalPodAutoscaler];

impl Stage {
    async fn set(scenario: &Scenario) -> Result<Self> {
        let fixture = Fixture::new().await?;
        put_foreign(&fixture).await?;
        let foreign = foreign(&fixture).await?;
        let operator = Operator::start(options(&fixture)).await?;
        let mut stage = Self { fixture, operator, foreign, uids: Vec::new(), versions: Vec::new() };
        stage.note_version().await?;
        for step in &scenario.before {
            step.take(&stage.fixture).await?;
            stage.fixture.at_rest(&stage.operator).await.context("before the story")?;
            stage.note_version().await?;
        }
        stage.uids = stage.children().await?;
        stage.operator.recorder.take();
        Ok(stage)
    }

    async fn act(&mut self, steps: &[Step]) -> Result<()> {
        for step in steps {
            step.take(&self.fixture).await?;
            self.note_version().await?;
        }
        Ok(())
    }

    async fn note_version(&mut self) -> Result<()> {
        let list = self.fixture.api::<WorkerApp>().list(&ListParams::default().limit(1)).await?;
        self.versions.extend(list.metadata.resource_version);
        Ok(())
    }

    /// The uid of each child of the app `shop`.
    async fn children(&self) -> Result<Vec<(Kind, Option<String>)>> {
        let mut found = Vec::new();
        for kind in CHILDREN {
            let api: Api<DynamicObject> = kind.api(&self.fixture.client, Some(&self.fixture.namespace));
            found.push((kind, api.get_opt("shop").await?.and_then(|object| object.metadata.uid)));
        }
        Ok(found)
    }

    async fn kept(&self) -> Result<Vec<Kind>> {
        let now = self.children().await?;
        let kept = now.iter().zip(&self.uids).filter(|(now, before)| now.1.is_some() && now == before);
        Ok(kept.map(|(now, _)| now.0).collect())
    }

    /// A new operator takes the place of the dead one.
    async fn succeed(&mut self, faults: Faults) -> Result<()> {
        let options = Options { faults, ..options(&self.fixture) };
        let successor = Operator::launch(options).await?;
        std::mem::replace(&mut self.operator, successor).abort();
        Ok(())
    }

    /// Waits for the same end as in the reference, then watches that it stays.
    async fn ends_as(&mut self, reference: &Reference, past: bool, longest: Duration) -> Result<()> {
        let trim = |snapshot: Snapshot| if past { snapshot.without_history() } else { snapshot };
        let wanted = trim(reference.end.clone());
        let deadline = Instant::now() + longest;
        loop {
            self.reaches(&wanted, &trim, deadline).await?;
            ensure!(
                past || self.kept().await? == reference.kept,
                "kept {:?} of the children, and undisturbed {:?}",
                self.kept().await?,
                reference.kept
            );
            let before = self.operator.recorder.count();
            tokio::time::sleep(SILENCE).await;
            let now = trim(self.fixture.snapshot().await?);
            if before == self.operator.recorder.count() && now == wanted {
                return self.others_untouched().await;
            }
            // The cluster's own controllers may have had a last word, to which the operator answered.
            ensure!(
                Instant::now() < deadline,
                "it does not stay so: {:#?}\nlast writes: {:?}",
                now.differences(&wanted),
                last_writes(&self.operator)
            );
        }
    }

    /// Waits until all is as `wanted` and nobody has anything left to do; an operator that died has a successor by then.
    async fn reaches(
        &mut self,
        wanted: &Snapshot,
        trim: &impl Fn(Snapshot) -> Snapshot,
        deadline: Instant,
    ) -> Result<()> {
        loop {
            if self.operator.faults.dead() {
                self.succeed(Faults::default()).await?;
            }
            let before = self.operator.recorder.count();
            tokio::time::sleep(Duration::from_millis(700)).await;
            // A survey is dear; while the operator still writes there is no need for one.
            if before != self.operator.recorder.count() && Instant::now() < deadline {
                continue;
            }
            let (now, unfinished) = self.fixture.survey().await?;
            let now = trim(now);
            if now == *wanted && unfinished.is_none() && !self.operator.faults.dead() {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "another end than undisturbed: {:#?}\nlast writes: {:?}; {}",
                now.differences(wanted),
                last_writes(&self.operator),
                unfinished.unwrap_or_default()
            );
        }
    }

    async fn others_untouched(&self) -> Result<()> {
        let now = foreign(&self.fixture).await?;
        for (before, now) in self.foreign.iter().zip(&now) {
            ensure!(before == now, "somebody else's object was touched: {before} → {now}");
        }
        ensure!(now.len() == self.foreign.len(), "somebody else's object is gone");
        Ok(())
    }

    /// Leaves nothing that would keep the cluster's controllers busy.
    async fn strike(self) -> Result<()> {
        self.operator.abort();
        for kind in [Kind::WorkerApp, Kind::HorizontalPodAutoscaler, Kind::Deployment] {
            let api: Api<DynamicObject> = kind.api(&self.fixture.client, Some(&self.fixture.namespace));
            api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        }
        Ok(())
    }
}

/// The last writes of an operator, as text.
fn last_writes(operator: &Operator) -> Vec<String> {
    let history = operator.recorder.history();
    history.iter().rev().take(8).rev().map(ToString::to_string).collect()
}

fn options(fixture: &Fixture) -> Options {
    Options { resync: RESYNC, ..fixture.options() }
}

/// Objects of other people: one of each kind, one even with the operator's own label, as a copied manifest has it.
async fn put_foreign(fixture: &Fixture) -> Result<()> {
    let meta = |more: Value| {
        let mut labels = json!({ FOREIGN: "yes" });
        if let (Value::Object(labels), Value::Object(more)) = (&mut labels, more) {
            labels.extend(more);
        }
        json!({ "name": "theirs", "labels": labels })
    };
    let copied = json!({ names::LABEL_MANAGED_BY: names::MANAGED_BY, names::LABEL_INSTANCE: "shop" });
    fixture.create::<ConfigMap>(json!({ "metadata": meta(copied.clone()), "data": { "a": "b" } })).await?;
    let ports = json!([{ "port": 80 }]);
    fixture
        .create::<Service>(json!({ "metadata": meta(copied.clone()), "spec": { "ports": ports } }))
        .await?;
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody" });
    let autoscaler =
        json!({ "metadata": meta(copied), "spec": { "scaleTargetRef": target, "maxReplicas": 2 } });
    fixture.create::<HorizontalPodAutoscaler>(autoscaler).await?;
    let template = json!({ "metadata": { "labels": { FOREIGN: "yes" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let spec =
        json!({ "replicas": 0, "selector": { "matchLabels": { FOREIGN: "yes" } }, "template": template });
    fixture.create::<Deployment>(json!({ "metadata": meta(json!({})), "spec": spec })).await?;
    Ok(())
}

/// Those objects, without what the cluster's own controllers write.
async fn foreign(fixture: &Fixture) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let objects = [
        fixture.raw::<ConfigMap>("theirs").await?,
        fixture.raw::<Service>("theirs").await?,
        fixture.raw::<HorizontalPodAutoscaler>("theirs").await?,
        fixture.raw::<Deployment>("theirs").await?,
    ];
    for mut object in objects {
        let controlled = object["kind"] != "ConfigMap" && object["kind"] != "Service";
        if let (Some(fields), true) = (object.as_object_mut(), controlled) {
            fields.remove("status");
        }
        if let (Some(metadata), true) = (object["metadata"].as_object_mut(), controlled) {
            metadata.remove("resourceVersion");
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.remove("deployment.kubernetes.io/revision");
            }
            metadata.retain(|field, value| {
                field != "annotations" || value.as_object().is_some_and(|one| !one.is_empty())
            });
            if let Some(managers) = metadata["managedFields"].as_array_mut() {
                managers.retain(|entry| entry["manager"] != "kube-controller-manager");
            }
        }
        found.push(object);
    }
    Ok(found)
}

/// Tells the story with nothing going wrong.
///
/// # Errors
/// If it doesn't come to an end.
pub async fn undisturbed(scenario: &Scenario) -> Result<Reference> {
    let mut stage = Stage::set(scenario).await?;
    stage.act(&scenario.act).await?;
    stage.fixture.at_rest(&stage.operator).await?;
    let sent = stage.operator.recorder.all();
    let end = stage.fixture.snapshot().await?;
    let children = sent.iter().filter(|sent| sent.is_child()).count();
    let reference = Reference { end, kept: stage.kept().await?, children, writes: sent.len() };
    stage.others_untouched().await?;
    stage.strike().await?;
    Ok(reference)
}

/// Tells every story undisturbed, and has one operator that knows of nothing look at all of their ends for a minute.
///
/// # Errors
/// Names what was written in that minute, if anything.
pub async fn a_minute_of_silence(stories: Vec<Scenario>) -> Result<Met> {
    let tell = async |story: &Scenario| {
        let mut stage = Stage::set(story).await?;
        stage.act(&story.act).await?;
        stage.fixture.at_rest(&stage.operator).await?;
        stage.operator.faults.kill();
        anyhow::Ok(stage)
    };
    let stages = futures::future::try_join_all(stories.iter().map(tell)).await?;
    let namespaces = stages.iter().map(|stage| stage.fixture.namespace.clone()).collect();
    let Some(first) = stages.first() else { return Ok(Met::Nothing) };
    let operator = Operator::start(Options { namespaces, ..options(&first.fixture) }).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    ensure!(operator.recorder.count() == 0, "not silent: {:?}", last_writes(&operator));
    operator.abort();
    for stage in stages {
        stage.others_untouched().await?;
        stage.strike().await?;
    }
    Ok(Met::Fault)
}

/// Tells the story with the operator dying at its `at`-th write, and another one in its place.
///
/// # Errors
/// If it ends in another way.
pub async fn crashed(scenario: &Scenario, reference: &Reference, at: usize, moment: Moment) -> Result<Met> {
    let mut stage = Stage::set(scenario).await?;
    let faults = stage.operator.faults.clone();
    faults.arm(Arc::new(Crash::new(at, moment)));
    stage.act(&scenario.act).await?;
    stage.ends_as(reference, scenario.brief, LONGEST).await?;
    let met = if faults.dead() { Met::Fault } else { Met::Nothing };
    if met == Met::Nothing && at <= reference.children {
        bail!("undisturbed {} children were written, and here fewer than {at}", reference.children);
    }
    stage.strike().await?;
    Ok(met)
}

/// Tells the story with the fault of a row.
///
/// # Errors
/// If it ends in another way.
pub async fn disturbed(scenario: &Scenario, reference: &Reference, row: &Row) -> Result<Met> {
    let mut stage = Stage::set(scenario).await?;
    match row.meets {
        Meets::Running => {
            let fault = (row.make)(&stage.versions);
            stage.operator.faults.arm(fault);
            stage.act(&scenario.act).await?;
        }
        Meets::Starting => {
            stage.operator.faults.kill();
            stage.act(&scenario.act).await?;
            let fault: Arc<dyn Fault> = (row.make)(&stage.versions);
            let faults = Faults::default();
            faults.arm(fault);
            stage.succeed(faults).await?;
        }
    }
    if let Lasts::For(time) = row.lasts {
        tokio::time::sleep(time).await;
        stage.operator.faults.heal();
    }
    let longest = if row.slow { LONGEST_OF_SLOW } else { LONGEST };
    stage.ends_as(reference, row.past || scenario.brief, longest).await?;
    stage.strike().await?;
    Ok(Met::Fault)
}
