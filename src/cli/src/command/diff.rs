//! `diff`: what applying a file would change in the cluster, of the app and of what the operator makes of it.
//!
//! The API server itself says it, by a dry run; nothing is written.

use std::process::ExitCode;

use clap::Args;
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Container, Service},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _, core::ApiResource};
use serde::Serialize;
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, names};
use workerapp_plan::{Facts, PodMonitor, ScaledObject, burst};

use super::input::Input;
use crate::{
    cluster::{Cluster, Place},
    error::Error,
    manifest,
    output::{self, Color},
    view::difference,
};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp diff app.yaml
  kubectl workerapp diff app.yaml > /dev/null || echo 'it would change something'";

/// The kinds that a cluster may lack, and their groups.
const OPTIONAL: [(&str, &str); 2] = [("PodMonitor", "monitoring.coreos.com"), ("ScaledObject", "keda.sh")];

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// When colours are used
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
}

pub(crate) async fn run(arguments: &Arguments, place: &Place) -> Result<ExitCode, Error> {
    let apps = arguments.input.apps()?;
    let cluster = place.connect().await?;
    let mut text = String::new();
    for mut app in apps {
        let namespace = app.namespace().unwrap_or_else(|| cluster.namespace.clone());
        if let Some(asked) = place.namespace.as_ref().filter(|asked| **asked != namespace) {
            return Err(Error::OtherNamespace { name: app.name_any(), namespace, asked: asked.clone() });
        }
        app.metadata.namespace = Some(namespace);
        for change in Box::pin(changes(&cluster, &app, &arguments.input)).await? {
            text += &change.text(arguments.color.wanted())?;
        }
    }
    output::print(&text)?;
    Ok(if text.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An object before and after.
struct Change {
    name: String,
    before: Option<Value>,
    after: Option<Value>,
}

impl Change {
    fn text(&self, colors: bool) -> Result<String, Error> {
        let yaml = |object: &Option<Value>| object.as_ref().map_or_else(|| Ok(String::new()), output::yaml);
        Ok(difference::unified(&self.name, &yaml(&self.before)?, &yaml(&self.after)?, colors))
    }
}

async fn changes(cluster: &Cluster, app: &WorkerApp, input: &Input) -> Result<Vec<Change>, Error> {
    let (namespace, name) = (app.namespace().unwrap_or_default(), app.name_any());
    let live = cluster.app_in(&namespace, &name).await?;
    let stored = cluster.try_store(&namespace, &merged(app, live.as_ref())).await?;
    let mut facts = facts(cluster, &namespace, &name, input).await?;
    let told = live.as_ref().and_then(|live| live.status.as_ref()?.burst.clone());
    let burst = told.and_then(|burst| burst::running(app, burst, Timestamp::now()));
    facts.floor = burst.map(|(_, burst)| burst.replicas);
    let plan = workerapp_plan::plan(app, &facts).map_err(manifest::Error::Invalid)?;

    let mut changes = vec![Change {
        name: format!("WorkerApp {namespace}/{name}"),
        before: live.as_ref().map(comparable),
        after: Some(comparable(&stored)),
    }];
    let uid = live.as_ref().and_then(WorkerApp::uid);
    let child = Child { cluster, namespace: &namespace, name: &name, uid: uid.as_deref() };
    for wanted in plan.children.each() {
        // A kind that the cluster doesn't have is told by the plan, as a warning.
        let known = kinds().into_iter().find(|kind| kind.kind == wanted.kind);
        if let Some(kind) = known.filter(|kind| !facts.absent.iter().any(|absent| *absent == kind.kind)) {
            changes.push(child.change(&kind, wanted.object).await?);
        }
    }
    Ok(changes)
}

/// Every kind of child; a test holds it against the plan's.
fn kinds() -> [ApiResource; 7] {
    [
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<HorizontalPodAutoscaler>(&()),
        ApiResource::erase::<ScaledObject>(&()),
        ApiResource::erase::<PodDisruptionBudget>(&()),
        ApiResource::erase::<NetworkPolicy>(&()),
        ApiResource::erase::<PodMonitor>(&()),
    ]
}

/// The app with the file's spec, labels and annotations. The number of pods stays when the file is silent about it: it may be
/// another's.
fn merged(app: &WorkerApp, live: Option<&WorkerApp>) -> WorkerApp {
    let Some(live) = live else { return app.clone() };
    let mut merged = live.clone();
    merged.spec = app.spec.clone();
    if merged.spec.replicas.is_none() && merged.spec.autoscaling.is_none() {
        merged.spec.replicas = live.spec.replicas;
    }
    merged.labels_mut().extend(app.labels().clone());
    merged.annotations_mut().extend(app.annotations().clone());
    merged.metadata.managed_fields = None;
    merged
}

/// What the operator knows: its own image, as the app's pods have it or the operator's, the LimitRanges, and who guards pods already.
async fn facts(cluster: &Cluster, namespace: &str, name: &str, input: &Input) -> Result<Facts, Error> {
    let mut facts = input.facts();
    facts.limit_ranges = cluster.limit_ranges(namespace).await?;
    facts.foreign_budgets = cluster.foreign_budgets(namespace).await?;
    // Who may not see the operator still gets an answer, with this version's image in it.
    let operators = cluster.operators().await.unwrap_or_default();
    facts.operator_namespace = operators.first().and_then(kube::ResourceExt::namespace);
    for (kind, group) in OPTIONAL {
        if !cluster.offers(group).await? {
            facts.absent.push(kind);
        }
    }
    if input.supervisor_image.is_some() {
        return Ok(facts);
    }
    let live = cluster.deployment(namespace, name).await?;
    let installed = live.as_ref().and_then(|deployment| {
        let containers = deployment.spec.template.spec.as_ref()?.init_containers.as_ref()?;
        containers.iter().find(|container| container.name == names::CONTAINER_INSTALL)
    });
    if let Some(container) = installed {
        facts.supervisor_image = container.image.clone().unwrap_or_default();
        facts.supervisor_pull_policy.clone_from(&container.image_pull_policy);
        return Ok(facts);
    }
    let container =
        operators.first().and_then(|operator| operator.spec.template.spec.as_ref()?.containers.first());
    if let Some(container) = container {
        facts.supervisor_image = container.image.clone().unwrap_or(facts.supervisor_image);
        facts.supervisor_pull_policy =
            input.supervisor_pull_policy.clone().or_else(|| pull_policy(container));
    }
    Ok(facts)
}

/// The pull policy that an operator was started with.
fn pull_policy(operator: &Container) -> Option<String> {
    const FLAG: &str = "--supervisor-pull-policy";
    let mut words = operator.command.iter().chain(&operator.args).flatten();
    let word = words.find(|word| word.starts_with(FLAG))?;
    // As one word or two.
    word.strip_prefix(FLAG)?.strip_prefix('=').or_else(|| words.next().map(String::as_str)).map(str::to_owned)
}

struct Child<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    name: &'a str,
    uid: Option<&'a str>,
}

impl Child<'_> {
    async fn change(&self, kind: &ApiResource, wanted: Option<Value>) -> Result<Change, Error> {
        let name = format!("{} {}/{}", kind.kind, self.namespace, self.name);
        let live = self.cluster.live(kind, self.namespace, self.name).await?;
        let before = live.as_ref().map(comparable);
        let foreign = live.as_ref().is_some_and(|live| !self.owns(live));
        if foreign {
            if wanted.is_some() {
                output::note(&format!(
                    "{name} belongs to something else: the operator leaves it alone (NameClash)"
                ));
            }
            return Ok(Change { name, after: before.clone(), before });
        }
        let Some(mut body) = wanted else { return Ok(Change { name, before, after: None }) };
        if let Some(uid) = self.uid {
            body["metadata"]["ownerReferences"] = json!([{
                "apiVersion": WorkerApp::api_version(&()), "kind": WorkerApp::kind(&()), "name": self.name, "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }]);
        }
        let mut after = comparable(&self.cluster.try_apply(kind, self.namespace, self.name, &body).await?);
        // A new Service will get other addresses than the trial did.
        if before.is_none()
            && let Some(spec) = after["spec"].as_object_mut()
        {
            spec.retain(|field, _| !["clusterIP", "clusterIPs"].contains(&field.as_str()));
        }
        Ok(Change { name, before, after: Some(after) })
    }

    fn owns(&self, live: &Value) -> bool {
        let owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let mut controllers = owners.filter(|owner| owner["controller"] == true);
        controllers.any(|owner| self.uid.is_some_and(|uid| owner["uid"] == uid))
    }
}

/// An object without what the API server counts and writes down by itself.
fn comparable(object: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
        metadata.retain(|_, field| field.as_object().is_none_or(|map| !map.is_empty()));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(spec: &Value, version: Option<&str>) -> WorkerApp {
        let mut spec = spec.clone();
        spec["image"] = "i".into();
        spec["port"] = 3000.into();
        serde_json::from_value(json!({
            "apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp",
            "metadata": {"name": "a", "resourceVersion": version, "labels": {"of": "a"}}, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn the_file_is_the_whole_spec_but_for_the_pods_that_another_scales() {
        let live = app(&json!({"replicas": 4, "args": ["x"]}), Some("7"));
        let merged = |spec| merged(&app(&spec, None), Some(&live)).spec;
        assert_eq!((merged(json!({})).replicas, merged(json!({})).args.len()), (Some(4), 0));
        assert_eq!(merged(json!({"replicas": 1})).replicas, Some(1));
        assert_eq!(merged(json!({"autoscaling": {"maxReplicas": 3}})).replicas, None);
    }

    #[test]
    fn every_kind_of_child_is_compared() {
        let app = app(&json!({"command": ["c"]}), None);
        let plan = workerapp_plan::plan(&app, &Facts::default()).unwrap();
        let known: Vec<_> = kinds().into_iter().map(|kind| kind.kind).collect();
        let planned: Vec<_> = plan.children.each().into_iter().map(|child| child.kind.into_owned()).collect();
        assert_eq!(known, planned);
        for (kind, group) in OPTIONAL {
            assert!(kinds().iter().any(|known| known.kind == kind && known.group == group), "{kind}");
        }
    }

    #[test]
    fn the_operators_pull_policy_is_read_from_its_command_line() {
        let of = |args: &[&str]| {
            let args = args.iter().map(|word| (*word).to_owned()).collect();
            pull_policy(&Container { args: Some(args), ..Container::default() })
        };
        assert_eq!(of(&["run", "--supervisor-pull-policy=Never"]).as_deref(), Some("Never"));
        assert_eq!(of(&["run", "--supervisor-pull-policy", "Always"]).as_deref(), Some("Always"));
        assert_eq!(of(&["run"]), None);
    }

    #[test]
    fn what_the_api_server_counts_is_no_difference() {
        let object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "3", "managedFields": [],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}, "spec": {"a": 1}, "status": {"b": 2}});
        assert_eq!(comparable(&object), json!({"metadata": {"name": "a"}, "spec": {"a": 1}}));
    }
}
