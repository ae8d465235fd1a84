//! The generated definition, in `crds/` and its copies for Helm and kustomize, is what the operator would print now, and small enough to be applied.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// `kubectl apply` keeps a copy of what it sent in an annotation of at most 256 KiB.
const LARGEST: usize = 200 * 1024;

/// Helm and kustomize read nothing outside their own folders.
const FILES: [&str; 3] = [
    "crds/workerapps.workerapp.dev.yaml",
    "charts/workerapp-operator/files/crd.yaml",
    "config/crd/workerapps.workerapp.dev.yaml",
];

#[test]
fn each_file_holds_what_the_operator_prints() {
    let printed = serde_saphyr::to_string(&workerapp_api::crd::manifest()).unwrap();
    for file in FILES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        assert!(std::fs::read_to_string(path).unwrap() == printed, "{file} is stale: run `make generate`");
    }
}

#[test]
fn the_yaml_says_what_the_types_say() {
    let manifest = workerapp_api::crd::manifest();
    let read: CustomResourceDefinition =
        serde_saphyr::from_str(&serde_saphyr::to_string(&manifest).unwrap()).unwrap();
    assert!(read == manifest, "the YAML doesn't read back as what was written");
}

#[test]
fn kubectl_apply_can_carry_it() {
    let size = serde_json::to_string(&workerapp_api::crd::manifest()).unwrap().len();
    assert!(size < LARGEST, "{size} bytes as JSON");
}
