//! Finds the cluster that a command line means.

use std::{env, io::ErrorKind};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use super::{Cluster, Place, Scope};
use crate::error::Error;

/// Where kubectl looks for kubeconfigs.
const VARIABLE: &str = "KUBECONFIG";
/// Set in every pod.
const IN_POD: &str = "KUBERNETES_SERVICE_HOST";

impl Place {
    /// The cluster. Nothing is asked of it yet.
    pub(crate) async fn connect(&self) -> Result<Cluster, Error> {
        let (config, origin) = self.config().await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| Error::Client {
            server: server.clone(),
            origin: origin.clone(),
            why: error.to_string(),
        })?;
        let scope = if self.all_namespaces { Scope::All } else { Scope::Namespace(namespace.clone()) };
        Ok(Cluster { client, server, origin, namespace, scope })
    }

    /// How the cluster is reached, and who says so.
    async fn config(&self) -> Result<(Config, String), Error> {
        let place = self.file();
        let failed = |error: KubeconfigError| unusable(&place, error);
        let Some(kubeconfig) = self.kubeconfig().map_err(failed)? else {
            return in_pod(place);
        };
        let known: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        let Some(context) =
            self.context.as_ref().or(kubeconfig.current_context.as_ref()).filter(|name| !name.is_empty())
        else {
            return Err(Error::NoContext { place, known });
        };
        if !kubeconfig.contexts.iter().any(|one| one.name == *context) {
            return Err(Error::UnknownContext { name: context.clone(), place, known });
        }
        let origin = format!("context {context} in {place}");
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)?;
        // A person waits: what doesn't answer is told at once, and not tried for minutes.
        config.default_retry = false;
        config.connect_timeout = Some(std::time::Duration::from_secs(10));
        Ok((config, origin))
    }

    /// The kubeconfig; `None` where nobody named one and the usual file isn't there, which in a pod is as it should be.
    fn kubeconfig(&self) -> Result<Option<Kubeconfig>, KubeconfigError> {
        if let Some(path) = &self.kubeconfig {
            return Kubeconfig::read_from(path).map(Some);
        }
        match Kubeconfig::read() {
            Ok(found) => Ok(Some(found)),
            Err(KubeconfigError::FindPath) => Ok(None),
            Err(KubeconfigError::ReadConfig(source, _)) if source.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file that is read, as a person would name it.
    fn file(&self) -> String {
        let named = env::var(VARIABLE).ok().filter(|paths| !paths.is_empty());
        match (&self.kubeconfig, named) {
            (Some(path), _) => path.display().to_string(),
            (None, Some(paths)) => format!("{paths} (from {VARIABLE})"),
            (None, None) => "~/.kube/config".to_owned(),
        }
    }
}

/// The cluster of the pod that this program runs in. `place`: the kubeconfig that isn't there.
fn in_pod(place: String) -> Result<(Config, String), Error> {
    if env::var_os(IN_POD).is_none() {
        return Err(Error::NoCluster { place });
    }
    let config = Config::incluster().map_err(|error| Error::ServiceAccount { why: error.to_string() })?;
    Ok((config, "this pod's service account".to_owned()))
}

fn unusable(place: &str, error: KubeconfigError) -> Error {
    let (place, why) = match error {
        // It names the file that was meant, in words for programmers.
        KubeconfigError::ReadConfig(source, path) => (path.display().to_string(), source.to_string()),
        error => (place.to_owned(), error.to_string()),
    };
    Error::Kubeconfig { place, why }
}
