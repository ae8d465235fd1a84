//! What of the load each pod got: by what the supervisors count, not by what clients believe.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use kube::ResourceExt as _;
use workerapp_e2e::{nodes::Nodes, scrape};

/// Over how long it is counted, at the end of the load.
pub(crate) const LAST: Duration = Duration::from_secs(15);
const REQUESTS: &str = "workerapp_worker_requests_total";

/// The requests that each Ready pod has begun to answer.
pub(crate) async fn requests(nodes: &Nodes, app: &str) -> Result<BTreeMap<String, f64>> {
    let mut counts = BTreeMap::new();
    for pod in nodes.ready_pods(app).await? {
        let page = nodes.admin(&pod, "/metrics").await?;
        counts.insert(pod.name_any(), scrape::total(&page, REQUESTS));
    }
    Ok(counts)
}

/// The fewest requests that a pod got between two counts, in percent of an even share; of the pods that were there all the time.
pub(crate) fn least_percent(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> Option<f64> {
    let got: Vec<f64> = before.iter().filter_map(|(pod, before)| Some(after.get(pod)? - before)).collect();
    let pods = f64::from(u32::try_from(got.len()).ok()?);
    let even = got.iter().sum::<f64>() / pods;
    got.iter().copied().reduce(f64::min).filter(|_| even > 0.0).map(|least| 100.0 * least / even)
}

#[cfg(test)]
mod tests {
    use super::least_percent;

    #[test]
    fn a_pod_that_gets_nothing_has_no_share() {
        let counts =
            |counts: &[(&str, f64)]| counts.iter().map(|(pod, count)| ((*pod).to_owned(), *count)).collect();
        let before = counts(&[("old", 100.0), ("new", 0.0)]);
        assert_eq!(least_percent(&before, &counts(&[("old", 200.0), ("new", 0.0)])), Some(0.0));
        assert_eq!(
            least_percent(&before, &counts(&[("old", 150.0), ("new", 50.0), ("newest", 7.0)])),
            Some(100.0)
        );
        assert_eq!(least_percent(&before, &before), None);
    }
}
