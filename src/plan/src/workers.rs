//! WORKERS: how many workers each pod runs, and the rule that says so.
//!
//! The rule: `workers.count` if given; else the CPU limit rounded up; without a limit the CPU request rounded up; else 1. A
//! number that was worked out is at most `workers.max`, and at most what fits the memory limit with `workers.memoryPerWorker`;
//! never below 1. At run time the supervisor follows the container's own cgroup by the same rule.

use workerapp_api::{Quantity, WorkerAppSpec};

use crate::{Effective, effective::Amount};

/// The most workers that a pod may have. Far above any use; what lies beyond is a mistake in a quantity.
pub const MOST_WORKERS: i128 = 1024;

/// What decided the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `workers.count`.
    Count,
    /// The CPU limit.
    CpuLimit,
    /// The CPU request, there being no limit.
    CpuRequest,
    /// Neither a limit nor a request.
    Single,
    /// One of the others, cut down by `workers.max`.
    Max,
    /// One of the others, cut down by `workers.memoryPerWorker`.
    Memory,
}

/// How many workers each pod runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// The number; may be above [`MOST_WORKERS`], which is a problem of the spec.
    pub count: i128,
    /// Which rule decided.
    pub rule: Rule,
    /// The rule with its numbers, for people. Example: `CPU limit 3 → 3 workers`.
    pub reason: String,
}

impl Workers {
    pub(crate) fn of(spec: &WorkerAppSpec, effective: &Effective) -> Self {
        let overrides = spec.workers.clone().unwrap_or_default();
        if let Some(count) = overrides.count {
            return Self {
                count: count.into(),
                rule: Rule::Count,
                reason: format!("workers.count → {}", plural(count.into())),
            };
        }

        let mut workers = from_cpu(effective);
        if let Some(max) = overrides.max.map(i128::from).filter(|max| *max < workers.count) {
            workers = workers.cut(max, Rule::Max, &format!("workers.max {max}"));
        }
        if let (Some(each), Some(limit)) = (&overrides.memory_per_worker, &effective.memory_limit) {
            let fitting = fitting(&limit.quantity, each).max(1);
            if fitting < workers.count {
                let by = format!("memory limit {} / {each} per worker", described(limit));
                workers = workers.cut(fitting, Rule::Memory, &by);
            }
        }
        workers
    }

    fn cut(self, count: i128, rule: Rule, by: &str) -> Self {
        Self { count, rule, reason: format!("{}, cut to {count} by {by}", self.reason) }
    }
}

fn from_cpu(effective: &Effective) -> Workers {
    let derived = |amount: &Amount, rule, prefix: &str| {
        let count = amount.quantity.ceil().max(1);
        let rounded = if Quantity::from_milli(count.saturating_mul(1000)) == amount.quantity {
            ""
        } else {
            ", rounded up"
        };
        Workers {
            count,
            rule,
            reason: format!("{prefix} {}{rounded} → {}", described(amount), plural(count)),
        }
    };
    match (&effective.cpu_limit, &effective.cpu_request) {
        (Some(limit), _) => derived(limit, Rule::CpuLimit, "CPU limit"),
        (None, Some(request)) => derived(request, Rule::CpuRequest, "no CPU limit, CPU request"),
        (None, None) => Workers {
            count: 1,
            rule: Rule::Single,
            reason: "no CPU limit and no CPU request → 1 worker".into(),
        },
    }
}

/// How many times `each` fits into `limit`.
fn fitting(limit: &Quantity, each: &Quantity) -> i128 {
    limit.nanos().checked_div(each.nanos()).unwrap_or(MOST_WORKERS)
}

fn described(amount: &Amount) -> String {
    match &amount.limit_range {
        None => amount.quantity.to_string(),
        Some(name) => format!("{} (set by LimitRange {name})", amount.quantity),
    }
}

/// The number with its noun.
pub(crate) fn plural(count: i128) -> String {
    if count == 1 { "1 worker".into() } else { format!("{count} workers") }
}
