//! A seeded random generator (SplitMix64) for the test crates: one seed gives the same faults and inputs every time.
//! Its own tests run with `cargo nextest run -p dice`.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self::named(seed, "")
    }

    /// Returns dice that are independent of those with the same seed and another name.
    pub fn named(seed: u64, name: &str) -> Self {
        let named = name.bytes().fold(seed ^ 0x5157_4c45, |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut dice = Self(named);
        dice.roll();
        dice
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// Returns a number from `from` to `to`, both included.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.within(from, to))
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded seeds depend on these values: SplitMix64 from seed ^ 0x5157_4c45, without its first word.
    #[test]
    fn a_seed_gives_the_same_rolls_in_every_version() {
        let mut dice = Dice::new(7);
        let rolls = [dice.roll(), dice.roll()];
        assert_eq!(rolls, [0x71d0_31a6_3f9f_d645, 0x2609_d498_7114_5d42]);
        assert_ne!(Dice::new(7).roll(), Dice::named(7, "disk").roll());
    }

    #[test]
    fn values_are_within_both_ends() {
        let mut dice = Dice::new(0);
        let values: Vec<u64> = (0..1000).map(|_| dice.within(3, 6)).collect();
        for each in 3..=6 {
            assert!(values.contains(&each), "{each} was never drawn");
        }
        assert!(values.iter().all(|value| (3..=6).contains(value)));
    }
}
