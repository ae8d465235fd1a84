//! Socket addresses as they come out of another process's memory, and which of them are in each other's way.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The longest address that is of interest: `struct sockaddr_un`.
pub const LONGEST: usize = 110;

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Reads a `sockaddr_in` or `sockaddr_in6`. `None` for anything else and for one that is too short, which are the
/// kernel's to judge.
pub fn parse(raw: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(array(raw, 0)?);
    let port = u16::from_be_bytes(array(raw, 2)?);
    match family {
        // The last eight bytes mean nothing, but the kernel insists on them.
        AF_INET if raw.len() >= 16 => {
            Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(array::<4>(raw, 4)?), port)))
        }
        AF_INET6 => {
            let (flow, ip) = (u32::from_ne_bytes(array(raw, 4)?), Ipv6Addr::from(array::<16>(raw, 8)?));
            // Older programs leave the scope out.
            let scope = array(raw, 24).map_or(0, u32::from_ne_bytes);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
        }
        _ => None,
    }
}

/// The name in a `sockaddr_un`, with `@` before an abstract one, as `ss` shows it; without control characters, for the log.
/// `None` for anything else, and where the kernel is to choose the name.
pub fn unix_name(raw: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes(array(raw, 0)?);
    let (first, rest) = raw.get(2..)?.split_first().filter(|_| family == AF_UNIX)?;
    let (mark, name) = if *first == 0 { ("@", rest) } else { ("", raw.get(2..)?) };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(format!("{mark}{}", String::from_utf8_lossy(name).escape_debug()))
}

fn array<const N: usize>(raw: &[u8], at: usize) -> Option<[u8; N]> {
    raw.get(at..at + N)?.try_into().ok()
}

/// What a socket is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Where.
    pub address: SocketAddr,
    /// An IPv6 socket that takes no IPv4 connections.
    pub v6_only: bool,
}

impl Binding {
    /// Would the kernel refuse to let both listen, were they ordinary sockets?
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.address.port() == other.address.port()
            && ((self.takes_v4() && other.takes_v4() && self.overlaps_v4(other))
                || (self.address.is_ipv6() && other.address.is_ipv6() && self.overlaps_v6(other)))
    }

    fn takes_v4(&self) -> bool {
        match self.address {
            SocketAddr::V4(_) => true,
            SocketAddr::V6(v6) => {
                !self.v6_only && (v6.ip().is_unspecified() || v6.ip().to_ipv4_mapped().is_some())
            }
        }
    }

    /// The IPv4 address it takes connections on; `None`: all.
    fn v4(&self) -> Option<Ipv4Addr> {
        let ip = match self.address {
            SocketAddr::V4(v4) => Some(*v4.ip()),
            SocketAddr::V6(v6) => v6.ip().to_ipv4_mapped(),
        };
        ip.filter(|ip| !ip.is_unspecified())
    }

    fn overlaps_v4(&self, other: &Self) -> bool {
        matches!((self.v4(), other.v4()), (None, _) | (_, None)) || self.v4() == other.v4()
    }

    fn overlaps_v6(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.address.ip(), other.address.ip());
        mine.is_unspecified() || theirs.is_unspecified() || mine == theirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(family: u16, port: u16, rest: &[u8]) -> Vec<u8> {
        [&family.to_ne_bytes()[..], &port.to_be_bytes()[..], rest].concat()
    }

    #[test]
    fn addresses_of_memory() {
        let four = raw(2, 3000, &[127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(parse(&four).map(|a| a.to_string()).as_deref(), Some("127.0.0.1:3000"));
        let mut six = raw(10, 80, &[0; 24]);
        assert_eq!(parse(&six).map(|a| a.to_string()).as_deref(), Some("[::]:80"));
        six.truncate(24);
        assert_eq!(parse(&six).map(|a| a.to_string()).as_deref(), Some("[::]:80"));
        for nonsense in [&[][..], &[2], &four[..15], &six[..23], &raw(1, 0x2f74, b"mp/socket"), &[0xff; 28]] {
            assert_eq!(parse(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn names_of_unix_sockets() {
        let name = |bytes: &[u8]| unix_name(&[&1_u16.to_ne_bytes(), bytes].concat());
        assert_eq!(name(b"/tmp/app.sock\0\0\0").as_deref(), Some("/tmp/app.sock"));
        assert_eq!(
            name(b"/tmp/app.sock").as_deref(),
            Some("/tmp/app.sock"),
            "whose end only its length tells"
        );
        assert_eq!(name(b"\0abstract").as_deref(), Some("@abstract"));
        assert_eq!(name(b"/tmp/a\nb").as_deref(), Some("/tmp/a\\nb"), "stays one line in the log");
        assert_eq!(name(b""), None);
        assert_eq!(unix_name(&raw(2, 3000, &[127; 12])), None);
        assert_eq!(unix_name(&[1]), None);
    }

    #[test]
    fn conflicts() {
        let binding = |text: &str| match text.strip_suffix(" only") {
            Some(address) => Binding { address: address.parse().unwrap(), v6_only: true },
            None => Binding { address: text.parse().unwrap(), v6_only: false },
        };
        for (a, b, conflict) in [
            ("0.0.0.0:80", "0.0.0.0:80", true),
            ("0.0.0.0:80", "0.0.0.0:81", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("10.0.0.1:80", "127.0.0.1:80", false),
            ("[::]:80", "0.0.0.0:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80 only", "0.0.0.0:80", false),
            ("[::]:80 only", "[::]:80", true),
            ("[::1]:80", "[::]:80", true),
            ("[::1]:80", "127.0.0.1:80", false),
            ("[::1]:80", "0.0.0.0:80", false),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
            ("[::ffff:127.0.0.1]:80", "10.0.0.1:80", false),
        ] {
            assert_eq!(binding(a).conflicts_with(&binding(b)), conflict, "{a} and {b}");
            assert_eq!(binding(b).conflicts_with(&binding(a)), conflict, "{b} and {a}");
        }
    }

    #[test]
    fn every_address_is_read_as_it_was_written() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..5_000 {
            let (port, scope) = (random.u16(..), random.u32(..));
            let four = SocketAddrV4::new(Ipv4Addr::from(random.u32(..)), port);
            let bytes = raw(2, port, &[&four.ip().octets()[..], &[0; 8]].concat());
            assert_eq!(parse(&bytes), Some(SocketAddr::V4(four)));
            assert!((0..16).all(|length| parse(&bytes[..length]).is_none()));

            let six = SocketAddrV6::new(Ipv6Addr::from(random.u128(..)), port, random.u32(..), scope);
            let flow = six.flowinfo().to_ne_bytes();
            let bytes = raw(10, port, &[&flow[..], &six.ip().octets(), &scope.to_ne_bytes()].concat());
            assert_eq!(parse(&bytes), Some(SocketAddr::V6(six)));
            assert!((0..24).all(|length| parse(&bytes[..length]).is_none()));

            // Whatever two bindings are, both see the conflict or neither.
            let one = Binding { address: SocketAddr::V4(four), v6_only: false };
            let other = Binding { address: SocketAddr::V6(six), v6_only: random.bool() };
            assert_eq!(one.conflicts_with(&other), other.conflicts_with(&one));
            assert!(one.conflicts_with(&one) && other.conflicts_with(&other));
        }
    }

    #[test]
    fn bytes_that_are_no_address() {
        let samples = [raw(2, 3000, &[127; 12]), raw(10, 80, &[0; 24]), raw(1, 0x2f74, b"mp/socket")];
        crate::testing::with_damaged(&[&samples[0], &samples[1], &samples[2]], |bytes| {
            let family = bytes.get(..2).map(|family| [family[0], family[1]]);
            let known = [AF_INET, AF_INET6].map(|family| Some(family.to_ne_bytes()));
            assert!(parse(bytes).is_none() || known.contains(&family));
        });
    }
}
