//! `plan`: the plan as text for a person.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use kube::ResourceExt as _;
use serde_json::json;
use workerapp_api::WorkerApp;
use workerapp_plan::{Plan, effective::Amount, workers::Rule};

use super::input::Input;
use crate::{
    error::Error,
    output::{self, Format},
    view::scaling,
};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp plan config/samples/next-workers.yaml
  kubectl workerapp plan app.yaml -o json
  cat app.yaml | kubectl workerapp plan -";

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// The form of the result
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Format>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let plans = arguments.input.plans()?;
    let text = match arguments.output.unwrap_or_default() {
        Format::Text | Format::Wide => {
            plans.iter().map(|(app, plan)| text(app, plan)).collect::<Vec<_>>().join("\n")
        }
        Format::Name => {
            let name =
                |app: &WorkerApp| format!("workerapp.{}/{}", workerapp_api::names::GROUP, app.name_any());
            output::lines(plans.iter().map(|(app, _)| name(app)))
        }
        format => {
            output::structured(format, &plans.iter().map(|(app, plan)| value(app, plan)).collect::<Vec<_>>())?
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// For programs.
fn value(app: &WorkerApp, plan: &Plan) -> serde_json::Value {
    let warnings = plan
        .warnings
        .iter()
        .map(|warning| json!({ "reason": warning.reason(), "message": warning.to_string() }));
    json!({
        "name": app.name_any(),
        "workers": u64::try_from(plan.workers.count).unwrap_or_default(),
        "workersReason": plan.workers.reason,
        "deployment": replicas(app),
        "service": service(app, plan),
        "others": others(plan),
        "cpu": cpu(app, plan),
        "memory": memory(plan),
        "warnings": warnings.collect::<Vec<_>>(),
    })
}

fn text(app: &WorkerApp, plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing into a String can't fail.
        let _ = writeln!(out, "{name:<12} {value}");
    };
    line("WorkerApp", &app.name_any());
    line("Workers", &format!("{} per pod ({})", plan.workers.count, plan.workers.reason));
    if plan.workers.rule != Rule::Count {
        line("", "followed live when the container's CPU limit changes");
    }
    line("Deployment", &format!("{}, {}", app.name_any(), replicas(app)));
    line("Service", &service(app, plan));
    match &app.spec.autoscaling {
        Some(autoscaling) => line("Autoscaler", &autoscaler(autoscaling, plan)),
        None => line("Autoscaler", "none"),
    }
    let others = others(plan);
    if !others.is_empty() {
        line("Besides", &others.join(", "));
    }
    line("CPU", &cpu(app, plan));
    line("Memory", &memory(plan));
    for warning in &plan.warnings {
        line("Warning", &warning.to_string());
    }
    out
}

fn replicas(app: &WorkerApp) -> String {
    match (&app.spec.autoscaling, app.spec.replicas) {
        (Some(autoscaling), _) => {
            format!("{} to {} pods", autoscaling.min_replicas.unwrap_or(1), autoscaling.max_replicas)
        }
        (None, Some(replicas)) => output::counted(replicas, "pod"),
        (None, None) => "1 pod, and whoever scales it is left alone".into(),
    }
}

fn service(app: &WorkerApp, plan: &Plan) -> String {
    let spec = plan.children.service.spec.clone().unwrap_or_default();
    let ports: Vec<_> = spec
        .ports
        .unwrap_or_default()
        .into_iter()
        .map(|port| {
            let node_port =
                port.node_port.map(|node_port| format!(", node port {node_port}")).unwrap_or_default();
            format!("{} {}{node_port}", port.name.unwrap_or_default(), port.port)
        })
        .collect();
    format!("{}, {}: {}", app.name_any(), spec.type_.unwrap_or_default(), ports.join("; "))
}

fn autoscaler(autoscaling: &workerapp_api::AutoscalingSpec, plan: &Plan) -> String {
    let pods = format!("{} to {} pods", autoscaling.min_replicas.unwrap_or(1), autoscaling.max_replicas);
    [pods].into_iter().chain(scaling::planned(plan)).collect::<Vec<_>>().join(", ")
}

/// The kinds of the children that have no line of their own.
fn others(plan: &Plan) -> Vec<String> {
    const TOLD: [&str; 4] = ["Deployment", "Service", "HorizontalPodAutoscaler", "ScaledObject"];
    let children = plan.children.each().into_iter();
    let others = children.filter(|child| child.object.is_some() && !TOLD.contains(&&*child.kind));
    others.map(|child| child.kind.into_owned()).collect()
}

fn amounts(request: Option<&Amount>, limit: Option<&Amount>) -> String {
    let amount = |amount: Option<&Amount>| {
        amount.map_or_else(|| "none".to_owned(), |amount| amount.quantity.to_string())
    };
    format!("request {}, limit {} per pod", amount(request), amount(limit))
}

fn memory(plan: &Plan) -> String {
    amounts(plan.effective.memory_request.as_ref(), plan.effective.memory_limit.as_ref())
}

/// What one pod and all pods together ask for.
fn cpu(app: &WorkerApp, plan: &Plan) -> String {
    let each = amounts(plan.effective.cpu_request.as_ref(), plan.effective.cpu_limit.as_ref());
    let most = app
        .spec
        .autoscaling
        .as_ref()
        .map_or(app.spec.replicas.unwrap_or(1), |autoscaling| autoscaling.max_replicas);
    match &plan.effective.cpu_request {
        Some(request) if most > 1 => {
            let all = workerapp_api::Quantity::from_milli(
                request.quantity.milli_ceil().saturating_mul(most.into()),
            );
            let all = if all.plain() == "1" { "1 CPU".to_owned() } else { format!("{} CPUs", all.plain()) };
            format!("{each}; {most} pods request {all}")
        }
        _ => each,
    }
}
