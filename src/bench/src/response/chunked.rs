//! Chunked bodies, RFC 9112 § 7.1.

use super::{MAX_HEAD, Malformed};

/// Bytes that a chunk's extension may have.
const MAX_EXTENSION: usize = 4096;
/// A size with more digits doesn't fit 64 bits.
const MAX_DIGITS: u8 = 16;

/// Where in a chunked body we are.
#[derive(Debug)]
pub(super) struct Chunked {
    at: At,
    /// Size of the chunk, then what is missing of it.
    size: u64,
    /// Bytes of the current extension, or of all trailers.
    length: usize,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Size {
        digits: u8,
    },
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataLineFeed,
    /// At the begin of a trailer's line.
    Trailer,
    InTrailer,
    TrailerEnd,
    End,
}

impl Default for Chunked {
    fn default() -> Self {
        Self { at: At::Size { digits: 0 }, size: 0, length: 0 }
    }
}

impl Chunked {
    /// How many bytes belong to the body, and whether it is complete. Data is added to `body`.
    pub(super) fn feed(&mut self, bytes: &[u8], body: &mut u64) -> Result<(usize, bool), Malformed> {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            if matches!(self.at, At::Data) {
                let taken = usize::try_from(self.size).map_or(rest.len(), |size| size.min(rest.len()));
                used += taken;
                let taken = super::as_u64(taken);
                *body = body.saturating_add(taken);
                self.size -= taken;
                if self.size == 0 {
                    self.at = At::DataEnd;
                }
                continue;
            }
            let complete = rest.first().map_or(Ok(false), |byte| self.step(*byte))?;
            used += 1;
            if complete {
                return Ok((used, true));
            }
        }
        Ok((used, false))
    }

    /// One byte of what is around the data.
    fn step(&mut self, byte: u8) -> Result<bool, Malformed> {
        self.at = match (self.at, byte) {
            (At::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == MAX_DIGITS {
                    return Err(Malformed::ChunkSize);
                }
                let digit = char::from(byte).to_digit(16).ok_or(Malformed::ChunkSize)?;
                self.size = (self.size << 4) | u64::from(digit);
                At::Size { digits: digits + 1 }
            }
            (At::Size { digits: 1.. }, b';' | b' ' | b'\t') => {
                self.length = 0;
                At::Extension
            }
            (At::Size { digits: 1.. } | At::Extension, b'\r') => At::SizeEnd,
            (At::Extension, byte) if byte != b'\n' => {
                self.longer(MAX_EXTENSION, Malformed::ChunkSize)?;
                At::Extension
            }
            (At::SizeEnd, b'\n') if self.size == 0 => {
                self.length = 0;
                At::Trailer
            }
            (At::SizeEnd, b'\n') => At::Data,
            (At::DataEnd, b'\r') => At::DataLineFeed,
            (At::DataLineFeed, b'\n') => At::Size { digits: 0 },
            (At::DataEnd | At::DataLineFeed, _) => return Err(Malformed::ChunkEnd),
            (At::Trailer, b'\r') => At::End,
            (At::End, b'\n') => return Ok(true),
            (At::InTrailer, b'\r') => At::TrailerEnd,
            (At::TrailerEnd, b'\n') => At::Trailer,
            (At::Trailer | At::InTrailer, byte) if byte != b'\n' => {
                self.longer(MAX_HEAD, Malformed::TrailersTooLong)?;
                At::InTrailer
            }
            (At::Trailer | At::InTrailer | At::TrailerEnd | At::End, _) => {
                return Err(Malformed::Head("a trailer's line doesn't end as lines do"));
            }
            _ => return Err(Malformed::ChunkSize),
        };
        Ok(false)
    }

    fn longer(&mut self, limit: usize, otherwise: Malformed) -> Result<(), Malformed> {
        self.length += 1;
        if self.length > limit { Err(otherwise) } else { Ok(()) }
    }
}
