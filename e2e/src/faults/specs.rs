//! Specs from a seed: good ones, and bad ones of each sort.

use serde_json::{Value, json};

use crate::app;

/// What has to become of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// It is carried out.
    Good,
    /// The API server doesn't even store it.
    RefusedByTheSchema,
    /// It is stored, and nothing of it is carried out.
    RefusedByThePlan,
    /// It is stored, and the API server refuses the Deployment that follows from it.
    RefusedAsDeployment,
}

/// One spec of a campaign.
#[derive(Clone, Debug)]
pub struct Spec {
    /// What has to become of it.
    pub sort: Sort,
    /// The spec.
    pub spec: Value,
    /// Whether the next one is applied before this one was acted upon.
    pub hurried: bool,
}

/// The end of every bad spec's image: a template that has it should never be.
pub const BAD: &str = "-bad";

/// The specs that a seed stands for, three to six, with a good one first.
pub fn campaign(seed: u64) -> Vec<Spec> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let count = dice.usize(3..=6);
    let mut unfinished = false;
    let mut specs: Vec<_> = (0..count)
        .map(|at| {
            let last = at + 1 == count;
            let sort = match dice.u8(..8) {
                _ if at == 0 => Sort::Good,
                // Of one whose Deployment is refused, the other children stand: a good one has to come after it.
                _ if last && unfinished => Sort::Good,
                0 => Sort::RefusedByTheSchema,
                1 | 2 => Sort::RefusedByThePlan,
                3 if !last => Sort::RefusedAsDeployment,
                _ => Sort::Good,
            };
            unfinished = match sort {
                Sort::Good => false,
                Sort::RefusedAsDeployment => true,
                _ => unfinished,
            };
            let end = if sort == Sort::Good { "" } else { BAD };
            let mut spec = good(&mut dice, &format!("localhost/app:{at}{end}"));
            if sort != Sort::Good {
                merge(&mut spec, &pick(&mut dice, &spoilers(sort)));
            }
            Spec { sort, spec, hurried: dice.u8(..3) == 0 }
        })
        .collect();
    // What stands at the end is that of the last good one, which has to have been seen before a bad one took its place.
    if let Some(last_good) = specs.iter_mut().rev().find(|spec| spec.sort == Sort::Good) {
        last_good.hurried = false;
    }
    specs
}

fn good(dice: &mut fastrand::Rng, image: &str) -> Value {
    let mut spec = app(json!({ "image": image }));
    for variants in fields() {
        // Half of the fields, in one of their forms.
        if dice.bool() {
            merge(&mut spec, &pick(dice, &variants));
        }
    }
    spec
}

fn pick(dice: &mut fastrand::Rng, from: &[Value]) -> Value {
    from[dice.usize(..from.len())].clone()
}

/// Puts the fields of `more` in the place of those of `spec`; one that is null there is left out.
fn merge(spec: &mut Value, more: &Value) {
    if let (Value::Object(spec), Value::Object(more)) = (spec, more) {
        spec.extend(more.clone());
        spec.retain(|_, value| !value.is_null());
    }
}

/// Fields that go together with all others, each in several forms.
fn fields() -> Vec<Vec<Value>> {
    vec![
        vec![
            json!({ "replicas": 1 }),
            json!({ "replicas": 3 }),
            json!({ "replicas": 0 }),
            json!({ "autoscaling": { "maxReplicas": 3 } }),
            json!({ "autoscaling": { "minReplicas": 2, "maxReplicas": 5, "cpu": { "averageUtilization": 50 } } }),
        ],
        ["Node", "NodeCluster", "Pm2", "Python", "Watt", "Jvm", "Go", "Nginx", "Generic"]
            .map(|runtime| json!({ "runtime": runtime }))
            .to_vec(),
        vec![
            json!({ "service": { "type": "ClusterIP" } }),
            json!({ "service": { "type": "LoadBalancer", "externalTrafficPolicy": "Local" } }),
            json!({ "service": { "port": 8080, "metrics": {} } }),
            json!({ "service": { "sessionAffinity": "ClientIP", "expose": false } }),
        ],
        vec![
            json!({ "env": [{ "name": "A", "value": "x" }] }),
            json!({ "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }, { "name": "B", "value": "" }] }),
            json!({ "env": [{ "name": "WORKERS", "value": "7" }], "envFrom": [{ "configMapRef": { "name": "c", "optional": true } }] }),
        ],
        vec![
            json!({ "resources": { "requests": { "cpu": "0.5" }, "limits": { "cpu": "1500m", "memory": "1Gi" } } }),
            json!({ "resources": { "limits": { "cpu": 1, "memory": "512Mi" } } }),
        ],
        vec![
            json!({ "workers": { "count": 2 } }),
            json!({ "workers": { "max": 4, "memoryPerWorker": "100Mi" } }),
        ],
        vec![
            json!({ "ports": [{ "name": "ws", "port": 3001 }] }),
            json!({ "ports": [{ "name": "ws", "port": 3002 }, { "name": "b", "port": 3001 }] }),
        ],
        vec![
            json!({ "volumes": [{ "name": "v", "emptyDir": {} }], "volumeMounts": [{ "name": "v", "mountPath": "/a" }] }),
            json!({ "volumes": [{ "name": "v", "configMap": { "name": "c" } }], "volumeMounts": [{ "name": "v", "mountPath": "/b" }] }),
        ],
        vec![
            json!({ "readinessProbe": { "tcpSocket": { "port": 3000 } } }),
            json!({ "readinessProbe": { "exec": { "command": ["true"] }, "periodSeconds": 3 } }),
            json!({ "readinessProbe": { "httpGet": { "port": "app", "path": "/health" } } }),
        ],
        vec![
            json!({ "strategy": { "type": "Recreate" } }),
            json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "50%" } } }),
        ],
        vec![
            json!({ "lifecycle": { "preStop": { "sleep": { "seconds": 1 } } } }),
            json!({ "lifecycle": { "preStop": { "exec": { "command": ["true"] } } } }),
        ],
        vec![
            json!({ "nodeSelector": { "disk": "fast" } }),
            json!({ "tolerations": [{ "key": "k", "operator": "Exists" }] }),
        ],
        vec![
            json!({ "metadata": { "pod": { "labels": { "team": "web" } }, "service": { "annotations": { "x": "y" } } } }),
            json!({ "metadata": { "pod": { "annotations": { "empty": "" } } } }),
        ],
        vec![json!({ "supervisor": { "logPrefix": true } }), json!({ "supervisor": { "drainSeconds": 3 } })],
        vec![
            json!({ "terminationGracePeriodSeconds": 60, "minReadySeconds": 1 }),
            json!({ "revisionHistoryLimit": 5 }),
        ],
    ]
}

/// What makes a spec bad, whatever else it says.
fn spoilers(sort: Sort) -> Vec<Value> {
    match sort {
        Sort::Good => vec![json!({})],
        Sort::RefusedByTheSchema => vec![
            json!({ "command": [] }),
            json!({ "replicas": -1 }),
            json!({ "port": 9913 }),
            json!({ "replicas": 1, "autoscaling": { "maxReplicas": 2 } }),
            json!({ "autoscaling": { "minReplicas": 3, "maxReplicas": 2 } }),
            json!({ "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1" } } }),
            json!({ "service": { "type": "ClusterIP", "nodePort": 30000 } }),
            json!({ "runtime": "Rails" }),
        ],
        Sort::RefusedByThePlan => vec![
            json!({ "service": null, "ports": [{ "name": "twice", "port": 80 }] }),
            json!({ "workers": null, "resources": { "limits": { "cpu": "5000" } } }),
            json!({ "volumes": [{ "name": "v", "emptyDir": {} }], "volumeMounts": [{ "name": "v", "mountPath": "/workerapp/bin" }] }),
            json!({ "runtime": "Watt", "ports": [{ "name": "same", "port": 9090 }], "service": { "metrics": { "port": 9091 } } }),
        ],
        Sort::RefusedAsDeployment => vec![
            json!({ "volumes": null, "volumeMounts": [{ "name": "missing", "mountPath": "/a" }] }),
            json!({ "nodeSelector": { "disk": "not a label!" } }),
            json!({ "readinessProbe": { "exec": { "command": ["true"] }, "tcpSocket": { "port": 3000 } } }),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::{BAD, Sort, campaign};

    #[test]
    fn a_seed_says_the_same_again_and_a_few_seeds_say_everything() {
        let mut sorts = Vec::new();
        for seed in 0..20 {
            let specs = campaign(seed);
            assert_eq!(format!("{specs:?}"), format!("{:?}", campaign(seed)));
            assert!((3..=6).contains(&specs.len()) && specs[0].sort == Sort::Good);
            let last_good = specs.iter().rposition(|spec| spec.sort == Sort::Good).unwrap();
            assert!(!specs[last_good].hurried);
            assert!(specs[last_good..].iter().all(|spec| spec.sort != Sort::RefusedAsDeployment));
            for spec in &specs {
                let bad = spec.spec["image"].as_str().is_some_and(|image| image.ends_with(BAD));
                assert_eq!(bad, spec.sort != Sort::Good);
            }
            sorts.extend(specs.iter().map(|spec| format!("{:?}", spec.sort)));
        }
        sorts.sort();
        sorts.dedup();
        assert_eq!(sorts.len(), 4, "{sorts:?}");
    }
}
