//! Output of other load generators, read into the same results.
//!
//! Formats are told apart by their content. Everything read is judged by the gates that can be applied, and targets are compared as if they
//! had been measured here. Numbers that a format doesn't have stay absent.

mod autocannon_json;
mod autocannon_text;
mod error;
mod fields;
mod k6_json;
mod lines;
mod wrk_text;

pub use error::Error;

use crate::comparison::compare;
use crate::gates::judge;
use crate::reports::numbers::counted;
use crate::results::{Provenance, Results, Run, VERSION};
use serde_json::Value;
use std::collections::BTreeMap;

/// A file to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What its target is called, unless the file itself says it.
    pub name: String,
    /// Where it was read from, for the report.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// The runs in one file, in their order, not judged yet.
pub fn read(source: &Source) -> Result<Vec<Run>, Error> {
    let text = source.text.trim_start_matches('\u{feff}');
    let mut runs = if text.trim_start().starts_with(['{', '[']) {
        from_json(text)?
    } else if wrk_text::is_it(text) {
        wrk_text::read(text)?
    } else if autocannon_text::is_it(text) {
        autocannon_text::read(text)?
    } else {
        return Err(Error::Unknown);
    };
    if runs.is_empty() {
        return Err(Error::Empty);
    }
    for run in &mut runs {
        if run.target.is_empty() {
            run.target.clone_from(&source.name);
        }
        if run.row.is_empty() {
            run.row =
                run.connections.map_or_else(|| "imported".to_owned(), |count| counted(count, "connection"));
        }
    }
    Ok(runs)
}

fn from_json(text: &str) -> Result<Vec<Run>, Error> {
    // autocannon writes its warm-up's result before that of the run, and appending is how runs are collected.
    let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let documents = documents.map_err(|source| Error::Json { source })?;
    if documents.iter().any(is_own) {
        return document(text).map(|results| results.runs);
    }
    let several = |value| match value {
        Value::Array(several) => several,
        one => vec![one],
    };
    let all: Vec<Value> = documents.into_iter().flat_map(several).collect();
    all.iter()
        .map(|value| {
            if k6_json::is_it(value) {
                k6_json::read(value)
            } else if autocannon_json::is_it(value) {
                autocannon_json::read(value)
            } else {
                Err(Error::Unknown)
            }
        })
        .collect()
}

/// Whether it is what this program has written.
fn is_own(value: &Value) -> bool {
    value.get("runs").is_some() && value.get("provenance").is_some()
}

#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}

/// Results of this program, with everything that they had when they were written: to write another report of the same.
pub fn document(text: &str) -> Result<Results, Error> {
    // First, since another version may lack what is a must in this one.
    let Versioned { version } = serde_json::from_str(text).map_err(|source| Error::Own { source })?;
    if version != VERSION {
        return Err(Error::Version { version });
    }
    serde_json::from_str(text).map_err(|source| Error::Own { source })
}

/// All files together, judged and compared; results of this program alone stay what they were, with how and when they were measured.
/// Runs of one target in one row are numbered as rounds, in the order in which they come.
/// The error goes with the path of its file.
pub fn results(
    sources: &[Source],
    mut provenance: Provenance,
    seed: u64,
) -> Result<Results, (String, Error)> {
    if let [only] = sources
        && serde_json::from_str(&only.text).is_ok_and(|value| is_own(&value))
    {
        return document(&only.text).map_err(|error| (only.path.clone(), error));
    }
    let mut results = Results { version: VERSION, ..Results::default() };
    let mut rounds: BTreeMap<(String, String), u32> = BTreeMap::new();
    for source in sources {
        for mut run in read(source).map_err(|error| (source.path.clone(), error))? {
            let round = rounds.entry((run.target.clone(), run.row.clone())).or_default();
            *round += 1;
            run.round = *round;
            run.verdicts = judge(&run);
            if !results.targets.contains(&run.target) {
                results.targets.push(run.target.clone());
            }
            results.runs.push(run);
        }
        provenance.sources.push(source.path.clone());
    }
    provenance.seed = Some(seed);
    results.provenance = provenance;
    results.comparisons = compare(&results, seed);
    Ok(results)
}

#[cfg(test)]
mod tests;
