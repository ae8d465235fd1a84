//! The certificate with which the API server is answered, and the CA behind it.
//!
//! Each process makes its own, and their keys never leave its memory: there is no Secret to read, to protect or to lose, and
//! replicas needn't agree on anything. What they share is public: the CAs in the APIService.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};

/// How long a certificate and its CA are valid.
const VALID: Duration = Duration::from_hours(72);
/// After how long new ones take their place.
pub const ROTATE: Duration = Duration::from_hours(24);
/// Clocks of other machines may be behind by so much.
const SKEW: Duration = Duration::from_hours(1);

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The certificate.
    #[error("no certificate can be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// Its key.
    #[error("the certificate's key can't be used: {0}")]
    Key(#[from] rustls::Error),
}

/// A CA, and the one certificate that it signed.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The CA, which the API server is to trust.
    pub authority: CertificateDer<'static>,
    /// What is shown to it.
    pub certified: Arc<CertifiedKey>,
}

impl Identity {
    /// Makes one for the DNS name `host`; `pod` is the name in the CA's subject, by which later ones of the same pod are known.
    ///
    /// # Errors
    /// If there are no random numbers, or `host` is no DNS name.
    pub fn make(pod: &str, host: &str, now: SystemTime) -> Result<Self, Failure> {
        let key = KeyPair::generate()?;
        let mut params = validity(CertificateParams::new(Vec::new())?, now);
        params.distinguished_name = name(pod);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = params.self_signed(&key)?.der().clone();
        let issuer = Issuer::new(params, key);

        let key = KeyPair::generate()?;
        let mut params = validity(CertificateParams::new(vec![host.to_owned()])?, now);
        params.distinguished_name = name(host);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &issuer)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let certified = CertifiedKey::from_der(vec![certificate], key, &provider())?;
        Ok(Self { authority, certified: Arc::new(certified) })
    }
}

/// The one implementation of cryptography in the program.
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

fn validity(mut params: CertificateParams, now: SystemTime) -> CertificateParams {
    params.not_before = (now - SKEW).into();
    params.not_after = (now + VALID).into();
    params
}

/// A common name holds 64 characters.
fn name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text.chars().take(64).collect::<String>());
    name
}
