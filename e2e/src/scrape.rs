//! The text of metrics, as Prometheus reads it.

use std::collections::BTreeMap;

/// The samples of one metric: labels and value. The values of the labels hold no quotes here.
pub fn samples<'a>(text: &'a str, metric: &'a str) -> impl Iterator<Item = (BTreeMap<&'a str, String>, f64)> {
    text.lines().filter_map(move |line| {
        let (series, value) = line.rsplit_once(' ')?;
        let labels = series.strip_prefix(metric)?;
        let labels = match labels.strip_prefix('{') {
            Some(labels) => labels.strip_suffix('}')?,
            None if labels.is_empty() => "",
            None => return None,
        };
        let labels = labels.split("\",").filter_map(|label| label.split_once("=\""));
        let labels = labels.map(|(name, value)| (name, value.trim_end_matches('"').to_owned())).collect();
        Some((labels, value.parse().ok()?))
    })
}

/// The sum over all samples of one metric.
pub fn total(text: &str, metric: &str) -> f64 {
    samples(text, metric).map(|(_, value)| value).sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn samples_are_read() {
        let text = "# HELP a b\na{x=\"1\",y=\"a,b\"} 2\na_more 3\na 4\n";
        let samples: Vec<_> = super::samples(text, "a").collect();
        assert_eq!(samples.len(), 2, "{samples:?}");
        assert_eq!((samples[0].0["x"].as_str(), samples[0].0["y"].as_str(), samples[0].1), ("1", "a,b", 2.0));
        assert_eq!((samples[1].0.len(), samples[1].1), (0, 4.0));
        assert!((super::total(text, "a") - 6.0).abs() < 0.1 && super::total(text, "none").abs() < 0.1);
    }
}
