//! What the operator costs while nothing happens.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tokio::time::sleep;

use crate::{arguments::Effort, operator::Operator, progress};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Calm {
    pub(crate) apps: usize,
    pub(crate) seconds: f64,
    /// Thousandths of a CPU.
    pub(crate) millicores: f64,
    /// Requests that would have changed something.
    pub(crate) writes: f64,
}

pub(crate) async fn measure(operator: &mut Operator, effort: &Effort) -> Result<Calm> {
    progress(&format!("nothing happens for {} s", effort.calm.as_secs()))?;
    operator.until_calm().await?;
    // What a start leaves behind (logs, freed memory) is over.
    sleep(Duration::from_secs(2)).await;
    let writes = |all: std::collections::BTreeMap<String, f64>| all.values().sum::<f64>();
    let before = writes(operator.metrics().await?.writes());
    let (begun, cpu) = (Instant::now(), operator.cpu()?);
    sleep(effort.calm).await;
    let (elapsed, used) = (begun.elapsed(), operator.cpu()?.saturating_sub(cpu));
    let after = writes(operator.metrics().await?.writes());
    Ok(Calm {
        apps: effort.calm_apps,
        seconds: elapsed.as_secs_f64(),
        millicores: 1000.0 * used.as_secs_f64() / elapsed.as_secs_f64(),
        writes: after - before,
    })
}
