//! `render`: the objects that the operator applies, as YAML.
//!
//! They are the operator's to the letter but for the owner reference, which needs the uid of a WorkerApp in a cluster.

use workerapp_plan::Plan;

use crate::manifest::Error;

pub(crate) fn yaml(plan: &Plan) -> Result<String, Error> {
    let objects = plan.children.each().into_iter().filter_map(|child| child.object);
    let documents = objects
        .map(|object| serde_saphyr::to_string(&object).map_err(|error| Error::Write(error.to_string())));
    Ok(documents.collect::<Result<Vec<_>, _>>()?.join("---\n"))
}
