//! A plan → the supervisor's command line on this machine.
//!
//! It is the container's own, with four differences: the supervisor's path, no lame duck (there are no endpoints to leave), a
//! worker for each CPU where the manifest doesn't say how many, and the first worker alone until it listens.

use k8s_openapi::api::core::v1::Container;
use workerapp_api::{WorkerApp, names};
use workerapp_plan::{Plan, workers::Rule};

use super::variables::{Given, expand, resolved};
use crate::{error::Error, output::counted};

/// How many workers run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// As the manifest says; where it doesn't, one for each CPU of this machine.
    Manifest,
    /// So many.
    Count(u32),
    /// One for each CPU of this machine.
    Machine,
}

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The supervisor's arguments, with the app's command at their end.
    pub(crate) arguments: Vec<String>,
    /// The app's command.
    pub(crate) command: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) workers: u32,
    /// Why so many.
    pub(crate) reason: String,
}

/// What a person chooses.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) workers: Workers,
    /// CPUs of this machine.
    pub(crate) cpus: u32,
    pub(crate) admin_port: u16,
    pub(crate) given: Given,
}

/// Works out what is started for `app`.
pub(crate) fn launch(app: &WorkerApp, plan: &Plan, choice: &Choice) -> Result<Launch, Error> {
    let (workers, reason) = workers(plan, choice);
    let container = container(plan);
    let mut environment = resolved(app, container.env.as_deref().unwrap_or_default(), &choice.given)?;
    let own = app.spec.env.iter().any(|variable| variable.name == names::ENV_WORKERS);
    if !own && !choice.given.contains_key(names::ENV_WORKERS) {
        for (_, value) in environment.iter_mut().filter(|(name, _)| name == names::ENV_WORKERS) {
            *value = workers.to_string();
        }
    }

    // The first word is the supervisor's path in the container.
    let flags = container.command.unwrap_or_default().into_iter().skip(1);
    let replaced = [
        ("--workers=", workers.to_string()),
        ("--lame-duck=", "0".to_owned()),
        ("--admin-port=", choice.admin_port.to_string()),
    ];
    let flag = |flag: String| {
        let ours = replaced.iter().find(|(name, _)| flag.starts_with(name));
        ours.map_or_else(|| expand(&flag, &environment), |(name, value)| format!("{name}{value}"))
    };
    let mut arguments: Vec<String> = flags.map(flag).collect();
    // As docker compose does it; the manifest's own word wins.
    if !arguments.iter().any(|flag| flag.starts_with("--log-prefix=")) {
        arguments.insert(0, "--log-prefix=on".to_owned());
    }
    // Somebody sits before it: a command that fails is told once, not once for each worker and try.
    arguments.insert(0, "--canary=on".to_owned());
    let command: Vec<String> =
        container.args.into_iter().flatten().map(|word| expand(&word, &environment)).collect();
    arguments.extend(command.iter().cloned());
    Ok(Launch { arguments, command, environment, workers, reason })
}

fn workers(plan: &Plan, choice: &Choice) -> (u32, String) {
    let machine = || (choice.cpus, format!("this machine has {}", counted(choice.cpus, "CPU")));
    match choice.workers {
        Workers::Count(count) => (count, "--workers".to_owned()),
        Workers::Machine => machine(),
        Workers::Manifest if plan.workers.rule == Rule::Single => machine(),
        Workers::Manifest => {
            (u32::try_from(plan.workers.count).unwrap_or(u32::MAX), plan.workers.reason.clone())
        }
    }
}

fn container(plan: &Plan) -> Container {
    let pod = plan.children.deployment.spec.template.spec.clone().unwrap_or_default();
    pod.containers.into_iter().find(|container| container.name == names::CONTAINER_APP).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn launched(spec: serde_json::Value, workers: Workers, given: &[(&str, &str)]) -> Launch {
        let mut whole = json!({"image": "i", "command": ["node", "server.js"], "port": 3000});
        if let (Some(whole), serde_json::Value::Object(spec)) = (whole.as_object_mut(), spec) {
            whole.extend(spec);
        }
        let app: WorkerApp = serde_json::from_value(json!({"apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp", "metadata": {"name": "a"}, "spec": whole})).unwrap();
        let plan = workerapp_plan::plan(&app, &workerapp_plan::Facts::default()).unwrap();
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        launch(&app, &plan, &Choice { workers, cpus: 8, admin_port: 7777, given }).unwrap()
    }

    fn variable<'a>(launch: &'a Launch, name: &str) -> &'a str {
        &launch.environment.iter().find(|(known, _)| known == name).unwrap().1
    }

    #[test]
    fn the_supervisor_gets_the_containers_own_flags_and_this_machines_ports() {
        let launch = launched(
            json!({"resources": {"limits": {"cpu": "2500m"}}, "args": ["--port", "$(PORT)"]}),
            Workers::Manifest,
            &[],
        );
        let line = launch.arguments.join(" ");
        for part in [
            "--workers=3 ",
            "--port=3000 ",
            "--admin-port=7777 ",
            "--lame-duck=0 ",
            "--grace=30 ",
            "--log-prefix=on ",
            "--canary=on ",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(line.ends_with(" -- node server.js --port 3000"), "{line}");
        assert_eq!(
            (launch.workers, variable(&launch, "WORKERS"), variable(&launch, "PORT")),
            (3, "3", "3000")
        );
        assert!(launch.reason.contains("2500m"), "{}", launch.reason);
    }

    #[test]
    fn without_any_word_of_it_there_is_a_worker_for_each_cpu() {
        assert_eq!(launched(json!({}), Workers::Manifest, &[]).workers, 8);
        assert_eq!(launched(json!({"workers": {"count": 2}}), Workers::Manifest, &[]).workers, 2);
        assert_eq!(launched(json!({"workers": {"count": 2}}), Workers::Machine, &[]).workers, 8);
        let launch = launched(json!({"workers": {"count": 2}}), Workers::Count(5), &[]);
        assert_eq!((launch.workers, variable(&launch, "WORKERS")), (5, "5"));
    }

    #[test]
    fn the_persons_own_variables_win() {
        let launch = launched(
            json!({"env": [{"name": "WORKERS", "value": "7"}]}),
            Workers::Count(2),
            &[("HOSTNAME", "::")],
        );
        assert_eq!((variable(&launch, "WORKERS"), variable(&launch, "HOSTNAME")), ("7", "::"));
        assert!(launch.arguments.contains(&"--keep-env=WORKERS".to_owned()));
    }

    #[test]
    fn the_count_of_one_process_that_makes_its_own_workers_is_left_to_the_supervisor() {
        let launch =
            launched(json!({"runtime": "Pm2", "command": ["pm2-runtime", "s.js"]}), Workers::Count(2), &[]);
        assert!(
            launch.arguments.join(" ").ends_with("-- pm2-runtime s.js -i $(WORKERS)"),
            "{:?}",
            launch.arguments
        );
    }

    #[test]
    fn the_manifest_decides_about_the_prefix_of_lines() {
        let launch = launched(json!({"supervisor": {"logPrefix": false}}), Workers::Machine, &[]);
        let flags: Vec<_> = launch.arguments.iter().filter(|flag| flag.starts_with("--log-prefix")).collect();
        assert_eq!(flags, ["--log-prefix=off"]);
    }
}
