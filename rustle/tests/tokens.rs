//! `rustle token revoke` takes out the tokens that it is given, and nothing else.
#![allow(clippy::unwrap_used)] // a test says best where it stands

#[allow(dead_code)] // each test takes a part of it
mod bench;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bench::Bench;

const NEW: [(&str, &str); 4] = [
    ("a", "--role trainer --job digits"),
    ("b", "--role trainer --job words"),
    ("c", "--role operator --person ann"),
    ("d", "--role worker --worker digits"),
];

fn with_tokens() -> Bench {
    let bench = Bench::new();
    for (name, of) in NEW {
        bench.json(&format!("token new {of} --out {name} --tokens-file tokens"));
    }
    bench
}

#[test]
fn a_revoked_token_is_out_of_the_file_and_the_others_stay_as_they_were() {
    let bench = with_tokens();
    bench.mode("tokens", 0o640);
    let before = fs::read_to_string(bench.path("tokens")).unwrap();
    let lines: Vec<_> = before.lines().collect();
    let says = ["trainer digits", "--yes is missing", "within a second"];
    bench.refused("token revoke --tokens-file tokens --job digits", 2, &says);
    assert_eq!(fs::read_to_string(bench.path("tokens")).unwrap(), before);

    let revoked = bench.json("token revoke --tokens-file tokens --job digits --yes");
    assert_eq!((&revoked["revoked"].as_array().unwrap().len(), &revoked["tokens_left"]), (&1, &3.into()));
    assert_eq!(fs::read_to_string(bench.path("tokens")).unwrap(), format!("{}\n", lines[1..].join("\n")));
    assert_eq!(fs::metadata(bench.path("tokens")).unwrap().permissions().mode() & 0o777, 0o640);
    let left = bench.files();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains(".rustle-")), "{left:?}");

    // By the token itself, by its digest, and by the person.
    bench.json("token revoke --tokens-file tokens --token-file b --yes");
    let listed = bench.json("token list --tokens-file tokens");
    let of_worker =
        listed["tokens"].as_array().unwrap().iter().find(|token| token["role"] == "worker").unwrap();
    let digits = &of_worker["sha256"].as_str().unwrap()[..12];
    bench.json(&format!("token revoke --tokens-file tokens --sha256 {digits} --yes"));
    bench.json("token revoke --tokens-file tokens --person ann --role operator --yes");
    assert_eq!(fs::read_to_string(bench.path("tokens")).unwrap(), "");
}

#[test]
fn a_revocation_that_names_no_token_changes_nothing() {
    let bench = with_tokens();
    let before = fs::read(bench.path("tokens")).unwrap();
    for (words, status, says) in [
        ("", 2, "nothing says which tokens"),
        ("--sha256 abc", 2, "--sha256 is abc; allowed: 12 to 64"),
        ("--job nosuch", 1, "has no such token"),
        ("--job words --person ann", 1, "has no such token"),
        ("--worker words", 1, "has no such token"),
        ("--token-file key", 1, "has no such token"),
    ] {
        bench.refused(&format!("token revoke --tokens-file tokens {words} --yes"), status, &[says]);
        assert!(fs::read(bench.path("tokens")).unwrap() == before, "{words}");
    }
    bench.refused("token revoke --tokens-file nosuch --job words --yes", 1, &["nosuch"]);
}
