//! Keys, tokens and certificates: none is printed, and none replaces another.

use std::fs;

use super::bench::Bench;
use super::{NEW_TOKEN, case, check};

#[test]
fn secrets_that_would_be_wrong_or_lost() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).unwrap();
    fs::write(bench.path("file"), "kept").unwrap();
    bench.json("certs new --out there");
    check(
        &bench,
        &[
            case(NEW_TOKEN, "--role operator --worker w", 2, &["--worker is given", "--role worker"]),
            case(NEW_TOKEN, "--role worker --job j", 2, &["--job is given"]),
            case(NEW_TOKEN, "--role operator --range 0..8", 2, &["--range is given", "--role trainer"]),
            case(NEW_TOKEN, "--role operator --life 0s", 2, &["--life"]),
            case(NEW_TOKEN, "--role operator --life -1h", 2, &["--life", "-1h"]),
            case(NEW_TOKEN, "--role operator --life 1x", 2, &["--life", "1x", "30d"]),
            case("key new", "--out -", 2, &["--out is -", "a key is never printed"]),
            case(
                "token new --tokens-file ts --role operator",
                "--out -",
                2,
                &["--out is -", "never printed"],
            ),
            case(
                "certs new --out c",
                "--trust-domain Bad_Domain!",
                2,
                &["--trust-domain", "lower-case letters"],
            ),
            case("certs issue --authority no --out c", "--role king", 2, &["king", "worker/NAME"]),
            case("key new", "--out key", 1, &["key file key", "exists already"]),
            case("key new", "--out folder", 1, &["folder", "exists already"]),
            case("key new", "--out missing/k", 1, &["key file missing/k", "No such file"]),
            case(
                "token new --role operator --tokens-file ts",
                "--out file",
                1,
                &["token file file", "exists already"],
            ),
            case(
                "token new --role operator --tokens-file same",
                "--out same",
                2,
                &["--out is same", "--tokens-file"],
            ),
            case(NEW_TOKEN, "--role king", 2, &["king", "operator"]),
            case(NEW_TOKEN, "--role trainer --job j --range 5..3", 2, &["--range", "a < b"]),
            case(NEW_TOKEN, "--role operator --life 1e9d", 2, &["--life", "30d"]),
            case(NEW_TOKEN, "--role operator --life 999999999d", 2, &["--life", "876000h"]),
            case("certs new", "--out there", 1, &["there/ca.key", "exists already"]),
            case("certs new", "--out file", 1, &["file", "exists already"]),
            case("certs issue --out c --role operator", "--authority missing", 1, &["missing/ca.key"]),
            case("certs issue --out c --authority there", "--role worker", 2, &["worker/NAME"]),
        ],
    );
    for name in ["t", "c", "same", "ts"] {
        assert!(!bench.path(name).exists(), "{name}");
    }
    assert_eq!(fs::read(bench.path("file")).unwrap(), b"kept");
}
