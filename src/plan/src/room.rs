//! Whether the nodes have room for as many pods as an app may have.
//!
//! What else runs on the nodes, and which of them an app's own rules exclude, is left out: the answer is how many pods fit at most, so
//! that what is told is true whatever the scheduler does.

use workerapp_api::WorkerApp;

use crate::{Effective, Facts, Warning};

/// Nodes of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSize {
    /// The CPU that pods may request, in thousandths.
    pub cpu_milli: i128,
    /// The memory that pods may request, in bytes.
    pub memory_bytes: i128,
    /// How many pods may run.
    pub pods: i128,
    /// A taint keeps pods away that don't tolerate it.
    pub tainted: bool,
}

pub(crate) fn warning(app: &WorkerApp, effective: &Effective, facts: &Facts) -> Option<Warning> {
    let most = i128::from(app.spec.autoscaling.as_ref()?.max_replicas);
    let sizes = facts.nodes.as_ref()?;
    let tolerant = !app.spec.tolerations.is_empty();
    let usable = || sizes.iter().filter(|(size, _)| tolerant || !size.tainted);
    let cpu = effective.cpu_request.as_ref().map(|request| request.quantity.milli_ceil());
    let memory = effective.memory_request.as_ref().map(|request| request.quantity.ceil());
    let on = |size: &NodeSize| {
        let by = |all: i128, each: Option<i128>| each.and_then(|each| all.checked_div(each));
        [by(size.cpu_milli, cpu), by(size.memory_bytes, memory)]
            .into_iter()
            .flatten()
            .fold(size.pods, i128::min)
    };
    let room =
        usable().fold(0_i128, |room, (size, count)| room.saturating_add(on(size).saturating_mul(*count)));
    let nodes: i128 = usable().map(|(_, count)| count).sum();
    let nodes = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
    (room < most).then(|| Warning::NoRoom { most, room, nodes, request: request(effective) })
}

fn request(effective: &Effective) -> String {
    let amounts = [("CPU", &effective.cpu_request), ("memory", &effective.memory_request)]
        .into_iter()
        .filter_map(|(name, amount)| amount.as_ref().map(|amount| format!("{} of {name}", amount.quantity)));
    let amounts: Vec<_> = amounts.collect();
    if amounts.is_empty() { "nothing".into() } else { amounts.join(" and ") }
}
