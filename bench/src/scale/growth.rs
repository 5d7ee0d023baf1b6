//! The time of a row as rows n, coordinates d and bands p grow.

use serde::Serialize;

use super::Settings;
use crate::cases::Case;
use crate::comparison::spread;
use crate::job::Job;
use crate::memory;
use reproduce::measure::Spread;

/// Rows at the end of a run that are measured: where most lies behind them.
const WINDOW: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grows {
    /// n.
    Rows,
    /// d.
    Coordinates,
    /// p.
    Bands,
}

#[derive(Debug, Serialize)]
pub struct Grown {
    pub grows: Grows,
    /// The mechanism, without the number that grows.
    pub family: String,
    pub case: String,
    /// What it has grown to.
    pub value: u64,
    pub iterations: u64,
    pub coordinates: u64,
    pub seconds_per_row: Spread,
}

pub fn measure(settings: &Settings) -> anyhow::Result<Vec<Grown>> {
    let mut found = Vec::new();
    for (grows, family, value, case, coordinates) in cases(settings.quick)? {
        if let Some(why) = memory::lacking(&case, coordinates, settings.rows)? {
            eprintln!("{} of {coordinates} coordinates left out: {why}", case.name);
            continue;
        }
        eprintln!("{} of {coordinates} coordinates, n = {}", case.name, case.iterations);
        let seconds_per_row = row(&case, coordinates, settings)?;
        let family = family.to_owned();
        let iterations = case.iterations;
        found.push(Grown { grows, family, case: case.name, value, iterations, coordinates, seconds_per_row });
    }
    Ok(found)
}

type Planned = (Grows, &'static str, u64, Case, u64);

/// Everything to measure: what grows, of which family, to what, as which case, on how many coordinates.
fn cases(quick: bool) -> anyhow::Result<Vec<Planned>> {
    let named = |name: &str| name.parse::<Case>().map_err(anyhow::Error::msg);
    let (d, small) = if quick { (10_000, 10_000) } else { (1_000_000, 100_000) };
    let mut all = Vec::new();
    for name in ["blt-4", "band-toeplitz-32", "tree"] {
        for n in powers(10, 1_000, if quick { 10_000 } else { 1_000_000 }) {
            all.push((Grows::Rows, name, n, named(name)?.with_iterations(n), d));
        }
    }
    for n in powers(2, 16, if quick { 32 } else { 512 }) {
        all.push((Grows::Rows, "dense", n, named(&format!("dense-{n}"))?, small));
    }
    for name in ["identity", "blt-4", "band-toeplitz-8"] {
        for d in powers(10, 10_000, if quick { 100_000 } else { 100_000_000 }) {
            all.push((Grows::Coordinates, name, d, named(name)?, d));
        }
    }
    for family in ["band-toeplitz", "band-inverse"] {
        for p in powers(2, 2, if quick { 8 } else { 512 }) {
            all.push((Grows::Bands, family, p, named(&format!("{family}-{p}"))?, small));
        }
    }
    Ok(all)
}

/// `first`, `first`·`base`, … up to `last`.
fn powers(base: u64, first: u64, last: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(first), move |value| value.checked_mul(base))
        .take_while(move |&value| value <= last)
}

fn row(case: &Case, coordinates: u64, settings: &Settings) -> anyhow::Result<Spread> {
    let window = if case.is_dense() { case.iterations } else { case.iterations.min(WINDOW) };
    let rows = settings.rows.min(window as usize);
    let mut job = Job::starting_at(case, case.iterations - window, 0..coordinates, rows, settings.backend)?;
    let mut seconds = Vec::new();
    for _ in 0..settings.repeats {
        seconds.push(coordinates as f64 / job.rate(settings.time / 4)?);
    }
    spread(&seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_what_is_measured() {
        for (grows, _, value, case, coordinates) in cases(false).unwrap() {
            match grows {
                Grows::Rows => assert_eq!(value, case.iterations),
                Grows::Coordinates => assert_eq!(value, coordinates),
                Grows::Bands => assert!(case.name.ends_with(&format!("-{value}")), "{}", case.name),
            }
            case.plan().unwrap_or_else(|error| panic!("{}, n = {}: {error}", case.name, case.iterations));
        }
    }
}
