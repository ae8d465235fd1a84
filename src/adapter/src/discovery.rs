//! What the API says of itself: groups, versions, resources, and as much of `OpenAPI` as the API server asks for. Pure.

use serde_json::{Value as Json, json};

use crate::{
    GROUP, VERSIONS,
    answer::{APPS, PODS},
    metric::METRICS,
};

/// `/apis`.
pub fn groups() -> Json {
    let mut group = group();
    if let Some(group) = group.as_object_mut() {
        group.remove("kind");
        group.remove("apiVersion");
    }
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [group] })
}

/// `/apis/custom.metrics.k8s.io`.
pub fn group() -> Json {
    let version =
        |version: &&str| json!({ "groupVersion": format!("{GROUP}/{version}"), "version": version });
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": VERSIONS.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": version(&VERSIONS[0]),
    })
}

/// `/apis/custom.metrics.k8s.io/VERSION`. Only `get`: nothing here can be listed, watched or deleted, and so the deletion of a
/// namespace doesn't ask for it.
pub fn resources(version: &str) -> Option<Json> {
    VERSIONS.contains(&version).then(|| {
        let resource = |resource: &str, metric: &str| {
            json!({
                "name": format!("{resource}/{metric}"),
                "singularName": "",
                "namespaced": true,
                "kind": "MetricValueList",
                "verbs": ["get"],
            })
        };
        let resources: Vec<Json> = [PODS, APPS]
            .iter()
            .flat_map(|kind| METRICS.iter().map(|metric| resource(kind, metric.name)))
            .collect();
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": format!("{GROUP}/{version}"),
            "resources": resources,
        })
    })
}

/// `/openapi/v2`.
pub fn openapi_v2() -> Json {
    json!({ "swagger": "2.0", "info": info(), "paths": {}, "definitions": {} })
}

/// `/openapi/v3`.
pub fn openapi_v3() -> Json {
    let path = |version: &&str| {
        let path = format!("apis/{GROUP}/{version}");
        // The parameter lets the API server notice a change without reading the document.
        let url = format!("/openapi/v3/{path}?hash={}", env!("CARGO_PKG_VERSION"));
        (path, json!({ "serverRelativeURL": url }))
    };
    json!({ "paths": VERSIONS.iter().map(path).collect::<serde_json::Map<_, _>>() })
}

/// `/openapi/v3/apis/custom.metrics.k8s.io/VERSION`.
pub fn openapi_v3_of(version: &str) -> Option<Json> {
    VERSIONS.contains(&version).then(|| {
        let path = format!("/apis/{GROUP}/{version}/namespaces/{{namespace}}/{{resource}}/{{name}}/{{metric}}");
        let parameter = |name: &str| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        };
        let operation = json!({
            "description": "The value of a metric of one pod or WorkerApp, or with the name * of all that labelSelector selects.",
            "responses": { "200": { "description": "MetricValueList" } },
        });
        let parameters = ["namespace", "resource", "name", "metric"].map(parameter);
        json!({
            "openapi": "3.0.0",
            "info": info(),
            "paths": {
                path: {
                    "get": operation,
                    "parameters": parameters,
                },
            },
        })
    })
}

fn info() -> Json {
    json!({ "title": "workerapp metrics API", "version": env!("CARGO_PKG_VERSION") })
}

#[cfg(test)]
mod tests {
    use super::{group, groups, openapi_v3, openapi_v3_of, resources};

    #[test]
    fn every_version_that_is_named_is_described() {
        let versions = group()["versions"].as_array().unwrap().clone();
        assert_eq!(versions.len(), 2);
        for version in versions {
            let version = version["version"].as_str().unwrap();
            let list = resources(version).unwrap();
            let names: Vec<_> = list["resources"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["name"].as_str().unwrap())
                .collect();
            assert!(names.contains(&"pods/workerapp_requests_in_flight"), "{names:?}");
            assert!(
                names.contains(&"workerapps.workerapp.dev/workerapp_event_loop_utilization"),
                "{names:?}"
            );
            assert!(openapi_v3()["paths"].get(format!("apis/custom.metrics.k8s.io/{version}")).is_some());
            assert!(openapi_v3_of(version).is_some());
        }
        assert_eq!(resources("v1"), None);
        assert_eq!(groups()["groups"][0]["name"], "custom.metrics.k8s.io");
    }
}
