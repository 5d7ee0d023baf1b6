//! The longest file that CONTRIBUTING.md allows.

use crate::{root, sources};

/// The most lines of a Rust file.
const LIMIT: usize = 300;

/// Files that are longer, each with the reason. A file that is short enough again must leave the list.
const LONGER: [(&str, &str); 0] = [];

#[test]
fn no_file_is_longer_than_a_reader_holds_in_mind() {
    let mut faults = Vec::new();
    for (path, _) in sources() {
        let text = std::fs::read_to_string(root().join(&path)).expect("a readable file");
        let lines = text.lines().count();
        let name = path.to_str().expect("a UTF-8 path");
        let is_listed = LONGER.iter().any(|(listed, _)| *listed == name);
        if lines > LIMIT && !is_listed {
            faults.push(format!("{name}: {lines} lines; allowed: at most {LIMIT}. Split it by idea"));
        }
        if lines <= LIMIT && is_listed {
            faults.push(format!("{name}: {lines} lines; remove it from LONGER"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
