//! The command line of the operator's subcommand `metrics-api`.

use std::{net::SocketAddr, time::Duration};

use clap::Args;

use crate::{Config, Place};

/// Flags of `metrics-api`.
#[derive(Args, Clone, Debug)]
pub struct MetricsApiArgs {
    /// A namespace whose pods are measured; may be given several times. Default: all.
    #[arg(long = "namespace", value_name = "NS", env = "WORKERAPP_NAMESPACES", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// Where the API is served, by TLS; 0.0.0.0 takes the place of [::] where there is no IPv6.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8443", env = "WORKERAPP_API_LISTEN")]
    pub api_listen: SocketAddr,
    /// Where /livez, /readyz and /metrics are served.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080", env = "WORKERAPP_LISTEN")]
    pub listen: SocketAddr,
    /// How often each pod is asked, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=10))]
    pub interval: u64,
    /// The namespace that this runs in.
    #[arg(long, value_name = "NS", env = "POD_NAMESPACE")]
    pub own_namespace: String,
    /// The name of this pod.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub pod: String,
    /// The Service by which the API server finds this.
    #[arg(long, value_name = "NAME")]
    pub service: String,
    /// The port of that Service.
    #[arg(long, value_name = "PORT", default_value = "443")]
    pub service_port: u16,
    /// The Deployment that runs this; when it goes, so do the APIServices.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub deployment: String,
    /// The ClusterRole that owns the APIServices, so that they go with the installation.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub cluster_role: String,
}

impl MetricsApiArgs {
    /// What the metrics API is run with.
    pub fn config(&self) -> Config {
        let namespaces = self.namespaces.iter().map(|namespace| namespace.trim().to_owned());
        Config {
            namespaces: namespaces.filter(|namespace| !namespace.is_empty()).collect(),
            interval: Duration::from_secs(self.interval),
            place: Place {
                namespace: self.own_namespace.clone(),
                service: self.service.clone(),
                port: self.service_port,
                deployment: self.deployment.clone(),
                cluster_role: self.cluster_role.clone(),
                pod: self.pod.clone(),
            },
            lame_duck: Duration::from_secs(5),
        }
    }
}
