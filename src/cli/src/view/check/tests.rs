use serde_json::json;

use super::*;
use crate::look::PodLook;

fn parse<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn look() -> Look {
    let pod = parse(
        json!({"metadata": {"name": "shop-a"}, "status": {"phase": "Running", "containerStatuses": [
        {"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]}}),
    );
    Look {
        app: parse(json!({
            "apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp",
            "metadata": {"name": "shop", "namespace": "web", "generation": 1},
            "spec": {"image": "i", "command": ["c"], "port": 3000, "resources": {"limits": {"cpu": "2"}}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": 1, "lastTransitionTime": ""},
                {"type": "Reconciled", "status": "True", "reason": "Applied", "observedGeneration": 1, "lastTransitionTime": ""},
            ]},
        })),
        deployment: None,
        service: None,
        autoscaler: None,
        pods: vec![PodLook { pod, account: Ok(parse(json!({"sharing": {"mode": "slots"}}))) }],
        nodes: Some(vec![parse(node("6.1.0-13-amd64"))]),
        events: Vec::new(),
    }
}

fn node(kernel: &str) -> serde_json::Value {
    let info = json!({"kernelVersion": kernel, "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""});
    json!({"metadata": {"name": "node1"}, "status": {"nodeInfo": info}})
}

fn operator(available: i32) -> Deployment {
    parse(
        json!({"metadata": {"name": "op", "namespace": "sys"}, "spec": {"selector": {}, "template": {}}, "status": {"availableReplicas": available}}),
    )
}

/// Made once: it is large.
fn definition() -> CustomResourceDefinition {
    static DEFINITION: std::sync::OnceLock<CustomResourceDefinition> = std::sync::OnceLock::new();
    DEFINITION.get_or_init(workerapp_api::crd::manifest).clone()
}

fn evidence() -> Evidence {
    Evidence {
        version: Ok(("1".into(), "34+".into())),
        definition: Ok(Some(definition())),
        operators: Ok(vec![operator(1)]),
        metrics: Ok(true),
        denied: Ok(Vec::new()),
        looks: Ok(vec![look()]),
    }
}

fn answer(evidence: &Evidence, code: &str) -> Answer {
    let check = CHECKS.iter().find(|check| check.code == code).unwrap();
    check.result((check.look)(evidence))
}

#[test]
fn a_cluster_that_is_well_passes_every_check() {
    let results = all(&evidence());
    let wrong: Vec<_> = results.iter().filter(|result| result.state != "ok").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(!failed(&results));
}

#[test]
fn each_check_can_fail() {
    fn with(change: impl Fn(&mut Look)) -> Evidence {
        let mut look = look();
        change(&mut look);
        Evidence { looks: Ok(vec![look]), ..evidence() }
    }
    let condition = |look: &mut Look, place: usize| {
        let found = &mut look.app.status.as_mut().unwrap().conditions[place];
        found.status = workerapp_api::ConditionStatus::False;
        found.reason = "Bad".into();
    };
    let hpa = json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "", "name": ""}}, "status": {"conditions": [{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"}]}});
    let mut old = definition();
    old.spec.versions[0].schema = None;
    let cases = vec![
        ("api-server", Evidence { version: Err("refused".into()), ..evidence() }, "failed"),
        ("api-server", Evidence { version: Ok(("1".into(), "29".into())), ..evidence() }, "failed"),
        ("permissions", Evidence { denied: Ok(vec!["get pods/proxy".into()]), ..evidence() }, "warning"),
        ("definition", Evidence { definition: Ok(None), ..evidence() }, "failed"),
        ("definition-current", Evidence { definition: Ok(Some(old)), ..evidence() }, "failed"),
        (
            "definition",
            Evidence { definition: Err(Unread::Failed("refused".into())), ..evidence() },
            "failed",
        ),
        // Of the whole cluster, which whoever has rights in a namespace doesn't see, and doesn't need.
        ("definition", Evidence { definition: Err(Unread::Forbidden("no".into())), ..evidence() }, "warning"),
        ("operator", Evidence { operators: Err(Unread::Forbidden("no".into())), ..evidence() }, "warning"),
        ("reconciled", Evidence { looks: Err(Unread::Forbidden("no".into())), ..evidence() }, "failed"),
        ("operator", Evidence { operators: Ok(vec![]), ..evidence() }, "failed"),
        ("operator", Evidence { operators: Ok(vec![operator(0)]), ..evidence() }, "failed"),
        ("operator", Evidence { operators: Ok(vec![operator(1), operator(1)]), ..evidence() }, "warning"),
        (
            "metrics-api",
            Evidence {
                metrics: Ok(false),
                ..with(|look| look.app.spec.autoscaling = Some(workerapp_api::AutoscalingSpec::default()))
            },
            "failed",
        ),
        ("nodes", with(|look| look.nodes = Some(vec![parse(node("4.18.0-553.el8"))])), "warning"),
        ("reconciled", with(|look| condition(look, 1)), "failed"),
        ("reconciled", with(|look| look.app.status = None), "failed"),
        ("ready", with(|look| condition(look, 0)), "failed"),
        ("supervisors", with(|look| look.pods[0].account = Err("refused".into())), "failed"),
        (
            "sharing",
            with(|look| {
                look.pods[0].account =
                    Ok(parse(json!({"sharing": {"mode": "single", "detail": "refused by the sandbox"}})));
            }),
            "warning",
        ),
        ("scaling", with(|look| look.autoscaler = Some(parse(hpa.clone()))), "warning"),
        (
            "warnings",
            with(|look| look.app.spec.resources = Some(parse(json!({"limits": {"cpu": "1500m"}})))),
            "warning",
        ),
    ];
    for (code, evidence, expected) in cases {
        let answer = answer(&evidence, code);
        assert_eq!(answer.state, expected, "{code}");
        let told = text(&[answer], false);
        assert!(told.contains(&format!("see docs/cli.md#{code}\n")) && told.contains("remedy: "), "{told}");
    }
}

#[test]
fn a_supervisor_that_waits_to_be_started_again_is_not_asked() {
    let mut look = look();
    look.pods[0].account = Err("refused".into());
    let state = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    look.pods[0].pod.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].state =
        Some(parse(state));
    assert_eq!(answer(&Evidence { looks: Ok(vec![look]), ..evidence() }, "supervisors").state, "ok");
}

#[test]
fn each_finding_has_a_line_and_the_first_five_are_told() {
    let mut ill = look();
    ill.app.status.as_mut().unwrap().conditions[0].status = workerapp_api::ConditionStatus::False;
    let looks = |count| Ok(vec![ill.clone(); count]);
    let told = |count| text(&[answer(&Evidence { looks: looks(count), ..evidence() }, "ready")], false);
    assert!(told(1).lines().next().unwrap().contains("web/shop"), "{}", told(1));
    let seven = told(7);
    assert_eq!(seven.matches("\n    - web/shop").count(), 5, "{seven}");
    assert!(seven.contains("\n    - and 2 more\n"), "{seven}");
}

#[test]
fn every_check_is_explained() {
    let guide = include_str!("../../../../../docs/cli.md");
    for check in CHECKS {
        assert!(
            guide.contains(&format!("\n### {}\n", check.code)),
            "docs/cli.md has no heading {}",
            check.code
        );
    }
}
