//! Each fault a plan can have, and the message that its author reads.

use super::{BLT, spec};
use crate::{Mechanism, Plan, PlanSpec};

/// The message for the BLT plan with one text in it replaced.
fn message(from: &str, to: &str) -> String {
    assert!(BLT.contains(from), "nothing to replace: {from}");
    Plan::from_toml_str(&BLT.replacen(from, to, 1)).unwrap_err().to_string()
}

fn assert_message(from: &str, to: &str, parts: &[&str]) {
    let message = message(from, to);
    for part in parts {
        assert!(message.contains(part), "{from} → {to}: no {part:?} in {message:?}");
    }
}

fn assert_mechanism(mechanism: &str, parts: &[&str]) {
    let start = BLT.find("name =").unwrap();
    assert_message(&BLT[start..], mechanism, parts);
}

#[test]
fn fields_that_do_not_belong_or_are_not_there() {
    assert_message("clip_norm = 1.0", "clip_norm = 1.0\nsede = 3", &["unknown field `sede`", "iterations"]);
    assert_message("min_sep = 400", "min_sep = 400\nb = 3", &["unknown field `b`", "min_sep"]);
    assert_message("omega =", "phi =", &["unknown field `phi`", "omega"]);
    assert_message("iterations = 2000\n", "", &["missing field `iterations`"]);
    assert_message("min_sep = 400\n", "", &["missing field `min_sep`"]);
    assert_message("iterations = 2000", "iterations = -1", &["iterations = -1", "-1"]);
    assert_message("iterations = 2000", "iterations = 2.5", &["iterations = 2.5"]);
    assert_message("iterations = 2000", "iterations = \"x\"", &["string \"x\""]);
    assert_message("format = 1", "format = 1\nformat = 1", &["duplicate key"]);
    assert_message("format = 1", "format = ", &["line 1"]);
    assert_message("omega = [0.125, 0.25]\n", "", &["`mechanism.omega` is missing", "\"blt\""]);
    assert_message("omega =", "lambda = 0.5\nomega =", &["`mechanism.lambda`", "\"blt\""]);
    assert_message("\"blt\"", "\"BLT\"", &["`mechanism.name` is \"BLT\"", "band-toeplitz"]);
    assert_message("theta = [0.99, 0.5]", "theta = 0.99", &["theta = 0.99"]);
}

#[test]
fn numbers_out_of_range() {
    assert_message("format = 1", "format = 2", &["`format` is 2; allowed: 1"]);
    assert_message("stream_version = 3", "stream_version = 9", &["`stream_version` is 9; allowed: 3"]);
    assert_message("chacha_rounds = 20", "chacha_rounds = 8", &["`chacha_rounds` is 8; allowed: 20 or 12"]);
    assert_message("= 2000", "= 0", &["`iterations` is 0; allowed: 1 to"]);
    assert_message("= 2000", "= 4294967296", &["`iterations` is 4294967296"]);
    for bad in ["-1.0", "nan", "inf", "-inf"] {
        assert_message("= 7.379", &format!("= {bad}"), &["`noise_multiplier` is", "finite number ≥ 0"]);
    }
    for bad in ["-1.0", "0.0", "nan", "inf"] {
        assert_message(
            "clip_norm = 1.0",
            &format!("clip_norm = {bad}"),
            &["`clip_norm` is", "finite number > 0"],
        );
    }
    assert_message("= 7.379", "= 1e-60", &["`noise_multiplier` is 1e-60", "clip_norm"]);
    assert_message("= 7.379", "= 1e60", &["`noise_multiplier` is 1e60", "clip_norm"]);
    assert_message("min_sep = 400", "min_sep = 0", &["`participation.min_sep` is 0", "j − i ≥ min_sep"]);
    assert_message(
        "max_participations = 5",
        "max_participations = 0",
        &["`participation.max_participations` is 0"],
    );
}

#[test]
fn blt_parameters() {
    for bad in ["0.0", "1.0000000001", "-0.5", "nan"] {
        assert_message("[0.99, 0.5]", &format!("[0.99, {bad}]"), &["`mechanism.theta[1]`", "0 < θ ≤ 1"]);
    }
    for bad in ["0.0", "-1", "inf", "nan"] {
        assert_message("[0.125,", &format!("[{bad},"), &["`mechanism.omega[0]`", "finite number > 0"]);
    }
    assert_message("[0.125, 0.25]", "[0.125, 1e39]", &["`mechanism.omega[1]` is 1e39", "f32"]);
    assert_message("[0.125, 0.25]", "[0.125]", &["`mechanism.theta` is 2 numbers, mechanism.omega 1"]);
    assert_mechanism("name = 'blt'\ntheta = []\nomega = []", &["`mechanism.theta` is empty"]);
}

#[test]
fn banded_parameters() {
    for name in ["band-toeplitz", "band-inverse"] {
        let with = |numbers: &str| format!("name = '{name}'\ncoefficients = {numbers}");
        assert_mechanism(&with("[]"), &["`mechanism.coefficients` is 0 numbers", "1 to 2000"]);
        assert_mechanism(&with("[0.0, 1.0]"), &["`mechanism.coefficients[0]` is 0", "diagonal"]);
        assert_mechanism(&with("[1.0, nan]"), &["`mechanism.coefficients[1]` is NaN"]);
        assert_mechanism(&with("[1e-60]"), &["`mechanism.coefficients[0]` is", "f32"]);
        assert_mechanism(&with("[1, 1e60]"), &["`mechanism.coefficients[1]` is 1e60", "f32"]);
    }
    for name in ["band-sqrt", "band-inverse-sqrt"] {
        assert_mechanism(
            &format!("name = '{name}'\nbands = 2001"),
            &["`mechanism.bands` is 2001", "1 to 2000"],
        );
        assert_mechanism(&format!("name = '{name}'\nbands = 0"), &["`mechanism.bands` is 0"]);
        assert_mechanism(&format!("name = '{name}'"), &["`mechanism.bands` is missing"]);
    }
    for bad in ["1.0", "-0.1", "nan"] {
        assert_mechanism(
            &format!("name = 'lambda-cgd'\nlambda = {bad}"),
            &["`mechanism.lambda`", "0 ≤ λ < 1"],
        );
    }
    assert_mechanism("name = 'identity'\nbands = 3", &["`mechanism.bands`", "\"identity\""]);
}

#[test]
fn restarts() {
    for bad in ["[0]", "[2000]", "[5, 5]", "[9, 3]"] {
        assert_mechanism(
            &format!("name = 'tree'\nrestarts = {bad}"),
            &["`mechanism.restarts[", "from 1 to 1999"],
        );
    }
}

#[test]
fn matrices() {
    let of = |n, mechanism| Plan::new(spec(n, mechanism)).unwrap_err().to_string();
    let mf = |columns: &[&[f64]]| Mechanism::BandMf { columns: columns.iter().map(|c| c.to_vec()).collect() };
    assert!(of(3, mf(&[&[1.0], &[1.0]])).contains("`mechanism.columns` is 2 columns; allowed: 3"));
    assert!(of(2, mf(&[&[1.0, 0.5], &[1.0]])).contains("`mechanism.columns[1]` is 1 numbers"));
    assert!(of(2, mf(&[&[1.0, 0.5], &[1.0, 0.5]])).contains("`mechanism.columns[1][1]` is 0.5; allowed: 0"));
    assert!(of(2, mf(&[&[1.0, 0.5], &[0.0, 0.0]])).contains("`mechanism.columns[1][0]` is 0;"));
    assert!(of(2, mf(&[&[1.0, 0.5, 0.1], &[1.0, 0.0, 0.0]])).contains("`mechanism.columns[0]` is 3 numbers"));
    let dense = |rows: &[&[f64]]| Mechanism::Dense { matrix: rows.iter().map(|r| r.to_vec()).collect() };
    assert!(of(2, dense(&[&[1.0]])).contains("`mechanism.matrix` is 1 rows; allowed: 2"));
    assert!(
        of(2, dense(&[&[1.0, 0.0], &[1.0, 1.0]])).contains("`mechanism.matrix[0]` is 2 numbers; allowed: 1")
    );
    assert!(of(2, dense(&[&[1.0], &[1.0, 0.0]])).contains("`mechanism.matrix[1][1]` is 0;"));
    assert!(of(2, dense(&[&[1.0], &[f64::NAN, 1.0]])).contains("`mechanism.matrix[1][0]` is NaN"));
    assert!(of(2, dense(&[&[1e-30], &[1e30, 1.0]])).contains("row 1 of its inverse"));
}

#[test]
fn layouts() {
    let with =
        |layout: &str| Plan::from_toml_str(&format!("{BLT}\n[layout]\n{layout}")).unwrap_err().to_string();
    assert!(
        with("dimension = 3\nparameters = [{name = 'w', shape = [3]}]").contains("either `dimension` or")
    );
    assert!(with("").contains("`layout.dimension` is missing"));
    assert!(with("dimension = 0").contains("`layout.dimension` is 0"));
    assert!(with("dimension = -4").contains("-4"));
    assert!(with("size = 4").contains("unknown field `size`"));
    assert!(
        with("parameters = [{name = 'w', shape = [3, 0]}]").contains("`layout.parameters[0].shape[1]` is 0")
    );
    let huge = "parameters = [{name = 'w', shape = [4611686018427387904, 4]}]";
    assert!(with(huge).contains("coordinates in all"));
}

#[test]
fn a_plan_made_in_code_is_checked_as_one_from_a_file() {
    let zero = PlanSpec { iterations: 0, ..spec(1, Mechanism::Identity) };
    assert!(Plan::new(zero).unwrap_err().to_string().contains("`iterations` is 0"));
    assert!(
        Plan::from_path("/nonexistent/plan.toml").unwrap_err().to_string().contains("/nonexistent/plan.toml")
    );
}

#[test]
fn scales_of_columns() {
    let of = |name: &str, scales: &str| format!("name = \"{name}\"\n{scales}");
    let toeplitz = |scales: &str| of("band-toeplitz", &format!("coefficients = [1.0, 0.5]\n{scales}"));
    let case = |scales: &str, parts: &[&str]| assert_mechanism(&toeplitz(scales), parts);
    case("column_scales = [1.0]", &["`mechanism.rounds_per_scale` is missing"]);
    case("rounds_per_scale = 3", &["`mechanism.column_scales` is missing"]);
    case("column_scales = []\nrounds_per_scale = 3", &["`mechanism.column_scales` is empty"]);
    case(
        "column_scales = [1.0, 1.5]\nrounds_per_scale = 3",
        &["`mechanism.column_scales[1]` is 1.5", "never rise"],
    );
    case("column_scales = [1.0, 0.0]\nrounds_per_scale = 3", &["`mechanism.column_scales[1]` is 0"]);
    case("column_scales = [inf]\nrounds_per_scale = 3", &["`mechanism.column_scales[0]` is inf"]);
    case("column_scales = [nan]\nrounds_per_scale = 3", &["`mechanism.column_scales[0]` is NaN"]);
    case("column_scales = [1.0]\nrounds_per_scale = 0", &["`mechanism.rounds_per_scale` is 0"]);
    let scales = "column_scales = [1.0]\nrounds_per_scale = 3";
    assert_mechanism(&of("identity", scales), &["`mechanism.column_scales` is given", "no such field"]);
}
