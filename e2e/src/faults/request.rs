//! What a request is about, from its head.

use http::{Method, request::Parts};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads all objects of a kind.
    List,
    /// Follows the changes of a kind.
    Watch,
    /// Changes something.
    Write,
}

/// The head of a request, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it does.
    pub verb: Verb,
    /// `GET`, `PATCH`, …
    pub method: Method,
    /// The kind, as it stands in paths: `deployments`.
    pub plural: String,
    /// The object's name, unless it is about all of a kind.
    pub name: String,
    /// `status`, `scale`, or nothing.
    pub subresource: String,
    /// Whether it goes on with a list that was begun by another request.
    pub continues: bool,
}

impl Head {
    /// Takes a request apart; `None` for what is about no object (discovery, health).
    pub fn of(parts: &Parts) -> Option<Self> {
        let mut segments = parts.uri.path().split('/').filter(|segment| !segment.is_empty());
        match segments.next()? {
            "api" => segments.next(),
            "apis" => segments.nth(1),
            _ => None,
        }?;
        let rest: Vec<_> = segments.collect();
        let object = match rest.as_slice() {
            ["namespaces", _, object @ ..] if !object.is_empty() => object,
            all => all,
        };
        let part = |at: usize| object.get(at).copied().unwrap_or_default().to_owned();
        let query = parts.uri.query().unwrap_or_default();
        let flag = |name: &str| query.split('&').any(|pair| pair.starts_with(name));
        let verb = match parts.method {
            Method::GET | Method::HEAD if flag("watch=true") => Verb::Watch,
            Method::GET | Method::HEAD if object.len() < 2 => Verb::List,
            Method::GET | Method::HEAD => Verb::Get,
            _ => Verb::Write,
        };
        Some(Self {
            verb,
            method: parts.method.clone(),
            plural: object.first().map(|plural| (*plural).to_owned())?,
            name: part(1),
            subresource: part(2),
            continues: flag("continue="),
        })
    }

    /// The same for two tries of the same thing, in whichever namespace.
    pub fn identity(&self) -> String {
        // An event's name is made up.
        let name = if self.plural == "events" { "" } else { &self.name };
        format!("{:?} {} {}/{name}/{}", self.verb, self.method, self.plural, self.subresource)
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{Head, Verb};

    fn head(method: &str, uri: &str) -> Option<Head> {
        Head::of(&Request::builder().method(method).uri(uri).body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_path_says_what_a_request_is_about() {
        for (method, uri, verb, plural, name, subresource) in [
            ("GET", "/api/v1/namespaces/ns/services?limit=100", Verb::List, "services", "", ""),
            ("GET", "/api/v1/services?watch=true&timeoutSeconds=9", Verb::Watch, "services", "", ""),
            ("GET", "/apis/apps/v1/namespaces/ns/deployments/a", Verb::Get, "deployments", "a", ""),
            (
                "PATCH",
                "/apis/workerapp.dev/v1alpha1/namespaces/ns/workerapps/a/status?x=y",
                Verb::Write,
                "workerapps",
                "a",
                "status",
            ),
            ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events", Verb::Write, "events", "", ""),
            ("DELETE", "/api/v1/namespaces/ns", Verb::Write, "namespaces", "ns", ""),
        ] {
            let head = head(method, uri).unwrap();
            assert_eq!(
                (head.verb, &*head.plural, &*head.name, &*head.subresource),
                (verb, plural, name, subresource)
            );
        }
        assert_eq!(head("GET", "/livez"), None);
        assert!(head("GET", "/api/v1/pods?limit=1&continue=abc").unwrap().continues);
    }
}
