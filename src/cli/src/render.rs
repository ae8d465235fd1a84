//! `render`: the objects that the operator applies, as YAML.
//!
//! They are the operator's to the letter but for the owner reference, which needs the uid of a WorkerApp in a cluster.

use serde::Serialize;
use workerapp_plan::{Children, Plan};

use crate::manifest::Error;

pub(crate) fn yaml(plan: &Plan) -> Result<String, Error> {
    // Taken apart so that a new kind of child can't be forgotten here.
    let Children { deployment, service, autoscaler } = &plan.children;
    let mut documents = vec![document(deployment)?, document(service)?];
    if let Some(autoscaler) = autoscaler {
        documents.push(document(autoscaler)?);
    }
    Ok(documents.join("---\n"))
}

fn document(object: &impl Serialize) -> Result<String, Error> {
    serde_saphyr::to_string(object).map_err(|error| Error::Write(error.to_string()))
}
