//! Rights as the chart gives them, and a way to the API server that can be cut.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{authorization::v1::SelfSubjectRulesReview, rbac::v1::Role};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    config::Kubeconfig,
};
use serde_json::json;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    process::Command,
    sync::Notify,
};

use crate::{Fixture, cluster, fixture::PATIENCE, nodes::run, recorder::Right, wait::within};

/// The name of the chart's roles and bindings.
pub const ROLE: &str = "workerapp-operator";

/// Gives a user the rights that the chart gives the operator, in `namespaces`, and for the lease in the fixture's own; returns the
/// user, once they count.
///
/// # Errors
/// If helm or kubectl fail.
pub async fn of_the_chart(fixture: &Fixture, namespaces: &[String]) -> Result<String> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/workerapp-operator");
    let value = format!("namespaces={{{}}}", namespaces.join(","));
    let rendered = run(
        "helm",
        &[
            "template",
            ROLE,
            chart.to_str().context("no path")?,
            "--namespace",
            &fixture.namespace,
            "--set",
            &value,
            "--show-only",
            "templates/rbac.yaml",
        ],
    )
    .await?;
    let mut kubectl = Command::new("kubectl")
        .args(["apply", "--filename", "-"])
        .env("KUBECONFIG", std::env::var_os(cluster::VARIABLE).unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    kubectl.stdin.take().context("no stdin")?.write_all(rendered.as_bytes()).await?;
    let output = kubectl.wait_with_output().await?;
    ensure!(output.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&output.stderr));
    let user = format!("system:serviceaccount:{}:{ROLE}", fixture.namespace);
    until_given(&fixture.client, &fixture.namespace, &user).await?;
    for namespace in namespaces {
        until_given(&fixture.client, namespace, &user).await?;
    }
    Ok(user)
}

/// What `kubectl auth can-i --list` says of a user.
///
/// # Errors
/// If the API server can't list them.
pub async fn of_user(namespace: &str, user: &str) -> Result<BTreeSet<Right>> {
    let mut config = cluster::config().await?;
    config.auth_info.impersonate = Some(user.into());
    let api: Api<SelfSubjectRulesReview> = Api::all(Client::try_from(config)?);
    let review = serde_json::from_value(json!({ "spec": { "namespace": namespace } }))?;
    let status = api.create(&PostParams::default(), &review).await?.status.context("no status")?;
    ensure!(!status.incomplete, "the API server can't list them: {:?}", status.evaluation_error);
    Ok(status
        .resource_rules
        .into_iter()
        .flat_map(|rule| each(rule.api_groups.as_deref(), rule.resources.as_deref(), &rule.verbs))
        .collect())
}

/// Waits until a user may do what the Roles of a namespace say: the API server hears of them as everybody does, by a watch.
///
/// # Errors
/// After [`PATIENCE`], with what the user may not do yet.
pub async fn until_given(client: &Client, namespace: &str, user: &str) -> Result<()> {
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    let wanted: BTreeSet<_> = roles
        .list(&ListParams::default())
        .await?
        .into_iter()
        .filter_map(|role| role.rules)
        .flatten()
        .flat_map(|rule| each(rule.api_groups.as_deref(), rule.resources.as_deref(), &rule.verbs))
        .collect();
    within(PATIENCE, "rights to count", async || {
        let given = of_user(namespace, user).await?;
        let missing: Vec<_> = wanted.difference(&given).map(ToString::to_string).collect();
        ensure!(missing.is_empty(), "{user} may not yet {missing:?} in {namespace}");
        Ok(())
    })
    .await
}

/// The rights of one rule.
fn each(groups: Option<&[String]>, resources: Option<&[String]>, verbs: &[String]) -> Vec<Right> {
    let mut rights = Vec::new();
    for group in groups.into_iter().flatten() {
        for resource in resources.into_iter().flatten() {
            for verb in verbs {
                let (group, resource, verb) = (group.clone(), resource.clone(), verb.clone());
                rights.push(Right { group, resource, verb });
            }
        }
    }
    rights
}

/// A kubeconfig by which a program acts as `user`, and by `through` if that is given.
///
/// # Errors
/// If it can't be written.
pub fn kubeconfig(user: &str, groups: &[&str], through: Option<SocketAddr>) -> Result<PathBuf> {
    let mut kubeconfig = Kubeconfig::read_from(std::env::var(cluster::VARIABLE)?)?;
    for entry in &mut kubeconfig.auth_infos {
        if let Some(entry) = &mut entry.auth_info {
            entry.impersonate = Some(user.to_owned());
            entry.impersonate_groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
        }
    }
    if let Some(address) = through {
        for entry in &mut kubeconfig.clusters {
            if let Some(entry) = &mut entry.cluster {
                entry.server = Some(format!("https://{address}"));
            }
        }
    }
    let name = format!("workerapp-{}.kubeconfig", user.replace(':', "-"));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, serde_json::to_string(&kubeconfig)?)?;
    Ok(path)
}

/// Passes connections on to the API server, and cuts them when told to.
#[derive(Debug)]
pub struct Relay {
    /// Where it takes them.
    pub address: SocketAddr,
    cut: Arc<Notify>,
}

impl Relay {
    /// Starts one on this machine.
    ///
    /// # Errors
    /// If there is no port, or the cluster is unknown.
    pub async fn start() -> Result<Self> {
        let target = cluster::config().await?.cluster_url;
        let target = format!("{}:{}", target.host().context("no host")?, target.port_u16().unwrap_or(443));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, cut) = (listener.local_addr()?, Arc::new(Notify::new()));
        let told = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (target, told) = (target.clone(), Arc::clone(&told));
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        () = told.notified() => {}
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    }
                });
            }
        });
        Ok(Self { address, cut })
    }

    /// Ends every connection that there is; new ones are taken.
    pub fn cut(&self) {
        self.cut.notify_waiters();
    }
}
