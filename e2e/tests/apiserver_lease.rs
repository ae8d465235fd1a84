//! Two operators and one lease: who works, how soon the other one takes over, and that one that was stopped past its lease
//! writes nothing when it wakes.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use k8s_openapi::{
    api::{apps::v1::Deployment, coordination::v1::Lease, events::v1::Event},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};
use serde_json::{Value, json};
use workerapp_api::WorkerApp;
use workerapp_e2e::{Fixture, Program, app, cluster, fixture::PATIENCE, operator::get, rights, wait::within};

/// Short, so that the tests are; and long enough for a holder to renew it on a machine that has more to do.
const LEASE: Duration = Duration::from_secs(8);
const LEASE_FLAG: &str = "--lease-duration=8s";

/// Two operators for one namespace, each under a name of its own, by which the API server's audit log tells them apart.
struct Pair {
    fixture: Fixture,
}

impl Pair {
    async fn new() -> Result<Self> {
        new_in_audit_log()?;
        Ok(Self { fixture: Fixture::new().await? })
    }

    fn user(&self, name: &str) -> String {
        format!("{name}-of-{}", self.fixture.namespace)
    }

    /// Starts one of them.
    async fn start(&self, name: &str) -> Result<Program> {
        let kubeconfig = rights::kubeconfig(&self.user(name), &["system:masters"], None)?;
        let namespace = &*self.fixture.namespace;
        let flags = ["--namespace", namespace, "--leader-elect", "--lease-namespace", namespace, LEASE_FLAG];
        let program = Program::start_as(&kubeconfig, &[&flags[..], &["--identity", name]].concat()).await?;
        program.ready().await?;
        std::fs::remove_file(kubeconfig)?;
        Ok(program)
    }

    async fn holder(&self) -> Result<String> {
        Ok(holder(&self.fixture.api::<Lease>().get("workerapp-operator").await?))
    }

    /// From now on everybody who has the lease, one after the other; nobody (an empty name) while it is given up.
    async fn holders(&self) -> Result<Arc<Mutex<Vec<String>>>> {
        let holders: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, leases) = (Arc::clone(&holders), self.fixture.api::<Lease>());
        tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher(leases, watcher::Config::default()).applied_objects());
            while let Some(lease) = events.next().await {
                let Ok(lease) = lease else { continue };
                let mut holders = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if holders.last() != Some(&holder(&lease)) {
                    holders.push(holder(&lease));
                }
            }
        });
        within(PATIENCE, "the lease to be seen", async || {
            ensure!(!holders.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
            Ok(())
        })
        .await?;
        Ok(holders)
    }

    /// Waits until nobody has anything left to do and `name` has written its last word about that: a controller may tell something
    /// new after the app was reconciled.
    async fn at_rest(&self, name: &str) -> Result<()> {
        let start = Timestamp::now();
        self.fixture.at_rest_by(|| Ok(written(&self.user(name), start)?.len())).await
    }

    async fn end(self) -> Result<()> {
        self.fixture.remove().await
    }
}

fn holder(lease: &Lease) -> String {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default()
}

/// What the API server has recorded since this was asked for first: reading all that it ever has takes as much of the machine as the
/// tests do.
fn new_in_audit_log() -> Result<String> {
    static BEGUN: OnceLock<u64> = OnceLock::new();
    let kubeconfig = PathBuf::from(std::env::var(cluster::VARIABLE)?);
    let log = kubeconfig.parent().context("no directory")?.join("log/audit.log");
    let mut file = File::open(&log).with_context(|| format!("{}", log.display()))?;
    let length = file.metadata()?.len();
    let begun = *BEGUN.get_or_init(|| length);
    // One that is shorter was begun anew.
    file.seek(SeekFrom::Start(if begun > length { 0 } else { begun }))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a user has written since `since`, as the API server recorded it: `patch deployments/shop`.
fn written(user: &str, since: Timestamp) -> Result<Vec<String>> {
    let mut written = Vec::new();
    for line in new_in_audit_log()?.lines().filter(|line| line.contains(user)) {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let received: Timestamp = serde_json::from_value(entry["requestReceivedTimestamp"].clone())?;
        if received >= since && entry["impersonatedUser"]["username"] == user {
            let object = &entry["objectRef"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            written.push(format!(
                "{} {}/{}",
                text(&entry["verb"]),
                text(&object["resource"]),
                text(&object["name"])
            ));
        }
    }
    Ok(written)
}

/// Edits apps one after the other until it is dropped, so that there is always something to write.
struct Editor(tokio::task::JoinHandle<()>);

impl Editor {
    fn start(fixture: &Fixture, apps: usize) -> Self {
        let fixture = fixture.clone();
        Self(tokio::spawn(async move {
            for round in 0.. {
                for n in 0..apps {
                    let env = json!([{ "name": "ROUND", "value": format!("{round}") }]);
                    _ = fixture.apply(&format!("app-{n}"), app(json!({ "env": env }))).await;
                }
            }
        }))
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test]
async fn one_works_the_other_stands_by_and_takes_over_at_once_after_a_stop() -> Result<()> {
    let pair = Pair::new().await?;
    let fixture = &pair.fixture;
    let first = pair.start("first").await?;
    first.leads(true, PATIENCE).await?;
    let second = pair.start("second").await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;
    pair.at_rest("first").await?;

    // Ready, with its caches complete, and without a write.
    ensure!(second.is_leader().await == Some(false), "both lead");
    ensure!(pair.holder().await? == "first");
    for path in ["/livez", "/readyz"] {
        ensure!(get(second.address, path).await?.0 == 200, "{path}");
    }
    let start = Timestamp::now() - k8s_openapi::jiff::SignedDuration::from_mins(1);
    ensure!(!written(&pair.user("first"), start)?.is_empty(), "the audit log doesn't tell who writes");
    ensure!(written(&pair.user("second"), start)?.is_empty(), "written by the one that stands by");

    let holders = pair.holders().await?;
    let told = Instant::now();
    let (status, log) = first.end("TERM").await?;
    ensure!(status.success(), "{status}: {log}");
    second.leads(true, PATIENCE).await?;
    eprintln!("took over {:?} after SIGTERM", told.elapsed());
    // Given up, and not run out, so that nobody waits for that.
    within(PATIENCE, "the lease to change hands", async || {
        let holders = holders.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ensure!(holders == ["first", "", "second"], "{holders:?}");
        Ok(())
    })
    .await?;
    // Nothing has to be made anew, and it works.
    fixture.apply("next", app(json!({}))).await?;
    fixture.until_reconciled("next").await?;
    let moved: BTreeSet<_> = written(&pair.user("second"), start)?.into_iter().collect();
    ensure!(moved.iter().all(|write| write.contains("/next")), "settled apps were written: {moved:?}");

    let (_, log) = second.end("TERM").await?;
    ensure!(log.contains("another operator leads") && log.contains("leading"), "{log}");
    ensure!(pair.holder().await?.is_empty(), "the lease was not given up");
    pair.end().await
}

#[tokio::test]
async fn after_a_crash_the_other_one_takes_over_when_the_lease_has_run_out() -> Result<()> {
    let pair = Pair::new().await?;
    let first = pair.start("first").await?;
    first.leads(true, PATIENCE).await?;
    let second = pair.start("second").await?;
    let crash = Instant::now();
    first.end("KILL").await?;
    // An edit that nobody sees but the one that stands by.
    pair.fixture.apply("shop", app(json!({}))).await?;
    // As a rule 2 s after it at most; a busy machine may take longer.
    second.leads(true, PATIENCE).await?;
    eprintln!("took over {:?} after a crash, with a lease of {LEASE:?}", crash.elapsed());
    pair.fixture.until_reconciled("shop").await?;

    // The same name is the same operator, started anew in its place: nobody else can be at work under it.
    second.end("KILL").await?;
    let again = pair.start("second").await?;
    again.leads(true, PATIENCE).await?;
    again.end("TERM").await?;
    pair.end().await
}

/// `kopiur_324`, `cilium_42920`: a leader that is held up past its lease goes on as if it still had it. Here it is stopped in the middle
/// of its work and woken when the other one has taken over, several times over.
#[tokio::test]
async fn kopiur_324_one_that_was_stopped_past_its_lease_writes_nothing_when_it_wakes() -> Result<()> {
    const APPS: usize = 40;
    let pair = Pair::new().await?;
    let fixture = &pair.fixture;
    let mut leader = ("first", pair.start("first").await?);
    leader.1.leads(true, PATIENCE).await?;
    let mut other = ("second", pair.start("second").await?);
    let editor = Editor::start(fixture, APPS);

    for round in 0..4 {
        let name = format!("app-{}", APPS - 1);
        fixture.until(&name, "the work to begin", |app: Option<&WorkerApp>| app.is_some()).await?;
        tokio::time::sleep(Duration::from_millis(300 + 97 * round)).await;
        leader.1.signal("STOP").await?;
        other.1.leads(true, PATIENCE).await?;
        // The other one is at work, on the same objects.
        let working = Timestamp::now();
        let busy = async {
            while written(&pair.user(other.0), working)?.len() < 5 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, busy).await.context("the one that took over writes nothing")??;

        let woken = Timestamp::now();
        leader.1.signal("CONT").await?;
        leader.1.leads(false, PATIENCE).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let late = written(&pair.user(leader.0), woken)?;
        ensure!(late.is_empty(), "round {round}: {} wrote after it woke: {late:?}", leader.0);
        let events: Api<Event> = fixture.api();
        let instance = "reportingController=workerapp-operator";
        for event in events.list(&ListParams::default().fields(instance)).await? {
            let at = event.event_time.clone().context("no time")?.0;
            let by = event.reporting_instance.clone().unwrap_or_default();
            ensure!(by != leader.0 || at < woken, "an event of {by} at {at}: {event:?}");
        }
        ensure!(get(leader.1.address, "/readyz").await?.0 == 200, "it doesn't stand by");
        std::mem::swap(&mut leader, &mut other);
    }

    drop(editor);
    for n in 0..APPS {
        fixture.until_reconciled(&format!("app-{n}")).await?;
    }
    let deployments = fixture.api::<Deployment>().list(&ListParams::default()).await?;
    ensure!(deployments.iter().filter(|one| one.name_any().starts_with("app-")).count() == APPS);
    leader.1.end("TERM").await?;
    other.1.end("TERM").await?;
    pair.end().await
}
