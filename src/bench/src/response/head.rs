//! The head of an answer: status line and headers.

use super::{MAX_HEADERS, Malformed};
use std::mem::MaybeUninit;

/// What says where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// Bytes, with the empty line.
    pub(super) length: usize,
    pub(super) status: u16,
    pub(super) keep_alive: bool,
    pub(super) framing: Framing,
    /// The value of the worker header, or nothing.
    pub(super) worker: &'a [u8],
}

/// `None`: there is more to come.
pub(super) fn parse<'a>(bytes: &'a [u8], worker_header: Option<&str>) -> Result<Option<Head<'a>>, Malformed> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut headers,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(from_httparse(error)),
    };
    let mut content_length = None;
    let mut transfer_encoding: Option<&[u8]> = None;
    let mut keep_alive = response.version == Some(1);
    let mut worker: &[u8] = &[];
    for header in response.headers.iter() {
        let name = header.name;
        // Of most headers only the length of the name is looked at.
        match name.len() {
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in header.value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"close") {
                        keep_alive = false;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") && response.version == Some(0) {
                        keep_alive = true;
                    }
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                // A repeated value is one value, RFC 9112 § 6.3.
                for value in header.value.split(|b| *b == b',') {
                    let value = number(value.trim_ascii())?;
                    if content_length.replace(value).is_some_and(|before| before != value) {
                        return Err(Malformed::ContentLength);
                    }
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => transfer_encoding = Some(header.value),
            _ => {}
        }
        if worker_header.is_some_and(|wanted| name.eq_ignore_ascii_case(wanted)) {
            worker = header.value;
        }
    }
    let framing = match (transfer_encoding, content_length) {
        (Some(codings), length) => {
            // With both, somebody on the way may see another end than we do: the connection isn't used again.
            keep_alive &= length.is_none();
            let last = codings.rsplit(|b| *b == b',').next().unwrap_or_default();
            if last.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                Framing::Chunked
            } else {
                Framing::UntilClose
            }
        }
        (None, Some(length)) => Framing::Length(length),
        (None, None) => Framing::UntilClose,
    };
    let status = response.code.unwrap_or_default();
    if status < 100 {
        return Err(Malformed::Head("its status is below 100"));
    }
    Ok(Some(Head { length, status, keep_alive, framing, worker }))
}

fn from_httparse(error: httparse::Error) -> Malformed {
    Malformed::Head(match error {
        httparse::Error::TooManyHeaders => return Malformed::TooManyHeaders,
        httparse::Error::Version => "it doesn't begin with HTTP/1.0 or HTTP/1.1",
        httparse::Error::Status => "its status isn't a number of three digits",
        httparse::Error::HeaderName => "a header's name isn't one",
        httparse::Error::HeaderValue => "a header's value has a control character",
        httparse::Error::NewLine => "a line doesn't end as lines do",
        httparse::Error::Token => "its status line has a control character",
    })
}

/// Digits and nothing else: no sign, no space.
fn number(text: &[u8]) -> Result<u64, Malformed> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(Malformed::ContentLength)
}
