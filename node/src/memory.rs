//! How much memory this process holds.

/// Resident set size in bytes, where the kernel tells it (Linux); `None` elsewhere.
pub fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    parse_resident_pages(&statm)?.checked_mul(rustix::param::page_size() as u64)
}

/// statm is "size resident shared text lib data dt", all in pages.
fn parse_resident_pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
