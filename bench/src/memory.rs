//! How much memory a measurement needs, and how much there is.

use std::fs;

use crate::cases::Case;

/// Bytes that this machine can still give away; all there are where it does not say.
pub fn available() -> u64 {
    let read = fs::read_to_string("/proc/meminfo").ok();
    read.and_then(|text| parse_available(&text)).unwrap_or(u64::MAX)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Bytes of state and output of `coordinates` coordinates.
pub fn needed(case: &Case, coordinates: u64, rows: usize) -> anyhow::Result<u64> {
    Ok(4 * coordinates * (case.plan()?.state_slots() + rows) as u64)
}

/// Why a measurement has to be left out, if it has to: a tenth of the memory is kept for all else.
pub fn lacking(case: &Case, coordinates: u64, rows: usize) -> anyhow::Result<Option<String>> {
    let needed = needed(case, coordinates, rows)?;
    let available = available();
    let lacks = needed > available - available / 10;
    Ok(lacks.then(|| {
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        format!("needs {:.1} GiB of the {:.1} GiB available", gib(needed), gib(available))
    }))
}

/// Bytes of all last-level caches together; 32 MiB where the system does not say.
pub fn last_level_cache() -> u64 {
    let mut caches: Vec<(String, u64)> = cpus().filter_map(|cpu| cache(&cpu)).collect();
    caches.sort();
    caches.dedup();
    let total = caches.iter().map(|(_, bytes)| bytes).sum();
    if total == 0 { 32 << 20 } else { total }
}

fn cpus() -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.join("cache/index3").is_dir())
}

/// The processors that share this one's last level, and its bytes.
fn cache(cpu: &std::path::Path) -> Option<(String, u64)> {
    let read = |name: &str| fs::read_to_string(cpu.join("cache/index3").join(name)).ok();
    let kib: u64 = read("size")?.trim().strip_suffix('K')?.parse().ok()?;
    Some((read("shared_cpu_list")?, kib * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_what_the_system_says() {
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:   24 kB\n"), Some(24 * 1024));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn state_and_rows_both_need_memory() {
        let case: Case = "blt-4".parse().unwrap();
        assert_eq!(needed(&case, 1000, 8).unwrap(), 4 * 1000 * 12);
        assert!(lacking(&case, 1 << 40, 1).unwrap().unwrap().contains("GiB"));
        assert_eq!(lacking(&case, 1, 1).unwrap(), None);
    }
}
