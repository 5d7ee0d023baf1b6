//! Arguments that several commands take.

use anyhow::Context;
use noise_kernel::Backend;
pub use reproduce::measure::cores;

/// What to run on.
#[derive(clap::Args, Clone, Debug)]
pub struct Compute {
    /// Threads; one a core unless given
    #[arg(long, value_parser = positive)]
    pub threads: Option<usize>,
    /// Instruction set
    #[arg(long, default_value = "auto")]
    pub backend: Backend,
}

impl Compute {
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(cores)
    }

    /// Error: an instruction set this processor does not have.
    pub fn backend(&self) -> anyhow::Result<Backend> {
        self.backend.resolve().context("--backend")?;
        Ok(self.backend)
    }

    /// Runs `work` with this number of threads.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
        with_threads(self.threads(), work)
    }
}

pub fn with_threads<T: Send>(
    threads: usize,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.with_context(|| format!("start {threads} threads"))?.install(work)
}

pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("allowed: a whole number from 1 on".into()),
    }
}

/// A positive number of coordinates; 1e6 is read as a million.
pub fn coordinates(text: &str) -> Result<u64, String> {
    let allowed = "allowed: a whole number from 1 to 1e12, such as 100000 or 1e5";
    let number: f64 = text.parse().map_err(|_| allowed)?;
    let whole = number.fract() == 0.0 && (1.0..=1e12).contains(&number);
    if whole { Ok(number as u64) } else { Err(allowed.into()) }
}

/// A time above 0.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && number <= 3600.0 => Ok(number),
        _ => Err("allowed: seconds, above 0 and up to 3600".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_measure_nothing_are_refused() {
        assert_eq!(positive("2"), Ok(2));
        assert!(["0", "-1", "two", "1.5"].iter().all(|text| positive(text).is_err()));
        assert_eq!(coordinates("1e6"), Ok(1_000_000));
        assert!(["0", "1.5", "1e13", "nan", "-4"].iter().all(|text| coordinates(text).is_err()));
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(["0", "nan", "inf", "-1"].iter().all(|text| seconds(text).is_err()));
    }

    #[test]
    fn a_missing_instruction_set_is_refused_by_name() {
        let compute = Compute { threads: Some(1), backend: Backend::Avx512 };
        match compute.backend() {
            Ok(backend) => assert!(Backend::available().contains(&backend)),
            Err(error) => assert!(format!("{error:#}").contains("avx512 is not available"), "{error:#}"),
        }
    }
}
