//! What measurements and reproductions record: the machine, and the spread of repeated timings.

use std::fs;
use std::process::Command;

use chrono::Utc;
use clap::ValueEnum;
use noise_kernel::Backend;
use serde::Serialize;

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Table,
    /// All numbers, whole.
    Json,
}

/// What was measured on, when, and with what.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The model name where Linux has one, else the architecture.
    pub processor: String,
    /// The widest instruction set of the processor that the kernel knows.
    pub instruction_set: String,
    /// Processors this process may run on.
    pub cores: usize,
    /// Threads of the measurement.
    pub threads: usize,
    /// UTC, year-month-day.
    pub date: String,
    /// The commit, with "-dirty" where files differ from it; `None` outside a checkout.
    pub revision: Option<String>,
    /// The command that measures this again.
    pub command: String,
}

impl Machine {
    /// Describes this machine, for a measurement with this number of threads.
    pub fn current(threads: usize) -> Self {
        let instruction_set =
            format!("{:?}", Backend::available().last().copied().unwrap_or(Backend::Portable));
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        Self {
            processor: processor(),
            instruction_set: instruction_set.to_lowercase(),
            cores: cores(),
            threads,
            date: Utc::now().format("%Y-%m-%d").to_string(),
            revision: revision(),
            command: format!("cargo run --release -p {} -- {}", package(), arguments.join(" ")),
        }
    }

    /// Returns the name of the folder of this machine's records: "amd-epyc-7763-avx2".
    pub fn slug(&self) -> String {
        slug(&format!("{} {}", self.processor, self.instruction_set))
    }
}

/// Returns the number of processors this process may run on.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The package of the running program, which has its name.
fn package() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| env!("CARGO_PKG_NAME").into())
}

fn processor() -> String {
    let read = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = read.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field.trim() == "model name").then(|| value.trim().to_owned())
    });
    // Arm processors have no name there.
    named.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Reads only: git must not refresh its index on the way.
fn revision() -> Option<String> {
    let arguments = ["--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Letters and digits, everything else as one dash.
fn slug(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

/// Median, least and greatest of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value; of an even number, halfway between the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many there were.
    pub repeats: usize,
}

impl Spread {
    /// Returns the spread of these values; `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let min = *sorted.first()?;
        let max = *sorted.last()?;
        let half = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 };
        Some(Self { median, min, max, repeats: sorted.len() })
    }

    /// Formats the spread in units of `unit`: "12.3 (11.0 to 13.5)".
    pub fn shown(&self, unit: f64) -> String {
        let digits = if self.median / unit < 10.0 { 2 } else { 1 };
        let number = |value: f64| format!("{:.digits$}", value / unit);
        format!("{} ({} to {})", number(self.median), number(self.min), number(self.max))
    }

    /// Returns the value for a chart, in units of `unit`.
    pub fn drawn(&self, unit: f64) -> plot::Value {
        plot::Value { middle: self.median / unit, spread: Some((self.min / unit, self.max / unit)) }
    }
}

/// Returns `above[i] / below[i]`, pair by pair.
pub fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_plain_names() {
        assert_eq!(slug("Intel(R) Xeon(R) CPU @ 2.20GHz avx2"), "intel-r-xeon-r-cpu-2-20ghz-avx2");
    }

    #[test]
    fn the_date_is_a_date() {
        let date = Machine::current(1).date;
        assert!(date.len() == 10 && date.split('-').count() == 3, "{date}");
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        let odd = Spread::of(&[3.0, 1.0, 9.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max, odd.repeats), (3.0, 1.0, 9.0, 3));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 9.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        // The ratio of medians would be 1.
        assert_eq!(ratios(&[1.0, 2.0, 3.0], &[2.0, 1.0, 6.0]), [0.5, 2.0, 0.5]);
    }
}
