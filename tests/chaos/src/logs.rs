//! What a process has said since a moment: that a fault was met is read there, and not taken from its having been done.

use std::{fs, path::PathBuf};

use anyhow::Context;

use crate::cluster::Cluster;

pub struct Log {
    path: PathBuf,
    from: usize,
}

impl Log {
    /// Returns a reader of the lines that the process `role` writes from now on.
    pub fn of(cluster: &Cluster, role: &str) -> anyhow::Result<Self> {
        let path = cluster.processes.dir().join(format!("{role}.log"));
        let from = fs::metadata(&path).with_context(|| path.display().to_string())?.len() as usize;
        Ok(Self { path, from })
    }

    /// Whole lines.
    pub fn text(&self) -> anyhow::Result<String> {
        let bytes = fs::read(&self.path).with_context(|| self.path.display().to_string())?;
        let new = bytes.get(self.from..).unwrap_or_default();
        let whole = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        Ok(String::from_utf8_lossy(&new[..whole]).into_owned())
    }

    /// Returns the time of each line that has one, in seconds since 1970 by the wall clock of the process.
    pub fn times(&self) -> anyhow::Result<Vec<i64>> {
        Ok(self.text()?.lines().filter_map(time_of).collect())
    }
}

/// Parses the time in UTC at the start of a line, such as 2026-11-23T10:00:00.123456Z.
fn time_of(line: &str) -> Option<i64> {
    let (date, rest) = line.split_once(' ')?.0.split_once('T')?;
    let numbers = |text: &str, by| text.split(by).map(|part| part.parse().ok()).collect::<Option<Vec<i64>>>();
    let ([year, month, day], [hour, minute, second]) =
        (&numbers(date, '-')?[..], &numbers(rest.split('.').next()?, ':')?[..])
    else {
        return None;
    };
    // Days since 1 March of the year 0: a leap day comes last in such a year.
    let (year, month) = if *month > 2 { (*year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    /// The same of 1 January 1970.
    const EPOCH: i64 = 719_468;
    Some((days - EPOCH) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lines_time_is_read() {
        // By `date --utc --date=… +%s`.
        for (text, seconds) in [
            ("1970-01-01T00:00:00.000000Z  INFO x", 0),
            ("2024-02-29T23:59:59.999999Z  INFO x", 1_709_251_199),
            ("2026-11-24T19:59:31.5Z  WARN x: y", 1_795_550_371),
        ] {
            assert_eq!(time_of(text), Some(seconds), "{text}");
        }
        for text in ["", "no time", "2026-11-24 19:59:31 x", "thread 'main' panicked at src/main.rs:1:2:"] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }
}
