//! The command line against a real API server.

use std::{os::unix::fs::symlink, path::Path};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service};
use kube::{Resource, ResourceExt as _};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, names};
use workerapp_e2e::{
    Fixture, Operator, app,
    cli::{Said, cli, program},
    cluster,
    fixture::Namespaced,
    operator::SUPERVISOR_IMAGE,
};
use workerapp_plan::{Facts, Plan};

/// A manifest with the namespace in it; JSON is YAML too.
fn manifest(fixture: &Fixture, name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp",
        "metadata": { "name": name, "namespace": fixture.namespace }, "spec": spec,
    })
    .to_string()
}

fn scaled() -> Value {
    app(json!({
        "env": [{ "name": "EMPTY", "value": "" }, { "name": "TEXT", "value": "on: \"yes\" # no\n" }],
        "supervisor": { "lameDuckSeconds": 3 },
        "service": { "metrics": {} },
        "autoscaling": { "minReplicas": 1, "maxReplicas": 5, "cpu": { "averageUtilization": 50 } },
    }))
}

async fn settled(name: &str, spec: Value) -> Result<(Fixture, Operator)> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply(name, spec).await?;
    fixture.until_reconciled(name).await?;
    fixture.at_rest(&operator).await?;
    Ok((fixture, operator))
}

async fn here(fixture: &Fixture, arguments: &[&str]) -> Result<Said> {
    cli(&[&["-n", &fixture.namespace], arguments].concat(), "").await
}

/// What the operator sends of a child, and what `render` prints of it, as JSON to the byte.
async fn same<K>(fixture: &Fixture, rendered: &str, sent: &K) -> Result<()>
where
    K: Namespaced + Serialize + DeserializeOwned + Resource<DynamicType = ()>,
{
    let kind = K::kind(&());
    let printed: K = serde_saphyr::from_str(rendered).with_context(|| format!("{kind}: {rendered}"))?;
    let (printed, sent) = (serde_json::to_string(&printed)?, serde_json::to_string(sent)?);
    ensure!(printed == sent, "{kind} is rendered as {printed}, and sent as {sent}");
    let live = fixture.api::<K>().get("shop").await?;
    let digest = live.annotations().get(names::ANNOTATION_APPLIED).context("no digest")?;
    ensure!(
        printed.contains(digest.as_str()),
        "{kind}: the operator applied {digest}, rendered is {printed}"
    );
    Ok(())
}

#[tokio::test]
async fn render_prints_what_the_operator_applies_to_the_byte() -> Result<()> {
    let (fixture, operator) = settled("shop", scaled()).await?;
    let text = manifest(&fixture, "shop", &scaled());
    let said = cli(&["render", "--supervisor-image", SUPERVISOR_IMAGE, "-"], &text).await?.well()?;
    let documents: Vec<_> = said.out.split("---\n").collect();
    ensure!(documents.len() == 3, "{}", said.out);

    let stored: WorkerApp = fixture.api().get("shop").await?;
    let facts = Facts { supervisor_image: SUPERVISOR_IMAGE.into(), ..Facts::default() };
    let Plan { children, .. } = workerapp_plan::plan(&stored, &facts)?;
    same::<Deployment>(&fixture, documents[0], &children.deployment).await?;
    same::<Service>(&fixture, documents[1], &children.service).await?;
    let autoscaler = children.autoscaler.context("no autoscaler")?;
    same::<HorizontalPodAutoscaler>(&fixture, documents[2], &autoscaler).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn diff_tells_nothing_something_and_errors_apart() -> Result<()> {
    let fixture = Fixture::new().await?;
    let text = manifest(&fixture, "shop", &scaled());
    let diff = async |text: &str| cli(&["diff", "-"], text).await;

    let new = diff(&text).await?;
    ensure!(new.code == 1 && new.out.contains("--- /dev/null"), "{new:?}");
    ensure!(
        new.out.contains("+++ Deployment") && new.out.contains("+kind: HorizontalPodAutoscaler"),
        "{new:?}"
    );
    ensure!(fixture.api::<WorkerApp>().get_opt("shop").await?.is_none(), "diff made the app");

    let operator = fixture.operator().await?;
    fixture.apply("shop", scaled()).await?;
    fixture.until_reconciled("shop").await?;
    // What is compared is asked for one after the other, and nobody may write in between.
    fixture.at_rest(&operator).await?;
    let same = diff(&text).await?;
    ensure!(same.code == 0 && same.out.is_empty(), "{same:?}");

    // A drop of the autoscaler, another image: seen at the app and at its children.
    let other = app(json!({ "image": "localhost/app:2", "replicas": 3 }));
    let changed = diff(&manifest(&fixture, "shop", &other)).await?;
    ensure!(changed.code == 1, "{changed:?}");
    for line in [
        "-  image: localhost/app:1",
        "+  image: localhost/app:2",
        "-kind: HorizontalPodAutoscaler",
        "+  replicas: 3",
    ] {
        ensure!(changed.out.contains(line), "{line}: {changed:?}");
    }
    ensure!(!changed.out.contains('\u{1b}'), "colours without a terminal: {changed:?}");
    let colored = cli(&["diff", "--color", "always", "-"], &manifest(&fixture, "shop", &other)).await?;
    ensure!(colored.out.contains("\u{1b}[31m-"), "{colored:?}");
    let app: WorkerApp = fixture.api().get("shop").await?;
    ensure!(app.spec.image == "localhost/app:1", "diff wrote the app");

    let wrong = diff(&text.replace("\"port\":3000", "\"port\":0")).await?;
    ensure!(wrong.code == 2 && wrong.err.contains("spec.port: 0: must be at least 1"), "{wrong:?}");
    fixture.end(operator).await
}

#[tokio::test]
async fn status_shows_the_app_and_programs_can_read_it() -> Result<()> {
    let (fixture, operator) = settled("shop", app(json!({ "replicas": 2 }))).await?;
    fixture.serve("shop", 2).await?;
    let text = here(&fixture, &["status", "shop"]).await?.well()?.out;
    for part in [
        "WorkerApp/shop",
        "2 per pod (CPU limit 2 → 2 workers)",
        "└─Service/shop",
        "Deployment/shop",
        "Pod/shop-",
    ] {
        ensure!(text.contains(part), "{part}: {text}");
    }
    let json = here(&fixture, &["status", "shop", "-o", "json"]).await?.well()?.json()?;
    ensure!(
        json["app"]["kind"] == "WorkerApp" && json["app"]["children"][0]["kind"] == "Deployment",
        "{json}"
    );
    let names = here(&fixture, &["status", "-o", "name"]).await?.well()?.out;
    ensure!(names.lines().any(|line| line == "deployment/shop"), "{names}");
    let yaml = here(&fixture, &["status", "shop", "-o", "yaml"]).await?.well()?.out;
    let yaml: Value = serde_saphyr::from_str(&yaml)?;
    ensure!(yaml["app"]["name"] == "shop", "{yaml}");
    // No kubelet runs here, so that nobody answers for the workers.
    let top = here(&fixture, &["top", "shop"]).await?;
    ensure!(top.code == 1 && top.err.contains("pod shop-"), "{top:?}");
    fixture.end(operator).await
}

#[tokio::test]
async fn pause_resume_and_restart_say_what_they_did() -> Result<()> {
    let (fixture, operator) = settled("shop", app(json!({}))).await?;
    let annotation = async || -> Result<Option<String>> {
        let app: WorkerApp = fixture.api().get("shop").await?;
        Ok(app.annotations().get(names::ANNOTATION_PAUSED).cloned())
    };
    for (command, expected, value) in [
        ("resume", "not paused", None),
        ("pause", "paused", Some("true")),
        ("pause", "already paused", Some("true")),
        ("resume", "resumed", None),
    ] {
        let out = here(&fixture, &[command, "shop"]).await?.well()?.out;
        ensure!(out == format!("workerapp.workerapp.dev/shop {expected}\n"), "{command}: {out}");
        ensure!(annotation().await?.as_deref() == value, "{command}: {:?}", annotation().await?);
    }

    // What the spec says stays, and isn't told as done.
    fixture.merge::<WorkerApp>("shop", json!({ "spec": { "paused": true } })).await?;
    let resumed = here(&fixture, &["resume", "shop"]).await?;
    ensure!(
        resumed.code == 1 && resumed.out.is_empty() && resumed.err.contains("spec.paused"),
        "{resumed:?}"
    );
    fixture.merge::<WorkerApp>("shop", json!({ "spec": { "paused": null } })).await?;

    here(&fixture, &["restart", "shop"]).await?.well()?;
    let deployment: Deployment = fixture.api().get("shop").await?;
    let pods = deployment.spec.template.metadata.context("no metadata")?;
    let restarted = pods.annotations.unwrap_or_default();
    ensure!(restarted.contains_key("kubectl.kubernetes.io/restartedAt"), "{restarted:?}");
    fixture.end(operator).await
}

#[tokio::test]
async fn restart_leaves_a_deployment_alone_that_only_has_the_name() -> Result<()> {
    let fixture = Fixture::new().await?;
    let pod = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let foreign = json!({ "metadata": { "name": "shop" }, "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": pod } });
    fixture.create::<Deployment>(foreign).await?;
    fixture.apply("shop", app(json!({}))).await?;
    let said = here(&fixture, &["restart", "shop"]).await?;
    ensure!(said.code == 1 && said.err.contains("no Deployment yet"), "{said:?}");
    let live: Deployment = fixture.api().get("shop").await?;
    ensure!(
        live.spec.template.metadata.and_then(|metadata| metadata.annotations).is_none(),
        "it was restarted"
    );
    fixture.remove().await
}

#[tokio::test]
async fn doctor_finds_what_does_not_work_and_says_what_to_do() -> Result<()> {
    // No operator looks after this one.
    let fixture = Fixture::new().await?;
    fixture.apply("shop", app(json!({}))).await?;
    let said = here(&fixture, &["doctor", "-o", "json"]).await?;
    ensure!(said.code == 1, "{said:?}");
    let results = said.json()?;
    let of =
        |code: &str| results.as_array().and_then(|all| all.iter().find(|one| one["code"] == code)).cloned();
    for (code, state) in [
        ("api-server", "ok"),
        ("definition", "ok"),
        ("definition-current", "ok"),
        ("operator", "failed"),
        ("reconciled", "failed"),
    ] {
        let found = of(code).with_context(|| format!("no {code} in {results}"))?;
        ensure!(found["state"] == state, "{found}");
        ensure!(
            state == "ok" || found["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()),
            "{found}"
        );
    }
    let text = here(&fixture, &["doctor"]).await?.out;
    ensure!(text.contains("×  operator") && text.contains("see docs/cli.md#operator"), "{text}");
    fixture.remove().await
}

#[tokio::test]
async fn bad_input_is_told_with_what_is_allowed() -> Result<()> {
    let fixture = Fixture::new().await?;
    for (arguments, parts) in [
        (&["status", "shop"][..], &["no WorkerApp \"shop\" in namespace", "none at all"][..]),
        (&["pause", "shop"], &["no WorkerApp \"shop\""]),
        (&["logs", "shop"], &["no WorkerApp \"shop\""]),
        (&["--context", "nowhere", "status"], &["has no context \"nowhere\"; choose with --context: "]),
        (&["--kubeconfig", "/nowhere", "status"], &["/nowhere"]),
        (
            &["bench"],
            &["no Service with the annotation benchmark.platformatic.dev/expose", &fixture.namespace],
        ),
    ] {
        let said = here(&fixture, arguments).await?;
        ensure!(said.code == 1 && said.out.is_empty(), "{arguments:?}: {said:?}");
        for part in parts {
            ensure!(
                said.err.starts_with("error: ") && said.err.contains(part),
                "{arguments:?}: {part}: {said:?}"
            );
        }
    }
    for (arguments, part) in [
        (&["top", "--interval", "0"][..], "--interval"),
        (&["bench", "-d", "5x"], "duration: \"5x\""),
        (&["logs", "shop", "--since", "5x"], "since: \"5x\""),
        // One of several apps of this name would be taken, and the others passed over.
        (&["pause", "shop", "-A"], "a name belongs to one namespace"),
        (&["status", "shop", "-A"], "a name belongs to one namespace"),
    ] {
        let wrong = cli(arguments, "").await?;
        ensure!(
            wrong.code == 2 && wrong.out.is_empty() && wrong.err.contains(part),
            "{arguments:?}: {wrong:?}"
        );
    }
    // That there is nothing yet is no fault.
    let none = here(&fixture, &["status", "-o", "json"]).await?;
    ensure!(
        none.code == 0 && none.out == "[]\n" && none.err.contains("no WorkerApp in namespace"),
        "{none:?}"
    );

    // Other apps are named: a typing error is the usual cause.
    fixture.apply("shop", app(json!({}))).await?;
    let said = here(&fixture, &["status", "shp"]).await?;
    ensure!(said.err.contains("there are shop"), "{said:?}");

    // kubectl asks for what may follow.
    let names =
        here(&fixture, &["__complete", "--", "-n", &fixture.namespace, "status", "s"]).await?.well()?.out;
    ensure!(names == "shop\n:4\n", "{names}");
    fixture.remove().await
}

/// kubectl finds both files on the PATH, as krew puts them there.
#[tokio::test]
async fn kubectl_itself_offers_commands_and_the_names_of_apps() -> Result<()> {
    let fixture = Fixture::new().await?;
    fixture.apply("shop", app(json!({}))).await?;
    let folder = std::env::temp_dir().join(format!("workerapp-kubectl-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../krew/kubectl_complete-workerapp");
    symlink(program()?, folder.join("kubectl-workerapp"))?;
    symlink(script, folder.join("kubectl_complete-workerapp"))?;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH")?);
    let offered = async |words: &[&str]| -> Result<String> {
        let mut kubectl = tokio::process::Command::new("kubectl");
        kubectl.args(["__complete", "workerapp"]).args(words).env("PATH", &path);
        kubectl.env("KUBECONFIG", std::env::var_os(cluster::VARIABLE).unwrap_or_default());
        Ok(String::from_utf8(kubectl.output().await?.stdout)?)
    };
    let commands = offered(&["re"]).await?;
    ensure!(commands == "render\nrestart\nresume\n:4\n", "{commands:?}");
    let apps = offered(&["-n", &fixture.namespace, "status", "s"]).await?;
    ensure!(apps == "shop\n:4\n", "{apps:?}");
    std::fs::remove_dir_all(&folder)?;
    fixture.remove().await
}

#[tokio::test]
async fn an_api_server_that_is_not_there_is_told_at_once() -> Result<()> {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "dead",
        "clusters": [{ "name": "dead", "cluster": { "server": "http://127.0.0.1:1" } }],
        "contexts": [{ "name": "dead", "context": { "cluster": "dead", "user": "me" } }],
        "users": [{ "name": "me", "user": {} }],
    });
    let file = std::env::temp_dir().join(format!("workerapp-dead-{}.json", std::process::id()));
    std::fs::write(&file, kubeconfig.to_string())?;
    let path = file.to_string_lossy().into_owned();
    let said = cli(&["--kubeconfig", &path, "status"], "").await?;
    ensure!(said.code == 1 && said.err.contains("http://127.0.0.1:1 can't be reached"), "{said:?}");
    let said = cli(&["--kubeconfig", &path, "doctor"], "").await?;
    ensure!(said.code == 1 && said.out.contains("×  api-server"), "{said:?}");
    std::fs::remove_file(&file)?;
    Ok(())
}
