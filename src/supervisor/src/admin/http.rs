//! Heads of requests, and responses.

/// More than this is no request for us.
pub(super) const LONGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;

/// What matters of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    pub(super) query: String,
    /// From inside the pod; the connection knows.
    pub(super) local: bool,
}

/// What a buffer holds so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Complete(Request),
    Incomplete,
    /// It will never be a request; this is to be said about it.
    Wrong(Response),
}

/// Reads the head of a request. Bodies are of no interest and are not waited for.
pub(super) fn parse(buffer: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(buffer) {
        Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
            (Some(method), Some(target)) => {
                let (path, query) = target.split_once('?').unwrap_or((target, ""));
                let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
                Parsed::Complete(Request { method, path, query, local: false })
            }
            _ => Parsed::Wrong(Response::text(400, "not a request\n")),
        },
        Ok(httparse::Status::Partial) if buffer.len() > LONGEST_HEAD => {
            Parsed::Wrong(Response::text(431, "too long\n"))
        }
        Ok(httparse::Status::Partial) => Parsed::Incomplete,
        Err(httparse::Error::TooManyHeaders) => Parsed::Wrong(Response::text(431, "too many headers\n")),
        Err(error) => Parsed::Wrong(Response::text(400, &format!("{error}\n"))),
    }
}

impl Request {
    /// The client does not want the body.
    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The value of a parameter in the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .find_map(|part| part.split_once('=').filter(|(known, _)| *known == name))
            .map(|p| p.1)
    }
}

/// One response; the connection is closed after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    status: u16,
    content_type: &'static str,
    body: String,
    head_only: bool,
}

impl Response {
    pub(super) fn new(status: u16, content_type: &'static str, body: String) -> Self {
        Self { status, content_type, body, head_only: false }
    }

    pub(super) fn text(status: u16, body: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", body.to_owned())
    }

    pub(crate) fn with_head_only(self, head_only: bool) -> Self {
        Self { head_only, ..self }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        let phrase = match self.status {
            200 => "OK",
            202 => "Accepted",
            403 => "Forbidden",
            409 => "Conflict",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            _ => "",
        };
        let head = format!(
            "HTTP/1.1 {} {phrase}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        let mut bytes = head.into_bytes();
        if !self.head_only {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let get = |path: &str, query: &str| {
            let (method, path, query) = ("GET".into(), path.into(), query.into());
            Parsed::Complete(Request { method, path, query, local: false })
        };
        assert_eq!(parse(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"), get("/readyz", ""));
        assert_eq!(parse(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"), get("/metrics", "x=1"));
        assert_eq!(parse(b"GET /readyz HTTP/1.1\r\nHo"), Parsed::Incomplete);
        assert_eq!(parse(b""), Parsed::Incomplete);
        for nonsense in [&b"\x16\x03\x01\x02\x00"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
            assert!(matches!(parse(nonsense), Parsed::Wrong(_)), "{nonsense:?}");
        }
        let long = [b"GET / HTTP/1.1\r\nX: ", &vec![b'x'; LONGEST_HEAD][..]].concat();
        assert!(matches!(parse(&long), Parsed::Wrong(_)));
        let many = [b"GET / HTTP/1.1\r\n", "X: 1\r\n".repeat(99).as_bytes(), b"\r\n"].concat();
        assert!(matches!(parse(&many), Parsed::Wrong(_)));
    }

    #[test]
    fn responses() {
        let text = |response: Response| String::from_utf8(response.into_bytes()).unwrap();
        assert!(text(Response::text(503, "no\n")).starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
        assert!(
            text(Response::text(200, "ok\n")).ends_with("Content-Length: 3\r\nConnection: close\r\n\r\nok\n")
        );
        assert!(text(Response::text(200, "ok\n").with_head_only(true)).ends_with("\r\n\r\n"));
    }

    #[test]
    fn damaged_requests() {
        let samples: [&[u8]; 4] = [
            b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST /restart?a=1&b=2 HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
            b"GET /channel?generation=18446744073709551615 HTTP/1.1\r\nUpgrade: workerapp\r\n\r\nstats a=1\n",
            b"HEAD /%2e%2e/metrics HTTP/1.1\r\nX: \xff\r\n\r\n",
        ];
        crate::testing::with_damaged(&samples, |bytes| match parse(bytes) {
            Parsed::Complete(request) => {
                let _ = request.parameter("generation");
                let longer = [bytes, b"more"].concat();
                assert_eq!(
                    parse(&longer),
                    Parsed::Complete(request.clone()),
                    "what follows the head does not matter"
                );
                assert!(!request.path.contains('?'));
                let _ = crate::admin::answer(&request);
            }
            Parsed::Incomplete => assert!(bytes.len() <= LONGEST_HEAD),
            Parsed::Wrong(response) => assert!(response.into_bytes().starts_with(b"HTTP/1.1 4")),
        });
    }
}
