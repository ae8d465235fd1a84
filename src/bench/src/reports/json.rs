//! The results as JSON, and its schema.

use crate::results::Results;

/// With line breaks, ended by one.
pub fn text(results: &Results) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(results)? + "\n")
}

/// The JSON schema of [`text`], as it is published in `schema/results.json`.
pub fn schema() -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&schemars::schema_for!(Results))? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_this_one() {
        let published = include_str!("../../schema/results.json");
        let hint = "cargo run -p workerapp-bench --example schema >src/bench/schema/results.json";
        assert!(published == schema().unwrap(), "the schema has changed: {hint}");
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let results = crate::reports::samples::results();
        let text = text(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
    }
}
