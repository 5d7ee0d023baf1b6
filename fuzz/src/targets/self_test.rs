//! Targets with a planted fault, for the tests of the fuzzer itself. They run only if named.

use crate::Target;

pub fn self_test() -> Vec<Target> {
    let seeds = || vec![b"length 4".to_vec()];
    vec![
        Target { name: "planted-panic", seeds, run: |bytes| breaks(bytes, || panic!("planted")), slice: 0 },
        Target { name: "planted-end", seeds, run: |bytes| breaks(bytes, || std::process::abort()), slice: 0 },
    ]
}

/// Fails on mutated inputs only, so that there is an input to store.
fn breaks(bytes: &[u8], how: fn() -> String) -> String {
    if bytes == b"length 4" { String::new() } else { how() }
}
