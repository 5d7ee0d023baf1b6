//! What was measured on, when, and with what.

use std::fs;
use std::process::Command;

use chrono::Utc;
use noise_kernel::Backend;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub processor: String,
    /// The widest instruction set of the processor that the kernel knows.
    pub instruction_set: String,
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
    pub fn this(threads: usize) -> Self {
        let instruction_set =
            format!("{:?}", Backend::available().last().copied().unwrap_or(Backend::Portable));
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        Self {
            processor: processor(),
            instruction_set: instruction_set.to_lowercase(),
            cores: crate::arguments::cores(),
            threads,
            date: Utc::now().format("%Y-%m-%d").to_string(),
            revision: revision(),
            command: format!("cargo run --release -p bench -- {}", arguments.join(" ")),
        }
    }

    /// The folder of this machine's records: "amd-epyc-7763-avx2".
    pub fn slug(&self) -> String {
        slug(&format!("{} {}", self.processor, self.instruction_set))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_plain_names() {
        assert_eq!(slug("Intel(R) Xeon(R) CPU @ 2.20GHz avx2"), "intel-r-xeon-r-cpu-2-20ghz-avx2");
    }

    #[test]
    fn the_date_is_a_date() {
        let date = Machine::this(1).date;
        assert!(date.len() == 10 && date.split('-').count() == 3, "{date}");
    }
}
