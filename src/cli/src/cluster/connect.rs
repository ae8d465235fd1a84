//! Finds the cluster that a command line means.

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use super::{Cluster, Place, Scope};
use crate::error::Error;

impl Place {
    /// The cluster. Nothing is asked of it yet.
    pub(crate) async fn connect(&self) -> Result<Cluster, Error> {
        let config = self.config().await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client =
            Client::try_from(config).map_err(|error| Error::Kubeconfig { why: error.to_string() })?;
        let scope = if self.all_namespaces { Scope::All } else { Scope::Namespace(namespace.clone()) };
        Ok(Cluster { client, server, namespace, scope })
    }

    async fn config(&self) -> Result<Config, Error> {
        let failed = |error: &KubeconfigError| Error::Kubeconfig { why: error.to_string() };
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Some(Kubeconfig::read_from(path).map_err(|error| failed(&error))?),
            None => Kubeconfig::read().map_or_else(
                |error| match error {
                    // The usual file isn't there, which in a pod is as it should be.
                    KubeconfigError::ReadConfig(source, _)
                        if source.kind() == std::io::ErrorKind::NotFound =>
                    {
                        Ok(None)
                    }
                    KubeconfigError::FindPath => Ok(None),
                    error => Err(failed(&error)),
                },
                |found| Ok(Some(found)),
            )?,
        };
        let Some(kubeconfig) = kubeconfig else {
            return Config::incluster().map_err(|error| Error::NoCluster {
                why: format!("there is no kubeconfig, and this isn't a pod ({error})"),
            });
        };
        if let Some(name) = &self.context
            && !kubeconfig.contexts.iter().any(|context| context.name == *name)
        {
            let known: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Error::UnknownContext { name: name.clone(), known });
        }
        if self.context.is_none() && kubeconfig.current_context.as_deref().is_none_or(str::is_empty) {
            return Err(Error::NoCluster { why: "the kubeconfig has no current context".into() });
        }
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| failed(&error))?;
        // A person waits: what doesn't answer is told at once, and not tried for minutes.
        config.default_retry = false;
        config.connect_timeout = Some(std::time::Duration::from_secs(10));
        Ok(config)
    }
}
