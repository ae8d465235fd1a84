//! Why a file can't be read.

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// None of the formats.
    #[error(
        "this is none of the formats that can be read: JSON or text of autocannon, text of wrk, a JSON summary of k6, or results of this program"
    )]
    Unknown,
    /// A format was recognised, but there is no run.
    #[error("there is no complete run in it")]
    Empty,
    /// It begins as JSON does, and isn't.
    #[error("it is no JSON: {source}")]
    Json {
        /// With line and column.
        source: serde_json::Error,
    },
    /// Our own results, but something is amiss in them.
    #[error("its results can't be read: {source}")]
    Own {
        /// With the field's name.
        source: serde_json::Error,
    },
    /// Results of another version of this program.
    #[error("version: {version} is not known; results of version {} can be read", crate::results::VERSION)]
    Version {
        /// What the file says.
        version: u32,
    },
    /// A field of a JSON document.
    #[error("{format}: {field}: {found} is not allowed; {allowed}")]
    Field {
        /// Whose format.
        format: &'static str,
        /// With those around it: `latency.p50`.
        field: String,
        /// As it stands there; `nothing` if it is missing.
        found: String,
        /// What is.
        allowed: &'static str,
    },
    /// A line of a text.
    #[error("{format}: line {number}: {line:?}: {why}")]
    Line {
        /// Whose format.
        format: &'static str,
        /// From 1.
        number: usize,
        /// The line, shortened.
        line: String,
        /// What is wrong with it.
        why: &'static str,
    },
}
