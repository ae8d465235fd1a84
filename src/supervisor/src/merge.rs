//! Makes one Prometheus page out of those of all workers: each sample gets the label `worker`.
//!
//! Nothing is added up: what is right for a counter is wrong for a gauge or a quantile, and whoever queries can say `sum`.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The samples of one name, with what is said about it.
#[derive(Debug, Default)]
struct Family {
    /// `# HELP`, `# TYPE` and `# UNIT`, each once.
    about: Vec<String>,
    samples: String,
}

/// The page of one worker, or none when it gave none.
pub type Page = (u32, Option<String>);

/// One page for all.
pub fn merge(pages: &[Page]) -> String {
    let mut order: Vec<String> = Vec::new();
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for (worker, page) in pages {
        let mut current = String::new();
        for line in page.as_deref().unwrap_or_default().lines() {
            let name = match line.strip_prefix("# ").map(|rest| rest.split(' ').collect::<Vec<_>>()) {
                Some(words) => match words.get(..2) {
                    Some(["HELP" | "TYPE" | "UNIT", name]) => (*name).to_owned(),
                    _ => continue,
                },
                None if line.is_empty() || line.starts_with('#') => continue,
                None => family_of(line, &current).to_owned(),
            };
            let family = families.entry(name.clone()).or_insert_with(|| {
                order.push(name.clone());
                Family::default()
            });
            if !line.starts_with('#') {
                label(line, *worker, &mut family.samples);
            } else if !family.about.iter().any(|known| same_kind(known, line)) {
                family.about.push(line.to_owned());
            }
            current = name;
        }
    }
    let mut out = String::new();
    for family in order.iter().filter_map(|name| families.get(name)) {
        for line in &family.about {
            let _ = writeln!(out, "{line}");
        }
        out.push_str(&family.samples);
    }
    out.push_str("# HELP workerapp_app_metrics_up 1 when the worker gave its metrics.\n# TYPE workerapp_app_metrics_up gauge\n");
    for (worker, page) in pages {
        let _ = writeln!(out, "workerapp_app_metrics_up{{worker=\"{worker}\"}} {}", u8::from(page.is_some()));
    }
    out
}

/// The second worker says the same about a name, or something else that nobody could tell apart.
fn same_kind(one: &str, other: &str) -> bool {
    one.split(' ').nth(1) == other.split(' ').nth(1)
}

/// The family that a sample belongs to: the one above it, if its name begins so (`_bucket`, `_sum`, `_total`).
fn family_of<'a>(sample: &'a str, current: &'a str) -> &'a str {
    let name = sample.split(['{', ' ', '\t']).next().unwrap_or_default();
    let suffix = name.strip_prefix(current).filter(|_| !current.is_empty());
    if suffix.is_some_and(|rest| rest.is_empty() || rest.starts_with('_')) { current } else { name }
}

/// The sample with one label more. A label of that name which the app has itself is kept under Prometheus' usual other name.
fn label(sample: &str, worker: u32, out: &mut String) {
    let end = sample.find(['{', ' ', '\t']).unwrap_or(sample.len());
    let (name, rest) = sample.split_at(end);
    let _ = match rest.strip_prefix('{') {
        Some(labels) => {
            // In a value the quotation mark would have a backslash before it.
            let labels = labels.replace(",worker=\"", ",exported_worker=\"");
            let own = if labels.starts_with("worker=\"") { "exported_" } else { "" };
            let comma = if labels.starts_with('}') { "" } else { "," };
            writeln!(out, "{name}{{worker=\"{worker}\"{comma}{own}{labels}")
        }
        None => writeln!(out, "{name}{{worker=\"{worker}\"}}{rest}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_workers() {
        let page = |n: u32| {
            format!(
                "# HELP a_total As.\n# TYPE a_total counter\na_total {n}\na_total{{x=\"}} ,worker=\\\"\"}} 1 1700\n\n\
                 # TYPE h histogram\nh_bucket{{le=\"1\"}} 2\nh_sum 3\nh_count 4\nplain 5\nw{{worker=\"q\",worker_id=\"1\"}} 6\n# EOF\n"
            )
        };
        let merged = merge(&[(0, Some(page(7))), (1, Some(page(8))), (2, None)]);
        let wanted = "\
# HELP a_total As.
# TYPE a_total counter
a_total{worker=\"0\"} 7
a_total{worker=\"0\",x=\"} ,worker=\\\"\"} 1 1700
a_total{worker=\"1\"} 8
a_total{worker=\"1\",x=\"} ,worker=\\\"\"} 1 1700
# TYPE h histogram
h_bucket{worker=\"0\",le=\"1\"} 2
h_sum{worker=\"0\"} 3
h_count{worker=\"0\"} 4
h_bucket{worker=\"1\",le=\"1\"} 2
h_sum{worker=\"1\"} 3
h_count{worker=\"1\"} 4
plain{worker=\"0\"} 5
plain{worker=\"1\"} 5
w{worker=\"0\",exported_worker=\"q\",worker_id=\"1\"} 6
w{worker=\"1\",exported_worker=\"q\",worker_id=\"1\"} 6
# HELP workerapp_app_metrics_up 1 when the worker gave its metrics.
# TYPE workerapp_app_metrics_up gauge
workerapp_app_metrics_up{worker=\"0\"} 1
workerapp_app_metrics_up{worker=\"1\"} 1
workerapp_app_metrics_up{worker=\"2\"} 0
";
        assert_eq!(merged, wanted);
    }

    #[test]
    fn damaged_pages_keep_every_sample_apart() {
        let samples =
            ["# HELP a b\n# TYPE a counter\na{x=\"1\"} 2\na 3\n", "# EOF\n{} 1\n\u{e9} 2\n# TYPE\n"];
        crate::testing::with_damaged_text(&samples, |text| {
            let merged = merge(&[(0, Some(text.to_owned())), (1, Some(text.to_owned()))]);
            let of = |worker| merged.matches(&format!("{{worker=\"{worker}\"")).count();
            assert!(of(0) >= 1 && of(1) >= 1);
        });
    }
}
