//! Decoders that break, for the tests of what a run makes of that. They are run by their names alone.

use crate::Target;

pub fn planted() -> Vec<Target> {
    let seeds = || vec![b"length 4".to_vec()];
    vec![
        Target { name: "planted-panic", seeds, run: |bytes| breaks(bytes, || panic!("planted")), slice: 0 },
        Target { name: "planted-end", seeds, run: |bytes| breaks(bytes, || std::process::abort()), slice: 0 },
    ]
}

/// On changed inputs alone, so that there is one to be kept.
fn breaks(bytes: &[u8], how: fn() -> String) -> String {
    if bytes == b"length 4" { String::new() } else { how() }
}
