//! Requests, built once and sent many times.

use crate::error::Error;
use crate::plan::Protocol;
use crate::target::Target;
use bytes::Bytes;

/// What a request is made of, beside its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// GET, POST, …
    pub method: String,
    /// Names and values. A Host given here is sent instead of the target's.
    pub headers: Vec<(String, String)>,
    /// Sent with its length, unless it is empty.
    pub body: Vec<u8>,
}

impl Default for Template {
    fn default() -> Self {
        Self { method: "GET".to_owned(), headers: Vec::new(), body: Vec::new() }
    }
}

/// Of HTTP/1.1 alone, RFC 9113 § 8.2.2; the rest of them is refused for both versions.
const NOT_IN_HTTP2: [&str; 3] = ["keep-alive", "proxy-connection", "upgrade"];

/// The bytes of a request and what matters for its answer.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) bytes: Box<[u8]>,
    /// The answer has no body.
    pub(crate) head: bool,
    /// May be sent again if the server closed the connection without a word.
    pub(crate) idempotent: bool,
    /// As HTTP/2 has it, if it was built for that.
    pub(crate) message: Option<Message>,
}

/// A request of HTTP/2.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) head: http::Request<()>,
    pub(crate) body: Bytes,
}

impl Template {
    /// Builds the request. `keep_alive`: the connection is meant to stay open.
    pub fn build(&self, target: &Target, keep_alive: bool) -> Result<Request, Error> {
        let wrong = |part, value: &str, why| Error::Request { part, value: value.to_owned(), why };
        if !is_token(&self.method) {
            return Err(wrong("method", &self.method, "it must be a word such as GET"));
        }
        let has = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, target.path).into_bytes();
        let mut add = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                bytes.extend_from_slice(part.as_bytes());
            }
        };
        if !has("host") {
            add("Host", &target.authority);
        }
        for (name, value) in &self.headers {
            if !is_token(name) {
                return Err(wrong("header name", name, "only letters, digits and some signs are allowed"));
            }
            if value.chars().any(|c| c.is_control() && c != '\t') {
                return Err(wrong("header value", value, "it has a control character"));
            }
            if ["content-length", "transfer-encoding", "connection"]
                .iter()
                .any(|own| name.eq_ignore_ascii_case(own))
            {
                return Err(wrong("header", name, "it is set by the load engine"));
            }
            add(name, value);
        }
        if !self.body.is_empty() {
            add("Content-Length", &self.body.len().to_string());
        }
        if !keep_alive {
            add("Connection", "close");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        let idempotent = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(&self.method.as_str());
        Ok(Request { bytes: bytes.into(), head: self.method == "HEAD", idempotent, message: None })
    }

    /// Builds the request for this protocol.
    pub fn build_for(&self, protocol: Protocol, target: &Target, keep_alive: bool) -> Result<Request, Error> {
        match protocol {
            Protocol::Http1 => self.build(target, keep_alive),
            Protocol::Http2 => self.build_http2(target),
        }
    }

    /// Builds the request for HTTP/2.
    pub fn build_http2(&self, target: &Target) -> Result<Request, Error> {
        // What is wrong in one version is wrong in the other.
        let request = self.build(target, true)?;
        let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
        let own = self.headers.iter().find(|(name, _)| is(name, "host"));
        let authority = own.map_or(target.authority.as_str(), |(_, value)| value);
        let scheme = if target.tls { "https" } else { "http" };
        let mut head = http::Request::builder()
            .version(http::Version::HTTP_2)
            .method(self.method.as_str())
            .uri(format!("{scheme}://{authority}{}", target.path));
        for (name, value) in self.headers.iter().filter(|(name, _)| !is(name, "host")) {
            if NOT_IN_HTTP2.iter().any(|old| is(name, old)) {
                let why = "HTTP/2 has no such header";
                return Err(Error::Request { part: "header", value: name.clone(), why });
            }
            head = head.header(name.as_str(), value.as_str());
        }
        if !self.body.is_empty() {
            head = head.header("content-length", self.body.len());
        }
        let head = head.body(()).map_err(|_| Error::Request {
            part: "URL or headers",
            value: format!("{authority}{}", target.path),
            why: "HTTP/2 can't carry them",
        })?;
        Ok(Request { message: Some(Message { head, body: Bytes::from(self.body.clone()) }), ..request })
    }
}

fn is_token(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &Template, keep_alive: bool) -> String {
        let target = Target::parse("http://127.0.0.1:3000/a?b=c").unwrap();
        String::from_utf8(template.build(&target, keep_alive).unwrap().bytes.into_vec()).unwrap()
    }

    #[test]
    fn what_is_sent() {
        let mut template = Template::default();
        assert_eq!(text(&template, true), "GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:3000\r\n\r\n");
        assert_eq!(
            text(&template, false),
            "GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:3000\r\nConnection: close\r\n\r\n"
        );
        template.method = "POST".into();
        template.headers = vec![("HOST".into(), "shop".into()), ("Content-Type".into(), "text/plain".into())];
        template.body = b"hello".to_vec();
        assert_eq!(
            text(&template, true),
            "POST /a?b=c HTTP/1.1\r\nHOST: shop\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
        );
    }

    #[test]
    fn what_is_sent_in_http_2() {
        let target = Target::parse("https://shop:8443/a?b=c").unwrap();
        let mut template = Template { method: "POST".into(), body: b"hello".to_vec(), ..Template::default() };
        template.headers = vec![("X-A".into(), "1".into()), ("Host".into(), "other".into())];
        let message = template.build_http2(&target).unwrap().message.unwrap();
        assert_eq!(message.head.uri(), "https://other/a?b=c");
        assert_eq!(message.head.headers().len(), 2, "{:?}", message.head.headers());
        assert_eq!(
            (&message.head.headers()["content-length"], message.body.len()),
            (&"5".parse().unwrap(), 5)
        );
        template.headers = vec![("Keep-Alive".into(), "5".into())];
        assert!(template.build_http2(&target).unwrap_err().to_string().contains("HTTP/2 has no such header"));
    }

    #[test]
    fn only_what_may_be_repeated_is() {
        let target = Target::parse("shop").unwrap();
        for (method, idempotent, head) in
            [("GET", true, false), ("HEAD", true, true), ("POST", false, false), ("PATCH", false, false)]
        {
            let template = Template { method: method.into(), ..Template::default() };
            let request = template.build(&target, true).unwrap();
            assert_eq!((request.idempotent, request.head), (idempotent, head), "{method}");
        }
    }

    #[test]
    fn no_header_smuggles_another_in() {
        let target = Target::parse("shop").unwrap();
        for (method, name, value, part) in [
            ("GE T", "a", "b", "method"),
            ("", "a", "b", "method"),
            ("GET", "a b", "c", "header name"),
            ("GET", "", "c", "header name"),
            ("GET", "a", "b\r\nc: d", "header value"),
            ("GET", "Connection", "close", "set by the load engine"),
            ("GET", "content-length", "3", "set by the load engine"),
        ] {
            let headers = vec![(name.to_owned(), value.to_owned())];
            let template = Template { method: method.into(), headers, body: Vec::new() };
            let message = template.build(&target, true).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
