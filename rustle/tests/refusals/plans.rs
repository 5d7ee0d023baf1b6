//! Parameters of mechanisms that are missing, out of place or not allowed. Flags are named, not fields of a file.

use super::bench::Bench;
use super::{OPTIMIZE, case, check};

#[test]
fn parameters_of_mechanisms() {
    let bench = Bench::new();
    let from = "plan from --float --iterations 10 --noise-multiplier 1 --mechanism";
    let compare = "plan compare plan.toml --no-rates";
    check(
        &bench,
        &[
            case(from, "identty", 2, &["identty", "similar", "identity"]),
            case(from, "identity --mechanism blt", 2, &["--mechanism", "multiple times"]),
            case(from, "blt", 2, &["--theta is missing"]),
            case(from, "blt --theta 0.9,0.5 --omega 0.2", 2, &["--theta is 2 numbers"]),
            case(from, "blt --theta 1.9 --omega 0.2", 2, &["--theta is 1.9", "0 < θ ≤ 1"]),
            case(from, "blt --theta nan --omega 0.2", 2, &["--theta is NaN"]),
            case(from, "blt --theta a --omega 0.2", 2, &["--theta", "allowed: a number"]),
            case(from, "blt --theta 0.9,,0.5 --omega 0.2,0.3", 2, &["--theta", "allowed: a number"]),
            case(from, "band-toeplitz --coefficients 0,1", 2, &["--coefficients is 0", "> 0"]),
            case(from, "band-toeplitz --coefficients inf,1", 2, &["--coefficients is inf", "finite"]),
            case(from, "band-sqrt", 2, &["--bands is missing"]),
            case(from, "band-sqrt --bands 100", 2, &["--bands is 100", "1 to 10"]),
            case(from, "band-sqrt --bands 3 --theta 0.5", 2, &["--theta is given", "does not take it"]),
            case(from, "lambda-cgd --lambda 1.5", 2, &["--lambda is 1.5", "λ < 1"]),
            case(from, "lambda-cgd --lambda -0.5", 2, &["--lambda is -0.5"]),
            case(from, "tree --restarts 5,3", 2, &["--restarts is 3", "increasing"]),
            case(from, "dense", 2, &["--mechanism dense takes a matrix", "plan optimize"]),
            case(from, "identity --completion", 2, &["--completion is given"]),
            case(OPTIMIZE, "blt --iterations 10 --column-norms dance", 2, &["dance", "equal"]),
            case(OPTIMIZE, "blt --iterations 10 --amplify dance", 2, &["dance", "balls-in-bins"]),
            case(
                "plan extend --plan plan.toml",
                "--iterations 12",
                2,
                &["--iterations is 12", "more than 12"],
            ),
            case("plan extend --plan plan.toml", "--iterations 1e15", 2, &["--iterations is", "4294967295"]),
            case(compare, "--workload dance", 2, &["dance", "momentum:BETA"]),
            case(compare, "--workload momentum:2", 2, &["momentum is 2", "< 1"]),
            case(compare, "--workload toeplitz:", 2, &["--workload", "not a number"]),
            case(
                compare,
                "--workload momentum:0.9 --learning-rates cool-down:500:0.1",
                2,
                &["500", "0 to 11"],
            ),
            case(compare, "--learning-rates cool-down:5", 2, &["cool-down:FROM:LAST"]),
            case(compare, "--weight-decay nan", 2, &["--workload momentum:BETA"]),
            case(compare, "--loss maxx", 2, &["maxx", "max"]),
            case(compare, "--epsilon 1", 2, &["--delta"]),
            case(
                "plan coefficients --plan plan.toml --matrix c",
                "--count 0",
                2,
                &["--count is 0", "1 to 12"],
            ),
            case("plan coefficients --plan plan.toml --matrix c", "--row 12", 2, &["--row is 12", "0 to 11"]),
            case("plan plot plan.toml --out p.svg", "--count 0", 2, &["--count", "1 or more"]),
            case("plan plot plan.toml --out p.svg", "--what dance", 2, &["dance", "min-sep"]),
            case("plan lint plan.toml", "--dataset-size 0", 2, &["--dataset-size", "1 or more"]),
            case("plan resources --plan plan.toml", "--dimension 10 --workers 100", 2, &["shards is 100"]),
            case("plan resources --plan plan.toml", "", 2, &["--dimension is missing"]),
            case("report --plan plan.toml", "--sampling dance", 2, &["dance", "cyclic-poisson"]),
            case("report --plan plan.toml", "--samples 5", 2, &["--samples is given"]),
            case("report --plan plan.toml", "--job j", 2, &["--plan", "--job"]),
            case("plan show plan.toml", "--format html", 2, &["rustle report", "table, json"]),
        ],
    );
    assert!(!bench.path("p.svg").exists());
}
