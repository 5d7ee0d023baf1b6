//! `reproduce` as people and scripts run it, on an item that takes seconds.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const ITEM: &str = "banded-figure-10";

fn reproduce(item: &str, out: &Path) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_reproduce"))
        .args([item, "--format", "json", "--out"])
        .arg(out)
        .output();
    output.expect("reproduce runs")
}

#[test]
fn an_item_writes_its_page_picture_and_index_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("deep/reproductions");
    let output = reproduce(ITEM, &out);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let page = read("banded-figure-10.md");
    let picture = read("banded-figure-10.svg");
    assert!(page.contains("cargo run --release -p reproduce -- banded-figure-10"));
    assert!(page.contains("](banded-figure-10.svg)") && roxmltree::Document::parse(&picture).is_ok());
    assert!(read("README.md").contains("[blt-table-3](blt-table-3.md)"), "the index lists every item");

    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let item = &found["items"][0];
    assert_eq!(item["name"], ITEM);
    // n = 2000, k = 5 and b = 400: a BLT of four buffers and 400 Toeplitz bands, the first a golden value.
    let losses = item["found"]["tables"][1]["rows"].as_array().unwrap().last().unwrap();
    let [b, blt, bands] = [0, 1, 2].map(|column| losses[column].as_f64().unwrap());
    assert_eq!(b, 400.0);
    assert!((blt - 8.1466).abs() < 2e-4 && (0.95..0.97).contains(&(bands / blt)), "{blt} {bands}");
    assert!(page.contains(&format!("{blt:.3}")) && found["machine"]["command"].is_string());

    assert!(reproduce(ITEM, &out).status.success());
    assert_eq!((read("banded-figure-10.md"), read("banded-figure-10.svg")), (page, picture));
}

#[test]
fn a_table_of_trees_has_its_published_figures() {
    let folder = tempfile::tempdir().unwrap();
    let output = reproduce("gboard-table-2", folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = &found["items"][0]["found"];
    let claims = found["claims"].as_array().unwrap();
    assert!(claims.len() == 7 && claims.iter().all(|claim| claim["holds"] == true), "{claims:?}");
    // Golden values: sens² of one tree, a whole number, and ε of the ρ that is printed.
    let rows = found["tables"][0]["rows"].as_array().unwrap();
    let columns = |column: usize| rows.iter().map(|row| row[column].as_f64().unwrap()).collect::<Vec<_>>();
    let apart = |found: &[f64], golden: [f64; 7]| {
        found.iter().zip(golden).map(|(found, golden)| (found - golden).abs()).fold(0.0, f64::max)
    };
    assert!(apart(&columns(5), [87.0, 87.0, 87.0, 60.0, 87.0, 31.0, 97.0]) < 1e-9);
    let epsilons = [9.0103, 9.0103, 9.0103, 7.3050, 9.0103, 5.1335, 9.5641];
    assert!(apart(&columns(9), epsilons) < 6e-5);
    let page = fs::read_to_string(folder.path().join("gboard-table-2.md")).unwrap();
    assert!(page.contains("arXiv:2305.18465") && !folder.path().join("gboard-table-2.svg").exists());
    let index = fs::read_to_string(folder.path().join("README.md")).unwrap();
    assert!(index.contains("[user-level-figure-2](user-level-figure-2.md)"));
}

#[test]
fn an_item_that_is_not_there_is_refused_with_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let output = reproduce("blt-figure-99", folder.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(said.contains("blt-table-3") && said.contains("all"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
