//! Random numbers from a seed (SplitMix64). The same seed gives the same numbers everywhere.

use std::time::Duration;

/// Random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Everything follows from the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Numbers of their own, which do not depend on how many others are drawn after this.
    pub(crate) fn fork(&mut self) -> Self {
        Random(self.number())
    }

    /// Any number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let value = self.0;
        let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// A number below `end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.number() % end }
    }

    /// A number from `first` to `last`.
    pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// True once in `of` times.
    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// A time in microseconds from a wide range: mostly short, now and then long.
    pub(crate) fn delay(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let (shortest, longest) = (shortest.as_micros() as u64, longest.as_micros() as u64);
        let span = longest.saturating_sub(shortest);
        let octave = self.below(8);
        Duration::from_micros(shortest + self.below((span >> octave) + 1))
    }

    /// One of these.
    pub(crate) fn pick<'t, T>(&mut self, of: &'t [T]) -> Option<&'t T> {
        of.get(self.below(of.len() as u64) as usize)
    }
}
