//! `rustle plan lint`: each check finds its fault, and no other does.
#![allow(clippy::unwrap_used, dead_code)] // helpers outside `#[test]` functions are tests too

mod bench;

use std::fs;

use bench::Bench;
use plan::STREAM_VERSION;
use serde_json::Value;

const IDENTITY: &str = "{ name = \"identity\" }";

/// Writes a plan of 100 rounds of which one user takes part in two, at least 50 apart, but for what is changed.
fn write(bench: &Bench, changed: &[(&str, &str)], mechanism: &str) {
    let mut fields = vec![
        ("iterations", "100"),
        ("noise_multiplier", "4.0"),
        ("clip_norm", "0.5"),
        ("participation.min_sep", "50"),
        ("participation.max_participations", "2"),
    ];
    for (name, value) in changed {
        fields.retain(|(known, _)| known != name);
        fields.push((name, value));
    }
    let fields: String = fields.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    let text = format!("format = 1\nstream_version = {STREAM_VERSION}\n{fields}mechanism = {mechanism}\n");
    fs::write(bench.path("lint.toml"), text).unwrap();
}

/// Returns (check, severity) of each finding, and checks the exit status.
fn found(bench: &Bench, flags: &str) -> Vec<(String, String)> {
    let output = bench.run(&format!("plan lint lint.toml {flags} --format json"));
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |finding: &Value, name: &str| {
        let text = finding[name].as_str().unwrap().to_owned();
        assert!(!text.is_empty(), "{finding}");
        text
    };
    let findings = answer["findings"].as_array().unwrap();
    let found: Vec<_> = findings
        .iter()
        .map(|finding| {
            text(finding, "what");
            text(finding, "next_step");
            (text(finding, "check"), text(finding, "severity"))
        })
        .collect();
    let is_ok = found.iter().all(|(_, severity)| severity != "error");
    assert_eq!((&answer["ok"], output.status.code()), (&Value::from(is_ok), Some(i32::from(!is_ok))));
    found
}

/// Names of fields, each with its value.
type Fields<'a> = &'a [(&'a str, &'a str)];
/// A check of `rustle plan lint`, and its severity.
type Finding<'a> = Option<(&'a str, &'a str)>;

#[test]
fn each_fault_is_found_and_nothing_else() {
    let bench = Bench::new();
    // What every plan of floats without a layout has.
    let common = [("float_arithmetic", "warning"), ("no_layout", "note")];
    let often = [
        ("participation.min_sep", "1"),
        ("participation.max_participations", "100"),
        ("noise_multiplier", "30.0"),
    ];
    let cases: [(Fields<'_>, &str, Finding<'_>); 11] = [
        (&[], IDENTITY, None),
        (&[], "{ name = \"band-sqrt\", bands = 50 }", None),
        (&[], "{ name = \"band-sqrt\", bands = 51 }", Some(("bands_beyond_min_sep", "warning"))),
        (&[("noise_multiplier", "0.0")], IDENTITY, Some(("no_noise", "error"))),
        (&[("noise_multiplier", "0.3")], IDENTITY, Some(("large_epsilon", "warning"))),
        (
            &[("participation.max_participations", "3")],
            IDENTITY,
            Some(("participations_beyond_rounds", "warning")),
        ),
        (
            &[("participation.max_participations", "1")],
            IDENTITY,
            Some(("participations_below_rounds", "warning")),
        ),
        (&often, IDENTITY, Some(("neighbouring_rounds", "note"))),
        (&[("clip_norm", "1.0")], IDENTITY, Some(("default_clip_norm", "note"))),
        (&[("clip_norm", "1e-9")], IDENTITY, Some(("unusual_clip_norm", "warning"))),
        (&[("chacha_rounds", "12")], IDENTITY, Some(("fewer_cipher_rounds", "note"))),
    ];
    for (changed, mechanism, expected) in cases {
        write(&bench, changed, mechanism);
        let all = found(&bench, "");
        let is_common = |finding: &&(String, String)| common.contains(&(&finding.0, &finding.1));
        assert_eq!(all.iter().filter(is_common).count(), common.len(), "{changed:?}: {all:?}");
        let own: Vec<_> = all.iter().filter(|finding| !is_common(finding)).collect();
        let own: Vec<_> = own.iter().map(|(check, severity)| (check.as_str(), severity.as_str())).collect();
        assert_eq!(own, expected.into_iter().collect::<Vec<_>>(), "{changed:?} {mechanism}");
    }
}

#[test]
fn delta_is_judged_by_the_number_of_records() {
    let bench = Bench::new();
    write(&bench, &[], IDENTITY);
    for (records, severity) in [("9999", None), ("20000", Some("warning")), ("100000", Some("error"))] {
        let all = found(&bench, &format!("--delta 1e-5 --dataset-size {records}"));
        let judged = all.iter().find(|(check, _)| check == "large_delta");
        assert_eq!(judged.map(|(_, severity)| severity.as_str()), severity, "{records}: {all:?}");
    }
    for delta in ["0", "1", "-1", "nan"] {
        bench.refused(&format!("plan lint lint.toml --delta {delta}"), 2, &["--delta is", "allowed"]);
    }
}

#[test]
fn a_file_that_holds_no_plan_is_an_error_that_names_the_field() {
    let bench = Bench::new();
    fs::write(
        bench.path("lint.toml"),
        format!("format = 1\nstream_version = {STREAM_VERSION}\niterations = 7\n"),
    )
    .unwrap();
    assert_eq!(found(&bench, ""), [("no_plan".to_owned(), "error".to_owned())]);
    let text = String::from_utf8(bench.run("plan lint lint.toml").stdout).unwrap();
    assert!(
        text.starts_with("error    no_plan: ") && text.contains("missing") && text.contains("next: "),
        "{text}"
    );
    bench.refused("plan lint none.toml", 1, &["none.toml"]);
}
