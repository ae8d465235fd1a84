//! Files with apps, and what the plan has to know beside them.

use std::path::PathBuf;

use clap::Args;
use workerapp_api::WorkerApp;
use workerapp_plan::{Facts, Plan};

use crate::manifest;

/// Files, as several commands take them.
#[derive(Args)]
pub(crate) struct Input {
    /// Files with WorkerApps (other kinds in them are passed over), or - for standard input
    #[arg(required_unless_present = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file, as kubectl takes it
    #[arg(short = 'f', long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// The image that holds the supervisor; in a cluster it is the operator's own
    #[arg(long, env = "WORKERAPP_SUPERVISOR_IMAGE", value_name = "IMAGE")]
    pub(crate) supervisor_image: Option<String>,
    /// When that image is pulled: Always, IfNotPresent or Never
    #[arg(long, env = "WORKERAPP_SUPERVISOR_PULL_POLICY", value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(crate) supervisor_pull_policy: Option<String>,
    /// The operator's namespace, from which an app's NetworkPolicy lets it in; in a cluster it is seen
    #[arg(
        long,
        env = "WORKERAPP_OPERATOR_NAMESPACE",
        value_name = "NAME",
        default_value = "workerapp-system"
    )]
    operator_namespace: String,
}

impl Input {
    /// All apps of all files.
    pub(crate) fn apps(&self) -> Result<Vec<WorkerApp>, manifest::Error> {
        let mut apps = Vec::new();
        for file in self.files.iter().chain(&self.filename) {
            apps.extend(manifest::read(file)?);
        }
        Ok(apps)
    }

    /// What is known without a cluster.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            operator_namespace: Some(self.operator_namespace.clone()),
            ..facts(self.supervisor_image.clone(), self.supervisor_pull_policy.clone())
        }
    }

    /// All apps with their plans. Nothing comes of it unless all of them are valid: half of a result is worse than none.
    pub(crate) fn plans(&self) -> Result<Vec<(WorkerApp, Plan)>, manifest::Error> {
        let facts = self.facts();
        let planned = self.apps()?.into_iter().map(|app| {
            let plan = workerapp_plan::plan(&app, &facts).map_err(manifest::Error::Invalid)?;
            Ok((app, plan))
        });
        planned.collect()
    }
}

/// Facts with this image, or the one of this version.
pub(crate) fn facts(image: Option<String>, pull_policy: Option<String>) -> Facts {
    Facts {
        supervisor_image: image.unwrap_or_else(|| format!("workerapp:{}", env!("CARGO_PKG_VERSION"))),
        supervisor_pull_policy: pull_policy,
        ..Facts::default()
    }
}
