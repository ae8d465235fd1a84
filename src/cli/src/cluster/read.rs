//! What is read from a cluster.

use std::fmt::Debug;

use futures::{AsyncBufRead, StreamExt as _, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        authorization::v1::SelfSubjectAccessReview,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{LimitRange, Node, Pod, Service},
        events::v1::Event,
        policy::v1::PodDisruptionBudget,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::version::Info,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ListParams, LogParams, PostParams},
};
use serde::de::DeserializeOwned;
use workerapp_api::{WorkerApp, names};

use super::Cluster;
use crate::{
    error::Error,
    look::{self, Look, PodLook, SeenPod},
    supervisor::Account,
    view::top,
};

/// How many pods are asked at the same time.
const AT_ONCE: usize = 16;
/// How long a supervisor's Node workers may take to tell their numbers.
const NODE_ANSWERS_WITHIN: std::time::Duration = std::time::Duration::from_millis(100);

/// Where lists look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Namespace(String),
}

impl Scope {
    /// For messages.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::All => "any namespace".into(),
            Self::Namespace(name) => format!("namespace {name:?}"),
        }
    }
}

/// A kind that lives in namespaces.
pub(crate) trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug
{
}

impl Cluster {
    pub(super) fn api<K: Namespaced>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn scoped<K: Namespaced>(&self) -> Api<K> {
        match &self.scope {
            Scope::All => Api::all(self.client.clone()),
            Scope::Namespace(name) => self.api(name),
        }
    }

    /// Everything of a kind that these parameters select, where lists look.
    async fn list<K: Namespaced>(&self, params: &ListParams) -> Result<Vec<K>, Error> {
        let found = self.scoped::<K>().list(params).await;
        found.map(|list| list.items).map_err(|error| self.failed(&K::plural(&()), error))
    }

    async fn get<K: Namespaced>(&self, namespace: &str, name: &str) -> Result<Option<K>, Error> {
        let what = format!("{} {name}", K::kind(&()));
        self.api(namespace).get_opt(name).await.map_err(|error| self.failed(&what, error))
    }

    /// The app with this name.
    pub(crate) async fn app(&self, name: &str) -> Result<WorkerApp, Error> {
        if self.scope == Scope::All {
            return Err(Error::NameEverywhere { name: name.to_owned() });
        }
        if let Some(app) = self.get(&self.namespace, name).await? {
            return Ok(app);
        }
        // Without the definition there is no app either; the list can tell the two apart.
        let here: Api<WorkerApp> = self.api(&self.namespace);
        let others =
            here.list(&ListParams::default()).await.map_err(|error| self.failed("workerapps", error))?;
        let known: Vec<_> = others.items.iter().map(kube::ResourceExt::name_any).collect();
        let known = if known.is_empty() {
            ", which has none at all; -n NAME chooses another".to_owned()
        } else {
            format!("; there are {}", known.join(", "))
        };
        Err(Error::NoApp { name: name.to_owned(), namespace: self.namespace.clone(), known })
    }

    /// The app with this name in some namespace, if there is one.
    pub(crate) async fn app_in(&self, namespace: &str, name: &str) -> Result<Option<WorkerApp>, Error> {
        self.get(namespace, name).await
    }

    /// All apps, where lists look, in order.
    pub(crate) async fn apps(&self) -> Result<Vec<WorkerApp>, Error> {
        let mut apps: Vec<WorkerApp> = self.list(&ListParams::default()).await?;
        apps.sort_by_key(|app| (app.namespace(), app.name_any()));
        Ok(apps)
    }

    /// The named app, or all of them; there may be none.
    pub(crate) async fn selected(&self, name: Option<&str>) -> Result<Vec<WorkerApp>, Error> {
        match name {
            Some(name) => Ok(vec![self.app(name).await?]),
            None => self.apps().await,
        }
    }

    /// What is said where there is no app.
    pub(crate) fn no_apps(&self) -> String {
        format!("there is no WorkerApp in {}", self.scope.words())
    }

    /// An app and everything that stands for it.
    pub(crate) async fn look(&self, app: WorkerApp, nodes: Option<Vec<Node>>) -> Result<Look, Error> {
        let (namespace, name) = (app.namespace().unwrap_or_default(), app.name_any());
        let (deployment, service, autoscaler) = futures::try_join!(
            self.get::<Deployment>(&namespace, &name),
            self.get::<Service>(&namespace, &name),
            self.get::<HorizontalPodAutoscaler>(&namespace, &name),
        )?;
        let (pods, events) = futures::try_join!(self.pod_looks(&app), self.events(&namespace))?;
        Ok(Look { app, deployment, service, autoscaler, pods, nodes, events })
    }

    /// The app's pods, each with its supervisor's account.
    pub(crate) async fn pod_looks(&self, app: &WorkerApp) -> Result<Vec<PodLook>, Error> {
        let port = admin_port(app);
        let pods = self.pods(app).await?;
        let looks = stream::iter(pods.into_iter().map(|pod| async move {
            let account = self.account(&pod, port).await;
            PodLook { pod, account }
        }));
        Ok(looks.buffered(AT_ONCE).collect().await)
    }

    /// The same with how far the counters of their CPU limits are, and with what Node tells as it is now.
    pub(crate) async fn seen_pods(&self, app: &WorkerApp) -> Result<Vec<SeenPod>, Error> {
        let pods = self.pods(app).await?;
        Ok(self.seen(pods).await)
    }

    async fn seen(&self, pods: Vec<Pod>) -> Vec<SeenPod> {
        let seen = stream::iter(pods.into_iter().map(|pod| async move {
            let Some(port) = admin_port_of(&pod) else {
                let account = Err("it has no supervisor".to_owned());
                return SeenPod { look: PodLook { pod, account }, periods: None };
            };
            // A supervisor asks Node when it is asked itself, and answers with what Node said the time before.
            let asked = self.admin(&pod, port, "metrics").await;
            if let Err(why) = asked {
                return SeenPod { look: PodLook { pod, account: Err(why) }, periods: None };
            }
            tokio::time::sleep(NODE_ANSWERS_WITHIN).await;
            let account = self.account(&pod, port).await;
            let page = self.admin(&pod, port, "metrics").await.ok();
            SeenPod { look: PodLook { pod, account }, periods: page.as_deref().and_then(top::periods) }
        }));
        seen.buffered(AT_ONCE).collect().await
    }

    /// The app's pods in order.
    pub(crate) async fn pods(&self, app: &WorkerApp) -> Result<Vec<Pod>, Error> {
        let namespace = app.namespace().unwrap_or_default();
        let labels = workerapp_plan::selector(app);
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let labels = format!("{},{}={}", labels.join(","), names::LABEL_MANAGED_BY, names::MANAGED_BY);
        let pods = self.api::<Pod>(&namespace).list(&ListParams::default().labels(&labels)).await;
        let mut pods = pods.map_err(|error| self.failed("pods", error))?.items;
        pods.sort_by_key(kube::ResourceExt::name_any);
        Ok(pods)
    }

    /// What a pod's supervisor says, through the API server; in words if it says nothing.
    pub(crate) async fn account(&self, pod: &Pod, port: i32) -> Result<Account, String> {
        let text = self.admin(pod, port, "status").await?;
        serde_json::from_str(&text).map_err(|error| format!("the supervisor's answer can't be read: {error}"))
    }

    /// A page of a supervisor's admin port.
    pub(crate) async fn admin(&self, pod: &Pod, port: i32, page: &str) -> Result<String, String> {
        let running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if !running {
            return Err("it doesn't run".into());
        }
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let url = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/{page}");
        let request = http::Request::get(url).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer =
            tokio::time::timeout(std::time::Duration::from_secs(5), self.client.request_text(request));
        match answer.await {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(self.failed("its supervisor", error).to_string()),
            Err(_) => Err("its supervisor doesn't answer in 5 s".into()),
        }
    }

    /// The events of a namespace.
    pub(crate) async fn events(&self, namespace: &str) -> Result<Vec<Event>, Error> {
        let found = self.api::<Event>(namespace).list(&ListParams::default()).await;
        found.map(|list| list.items).map_err(|error| self.failed("events", error))
    }

    /// The nodes; `None` for whoever may not see them.
    pub(crate) async fn nodes(&self) -> Result<Option<Vec<Node>>, Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        match nodes.list(&ListParams::default()).await.map_err(|error| self.failed("nodes", error)) {
            Ok(list) => Ok(Some(list.items)),
            Err(Error::Forbidden { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Services, where lists look.
    pub(crate) async fn services(&self) -> Result<Vec<Service>, Error> {
        self.list(&ListParams::default()).await
    }

    /// The pods behind a Service, with what their supervisors say, if they have one.
    pub(crate) async fn pods_of(&self, service: &Service) -> Result<Vec<SeenPod>, Error> {
        let pods = self.selected_pods(service).await?;
        Ok(self.seen(pods).await)
    }

    /// How many pods behind a Service are ready, and how many are wanted.
    pub(crate) async fn replicas(&self, service: &Service) -> Result<(u32, Option<u32>), Error> {
        let pods = self.selected_pods(service).await?;
        let ready = pods.iter().filter(|pod| look::is_ready(pod)).count();
        let namespace = service.namespace().unwrap_or_default();
        let deployment = self.deployment(&namespace, &service.name_any()).await?;
        let wanted = deployment.and_then(|deployment| u32::try_from(deployment.spec.replicas?).ok());
        Ok((u32::try_from(ready).unwrap_or(u32::MAX), wanted))
    }

    /// The pods of a Job.
    pub(crate) async fn pods_of_job(&self, namespace: &str, name: &str) -> Result<Vec<Pod>, Error> {
        let params = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
        let found = self.api::<Pod>(namespace).list(&params).await;
        found.map(|list| list.items).map_err(|error| self.failed("pods", error))
    }

    async fn selected_pods(&self, service: &Service) -> Result<Vec<Pod>, Error> {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        // Without a selector its endpoints are written by somebody else, and no pods are known.
        if selector.is_empty() {
            return Ok(Vec::new());
        }
        let labels: Vec<_> = selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let params = ListParams::default().labels(&labels.join(","));
        let pods: Api<Pod> = self.api(&service.namespace().unwrap_or_default());
        let mut pods = pods.list(&params).await.map_err(|error| self.failed("pods", error))?.items;
        pods.sort_by_key(kube::ResourceExt::name_any);
        Ok(pods)
    }

    /// A Deployment by its name.
    pub(crate) async fn deployment(&self, namespace: &str, name: &str) -> Result<Option<Deployment>, Error> {
        self.get(namespace, name).await
    }

    /// An autoscaler by its name.
    pub(crate) async fn autoscaler(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<HorizontalPodAutoscaler>, Error> {
        self.get(namespace, name).await
    }

    /// The LimitRanges of a namespace.
    pub(crate) async fn limit_ranges(&self, namespace: &str) -> Result<Vec<LimitRange>, Error> {
        let found = self.api::<LimitRange>(namespace).list(&ListParams::default()).await;
        found.map(|list| list.items).map_err(|error| self.failed("limitranges", error))
    }

    /// The disruption budgets of a namespace that no app controls.
    pub(crate) async fn foreign_budgets(&self, namespace: &str) -> Result<Vec<PodDisruptionBudget>, Error> {
        let found = self.api::<PodDisruptionBudget>(namespace).list(&ListParams::default()).await;
        let mut found = found.map_err(|error| self.failed("poddisruptionbudgets", error))?.items;
        let app = WorkerApp::kind(&());
        found.retain(|budget| {
            let mut owners = budget.owner_references().iter();
            !owners.any(|owner| owner.controller == Some(true) && owner.kind == app)
        });
        Ok(found)
    }

    /// Deployments of an operator, wherever it was installed: those whose container is the operator's program.
    pub(crate) async fn operators(&self) -> Result<Vec<Deployment>, Error> {
        let all: Api<Deployment> = Api::all(self.client.clone());
        let params = ListParams::default().labels(&format!("{}=workerapp-operator", names::LABEL_NAME));
        let found = all.list(&params).await.map_err(|error| self.failed("deployments", error))?;
        Ok(found.items)
    }

    /// The WorkerApp definition.
    pub(crate) async fn definition(&self) -> Result<Option<CustomResourceDefinition>, Error> {
        let all: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = format!("workerapps.{}", names::GROUP);
        all.get_opt(&name).await.map_err(|error| self.failed("the WorkerApp definition", error))
    }

    /// The API server's version.
    pub(crate) async fn version(&self) -> Result<Info, Error> {
        self.client.apiserver_version().await.map_err(|error| self.failed("the version", error))
    }

    /// Whether the API server offers this group.
    pub(crate) async fn offers(&self, group: &str) -> Result<bool, Error> {
        let groups = self.client.list_api_groups().await.map_err(|error| self.failed("API groups", error))?;
        Ok(groups.groups.iter().any(|offered| offered.name == group))
    }

    /// Whether whoever asks may do this.
    pub(crate) async fn may(&self, review: SelfSubjectAccessReview) -> Result<bool, Error> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| self.failed("permissions", error))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Follows or reads the log of a pod's container.
    pub(crate) async fn log(
        &self,
        pod: &Pod,
        params: &LogParams,
    ) -> Result<impl AsyncBufRead + use<>, Error> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let stream = self.api::<Pod>(&namespace).log_stream(&name, params).await;
        stream.map_err(|error| self.failed(&format!("the log of pod {name}"), error))
    }
}

/// The port of the supervisor's own pages.
pub(crate) fn admin_port(app: &WorkerApp) -> i32 {
    let set = app.spec.supervisor.as_ref().and_then(|supervisor| supervisor.admin_port);
    set.unwrap_or(i32::from(names::DEFAULT_ADMIN_PORT))
}

/// The same of a pod, by its container's port; `None` for one without a supervisor.
fn admin_port_of(pod: &Pod) -> Option<i32> {
    let mut containers = pod.spec.as_ref()?.containers.iter();
    let app = containers.find(|container| container.name == names::CONTAINER_APP)?;
    let port = app.ports.iter().flatten().find(|port| port.name.as_deref() == Some(names::PORT_ADMIN))?;
    Some(port.container_port)
}
