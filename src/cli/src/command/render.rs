//! `render`: the objects that the operator applies, as YAML.
//!
//! They are the operator's to the letter but for the owner reference, which needs the uid of a WorkerApp in a cluster. The supervisor's
//! image and its pull policy, and the operator's namespace, have to be given where they aren't the usual ones.

use std::process::ExitCode;

use clap::Args;
use workerapp_plan::Plan;

use super::input::Input;
use crate::{error::Error, output};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp render app.yaml > rendered.yaml
  kubectl workerapp render app.yaml --supervisor-image registry.example.com/workerapp:0.1.0 | kubectl apply -f -

A cluster is not asked: unless --supervisor-image says otherwise, the YAML has the supervisor's image of this version, \
  pulled as --supervisor-pull-policy says, and lets in an operator from --operator-namespace where the app asks for a NetworkPolicy. The cluster's own is what its operator was started with, and what the pods of its apps name:
  kubectl get deployment APP -o jsonpath='{.spec.template.spec.initContainers[?(@.name==\"workerapp-install\")].image}'";

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let plans = arguments.input.plans()?;
    let documents = plans.iter().map(|(_, plan)| yaml(plan)).collect::<Result<Vec<_>, _>>()?;
    output::print(&documents.join("---\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn yaml(plan: &Plan) -> Result<String, Error> {
    let objects = plan.children.each().into_iter().filter_map(|child| child.object);
    Ok(objects.map(|object| output::yaml(&object)).collect::<Result<Vec<_>, _>>()?.join("---\n"))
}
