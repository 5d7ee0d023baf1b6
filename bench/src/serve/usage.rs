//! CPU time of another process, inside its kernel threads and outside, and its memory, as the system counts them.

use std::fs;

use anyhow::Context;
use serde::Serialize;

/// Clock ticks a second on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// CPU seconds since the process started.
pub struct Counted {
    all: f64,
    /// Of the threads that make rows.
    making: f64,
    /// Of the threads that copy to shared memory.
    copying: f64,
}

/// Between two counts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Usage {
    pub rows: u64,
    pub rows_per_second: f64,
    /// CPU seconds of the worker for each row.
    pub cpu_a_row: f64,
    pub making_a_row: f64,
    pub copying_a_row: f64,
    /// Of the worker's CPU time, what the threads that make rows did not use.
    pub share_outside: f64,
}

impl Counted {
    pub fn since(&self, before: &Self, seconds: f64, rows: u64) -> Usage {
        let all = self.all - before.all;
        let making = self.making - before.making;
        let copying = self.copying - before.copying;
        let a_row = |time: f64| time / rows as f64;
        Usage {
            rows,
            rows_per_second: rows as f64 / seconds,
            cpu_a_row: a_row(all),
            making_a_row: a_row(making),
            copying_a_row: a_row(copying),
            share_outside: if all > 0.0 { (all - making) / all } else { 0.0 },
        }
    }
}

/// Threads are recognised by name: `cpu-…` make rows, `copy-…` copy them.
pub fn of(pid: u32) -> anyhow::Result<Counted> {
    let mut counted = Counted { all: 0.0, making: 0.0, copying: 0.0 };
    for task in fs::read_dir(format!("/proc/{pid}/task")).context("the worker's threads")? {
        // A thread may end between being listed and being read.
        let Ok(text) = fs::read_to_string(task?.path().join("stat")) else { continue };
        let (name, seconds) = parse(&text).with_context(|| format!("a thread's counters: {text}"))?;
        counted.all += seconds;
        match name {
            name if name.starts_with("cpu-") => counted.making += seconds,
            name if name.starts_with("copy-") => counted.copying += seconds,
            _ => {}
        }
    }
    Ok(counted)
}

/// Of all threads together, also those that have ended.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process's counters")?;
    let (_, seconds) = parse(&text).with_context(|| format!("a process's counters: {text}"))?;
    Ok(seconds)
}

/// A field of its memory: `VmRSS:` is resident now, `VmHWM:` was at most.
pub fn memory(pid: u32, field: &str) -> anyhow::Result<u64> {
    let text =
        fs::read_to_string(format!("/proc/{pid}/status")).context("a process's memory: has it ended?")?;
    kibibytes(&text, field).with_context(|| format!("no {field} in {text}"))
}

fn kibibytes(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(number << 10)
}

/// `12 (a name) S 1 …`: user and system time are fields 14 and 15.
fn parse(stat: &str) -> Option<(&str, f64)> {
    let (start, rest) = stat.rsplit_once(") ")?;
    let (_, name) = start.split_once('(')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((name, (ticks()? + ticks()?) / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "Name:\tx\nVmHWM:\t   20 kB\nVmRSS:\t    7 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(7 << 10));
        assert_eq!(kibibytes(status, "VmSwap:"), None);
    }

    #[test]
    fn threads_are_read_by_name() {
        let stat = "7 (tokio (x) y) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1";
        assert_eq!(parse(stat), Some(("tokio (x) y", 3.0)));
        assert!(of(std::process::id()).unwrap().all >= 0.0);
    }
}
