//! From values to places on an axis, and where its ticks stand.

use crate::reports::numbers::{grouped, trimmed};

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Linear,
    /// Things that can be counted: no tick stands between two of them.
    Whole,
    Logarithmic,
    /// Percentiles: as much room for 90 to 99 % as for 99 to 99.9 %.
    Nines,
}

/// An axis with its ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
}

/// A tick with its text.
pub(super) type Tick = (f64, String);

impl Scale {
    /// Holds all these values. A linear one begins at 0.
    pub(super) fn holding(kind: Kind, values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        let (low, high) = match kind {
            Kind::Linear => (0.0, ceiling(high.max(1e-3))),
            Kind::Whole => (0.0, ceiling(high.max(1.0))),
            Kind::Logarithmic => {
                let decade = 10_f64.powf(low.max(1e-3).log10().floor());
                let below = [5.0, 2.0].into_iter().find(|factor| factor * decade <= low);
                let low = below.unwrap_or(1.0) * decade;
                (low, high.max(low * 2.0) * 1.1)
            }
            Kind::Nines => (0.0, high.clamp(90.0, 99.9999)),
        };
        Self { kind, low, high }
    }

    /// 0 at the low end, 1 at the high one.
    pub(super) fn place(&self, value: f64) -> f64 {
        let on = |value: f64| match self.kind {
            Kind::Linear | Kind::Whole => value,
            Kind::Logarithmic => value.max(self.low).log10(),
            Kind::Nines => -(1.0 - value.min(self.high) / 100.0).log10(),
        };
        let (low, high) = (on(self.low), on(self.high));
        ((on(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        match self.kind {
            Kind::Linear | Kind::Whole => {
                let least = if self.kind == Kind::Whole { 1.0 } else { 0.0 };
                let step = step(self.high / if self.high > 20.0 { 6.0 } else { 5.0 }).max(least);
                let decimals = if step >= 1.0 { 0 } else { 3 };
                let tick = |number: u32| f64::from(number) * step;
                (0..=50)
                    .map(tick)
                    .take_while(|value| *value <= self.high * 1.0001)
                    .map(|value| (value, grouped(value, decimals)))
                    .collect()
            }
            Kind::Logarithmic => {
                let few = (self.high / self.low).log10() < 2.5;
                let factors: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let mut ticks = Vec::new();
                let low = self.low * 0.9999;
                let mut decade = 10_f64.powf((self.low * 1.0001).log10().floor());
                while decade <= self.high && ticks.len() < 40 {
                    let within = factors
                        .iter()
                        .map(|factor| factor * decade)
                        .filter(|value| (low..=self.high).contains(value));
                    ticks.extend(within.map(|value| (value, grouped(value, 3))));
                    decade *= 10.0;
                }
                ticks
            }
            Kind::Nines => [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 99.999]
                .into_iter()
                .filter(|percent| *percent <= self.high)
                .map(|percent| (percent, trimmed(percent, 3)))
                .collect(),
        }
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn step(rough: f64) -> f64 {
    let decade = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * decade >= rough * 0.9999).unwrap_or(10.0);
    factor * decade
}

/// A round number that is not below.
fn ceiling(value: f64) -> f64 {
    let step = step(value / 5.0);
    (value / step).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(kind: Kind, values: &[f64]) -> Vec<String> {
        Scale::holding(kind, values.iter().copied()).ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(texts(Kind::Linear, &[3479.0]), ["0", "1,000", "2,000", "3,000", "4,000"]);
        assert_eq!(texts(Kind::Linear, &[3.0]), ["0", "1", "2", "3"]);
        assert_eq!(texts(Kind::Linear, &[]).len(), 6);
        assert_eq!(texts(Kind::Whole, &[1.0]), ["0", "1"]);
        assert_eq!(texts(Kind::Whole, &[3.0]), ["0", "1", "2", "3"]);
        assert_eq!(texts(Kind::Logarithmic, &[0.4, 826.0]), ["1", "10", "100"]);
        assert_eq!(texts(Kind::Logarithmic, &[24.0, 59.0]), ["20", "50"]);
        assert_eq!(texts(Kind::Nines, &[99.9]), ["0", "50", "75", "90", "95", "99", "99.5", "99.9"]);
    }

    #[test]
    fn places() {
        let nines = Scale::holding(Kind::Nines, [99.0].into_iter());
        assert!((nines.place(90.0) - 0.5).abs() < 1e-9 && nines.place(99.0) > 0.999);
        let log = Scale::holding(Kind::Logarithmic, [1.0, 100.0].into_iter());
        assert!(log.place(0.0).abs() < 1e-9 && log.place(f64::MAX) <= 1.0);
    }
}
