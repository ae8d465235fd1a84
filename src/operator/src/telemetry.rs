//! Log lines, as text or JSON, on standard error.

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// What is logged unless `RUST_LOG` says otherwise. The client library repeats what the operator itself says about
/// watches and about an API server that can't be reached, for each try.
const DEFAULT_FILTER: &str =
    "info,kube_runtime=off,kube_client=warn,kube_client::client=off,kube_client::client::auth=warn";

/// Starts logging. A second call in the same process changes nothing.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let started = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
        }
    };
    if started.is_err() {
        tracing::debug!("logging had been started before");
    }
}
