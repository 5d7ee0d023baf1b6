//! The memory that this process holds, and may hold.

/// Returns the resident set size in bytes, on Linux; `None` elsewhere.
pub fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    parse_resident_pages(&statm)?.checked_mul(rustix::param::page_size() as u64)
}

/// Returns the resident pages of a `statm` text, which is "size resident shared text lib data dt", all in pages.
fn parse_resident_pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns the most bytes that this process may use: the system's memory, or the limit of its control group (version 2) where
/// that is lower. `None` where the system doesn't report them.
pub fn usable_bytes() -> Option<u64> {
    let system = parse_total(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(group_limits().fold(system, u64::min))
}

/// Returns the limits of the process's own control group and of those around it.
fn group_limits() -> impl Iterator<Item = u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_owned();
    let folders: Vec<_> =
        std::path::Path::new("/sys/fs/cgroup").join(path).ancestors().map(Into::into).collect();
    folders.into_iter().filter_map(|folder: std::path::PathBuf| {
        std::fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok()
    })
}

/// Returns the total bytes of a `meminfo` text, which states KiB: "MemTotal:       16318480 kB".
fn parse_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_in_kib() {
        assert_eq!(parse_total("MemFree: 1 kB\nMemTotal:       24 kB\n"), Some(24 * 1024));
        assert_eq!(parse_total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_second_field_is_the_resident_one() {
        assert_eq!(parse_resident_pages("9000 421 300 5 0 800 0\n"), Some(421));
        assert_eq!(parse_resident_pages("9000"), None);
        assert_eq!(parse_resident_pages("9000 many"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn touching_memory_raises_it() {
        let before = resident_bytes().unwrap();
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = resident_bytes().unwrap();
        assert!(after >= before + (32 << 20), "{before} -> {after} after touching {} bytes", touched.len());
    }
}
