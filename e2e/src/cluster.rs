//! The cluster that the tests run against.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{conditions, wait::await_condition},
};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::fixture::PATIENCE;

/// The variable that names the kubeconfig. Not `KUBECONFIG`: a test must never meet a cluster by accident.
pub const VARIABLE: &str = "WORKERAPP_TEST_KUBECONFIG";

/// The name of the WorkerApp definition.
pub const DEFINITION: &str = "workerapps.workerapp.dev";

/// How to reach the cluster.
///
/// # Errors
/// If the variable is unset or names no kubeconfig.
pub async fn config() -> Result<Config> {
    let Some(path) = std::env::var_os(VARIABLE) else {
        bail!(
            "{VARIABLE} is not set: these tests need a cluster; run them by `e2e/testbed/testbed exec cargo test …` after `e2e/testbed/testbed up 0`"
        );
    };
    let kubeconfig =
        Kubeconfig::read_from(&path).with_context(|| format!("{VARIABLE}={}", path.display()))?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Where the API server is reached, which on the testbed is where tests run too.
///
/// # Errors
/// If it has a name and no address.
pub fn host(config: &Config) -> Result<IpAddr> {
    let host = config.cluster_url.host().context("the API server has no host")?;
    host.trim_matches(['[', ']']).parse().context("the API server has no address")
}

/// A client for the test itself, which repeats what the server was too busy for. The WorkerApp definition is installed by
/// then.
///
/// # Errors
/// If the cluster can't be reached.
pub async fn client() -> Result<Client> {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    // Each test has a runtime of its own, and a client lives in the one in which it was made.
    let client = Client::try_from(config().await?)?;
    INSTALLED.get_or_try_init(|| install_definition(&client)).await?;
    Ok(client)
}

/// Adds the definition of a kind that a cluster may have, and waits until it is served.
///
/// # Errors
/// If it is there already, or after [`PATIENCE`].
pub async fn add_definition(client: &Client, definition: Value) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let added = definitions.create(&PostParams::default(), &serde_json::from_value(definition)?).await?;
    until_served(client, &added).await
}

/// Waits until objects of the kind can be listed: it is established before, and its storage may still be on the way then.
async fn until_served(client: &Client, definition: &CustomResourceDefinition) -> Result<()> {
    let spec = &definition.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let path = format!("/apis/{}/{}/{}?limit=1", spec.group, version.name, spec.names.plural);
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = client.request_text(http::Request::get(&path).body(Vec::new())?).await {
            if Instant::now() > deadline {
                let what = format!("{} is not served after {PATIENCE:?}", definition.name_any());
                return Err(error).context(what);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Takes the definition of a kind away, if it is there, and waits until it is gone.
///
/// # Errors
/// After [`PATIENCE`].
pub async fn remove_definition(client: &Client, name: &str) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    if let Some(found) = definitions.get_opt(name).await? {
        definitions.delete(name, &DeleteParams::background()).await?;
        let uid = found.metadata.uid.context("no uid")?;
        let gone = await_condition(definitions, name, conditions::is_deleted(&uid));
        tokio::time::timeout(PATIENCE, gone).await??;
    }
    Ok(())
}

/// Installs the definition and waits until it is served.
///
/// # Errors
/// After [`PATIENCE`].
pub async fn install_definition(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("workerapp-e2e").force();
    let manifest = Patch::Apply(workerapp_api::crd::manifest());
    let installed = definitions.patch(DEFINITION, &params, &manifest).await?;
    until_served(client, &installed).await
}
