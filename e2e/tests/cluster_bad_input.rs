//! What a person gets wrong, on real nodes: each mistake is named where one looks, with its remedy, and apps beside it go on.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, ResourceQuota};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, condition::ConditionType};
use workerapp_e2e::{
    fixture::condition,
    nodes::{Nodes, container, eventually, hello, on_nodes, ready, requests, restarts},
};

/// For how long the word for a lasting trouble is watched not to change.
const STEADY: Duration = Duration::from_secs(10);

/// A mistake, and how it is told.
struct Mistake {
    app: &'static str,
    /// The fields of the spec that are wrong.
    wrong: Value,
    /// The reason of Ready.
    reason: &'static str,
    /// What stands in the condition's message.
    message: &'static [&'static str],
    /// What stands in the container's log.
    log: &'static [&'static str],
    /// What the container ends with.
    code: Option<i32>,
}

fn mistakes() -> Vec<Mistake> {
    let mistake = |app, wrong, reason, message| Mistake { app, wrong, reason, message, log: &[], code: None };
    let env = |name: &str, value: &str| json!({ "env": [{ "name": name, "value": value }] });
    vec![
        mistake(
            "no-image",
            json!({ "image": "localhost/nothing-here:1" }),
            "ImagePullBackOff",
            &["localhost/nothing-here:1", "check spec.image and spec.imagePullSecrets"],
        ),
        mistake("odd-image", json!({ "image": "UPPER case" }), "InvalidImageName", &["UPPER case"]),
        Mistake {
            log: &["nodee: not found in PATH", "check the command"],
            code: Some(127),
            ..mistake(
                "no-command",
                json!({ "command": ["nodee", "server.js"] }),
                "CrashLoopBackOff",
                &["exit code 127", "nodee: not found in PATH", "correct spec.command, or the image"],
            )
        },
        Mistake {
            log: &["/app/server.js is not executable"],
            code: Some(126),
            ..mistake(
                "not-executable",
                json!({ "command": ["/app/server.js"] }),
                "CrashLoopBackOff",
                &["exit code 126", "not executable"],
            )
        },
        Mistake {
            log: &["giving up", "the database is on fire"],
            code: Some(7),
            ..mistake(
                "ends-at-once",
                json!({ "command": ["sh", "-c", "echo the database is on fire; exit 7"] }),
                "CrashLoopBackOff",
                &["exit code 7", "the database is on fire", "--previous`"],
            )
        },
        Mistake {
            log: &["has not listened yet"],
            ..mistake(
                "never-listens",
                env("HELLO_LISTEN", "no"),
                "NotReady",
                &["has not listened yet", "kubectl logs never-listens-"],
            )
        },
        Mistake {
            log: &["listens on port 4000; the declared port is 3000", "spec.port"],
            ..mistake(
                "other-port",
                env("HELLO_LISTENS_ON", "4000"),
                "NotReady",
                &[
                    "listens on port 4000; the declared port is 3000: set spec.port",
                    "kubectl logs other-port-",
                ],
            )
        },
        Mistake {
            log: &["listens on 127.0.0.1 only", "0.0.0.0"],
            ..mistake(
                "local-only",
                env("HELLO_HOST", "127.0.0.1"),
                "NotReady",
                &["listens on 127.0.0.1 only", "make it listen on 0.0.0.0", "kubectl logs local-only-"],
            )
        },
        mistake(
            "too-big",
            json!({ "resources": { "requests": { "cpu": "900" } }, "workers": { "count": 1 } }),
            "Unschedulable",
            &["no node takes it", "Insufficient cpu; lower spec.resources.requests"],
        ),
        mistake(
            "no-config-map",
            json!({ "envFrom": [{ "configMapRef": { "name": "absent" } }] }),
            "CreateContainerConfigError",
            &["absent", "not found; create it, or correct spec.env"],
        ),
        mistake(
            "no-secret-key",
            json!({ "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "hidden", "key": "word" } } }] }),
            "CreateContainerConfigError",
            &["hidden", "not found; create it, or correct spec.env"],
        ),
    ]
}

/// What is told of one mistake: condition, event, log, exit code.
async fn is_told(nodes: &Nodes, mistake: &Mistake) -> Result<()> {
    let app = mistake.app;
    eventually(&format!("{app} to be {} with {:?}", mistake.reason, mistake.message), async || {
        let told = nodes.until_not_ready(app, mistake.reason).await?;
        let missing: Vec<_> =
            mistake.message.iter().filter(|words| !told.message.contains(**words)).collect();
        ensure!(missing.is_empty(), "{missing:?} is not in the message: {}", told.message);
        Ok(())
    })
    .await?;
    for words in mistake.log {
        nodes.until_logged(app, words).await?;
    }
    if let Some(code) = mistake.code {
        eventually(&format!("{app}'s exit code {code}"), async || {
            let pods = nodes.all_pods(app).await?;
            let states = pods.iter().filter_map(container).flat_map(|one| [&one.state, &one.last_state]);
            let ends = states.flatten().filter_map(|state| state.terminated.as_ref());
            let codes: Vec<_> = ends.map(|end| end.exit_code).collect();
            ensure!(!codes.is_empty() && codes.iter().all(|found| *found == code), "it ends with {codes:?}");
            Ok(())
        })
        .await?;
    }
    eventually(&format!("an event {} about {app}", mistake.reason), async || {
        let events = nodes.events(app).await?;
        ensure!(events.iter().any(|(reason, _)| reason == mistake.reason), "{events:?}");
        Ok(())
    })
    .await?;
    Ok(())
}

/// Each of the apps is not Ready for the same reason all the time: no word takes turns with another.
async fn steady(nodes: &Nodes, mistakes: &[Mistake]) -> Result<()> {
    let until = Instant::now() + STEADY;
    let mut versions = Vec::new();
    while Instant::now() < until {
        for mistake in mistakes {
            let app = nodes.api::<WorkerApp>().get(mistake.app).await?;
            let told = ready(&app).context("no Ready condition")?;
            ensure!(told.reason == mistake.reason, "{}: {} became {told:?}", mistake.app, mistake.reason);
            versions.push((mistake.app, app.resource_version()));
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    versions.sort();
    versions.dedup();
    // The kubelet starts a container anew, a pod's back-off grows: a few writes tell that, not one for each look.
    let most = 4;
    for mistake in mistakes {
        let writes = versions.iter().filter(|(app, _)| *app == mistake.app).count() - 1;
        ensure!(writes <= most, "{}: its status was written {writes} times in {STEADY:?}", mistake.app);
    }
    Ok(())
}

/// An app that stands beside the mistakes: nothing about it moves, and it answers.
struct Neighbour {
    before: WorkerApp,
    pod: String,
    endpoints: Vec<SocketAddr>,
}

impl Neighbour {
    async fn new(nodes: &Nodes) -> Result<Self> {
        let app = nodes.serve_app("fine", hello(json!({}))).await?;
        let endpoints = nodes.endpoints(&app).await?;
        let pod = nodes.only_pod("fine").await?.name_any();
        // The last words about the rollout may come after the first time that it is Ready.
        let before = eventually("an end of writes", async || {
            let before = nodes.api::<WorkerApp>().get("fine").await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            let after = nodes.api::<WorkerApp>().get("fine").await?;
            ensure!(before.resource_version() == after.resource_version(), "it still moves");
            Ok(after)
        });
        Ok(Self { before: before.await?, pod, endpoints })
    }

    async fn is_unharmed(&self, nodes: &Nodes) -> Result<()> {
        let app = nodes.api::<WorkerApp>().get("fine").await?;
        assert_eq!(app.status, self.before.status);
        assert_eq!(app.resource_version(), self.before.resource_version());
        let pod = nodes.only_pod("fine").await?;
        assert_eq!((pod.name_any(), restarts(&pod)), (self.pod.clone(), 0));
        for endpoint in &self.endpoints {
            requests::get_json(*endpoint, "/").await?;
        }
        Ok(())
    }
}

/// `pm2_4372` and `gunicorn_1663` among them: a container whose workers all end must not stay up, and its end shows their own code.
#[tokio::test]
async fn each_mistake_is_named_and_the_app_beside_it_goes_on() -> Result<()> {
    on_nodes("mistakes", async |nodes| {
        let neighbour = Neighbour::new(nodes).await?;
        let mistakes = mistakes();
        for mistake in &mistakes {
            nodes.apply(mistake.app, hello(mistake.wrong.clone())).await.context(mistake.app)?;
        }
        // All of them, so that one failure doesn't hide the others.
        let told = mistakes.iter().map(|mistake| is_told(nodes, mistake));
        let failures: Vec<_> =
            futures::future::join_all(told).await.into_iter().filter_map(Result::err).collect();
        ensure!(failures.is_empty(), "{failures:#?}");
        steady(nodes, &mistakes).await?;
        neighbour.is_unharmed(nodes).await?;

        // What is corrected recovers by itself: once by making what was missing, once by a change of the spec.
        nodes.create::<ConfigMap>(json!({ "metadata": { "name": "absent" }, "data": { "A": "1" } })).await?;
        nodes.apply("local-only", hello(json!({}))).await?;
        nodes.apply("no-command", hello(json!({}))).await?;
        for app in ["no-config-map", "local-only", "no-command"] {
            nodes.until_ready(app).await?;
        }
        neighbour.is_unharmed(nodes).await
    })
    .await
}

/// The Deployment is accepted, and every pod refused.
#[tokio::test]
async fn kubernetes_51430_a_limit_range_default_below_the_request_is_told() -> Result<()> {
    on_nodes("belowrequest", async |nodes| {
        let limits = json!([{ "type": "Container", "default": { "cpu": "1" } }]);
        let range = json!({ "metadata": { "name": "house-rules" }, "spec": { "limits": limits } });
        nodes.create::<LimitRange>(range).await?;
        let neighbour = Neighbour::new(nodes).await?;
        nodes.apply("wants-more", hello(json!({ "resources": { "requests": { "cpu": "2" } } }))).await?;

        let refused = nodes.until_not_ready("wants-more", "PodsRefused").await?;
        for words in ["refused", "cpu", "must be less than or equal to cpu limit"] {
            ensure!(refused.message.contains(words), "{words:?} is not in: {}", refused.message);
        }
        let app = nodes.api::<WorkerApp>().get("wants-more").await?;
        let reconciled = condition(&app, ConditionType::Reconciled).context("no condition")?;
        for words in ["LimitRange house-rules", "cpu limit of 1", "request of 2", "spec.resources.limits.cpu"]
        {
            ensure!(reconciled.message.contains(words), "{words:?} is not in: {}", reconciled.message);
        }
        neighbour.is_unharmed(nodes).await?;

        // The remedy that the message names.
        let cpu = json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "2" } });
        nodes.serve_app("wants-more", hello(json!({ "resources": cpu }))).await?;
        neighbour.is_unharmed(nodes).await
    })
    .await
}

#[tokio::test]
async fn kubernetes_51430_a_quota_that_is_used_up_is_told() -> Result<()> {
    on_nodes("quota", async |nodes| {
        let hard = json!({ "requests.cpu": "1" });
        let quota = json!({ "metadata": { "name": "small-budget" }, "spec": { "hard": hard } });
        nodes.create::<ResourceQuota>(quota).await?;
        let neighbour = Neighbour::new(nodes).await?;
        let cpu = json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "2" } });
        nodes.apply("greedy", hello(json!({ "resources": cpu }))).await?;

        let refused = nodes.until_not_ready("greedy", "PodsRefused").await?;
        for words in ["exceeded quota: small-budget", "requested: requests.cpu=2", "limited: requests.cpu=1"]
        {
            ensure!(refused.message.contains(words), "{words:?} is not in: {}", refused.message);
        }
        neighbour.is_unharmed(nodes).await?;

        // An app that fits is taken at once: what the operator adds to a pod costs nothing of the quota.
        let cpu = json!({ "requests": { "cpu": "900m" }, "limits": { "cpu": "2" } });
        nodes.serve_app("greedy", hello(json!({ "resources": cpu }))).await?;
        neighbour.is_unharmed(nodes).await
    })
    .await
}
