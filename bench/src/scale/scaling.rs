//! The same work by more and more threads or workers: strong scaling shares it out, weak scaling adds to it.

use serde::Serialize;

use super::Settings;
use crate::arguments::with_threads;
use crate::job::Job;
use reproduce::measure::{Spread, ratios};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// All coordinates, shared out.
    Strong,
    /// As many coordinates for each.
    Weak,
}

/// `count` threads or workers together.
#[derive(Debug, Serialize)]
pub struct Scaled {
    pub kind: Kind,
    pub count: usize,
    pub coordinates: u64,
    pub coordinates_per_second: Spread,
    /// Of `count` times the rate of one, repeat by repeat.
    pub efficiency: Spread,
}

/// Coordinates a second of `count` threads or workers on `coordinates` coordinates.
type Rate = fn(settings: &Settings, count: usize, coordinates: u64) -> anyhow::Result<f64>;

/// Every count in turn, and that again for each repeat, so that a slow minute slows all of them.
pub fn measure(settings: &Settings, rate: Rate) -> anyhow::Result<Vec<Scaled>> {
    let mut found = Vec::new();
    for kind in [Kind::Strong, Kind::Weak] {
        let counts = counts(settings.most);
        let mut rates = vec![Vec::new(); counts.len()];
        for repeat in 0..settings.repeats {
            eprintln!("{kind:?} scaling to {}, {} of {}", settings.most, repeat + 1, settings.repeats);
            for (&count, rates) in counts.iter().zip(&mut rates) {
                rates.push(rate(settings, count, coordinates(settings, kind, count))?);
            }
        }
        for (&count, all) in counts.iter().zip(&rates) {
            let efficiency: Vec<f64> =
                ratios(all, &rates[0]).iter().map(|ratio| ratio / count as f64).collect();
            let (Some(rate), Some(efficiency)) = (Spread::of(all), Spread::of(&efficiency)) else { continue };
            let coordinates = coordinates(settings, kind, count);
            found.push(Scaled { kind, count, coordinates, coordinates_per_second: rate, efficiency });
        }
    }
    Ok(found)
}

/// Threads of this process.
pub fn threads(settings: &Settings, count: usize, coordinates: u64) -> anyhow::Result<f64> {
    with_threads(count, || {
        Job::new(&settings.case, 0..coordinates, settings.rows, settings.backend)?.rate(settings.time)
    })
}

fn coordinates(settings: &Settings, kind: Kind, count: usize) -> u64 {
    match kind {
        Kind::Strong => settings.size,
        Kind::Weak => settings.size / settings.most as u64 * count as u64,
    }
}

/// 1 to 8, then powers of two, then all of them.
fn counts(most: usize) -> Vec<usize> {
    let powers = (4..usize::BITS).map(|power| 1 << power);
    let mut counts: Vec<usize> = (1..=8).chain(powers).take_while(|&count| count < most).collect();
    counts.push(most);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_with_all() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(40), [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 40]);
        assert_eq!(counts(16), [1, 2, 3, 4, 5, 6, 7, 8, 16]);
    }
}
