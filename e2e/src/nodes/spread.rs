//! Whether every worker of every pod answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::requests;
use crate::fixture::Pod;

/// How long it may take until every worker of every pod was met.
const SPREAD_PATIENCE: Duration = Duration::from_mins(2);

/// Who answered, for each pod.
pub type Answers = BTreeMap<String, BTreeSet<String>>;

/// Asks until `workers` have answered in each of `pods`, then as often again, so that too many are noticed as well.
///
/// # Errors
/// If others answer, more or fewer, or a request fails.
pub async fn until_all_answer(
    endpoints: &[SocketAddr],
    path: &str,
    pods: &[Pod],
    workers: usize,
    who: impl Fn(&Value) -> String,
) -> Result<Answers> {
    let expected: BTreeSet<String> = pods.iter().map(kube::ResourceExt::name_any).collect();
    let mut answers = Answers::new();
    let mut asked = 0;
    let mut complete = None;
    // Each new connection meets any worker of any pod. A pod may be Ready a moment before every node sends it connections, so time
    // is what bounds the search; once all were seen, as many connections again must meet no other.
    let deadline = Instant::now() + SPREAD_PATIENCE;
    while complete.map_or(Instant::now() < deadline, |at| asked < 2 * at) {
        let endpoint = endpoints[asked % endpoints.len()];
        let answer = requests::get_json(endpoint, path).await?;
        let host = answer["host"].as_str().with_context(|| format!("no host in {answer}"))?;
        answers.entry(host.to_owned()).or_default().insert(who(&answer));
        asked += 1;
        let all = expected.iter().all(|pod| answers.get(pod).is_some_and(|who| who.len() >= workers));
        complete = complete.or_else(|| all.then_some(asked));
    }
    let right = answers.keys().eq(expected.iter()) && answers.values().all(|who| who.len() == workers);
    ensure!(
        right,
        "in {asked} connections {workers} workers in each of {expected:?} should answer: {answers:?}"
    );
    Ok(answers)
}
