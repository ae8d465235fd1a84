//! The CPU and memory that the app's container will really have: the spec's, filled in as the API server will.
//!
//! The order is Kubernetes' own: a LimitRange's `default` fills in a missing limit and its `defaultRequest` a missing
//! request; a request that is still missing is the limit.

use k8s_openapi::api::core::v1::LimitRange;
use kube::ResourceExt as _;
use workerapp_api::{Quantity, WorkerApp};

use crate::Facts;

/// An amount of CPU or memory and who set it.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// How much.
    pub quantity: Quantity,
    /// The LimitRange that set it; `None`: the spec.
    pub limit_range: Option<String>,
}

/// CPU and memory of the app's container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effective {
    /// The CPU limit.
    pub cpu_limit: Option<Amount>,
    /// The CPU request.
    pub cpu_request: Option<Amount>,
    /// The memory limit.
    pub memory_limit: Option<Amount>,
    /// The memory request.
    pub memory_request: Option<Amount>,
}

impl Effective {
    pub(crate) fn of(app: &WorkerApp, facts: &Facts) -> Self {
        let (cpu_limit, cpu_request) = limit_and_request(app, facts, "cpu");
        let (memory_limit, memory_request) = limit_and_request(app, facts, "memory");
        Self { cpu_limit, cpu_request, memory_limit, memory_request }
    }
}

fn limit_and_request(app: &WorkerApp, facts: &Facts, resource: &str) -> (Option<Amount>, Option<Amount>) {
    let resources = app.spec.resources.as_ref();
    let from_spec = |quantity: &Quantity| Amount { quantity: quantity.clone(), limit_range: None };

    let limit = resources
        .and_then(|resources| resources.limits.get(resource))
        .map(from_spec)
        .or_else(|| limit_range_default(&facts.limit_ranges, resource, Default::Limit));
    let request = resources
        .and_then(|resources| resources.requests.get(resource))
        .map(from_spec)
        // The API server takes the request from a limit in the spec before any LimitRange is looked at.
        .or_else(|| limit.clone().filter(|limit| limit.limit_range.is_none()))
        .or_else(|| limit_range_default(&facts.limit_ranges, resource, Default::Request))
        .or_else(|| limit.clone());
    (limit, request)
}

#[derive(Clone, Copy)]
enum Default {
    Limit,
    Request,
}

/// The default of the first LimitRange, by name, that has one for containers.
fn limit_range_default(limit_ranges: &[LimitRange], resource: &str, which: Default) -> Option<Amount> {
    let mut ranges: Vec<_> = limit_ranges.iter().collect();
    ranges.sort_by_key(|range| range.name_any());
    ranges.into_iter().find_map(|range| {
        let items = range.spec.as_ref().map(|spec| spec.limits.as_slice()).unwrap_or_default();
        items.iter().filter(|item| item.type_ == "Container").find_map(|item| {
            let defaults = match which {
                Default::Limit => item.default.as_ref(),
                Default::Request => item.default_request.as_ref(),
            };
            let quantity = defaults?.get(resource)?.0.parse().ok()?;
            Some(Amount { quantity, limit_range: Some(range.name_any()) })
        })
    })
}
