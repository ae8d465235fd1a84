//! The `WorkerApp` custom resource and everything that names something in it.
//!
//! - [`WorkerApp`], [`WorkerAppSpec`], [`WorkerAppStatus`]: the resource, group `workerapp.dev`, version `v1alpha1`.
//! - [`condition`]: condition types and reasons that stand in a status.
//! - [`names`]: every label, annotation, port, container and volume name that the children carry.
//! - [`quantity`]: exact CPU and memory quantities, in every form that Kubernetes accepts.
//! - [`crd`]: the CustomResourceDefinition as it is installed.
//!
//! This crate does no I/O, and decides nothing: what a WorkerApp becomes is the business of `workerapp-plan`.

pub mod condition;
pub mod crd;
pub mod names;
pub mod quantity;

mod lenient;
mod spec;
mod status;
mod validation;

pub use quantity::{Quantity, QuantityError};
pub use spec::{
    AutoscalingSpec, BurstSpec, ChildMetadata, ChildrenMetadata, CpuTarget, DisruptionBudgetSpec, ExtraPort,
    ImagePullPolicy, KedaAuthentication, KedaSpec, KedaTrigger, MemoryTarget, MetricsPort, MonitorSpec,
    NetworkPolicySpec, PerPodTarget, Resources, Runtime, ServiceSpec, ServiceType, ShareTarget,
    SupervisorSpec, WorkerApp, WorkerAppSpec, WorkersSpec,
};
pub use status::{BurstStatus, Condition, ConditionStatus, WorkerAppStatus};
