//! The command as people and scripts run it. Timings are never asserted.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).output().expect("bench runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = bench(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

fn refusal(arguments: &[&str]) -> String {
    let output = bench(arguments);
    assert!(!output.status.success(), "{arguments:?} was taken");
    assert!(output.stdout.is_empty(), "a refusal prints no results");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(cases: &Value) -> Vec<&str> {
    cases.as_array().expect("an array").iter().filter_map(|case| case["case"].as_str()).collect()
}

#[test]
fn kernels_name_their_cases_and_limits() {
    let found = json(&["kernels", "--quick", "--threads", "2", "--size", "1e4", "--format", "json"]);
    let names = names(&found["cases"]);
    for case in ["identity", "blt-4", "band-toeplitz-8", "band-inverse-8", "lambda-cgd", "tree", "dense-16"] {
        assert_eq!(
            names.iter().filter(|&&name| name == case).count(),
            2,
            "{case} at 1 and 8 rows: {names:?}"
        );
    }
    for case in found["cases"].as_array().unwrap() {
        assert_eq!(case["shard"], 10_000);
        let rate = &case["coordinates_per_second"];
        let number = |name: &str| rate[name].as_f64().unwrap();
        assert!(
            0.0 < number("min") && number("min") <= number("median") && number("median") <= number("max")
        );
        assert!(case["of_roofline"]["median"].as_f64().unwrap() > 0.0);
    }
    let limits = &found["limits"];
    let copied = &limits["copied_bytes_per_second"]["median"];
    let traffic = &limits["traffic_bytes_per_second"]["median"];
    // Numbers lose their last bit on the way through JSON.
    let ratio = traffic.as_f64().unwrap() / copied.as_f64().unwrap();
    assert!((ratio - 2.0).abs() < 1e-12, "{ratio}");
    let keystreams = limits["keystream_bytes_per_second_one_core"].as_object().unwrap();
    let rates: Vec<_> = keystreams.values().map(|rate| rate["median"].as_f64().unwrap()).collect();
    assert!(keystreams.contains_key("rand_chacha ChaCha20") && rates.iter().all(|&rate| rate > 0.0));
    let machine = &found["machine"];
    assert_eq!(machine["threads"], 2);
    assert!(machine["command"].as_str().unwrap().contains("kernels --quick"));
}

#[test]
fn what_does_not_fit_is_named_and_the_rest_is_measured() {
    let arguments = ["kernels", "--quick", "--case", "identity", "--size", "1e4,1e12", "--rows", "1"];
    let found = json(&[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(names(&found["cases"]), ["identity"]);
    let skipped = &found["skipped"][0];
    assert_eq!(skipped["shard"].as_u64(), Some(1_000_000_000_000));
    assert!(skipped["why"].as_str().unwrap().contains("GiB"), "{skipped}");
}

#[test]
fn scale_reaches_every_count_with_threads_and_with_processes() {
    let found = json(&["scale", "--quick", "--threads", "2", "--format", "json"]);
    for who in ["threads", "workers"] {
        let all = found[who].as_array().unwrap();
        for kind in ["strong", "weak"] {
            let of_kind = all.iter().filter(|scaled| scaled["kind"] == kind);
            let counts: Vec<_> = of_kind.map(|scaled| scaled["count"].as_u64().unwrap()).collect();
            assert_eq!(counts, [1, 2], "{who}, {kind}");
        }
        assert!(all.iter().all(|scaled| scaled["coordinates_per_second"]["min"].as_f64().unwrap() > 0.0));
    }
    let growth = found["growth"].as_array().unwrap();
    for grows in ["rows", "coordinates", "bands"] {
        assert!(growth.iter().filter(|grown| grown["grows"] == grows).count() > 3, "{grows}");
    }
}

#[test]
fn tables_are_printed_for_people() {
    let output = bench(&["kernels", "--quick", "--case", "blt-2", "--size", "1e4", "--rows", "1"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("blt-2") && printed.contains("of roofline"), "{printed}");
}

#[test]
fn wrong_arguments_are_refused_with_what_is_allowed() {
    for command in ["kernels", "peers", "scale"] {
        let refused = refusal(&[command, "--threads", "0"]);
        assert!(refused.contains("'0'") && refused.contains("from 1 on"), "{refused}");
        let refused = refusal(&[command, "--case", "blt-9"]);
        assert!(refused.contains("no case \"blt-9\"; allowed: identity"), "{refused}");
        assert!(refusal(&[command, "--size", "0"]).contains("allowed: a whole number"));
    }
    let refused = refusal(&["scale", "--size", "512", "--threads", "2"]);
    assert!(refused.contains("--size 512 for 2 workers; allowed: 1024 or more"), "{refused}");
    let refused = refusal(&["peers", "--threads", "1000000"]);
    assert!(refused.contains("--threads 1000000; allowed: 1 to"), "{refused}");
}

#[test]
fn a_missing_instruction_set_is_refused() {
    for command in ["kernels", "peers", "scale"] {
        #[cfg(target_arch = "x86_64")]
        let missing = if std::is_x86_feature_detected!("avx512vl") { None } else { Some("avx512") };
        #[cfg(not(target_arch = "x86_64"))]
        let missing = Some("avx2");
        let Some(missing) = missing else { continue };
        let refused = refusal(&[command, "--backend", missing]);
        assert!(refused.contains("is not available on this processor"), "{refused}");
    }
}
