//! The HTML page of `rustle report`.
#![allow(clippy::unwrap_used, dead_code)] // helpers outside `#[test]` functions are tests too

mod bench;

use std::fs;

use bench::Bench;
use serde_json::json;

#[test]
fn a_page_begins_with_a_box_that_states_epsilon_of_plan_and_so_far_whom_and_when() {
    let bench = Bench::new();
    // With --format json the report itself would be JSON.
    let written = |words: &str| assert!(bench.run(words).status.success(), "{words}");
    written("report --plan plan.toml --delta 1e-6 --out page.html");
    let answer = bench.json("report --plan plan.toml --delta 1e-6 --out page.json");
    let summary = |file: &str| {
        let page = fs::read_to_string(bench.path(file)).unwrap();
        page.split_once("<dl class=\"summary\">").unwrap().1.split_once("</dl>").unwrap().0.to_owned()
    };
    let whole = summary("page.html");
    let epsilon = format!("{:.3}", answer["epsilon"].as_f64().unwrap());
    assert!(whole.contains(&epsilon[..4]) && whole.contains("at δ = 1e-6"), "{epsilon}: {whole}");
    assert!(whole.contains("one user, under zero-out") && whole.contains("by rustle "), "{whole}");
    assert!(!whole.contains("was released"), "{whole}");
    let date = whole.split_once("<dt>stated</dt><dd>20").unwrap().1;
    assert!(date.as_bytes()[17] == b'Z', "{date}");

    let released =
        json!({ "branches": [{ "branch": 0, "parent": null, "from_row": 0, "released": [[0, 3]] }] });
    fs::write(bench.path("released.json"), released.to_string()).unwrap();
    written("report --plan plan.toml --released released.json --delta 1e-6 --out page.html");
    let so_far = summary("page.html");
    assert!(so_far.contains("ε of what was released") && so_far.contains("3 of "), "{so_far}");
}
