//! Tells of a namespace that the operator is to look after and that isn't there: lists of one are empty and nothing else would
//! say so.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use crate::{context::bounded, health::Health};

/// How often it is looked for while it isn't there.
const WAIT: Duration = Duration::from_secs(5);
/// How often it is looked for while it is.
const AGAIN: Duration = Duration::from_mins(1);

/// Looks for `namespace` for ever, or until that is forbidden: an operator whose rights are in its namespaces has none in one that
/// isn't there, and its watches say so.
pub(crate) async fn look_after(client: Client, namespace: String, health: Arc<Health>) {
    let api: Api<Namespace> = Api::all(client);
    loop {
        let wait = match bounded(api.get_opt(&namespace)).await {
            Ok(Some(_)) => {
                if health.set_absent(&namespace, None) {
                    tracing::info!("namespace {namespace} is there now");
                }
                AGAIN
            }
            Ok(None) => {
                let reason = format!(
                    "namespace {namespace} does not exist: create it, or correct --namespace (Helm value namespaces)"
                );
                if health.set_absent(&namespace, Some(reason.clone())) {
                    tracing::warn!("{reason}");
                }
                WAIT
            }
            Err(kube::Error::Api(status)) if status.code == 403 => return,
            Err(_) => WAIT,
        };
        tokio::time::sleep(wait).await;
    }
}
