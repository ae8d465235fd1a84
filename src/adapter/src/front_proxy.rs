//! Who asks: only the API server is believed, and it says for whom.
//!
//! Its client certificate must come from the CA, and bear one of the names, that the API server publishes in the ConfigMap
//! `extension-apiserver-authentication`. Then the headers that are named there say who the user is.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt as _;
use hyper::HeaderMap;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, runtime::WatchStreamExt as _, runtime::watcher};
use percent_encoding::percent_decode_str;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::sync::watch;
use x509_cert::{
    Certificate,
    der::{
        Decode as _, Tagged as _,
        asn1::{ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef},
    },
};

use crate::identity::provider;

/// Where the API server says how it is to be recognised.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// Everybody who is authenticated is in this group, which the API server leaves to the one it asks.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// Why the ConfigMap can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The API server publishes no CA for its front proxy.
    #[error(
        "ConfigMap {NAMESPACE}/{NAME} has no usable requestheader-client-ca-file: is the API server run with --requestheader-client-ca-file?"
    )]
    NoAuthority,
    /// A field that should be a list.
    #[error("ConfigMap {NAMESPACE}/{NAME}: {field} is no JSON list of texts: {error}")]
    List {
        /// The field.
        field: &'static str,
        /// Why.
        error: serde_json::Error,
    },
    /// The CA can't be used.
    #[error("ConfigMap {NAMESPACE}/{NAME}: requestheader-client-ca-file can't be used: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// How the API server is recognised, and how it names a user.
#[derive(Debug)]
pub struct FrontProxy {
    /// Checks its certificate.
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// Which common names it may have; empty: any.
    names: Vec<String>,
    user: Vec<String>,
    uid: Vec<String>,
    group: Vec<String>,
    extra: Vec<String>,
}

/// For whom the API server asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid, if any.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl FrontProxy {
    /// Reads the ConfigMap's data.
    ///
    /// # Errors
    /// Names the field that can't be used.
    pub fn of(data: &BTreeMap<String, String>) -> Result<Self, Unusable> {
        let list = |field: &'static str| match data.get(field).map(|text| text.trim()) {
            None | Some("") => Ok(Vec::new()),
            Some(text) => {
                serde_json::from_str::<Vec<String>>(text).map_err(|error| Unusable::List { field, error })
            }
        };
        let mut roots = RootCertStore::empty();
        let pem = data.get("requestheader-client-ca-file").ok_or(Unusable::NoAuthority)?;
        roots
            .add_parsable_certificates(CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok));
        if roots.is_empty() {
            return Err(Unusable::NoAuthority);
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider())).build()?;
        let lower = |list: Vec<String>| list.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Self {
            verifier,
            names: list("requestheader-allowed-names")?,
            user: lower(list("requestheader-username-headers")?),
            uid: lower(list("requestheader-uid-headers")?),
            group: lower(list("requestheader-group-headers")?),
            extra: lower(list("requestheader-extra-headers-prefix")?),
        })
    }

    /// Whether a certificate that the verifier has accepted has one of the names.
    pub fn admits(&self, certificate: &CertificateDer<'_>) -> bool {
        let name = || common_name(&Certificate::from_der(certificate).ok()?);
        self.names.is_empty() || name().is_some_and(|name| self.names.contains(&name))
    }

    /// Whom the headers name.
    pub fn user(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| headers.get(name)?.to_str().ok());
            values.find(|value| !value.is_empty()).map(str::to_owned)
        };
        let mut user = User { name: first(&self.user)?, uid: first(&self.uid), ..User::default() };
        for name in &self.group {
            let values = headers.get_all(name).iter();
            user.groups.extend(values.filter_map(|value| Some(value.to_str().ok()?.to_owned())));
        }
        for (name, value) in headers {
            let key = self.extra.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                user.extra.entry(key).or_default().push(value.to_owned());
            }
        }
        let known = |group: &str| user.groups.iter().any(|one| one == group);
        if user.name != ANONYMOUS && !known(AUTHENTICATED) && !known(UNAUTHENTICATED) {
            user.groups.push(AUTHENTICATED.into());
        }
        Some(user)
    }
}

/// The common name of a certificate's subject.
pub(crate) fn common_name(certificate: &Certificate) -> Option<String> {
    const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
    let mut attributes = certificate.tbs_certificate.subject.0.iter().flat_map(|names| names.0.iter());
    let value = &attributes.find(|attribute| attribute.oid == COMMON_NAME)?.value;
    let text = match value.tag() {
        x509_cert::der::Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>().ok()?.to_string(),
        x509_cert::der::Tag::TeletexString => value.decode_as::<TeletexStringRef<'_>>().ok()?.to_string(),
        _ => value.decode_as::<Utf8StringRef<'_>>().ok()?.to_string(),
    };
    Some(text)
}

/// Follows the ConfigMap for ever. What can't be used is told and doesn't take the place of what could.
pub(crate) async fn follow(client: Client, into: watch::Sender<Option<Arc<FrontProxy>>>) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}")).timeout(120);
    let mut maps = std::pin::pin!(watcher(api, config).default_backoff().applied_objects());
    let mut told = false;
    while let Some(map) = maps.next().await {
        match map
            .map_err(|error| error.to_string())
            .and_then(|map| FrontProxy::of(&map.data.unwrap_or_default()).map_err(|error| error.to_string()))
        {
            Ok(front_proxy) => {
                told = false;
                into.send_replace(Some(Arc::new(front_proxy)));
            }
            Err(error) if !told => {
                told = true;
                tracing::warn!("how to recognise the API server can't be read: {error}");
            }
            Err(error) => tracing::debug!("how to recognise the API server still can't be read: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        time::{Duration, SystemTime},
    };

    use hyper::{HeaderMap, header::HeaderName};
    use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::pki_types::{CertificateDer, UnixTime};

    use super::{FrontProxy, Unusable};

    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    fn authority() -> Authority {
        use x509_cert::der::{Decode as _, EncodePem as _, pem::LineEnding};
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).unwrap().der().clone();
        let pem = x509_cert::Certificate::from_der(&der).unwrap().to_pem(LineEnding::LF).unwrap();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    fn client(authority: &Authority, name: &str, valid: Duration) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = (SystemTime::now() - Duration::from_hours(9)).into();
        params.not_after = (SystemTime::now() - Duration::from_hours(8) + valid).into();
        params.signed_by(&KeyPair::generate().unwrap(), &authority.issuer).unwrap().der().clone()
    }

    fn front_proxy(authority: &Authority, names: &str) -> FrontProxy {
        let data = [
            ("requestheader-client-ca-file", authority.pem.as_str()),
            ("requestheader-allowed-names", names),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ];
        FrontProxy::of(&data.map(|(key, value)| (key.to_owned(), value.to_owned())).into()).unwrap()
    }

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn only_the_front_proxy_of_the_published_ca_is_let_in() {
        let (own, foreign) = (authority(), authority());
        let proxy = front_proxy(&own, r#"["front-proxy-client"]"#);
        let verified = |certificate: &CertificateDer<'static>| {
            proxy.verifier.verify_client_cert(certificate, &[], UnixTime::now()).is_ok()
        };
        let right = client(&own, "front-proxy-client", DAY);
        assert!(verified(&right) && proxy.admits(&right));
        assert!(!verified(&client(&foreign, "front-proxy-client", DAY)), "of another CA");
        assert!(!verified(&client(&own, "front-proxy-client", Duration::ZERO)), "expired");
        // In the testbed, and in many clusters, the same CA signs other clients.
        let other = client(&own, "admin", DAY);
        assert!(verified(&other) && !proxy.admits(&other));
        assert!(front_proxy(&own, "[]").admits(&other), "no names: any");
    }

    #[test]
    fn headers_name_the_user() {
        let proxy = front_proxy(&authority(), "");
        let mut headers = HeaderMap::new();
        assert_eq!(proxy.user(&headers), None);
        for (name, value) in [
            ("x-remote-user", "jane"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-example.com%2fscope", "read"),
            ("x-other", "no"),
        ] {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let user = proxy.user(&headers).unwrap();
        assert_eq!((user.name.as_str(), user.uid), ("jane", None));
        assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(user.extra, BTreeMap::from([("example.com/scope".into(), vec!["read".into()])]));
        headers.insert("x-remote-user", "system:anonymous".parse().unwrap());
        headers.remove("x-remote-group");
        assert_eq!(proxy.user(&headers).unwrap().groups, [""; 0]);
    }

    #[test]
    fn a_cluster_without_aggregation_is_told() {
        assert!(matches!(FrontProxy::of(&BTreeMap::new()), Err(Unusable::NoAuthority)));
        let data = [("requestheader-client-ca-file".to_owned(), "nonsense".to_owned())].into();
        assert!(matches!(FrontProxy::of(&data), Err(Unusable::NoAuthority)));
        let own = authority();
        let data = [
            ("requestheader-client-ca-file".to_owned(), own.pem),
            ("requestheader-allowed-names".to_owned(), "front".to_owned()),
        ];
        let error = FrontProxy::of(&data.into()).unwrap_err().to_string();
        assert!(error.contains("requestheader-allowed-names"), "{error}");
    }
}
