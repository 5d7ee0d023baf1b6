//! `rustle noise` and `rustle verify` as run by the binary: rows that depend on the noise id alone, and their check.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use std::fs;
use std::path::Path;

use bench::Bench;
use serde_json::Value;

/// Returns the bytes of the numbers in an .npy file of version 1.0.
fn numbers(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[header..].to_vec()
}

fn noise_id(answer: &Value) -> &str {
    answer["noise_id"].as_str().unwrap()
}

/// Words of a call of `rustle verify` on row 5 of this noise, in a vector of 3,000 coordinates.
fn verify(noise_id: &str) -> String {
    format!("verify --plan plan.toml --key-file key --dimension 3000 --noise-id {noise_id} --step 5")
}

#[test]
fn rows_do_not_depend_on_where_they_start_or_on_threads() {
    let bench = Bench::new();
    let mechanisms = [
        "identity",
        "tree --restarts 5 --completion",
        "blt --theta 0.9,0.5 --omega 0.2,0.3",
        "band-toeplitz --coefficients 1,0.5,0.25 --column-normalised",
        "band-sqrt --bands 4",
        "band-inverse --coefficients 1,-0.5,-0.1",
        "band-inverse-sqrt --bands 3",
        "lambda-cgd --lambda 0.7",
    ];
    for mechanism in mechanisms {
        bench.plan("p.toml", mechanism);
        let whole = bench.noise("--plan p.toml --steps 0..12 --threads 1 --backend portable --out whole.npy");
        assert_eq!((whole["rows"].as_u64(), whole["coordinates"].as_u64()), (Some(12), Some(3000)));
        let again = format!("--plan p.toml --noise-id {}", noise_id(&whole));
        bench.noise(&format!("{again} --steps 3..12 --range 700..2100 --threads 2 --out part.npy"));
        let whole = numbers(&bench.path("whole.npy"));
        let part = numbers(&bench.path("part.npy"));
        for (row, part) in part.chunks(1400 * 4).enumerate() {
            let start = ((row + 3) * 3000 + 700) * 4;
            assert_eq!(part, &whole[start..start + 1400 * 4], "{mechanism}, row {}", row + 3);
        }
    }
}

#[test]
fn noise_is_new_in_each_call_unless_its_id_is_given() {
    let bench = Bench::new();
    let words = "--plan plan.toml --steps 5..6 --out";
    let first = bench.noise(&format!("{words} a.npy"));
    let second = bench.noise(&format!("{words} b.npy"));
    assert_ne!(noise_id(&first), noise_id(&second));
    let again = bench.noise(&format!("{words} c.npy --noise-id {}", noise_id(&first)));
    assert_eq!((noise_id(&again), &again["sha256"]), (noise_id(&first), &first["sha256"]));
    let [a, b, c] = ["a.npy", "b.npy", "c.npy"].map(|name| numbers(&bench.path(name)));
    assert_eq!(a, c);
    let same = a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0).filter(|(a, b)| a == b).count();
    assert!(same < 3, "{same} of 3000 numbers are the same");
    // The whole vector's dimension counts, whatever range is made.
    let part = format!("{words} d.npy --noise-id {} --range 0..600", noise_id(&first));
    bench.noise(&part);
    assert_eq!(numbers(&bench.path("d.npy")), a[..600 * 4]);
    bench.json(&format!("noise --key-file key --dimension 2999 {part}"));
    assert_ne!(numbers(&bench.path("d.npy")), a[..600 * 4]);
    let file = |id: &str| format!("{} --range 0..3000 a.npy", verify(id));
    assert_eq!(bench.json(&file(noise_id(&first)))["equal"], true);
    assert_eq!(bench.run(&file(noise_id(&second))).status.code(), Some(1));
    for bad in ["x", &noise_id(&first)[1..]] {
        bench.refused(
            &format!("noise --key-file key --dimension 3000 {words} e.npy --noise-id {bad}"),
            2,
            &["noise_id"],
        );
    }
    bench.refused(
        "verify --plan plan.toml --key-file key --dimension 3000 --step 5 --range 0..3000 a.npy",
        2,
        &["--noise-id"],
    );
}

#[test]
fn the_id_of_noise_on_standard_output_is_said() {
    let bench = Bench::new();
    let words = "noise --key-file key --dimension 3000 --plan plan.toml --steps 0..2 --out -";
    let piped = bench.run(words);
    let said = String::from_utf8(piped.stderr).unwrap();
    let id = said.trim().strip_prefix("noise_id: ").unwrap();
    let again = bench.run(&format!("{words} --noise-id {id}"));
    assert!(again.status.success() && again.stdout == piped.stdout, "{again:?}");
    assert!(again.stderr.is_empty(), "an id that was given is known");
}

#[test]
fn verify_agrees_and_names_the_first_difference() {
    let bench = Bench::new();
    let made = bench.noise("--plan plan.toml --steps 0..8 --range 100..900 --out x.npy");
    let words = &format!("{} --range 100..900 x.npy", verify(noise_id(&made)));
    let equal = bench.json(&format!("{words} --row 5"));
    assert_eq!(equal["equal"], true);
    bench.refused(words, 2, &["--row is missing, and the file has 8 rows; allowed: 0 to 7"]);
    bench.refused(&format!("{words} --row 8"), 2, &["--row is 8; allowed: 0 to 7"]);
    let path = bench.path("x.npy");
    let mut bytes = fs::read(&path).unwrap();
    let start = bytes.len() - numbers(&path).len();
    bytes[start + (5 * 800 + 77) * 4] ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = bench.run(&format!("{words} --row 5 --format json"));
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (answer["equal"].as_bool(), answer["first_difference"]["coordinate"].as_u64()),
        (Some(false), Some(177))
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("coordinate 177"));
    // Another job, branch or dimension has other noise.
    let made = bench.noise("--plan plan.toml --steps 5..6 --out y.npy");
    let id = noise_id(&made);
    let another = "0".repeat(64);
    let of = |id: &str| format!("{} --range 0..3000 y.npy", verify(id));
    assert_eq!(bench.json(&of(id))["equal"], true);
    // Opened at row 6, another branch has row 5 from the job's own; at row 5 it has not.
    assert_eq!(bench.json(&of(&format!("{id}/0..6=0:{id},6..=1:{another}")))["equal"], true);
    let others = [&another, &format!("{id}/0..5=0:{id},5..=1:{another}"), &format!("{id}/0..=1:{another}")];
    for other in others {
        assert_eq!(bench.run(&of(other)).status.code(), Some(1), "{other}");
    }
    let other = of(id).replace("--dimension 3000", "--dimension 3001");
    assert_eq!(bench.run(&other).status.code(), Some(1));
}

#[test]
fn iid_rows_of_a_tree_are_its_nodes() {
    let bench = Bench::new();
    bench.plan("tree.toml", "tree");
    // 12 leaves complete 24 − popcount(12) nodes.
    let made = bench.noise("--plan tree.toml --steps 0..12 --iid --out z.npy");
    assert_eq!(made["rows"], 22);
    let again = format!("--plan tree.toml --noise-id {}", noise_id(&made));
    bench.noise(&format!("{again} --steps 3..4 --iid --out nodes.npy"));
    let all = numbers(&bench.path("z.npy"));
    let nodes = numbers(&bench.path("nodes.npy"));
    assert_eq!(nodes, all[4 * 3000 * 4..7 * 3000 * 4]);
    assert_eq!(bench.noise("--plan plan.toml --steps 2..5 --iid --out z.npy")["rows"], 3);
}
