//! The cluster: the only place of this program that holds a client.
//!
//! Commands gather what they need here, and turn it into text in `view`, which knows no client.

mod connect;
mod errors;
mod read;
mod stand;
mod write;

use clap::Args;
use kube::Client;

pub(crate) use read::{Scope, admin_port};

/// Which cluster, and where in it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Place {
    /// The namespace; default: that of the context
    #[arg(short, long, value_name = "NAME", global = true)]
    pub(crate) namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// The context of the kubeconfig; default: the current one
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,
    /// The kubeconfig; default: KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<std::path::PathBuf>,
}

/// A cluster, and the namespaces that were asked for.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    /// The API server's address, for messages.
    pub(crate) server: String,
    /// Whose address that is: `context shop in /home/me/.kube/config`.
    origin: String,
    /// The namespace of what has a name.
    pub(crate) namespace: String,
    /// Where lists look.
    pub(crate) scope: Scope,
}
