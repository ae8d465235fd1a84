//! KEDA: its kinds as it defines them, and KEDA itself as programs beside the API server.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result};
use k8s_openapi::{ByteString, kube_aggregator::pkg::apis::apiregistration::v1::APIService};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
};

use crate::{
    cluster,
    fixture::Fixture,
    metrics_api::{NAME, eventually, lead, raw},
};

/// The variable that names the folder with KEDA's definitions.
const VARIABLE: &str = "WORKERAPP_TEST_KEDA";
/// The name of the definition of ScaledObjects.
pub const SCALED_OBJECTS: &str = "scaledobjects.keda.sh";
/// The API by which an autoscaler reads KEDA's triggers.
const METRICS: &str = "external.metrics.k8s.io";

/// The definition of ScaledObjects, as KEDA ships it.
///
/// # Errors
/// If `testbed build` hasn't fetched it.
pub fn scaled_objects() -> Result<Value> {
    definition(&folder()?.join("keda.sh_scaledobjects.yaml"))
}

/// The definitions of all its kinds.
///
/// # Errors
/// If `testbed build` hasn't fetched them.
pub fn definitions() -> Result<Vec<Value>> {
    let folder = folder()?;
    let files = fs::read_dir(&folder).with_context(|| format!("{}: testbed/build", folder.display()))?;
    let paths = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    let yaml = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    yaml.map(|path| definition(path)).collect()
}

fn folder() -> Result<PathBuf> {
    Ok(PathBuf::from(std::env::var_os(VARIABLE).context(VARIABLE)?))
}

fn definition(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("{}: e2e/testbed/build fetches it", path.display()))?;
    Ok(serde_saphyr::from_str(&text)?)
}

/// KEDA's operator and the API of its metrics, for one namespace.
pub struct Keda {
    client: Client,
    service: String,
    folder: PathBuf,
    programs: [Child; 2],
}

impl Keda {
    /// Starts both, and waits until the API server answers by the second.
    ///
    /// # Errors
    /// If they aren't built, or don't come up.
    pub async fn start(fixture: &Fixture) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("workerapp-keda-{}", fixture.namespace));
        fs::create_dir_all(&folder)?;
        let authority = certificates(&folder, &format!("{NAME}.{}.svc", fixture.namespace))?;
        let address = SocketAddr::new(cluster::host(&cluster::config().await?)?, free_port().await?);
        let between = format!("127.0.0.1:{}", free_port().await?);
        let operator = Self::program(fixture, &folder, "keda-operator")?
            .args(["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=0"])
            .arg(format!("--metrics-service-bind-address={between}"))
            .args(["--enable-apiservice-patching=false", "--enable-webhook-patching=false"])
            .spawn()
            .context("e2e/testbed/build keda")?;
        let kubeconfig = std::env::var(cluster::VARIABLE)?;
        let adapter = Self::program(fixture, &folder, "keda-adapter")?
            .args([format!("--bind-address={}", address.ip()), format!("--secure-port={}", address.port())])
            .args([format!("--port={}", free_port().await?), format!("--metrics-service-address={between}")])
            .args(["--tls-cert-file=tls.crt", "--tls-private-key-file=tls.key"])
            .args(
                ["kubeconfig", "lister-kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
                    .map(|flag| format!("--{flag}={kubeconfig}")),
            )
            .spawn()
            .context("e2e/testbed/build keda")?;
        let client = Client::try_from(cluster::config().await?)?;
        let service = format!("v1beta1.{METRICS}");
        let keda = Self { client, service, folder, programs: [operator, adapter] };
        lead(fixture, address).await?;
        keda.register(fixture, authority).await?;
        eventually("KEDA's metrics", async || {
            raw(&keda.client, &format!("/apis/{METRICS}/v1beta1")).await.map(drop)
        })
        .await
        .with_context(|| format!("logs: {}", keda.folder.display()))?;
        Ok(keda)
    }

    fn program(fixture: &Fixture, folder: &Path, name: &str) -> Result<Command> {
        let log = File::create(folder.join(format!("{name}.log")))?;
        let mut command = Command::new(name);
        command
            .current_dir(folder)
            .args(["--cert-dir=."])
            .env("KUBECONFIG", std::env::var_os(cluster::VARIABLE).context(cluster::VARIABLE)?)
            .env("WATCH_NAMESPACE", &fixture.namespace)
            .env("POD_NAMESPACE", &fixture.namespace)
            .env("KEDA_CLUSTER_OBJECT_NAMESPACE", &fixture.namespace)
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        Ok(command)
    }

    async fn register(&self, fixture: &Fixture, authority: String) -> Result<()> {
        let services: Api<APIService> = Api::all(self.client.clone());
        if services.get_opt(&self.service).await?.is_some() {
            // Of a test that failed before.
            services.delete(&self.service, &DeleteParams::default()).await?;
        }
        let body = json!({ "metadata": { "name": self.service }, "spec": {
            "group": METRICS, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": { "name": NAME, "namespace": fixture.namespace },
            "caBundle": ByteString(authority.into_bytes()),
        } });
        services.create(&PostParams::default(), &serde_json::from_value(body)?).await?;
        Ok(())
    }

    /// Ends both and takes their API away; what they have made stays.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn end(mut self) -> Result<()> {
        for program in &mut self.programs {
            program.kill().await?;
        }
        Api::<APIService>::all(self.client).delete(&self.service, &DeleteParams::default()).await?;
        Ok(fs::remove_dir_all(&self.folder)?)
    }
}

async fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port())
}

/// What KEDA's programs know each other by, and the API server them: `ca.crt`, `tls.crt` and `tls.key`. Returns the first.
fn certificates(folder: &Path, name: &str) -> Result<String> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let root = authority.self_signed(&key)?.pem();
    let issuer = Issuer::new(authority, key);

    let mut leaf = CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()])?;
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    fs::write(folder.join("ca.crt"), &root)?;
    fs::write(folder.join("tls.crt"), leaf.signed_by(&key, &issuer)?.pem())?;
    fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(root)
}
