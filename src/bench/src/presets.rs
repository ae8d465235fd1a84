//! Settings that many published figures come from, as rows of one table.

use crate::error::Error;
use std::time::Duration;

/// Settings with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// What it is, for a help text.
    pub about: &'static str,
    /// Load before each measurement.
    pub warm_up: Duration,
    /// Each measurement.
    pub duration: Duration,
    /// The rows of the ladder: connections of all threads together.
    pub connections: &'static [usize],
}

/// All of them.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "watt",
        about: "10 s of warm-up, then 40 s with 100 connections",
        warm_up: Duration::from_secs(10),
        duration: Duration::from_secs(40),
        connections: &[100],
    },
    Preset {
        name: "wrk-ladder",
        about: "60 s each with 50, 500 and 1,000 connections",
        warm_up: Duration::from_secs(10),
        duration: Duration::from_mins(1),
        connections: &[50, 500, 1000],
    },
    Preset {
        name: "cloudgate",
        about: "30 s each with 256, 16 and 1,024 connections",
        warm_up: Duration::from_secs(10),
        duration: Duration::from_secs(30),
        connections: &[256, 16, 1024],
    },
];

/// The preset of this name.
pub fn preset(name: &str) -> Result<&'static Preset, Error> {
    let known = PRESETS.iter().find(|preset| preset.name == name);
    known.ok_or_else(|| Error::Value {
        field: "preset",
        value: name.to_owned(),
        allowed: "there are watt, wrk-ladder and cloudgate",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_and_named_in_the_error() {
        let message = preset("x").unwrap_err().to_string();
        for known in PRESETS {
            assert_eq!(preset(known.name).unwrap(), known);
            assert!(message.contains(known.name), "{message}");
            assert!(!known.connections.is_empty() && !known.duration.is_zero());
        }
    }
}
