//! The CAs that the API server trusts for the metrics API, as they stand in an APIService: one of each replica. Pure.
//!
//! Each replica adds its own and leaves those of the others until they have expired. Their keys never left the memory of their
//! replicas, so that a CA whose replica is gone can sign nothing any more.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_cert::{
    Certificate,
    der::{Decode as _, EncodePem as _, pem::LineEnding},
};

use crate::front_proxy::common_name;

/// More than so many are never kept, the longest-lived ones first: replicas that start over and over must not fill the object.
const MOST: usize = 32;

/// The bundle with the `own` CAs of this replica in it; `pod` is the name in their subjects. `None` if it holds them already and
/// nothing is to go.
pub fn with(current: &[u8], own: &[CertificateDer<'_>], pod: &str, unix_now: Duration) -> Option<Vec<u8>> {
    let current = certificates(current);
    let own: Vec<Certificate> = own.iter().filter_map(|own| Certificate::from_der(own).ok()).collect();
    // Those of the same pod whose process has ended: its container was started anew.
    let mut kept: Vec<Certificate> = current
        .iter()
        .filter(|other| expiry(other) > unix_now)
        .filter(|other| own.contains(other) || common_name(other).as_deref() != Some(pod))
        .cloned()
        .collect();
    for certificate in own {
        if !kept.contains(&certificate) {
            kept.push(certificate);
        }
    }
    kept.sort_by_key(|certificate| std::cmp::Reverse(expiry(certificate)));
    kept.truncate(MOST);
    let same = kept.len() == current.len() && kept.iter().all(|certificate| current.contains(certificate));
    (!same).then(|| pem(&kept))
}

/// The certificates of a PEM text; what isn't one is passed over.
fn certificates(pem: &[u8]) -> Vec<Certificate> {
    CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .filter_map(|der| Certificate::from_der(&der).ok())
        .collect()
}

fn pem(certificates: &[Certificate]) -> Vec<u8> {
    certificates.iter().filter_map(|one| one.to_pem(LineEnding::LF).ok()).collect::<String>().into_bytes()
}

fn expiry(certificate: &Certificate) -> Duration {
    certificate.tbs_certificate.validity.not_after.to_unix_duration()
}

#[cfg(test)]
mod tests {
    use std::{
        slice::from_ref,
        time::{Duration, SystemTime, UNIX_EPOCH},
    };

    use super::{MOST, certificates, common_name, with};
    use crate::identity::Identity;

    fn identity(pod: &str) -> Identity {
        Identity::make(pod, "metrics.system.svc", SystemTime::now()).unwrap()
    }

    fn now() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
    }

    fn names(bundle: &[u8]) -> Vec<String> {
        let mut names: Vec<_> = certificates(bundle).iter().filter_map(common_name).collect();
        names.sort();
        names
    }

    #[test]
    fn replicas_add_themselves_and_leave_the_others() {
        let (a, b) = (identity("a"), identity("b"));
        let first = with(b"", from_ref(&a.authority), "a", now()).unwrap();
        let both = with(&first, from_ref(&b.authority), "b", now()).unwrap();
        assert_eq!(names(&both), ["a", "b"]);
        for (own, pod) in [(&a, "a"), (&b, "b")] {
            assert_eq!(with(&both, from_ref(&own.authority), pod, now()), None, "nothing is new for {pod}");
        }
    }

    #[test]
    fn a_rotation_keeps_both_until_the_old_one_goes() {
        let (old, new, other) = (identity("a"), identity("a"), identity("b"));
        let before = with(b"", &[old.authority.clone(), other.authority.clone()], "a", now()).unwrap();
        let both = with(&before, &[old.authority.clone(), new.authority.clone()], "a", now()).unwrap();
        assert_eq!(names(&both), ["a", "a", "b"]);
        let after = with(&both, from_ref(&new.authority), "a", now()).unwrap();
        assert_eq!(names(&after), ["a", "b"]);
    }

    #[test]
    fn what_has_expired_goes_and_foreign_text_is_dropped() {
        let (a, b) = (identity("a"), identity("b"));
        let both = with(b"", &[a.authority.clone(), b.authority.clone()], "a", now()).unwrap();
        let later = now() + Duration::from_hours(24 * 365);
        assert_eq!(names(&with(&both, &[], "c", later).unwrap()), [""; 0]);
        assert_eq!(names(&with(b"nonsense", from_ref(&a.authority), "a", now()).unwrap()), ["a"]);
    }

    #[test]
    fn a_crowd_does_not_fill_the_object() {
        let mut bundle = Vec::new();
        for n in 0..MOST + 3 {
            let pod = format!("p{n}");
            if let Some(more) = with(&bundle, &[identity(&pod).authority], &pod, now()) {
                bundle = more;
            }
        }
        assert_eq!(certificates(&bundle).len(), MOST);
    }
}
