//! Whom a run with TLS trusts.

use crate::error::Error;
use crate::plan::Protocol;
use crate::target::Target;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whose certificates are good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the authorities that this machine trusts.
    #[default]
    Machine,
    /// Those of the authorities in this PEM file, and no others.
    File(PathBuf),
    /// Everybody's: nothing is checked.
    Anybody,
}

impl Trust {
    /// As `--ca` and `--insecure` say it.
    pub fn of(ca: Option<&Path>, insecure: bool) -> Self {
        match ca {
            Some(file) => Self::File(file.to_owned()),
            None if insecure => Self::Anybody,
            None => Self::Machine,
        }
    }
}

/// TLS with one server. Sessions are resumed, as browsers do; versions 1.2 and 1.3.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// For the target's name; `None` for one without TLS. The protocol is the only one that is offered (ALPN).
    pub fn new(target: &Target, trust: &Trust, protocol: Protocol) -> Result<Option<Self>, Error> {
        if !target.tls {
            return Ok(None);
        }
        let failed = |why: String| Error::Tls { host: target.host.clone(), why };
        let name = ServerName::try_from(target.host.clone()).map_err(|error| failed(error.to_string()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?;
        let builder = match trust {
            Trust::Machine => builder.with_root_certificates(machine()?),
            Trust::File(file) => builder.with_root_certificates(authorities(file)?),
            Trust::Anybody => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
            }
        };
        let mut config = builder.with_no_client_auth();
        let offered: &[u8] = match protocol {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
        };
        config.alpn_protocols = vec![offered.to_vec()];
        Ok(Some(Self { config: Arc::new(config), name }))
    }

    /// A connection that has not begun.
    pub(crate) fn connect(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

fn machine() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Old authorities that this code can't read are no reason to trust none.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(Error::NoAuthorities { why });
    }
    Ok(roots)
}

fn authorities(file: &PathBuf) -> Result<RootCertStore, Error> {
    let failed = |why: String| Error::Authorities { file: file.display().to_string(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))? {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(failed("it holds no certificate; a PEM file is needed".to_owned()));
    }
    Ok(roots)
}

/// Takes every certificate. The signatures of the handshake are checked all the same: else it would cost less than it does.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_authorities_are_named() {
        let target = Target::parse("https://shop/").unwrap();
        for (file, part) in [("/nowhere/ca.pem", "/nowhere/ca.pem"), ("/dev/null", "no certificate")] {
            let trust = Trust::File(file.into());
            let message = Tls::new(&target, &trust, Protocol::Http1).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains(file), "{message}");
        }
        let plain = Target::parse("http://shop/").unwrap();
        assert!(Tls::new(&plain, &Trust::File("/nowhere".into()), Protocol::Http1).unwrap().is_none());
    }
}
