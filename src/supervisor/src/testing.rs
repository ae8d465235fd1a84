//! Text that was damaged on its way, the same in every run.

use fastrand::Rng;

/// Calls `check` with variations of the samples: cut, repeated, mixed with each other, and with bytes changed.
pub(crate) fn with_damaged(samples: &[&[u8]], mut check: impl FnMut(&[u8])) {
    let mut random = Rng::with_seed(26);
    for _ in 0..20_000 {
        let mut text = random.choice(samples).copied().unwrap_or_default().to_vec();
        for _ in 0..random.usize(1..6) {
            damage(&mut text, samples, &mut random);
        }
        check(&text);
    }
}

fn damage(text: &mut Vec<u8>, samples: &[&[u8]], random: &mut Rng) {
    /// What parsers trip over.
    const SPECIAL: &[&[u8]] = &[
        b"\0",
        b"\n",
        b"\r\n",
        b" ",
        b":",
        b"/",
        b"-1",
        b"18446744073709551616",
        b"max",
        b")",
        b"\xff\xfe",
        b"NaN",
    ];
    let at = random.usize(0..=text.len());
    match random.u8(0..7) {
        0 => text.truncate(at),
        1 => drop(text.drain(..at)),
        2 if at < text.len() => text[at] = random.u8(..),
        3 if at < text.len() => text[at] ^= 1 << random.u8(0..8),
        4 => {
            let part = text[..at].to_vec();
            text.extend(part);
        }
        5 => {
            let other = random.choice(samples).copied().unwrap_or_default();
            text.truncate(at);
            text.extend(&other[random.usize(0..=other.len())..]);
        }
        _ => drop(text.splice(at..at, random.choice(SPECIAL).copied().unwrap_or_default().iter().copied())),
    }
    text.truncate(64 * 1024);
}

/// The same as text; what is no UTF-8 is replaced, as where it is read.
pub(crate) fn with_damaged_text(samples: &[&str], mut check: impl FnMut(&str)) {
    let samples: Vec<&[u8]> = samples.iter().map(|sample| sample.as_bytes()).collect();
    with_damaged(&samples, |bytes| check(&String::from_utf8_lossy(bytes)));
}
