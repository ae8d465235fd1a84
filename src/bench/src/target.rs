//! Where requests go.

use crate::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};

/// A URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `https`.
    pub tls: bool,
    /// Name or address, an IPv6 address without its brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path and query, as they are sent.
    pub path: String,
    /// What the header Host says.
    pub authority: String,
}

impl Target {
    /// Reads `http://host:port/path?query`, or `https`; the scheme (`http`), the port (80 or 443) and the path (/) may be missing.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |why| Error::Url { url: url.to_owned(), why };
        if url.chars().any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
            return Err(wrong("it has a space or another character that must be escaped"));
        }
        let (tls, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some(_) => return Err(wrong("only http:// and https:// are supported")),
            None => (false, url),
        };
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(wrong("a user name does not belong there; send a header"));
        }
        let (host, port) = split_port(authority, if tls { 443 } else { 80 })
            .ok_or_else(|| wrong("its port is not a number from 1 to 65535"))?;
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_owned(), port, path, authority: authority.to_owned() })
    }

    /// The addresses that the host has now; at least one.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        let failed = |source| Error::Resolve { host: format!("{}:{}", self.host, self.port), source };
        let found: Vec<_> = (self.host.as_str(), self.port).to_socket_addrs().map_err(failed)?.collect();
        if found.is_empty() { Err(failed(std::io::ErrorKind::NotFound.into())) } else { Ok(found) }
    }
}

/// Host and port, the usual one if none is given; `None` if the port is none.
fn split_port(authority: &str, usual: u16) -> Option<(&str, u16)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0);
    if let Some(inside) = authority.strip_prefix('[') {
        let (host, after) = inside.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(text) => Some((host, port(text)?)),
            None => after.is_empty().then_some((host, usual)),
        };
    }
    match authority.split_once(':') {
        Some((host, text)) => Some((host, port(text)?)),
        None => Some((authority, usual)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_work() {
        for (url, host, port, path, authority) in [
            ("https://shop/x", "shop", 443, "/x", "shop"),
            ("HTTPS://[::1]:8443", "::1", 8443, "/", "[::1]:8443"),
            ("http://127.0.0.1:3000/", "127.0.0.1", 3000, "/", "127.0.0.1:3000"),
            ("127.0.0.1:3000", "127.0.0.1", 3000, "/", "127.0.0.1:3000"),
            ("HTTP://shop", "shop", 80, "/", "shop"),
            ("http://shop?q=1", "shop", 80, "/?q=1", "shop"),
            ("http://shop/a/b?q=1://2#part", "shop", 80, "/a/b?q=1://2", "shop"),
            ("http://[::1]:8080/x", "::1", 8080, "/x", "[::1]:8080"),
            ("http://[::1]", "::1", 80, "/", "[::1]"),
        ] {
            let tls = url.to_ascii_lowercase().starts_with("https");
            let wanted =
                Target { tls, host: host.into(), port, path: path.into(), authority: authority.into() };
            assert_eq!(Target::parse(url).unwrap(), wanted, "{url}");
        }
    }

    #[test]
    fn urls_that_do_not() {
        for (url, why) in [
            ("", "no host"),
            ("http://", "no host"),
            ("http://:80/", "no host"),
            ("ftp://shop", "only http:// and https://"),
            ("https://shop:0", "port"),
            ("http://shop:0", "port"),
            ("http://shop:65536", "port"),
            ("http://shop:x", "port"),
            ("http://::1/", "port"),
            ("http://[::1/", "port"),
            ("http://[::1]80/", "port"),
            ("http://me@shop/", "user name"),
            ("http://shop/a b", "escaped"),
            ("http://shop/\r\nX: y", "escaped"),
            ("http://shöp/", "escaped"),
        ] {
            let message = Target::parse(url).unwrap_err().to_string();
            assert!(message.contains(why), "{url}: {message}");
        }
    }

    #[test]
    fn an_address_needs_no_resolver() {
        let target = Target::parse("http://[::1]:81/").unwrap();
        assert_eq!(target.addresses().unwrap(), ["[::1]:81".parse().unwrap()]);
    }
}
