//! A budget that two persons raise, by the command line: one approves, the other grants, and report and history name both.

use std::process::{Command, Output};

use crate::tokens::TokenCluster;

fn run(tokens: &TokenCluster, token: &str, words: &[&str]) -> Output {
    let mut command = Command::new(tests::program());
    command.arg("budget").args(words).arg("--coordinator").arg(tokens.cluster.cluster.url());
    command.arg("--token-file").arg(tokens.file(token)).output().unwrap()
}

fn done(tokens: &TokenCluster, token: &str, words: &[&str]) -> String {
    let output = run(tokens, token, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(tokens: &TokenCluster, token: &str, words: &[&str]) -> String {
    refused_with(1, tokens, token, words)
}

fn refused_with(status: i32, tokens: &TokenCluster, token: &str, words: &[&str]) -> String {
    let output = run(tokens, token, words);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
    error
}

#[test]
fn one_person_approves_and_another_grants() {
    let tokens = TokenCluster::start(|_| {});
    let create =
        ["create", "mails", "--unit", "user", "--epsilon", "4", "--delta", "1e-6", "--require-approver"];
    assert!(refused_with(2, &tokens, "operator", &create).contains("person"));
    done(&tokens, "ann", &create);
    let grant = ["grant", "mails", "--epsilon", "6"];
    let said = refused(&tokens, "ann", &grant);
    let command = "rustle budget approve grant mails --epsilon 6 --delta 0.000001";
    assert!(said.contains(command), "{said}");
    // The message is the command that the other person runs.
    let words: Vec<&str> = command.split(' ').skip(2).collect();
    done(&tokens, "ann-approves", &words);
    assert!(refused(&tokens, "ann", &grant).contains("ann has approved it"));
    let shown = done(&tokens, "ben-approves", &[&words[..], &["--valid", "2h"]].concat());
    assert!(shown.contains("two persons") && shown.contains("ben"), "{shown}");
    assert!(refused(&tokens, "ben-approves", &grant).contains("may not"));
    done(&tokens, "ann", &grant);
    refused(&tokens, "ann", &["grant", "mails", "--epsilon", "7"]);

    let history = done(&tokens, "auditor", &["history", "mails", "--format", "json"]).replace('\\', "");
    assert!(history.contains(r#""approver":"ben","operator":"ann""#), "{history}");
    let report = done(&tokens, "auditor", &["report", "mails"]);
    let line = report.lines().find(|line| line.contains("a budget of ε = 6")).unwrap_or_default();
    assert!(line.contains("| ben | ann | operator token"), "{report}");
    let shown: serde_json::Value =
        serde_json::from_str(&done(&tokens, "auditor", &["show", "mails", "--format", "json"])).unwrap();
    assert_eq!(
        (&shown["approval_rule"]["free_rewinds"], &shown["budget"]["epsilon"]),
        (&0.into(), &6.0.into())
    );
    assert_eq!(shown["pending_approvals"], serde_json::json!([]));
}
