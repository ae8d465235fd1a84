//! `doctor`: one row of a table for each check: its code, what is asked, and what was seen.
//!
//! A new check is a function here and a row in [`CHECKS`]; `docs/cli.md` has a heading for each code.

mod apps;
mod cluster;

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde::Serialize;

use crate::{
    error::Error,
    look::Look,
    output::{self, GREEN, PLAIN, RED, YELLOW},
};

/// Why something could not be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The API server doesn't answer, and nothing else is worth a look.
    NoServer,
    /// Whoever asks may not.
    Forbidden(String),
    /// Anything else, in words.
    Failed(String),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        match error {
            Error::Forbidden { .. } => Self::Forbidden(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Everything that the checks look at.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// Major and minor version of the API server, as it writes them.
    pub(crate) version: Result<(String, String), String>,
    pub(crate) definition: Result<Option<CustomResourceDefinition>, Unread>,
    pub(crate) operators: Result<Vec<Deployment>, Unread>,
    /// Whether the API server offers CPU metrics.
    pub(crate) metrics: Result<bool, Unread>,
    /// What whoever asks may not do.
    pub(crate) denied: Result<Vec<String>, Unread>,
    pub(crate) looks: Result<Vec<Look>, Unread>,
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// What was seen is as it should be.
    Well(String),
    /// There is nothing to look at.
    Skipped(String),
    /// It works, and may surprise.
    Warning { seen: String, remedy: String },
    /// It doesn't work.
    Failure { seen: String, remedy: String },
}

/// One check.
pub(crate) struct Check {
    /// What `docs/cli.md` calls it, and programs.
    pub(crate) code: &'static str,
    /// The question.
    pub(crate) title: &'static str,
    /// The answer.
    pub(crate) look: fn(&Evidence) -> Finding,
}

/// All checks, in the order in which one depends on another.
pub(crate) const CHECKS: [Check; 13] = [
    Check {
        code: "api-server",
        title: "the API server answers and is new enough",
        look: cluster::api_server,
    },
    Check { code: "permissions", title: "you may read what this program shows", look: cluster::permissions },
    Check { code: "definition", title: "WorkerApps are defined", look: cluster::definition },
    Check {
        code: "definition-current",
        title: "the definition is this version's",
        look: cluster::definition_current,
    },
    Check { code: "operator", title: "one operator runs", look: cluster::operator },
    Check { code: "metrics-api", title: "autoscalers can read CPU metrics", look: cluster::metrics_api },
    Check { code: "nodes", title: "nodes can share a port between workers", look: cluster::nodes },
    Check { code: "reconciled", title: "every app was carried out", look: apps::reconciled },
    Check { code: "ready", title: "every app is ready", look: apps::ready },
    Check { code: "supervisors", title: "every pod's supervisor answers", look: apps::supervisors },
    Check { code: "sharing", title: "workers share their port", look: apps::sharing },
    Check { code: "scaling", title: "every autoscaler acts", look: apps::scaling },
    Check { code: "warnings", title: "no app has a surprise in its plan", look: apps::warnings },
];

/// A check and what it has found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) code: &'static str,
    pub(crate) title: &'static str,
    pub(crate) state: &'static str,
    pub(crate) seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
    pub(crate) docs: String,
}

/// Asks all questions.
pub(crate) fn all(evidence: &Evidence) -> Vec<Answer> {
    CHECKS.iter().map(|check| check.result((check.look)(evidence))).collect()
}

impl Check {
    fn result(&self, finding: Finding) -> Answer {
        let (state, seen, remedy) = match finding {
            Finding::Well(seen) => ("ok", seen, None),
            Finding::Skipped(seen) => ("skipped", seen, None),
            Finding::Warning { seen, remedy } => ("warning", seen, Some(remedy)),
            Finding::Failure { seen, remedy } => ("failed", seen, Some(remedy)),
        };
        let docs = format!("docs/cli.md#{}", self.code);
        Answer { code: self.code, title: self.title, state, seen, remedy, docs }
    }
}

/// For people.
pub(crate) fn text(results: &[Answer], colors: bool) -> String {
    let rows: Vec<_> = results
        .iter()
        .map(|result| {
            let mark = match result.state {
                "ok" => "√",
                "skipped" => "-",
                "warning" => "!",
                _ => "×",
            };
            // One finding stands in the row itself, several below it.
            let seen = if result.seen.contains('\n') { "" } else { &result.seen };
            vec![mark.to_owned(), result.code.to_owned(), result.title.to_owned(), seen.to_owned()]
        })
        .collect();
    let table = output::table(&[], &rows);
    let mut lines = Vec::new();
    for (line, result) in table.lines().zip(results) {
        let color = match result.state {
            "ok" => GREEN,
            "failed" => RED,
            "warning" => YELLOW,
            _ => "",
        };
        let plain = color.is_empty() || !colors;
        lines.push(if plain { line.to_owned() } else { format!("{color}{line}{PLAIN}") });
        if result.seen.contains('\n') {
            lines.extend(result.seen.lines().map(|line| format!("    - {line}")));
        }
        if let Some(remedy) = &result.remedy {
            lines.extend([format!("    remedy: {remedy}"), format!("    see {}", result.docs)]);
        }
    }
    let count = |state| results.iter().filter(|result| result.state == state).count();
    let (ok, warnings, failed) = (count("ok"), count("warning"), count("failed"));
    lines.push(format!(
        "{}: {ok} ok, {}, {failed} failed",
        output::counted(results.len(), "check"),
        output::counted(warnings, "warning")
    ));
    output::lines(lines)
}

/// Whether one has failed.
pub(crate) fn failed(results: &[Answer]) -> bool {
    results.iter().any(|result| result.state == "failed")
}

/// The finding where something could not be read.
fn unread(why: &Unread) -> Finding {
    match why {
        Unread::NoServer => Finding::Skipped("the API server doesn't answer".to_owned()),
        Unread::Forbidden(seen) | Unread::Failed(seen) => {
            Finding::Failure { seen: seen.clone(), remedy: "see the checks above".to_owned() }
        }
    }
}

/// The same for what belongs to the whole cluster: whoever has rights in a namespace only can't look, and needs nothing of it.
fn unread_of_cluster(why: &Unread) -> Finding {
    match why {
        Unread::Forbidden(seen) => Finding::Warning {
            seen: seen.clone(),
            remedy: "nothing, if your apps work: it is for whoever runs the cluster to look at".to_owned(),
        },
        why => unread(why),
    }
}

/// A line each, and how many more there are.
fn some(items: &[String]) -> String {
    const MOST: usize = 5;
    let mut lines: Vec<_> = items.iter().take(MOST).cloned().collect();
    if let Some(more) = items.len().checked_sub(MOST).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

#[cfg(test)]
#[path = "check/tests.rs"]
mod tests;
