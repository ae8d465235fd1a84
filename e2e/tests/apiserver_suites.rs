//! `bench --suite` against a real API server without nodes: what stands in a suite's way, and that it leaves nothing behind.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt as _, api::ListParams};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, names};
use workerapp_e2e::{
    Fixture, app,
    cli::{Said, cli, command, interrupt},
};

/// A suite of two apps in a folder of its own.
struct Suite(PathBuf);

impl Suite {
    fn new(name: &str, node_port: Option<i32>) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("workerapp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let suite = json!({"name": name, "title": name, "apps": ["apps.yaml"]});
        std::fs::write(folder.join("suite.yaml"), suite.to_string())?;
        let document = |name: &str, spec: &Value| json!({"apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp", "metadata": {"name": name}, "spec": spec});
        let service = node_port.map_or(json!({}), |port| json!({"nodePort": port}));
        let [one, two] =
            [document("one", &app(json!({"service": service}))), document("two", &app(json!({})))];
        std::fs::write(folder.join("apps.yaml"), format!("{one}\n---\n{two}\n"))?;
        Ok(Self(folder))
    }

    fn path(&self) -> String {
        self.0.join("suite.yaml").display().to_string()
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn bench(fixture: &Fixture, suite: &Suite) -> Result<Said> {
    cli(&["-n", &fixture.namespace, "bench", "--suite", &suite.path()], "").await
}

async fn apps(fixture: &Fixture) -> Result<Vec<String>> {
    let found = fixture.api::<WorkerApp>().list(&ListParams::default()).await?;
    Ok(found.items.iter().map(kube::ResourceExt::name_any).collect())
}

#[tokio::test]
async fn a_node_port_of_another_is_told_before_anything_is_made() -> Result<()> {
    let fixture = Fixture::new().await?;
    let other: Service = fixture
        .create(json!({
            "metadata": {"name": "other"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]},
        }))
        .await?;
    let ports = other.spec.and_then(|spec| spec.ports).unwrap_or_default();
    let port = ports.iter().find_map(|port| port.node_port).context("no node port")?;
    let suite = Suite::new("port", Some(port))?;

    let said = bench(&fixture, &suite).await?;
    let expected =
        format!("node port {port}, which one wants, belongs to Service {}/other", fixture.namespace);
    ensure!(said.code == 1 && said.err.contains(&expected), "{said:?}");
    ensure!(
        said.err.contains(&format!("kubectl delete workerapps -A -l {}", names::LABEL_SUITE)),
        "{said:?}"
    );
    ensure!(apps(&fixture).await?.is_empty());
    fixture.remove().await
}

#[tokio::test]
async fn an_app_of_that_name_which_the_suite_did_not_make_is_left_alone() -> Result<()> {
    let fixture = Fixture::new().await?;
    let mine = fixture.apply("two", app(json!({}))).await?;
    let said = bench(&fixture, &Suite::new("name", None)?).await?;
    ensure!(said.code == 1 && said.err.contains("/two is there already"), "{said:?}");
    let now = fixture.api::<WorkerApp>().get("two").await?;
    ensure!(now.resource_version() == mine.resource_version(), "it was changed");
    ensure!(apps(&fixture).await? == ["two"]);
    fixture.remove().await
}

#[tokio::test]
async fn ctrl_c_while_the_apps_are_awaited_removes_them() -> Result<()> {
    let fixture = Fixture::new().await?;
    let suite = Suite::new("stop", None)?;
    let child = command(&["-n", &fixture.namespace, "bench", "--suite", &suite.path()])?.spawn()?;
    // No operator looks after this namespace, so they never serve.
    fixture.until::<WorkerApp>("two", "it is there", |found| found.is_some()).await?;
    let label = fixture.api::<WorkerApp>().get("one").await?;
    ensure!(label.labels().get(names::LABEL_SUITE).is_some_and(|suite| suite == "stop"), "{label:?}");
    interrupt(&child).await?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.code() == Some(130), "{output:?}");
    ensure!(apps(&fixture).await?.is_empty(), "{:?}", apps(&fixture).await?);
    fixture.remove().await
}
