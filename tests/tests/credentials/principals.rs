//! Who made the entries of chains: the caller of each RPC, by its role and the first digits of its token's digest, and the
//! coordinator for what it does by itself.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use ledger::Stamp;
use node::auth::digest_of;
use proto::{
    DataSetId,
    model::PrivacyBudget,
    pb::{self, Entry},
};
use tests::job;

use crate::tokens::TokenCluster;

/// The kind of each entry, and who made it.
fn made(entries: &[Entry]) -> Vec<(String, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let parts = |entry: &Entry| {
        let (stamp, event) = Stamp::split(&entry.event).unwrap();
        // Within an hour: the coordinator has the clock of this test.
        assert!(stamp.at_ms <= now && now - stamp.at_ms < 3_600_000, "{}", entry.event);
        let event: serde_json::Value = serde_json::from_str(&event).unwrap();
        (event["event"].as_str().unwrap().to_owned(), stamp.by.to_string())
    };
    entries.iter().map(parts).collect()
}

fn name(tokens: &TokenCluster, role: &str, token: &str) -> String {
    let text = fs::read(tokens.file(token)).unwrap();
    format!("{role} token:{}", &digest_of(text.trim_ascii())[..12])
}

#[test]
fn entries_name_the_caller_of_every_rpc_that_makes_them() {
    let tokens = TokenCluster::start(|_| {});
    tokens.create("own");
    tokens.fetch("own", 0..2_000).unwrap();
    let run = &tokens.cluster.runtime;
    let operator = tokens.client(Some("operator"));
    let own = job("own");
    run.block_on(operator.jobs().checkpoint(&own)).unwrap();
    run.block_on(operator.jobs().reshard(&own, 2)).unwrap();
    run.block_on(operator.jobs().rewind(&own, 0, 0)).unwrap();
    // A trainer that goes back opens a branch too.
    let trainer = tokens.client(Some("own"));
    let cursor = run.block_on(trainer.jobs().cursor(&own, None)).unwrap();
    let rows = proto::RowRange { start: 0, end: 1 };
    let commitments = [proto::Commitment::of_text("another step 0")];
    run.block_on(trainer.bind(&own, 1, rows, &commitments)).unwrap();
    assert!(run.block_on(trainer.jobs().resume(&own, cursor, false)).unwrap().opened_branch);
    run.block_on(operator.jobs().finish(&own)).unwrap();
    run.block_on(operator.jobs().destroy(&own)).unwrap();

    let [by_operator, by_trainer] =
        [("operator", "operator"), ("trainer", "own")].map(|(role, token)| name(&tokens, role, token));
    let entries = run.block_on(operator.jobs().entries(&own)).unwrap();
    let made = made(&entries);
    let found = |kind: &str| -> Vec<&str> {
        made.iter().filter(|(event, _)| event == kind).map(|(_, by)| by.as_str()).collect()
    };
    assert_eq!(found("created"), [&by_operator]);
    assert_eq!(found("bound"), [&by_trainer, &by_trainer]);
    // Resharding may write one too.
    let checkpoints = found("checkpoint_added");
    assert!(!checkpoints.is_empty() && checkpoints.iter().all(|by| *by == by_operator), "{made:?}");
    assert_eq!(found("resharded"), [&by_operator]);
    assert_eq!(found("branch_opened"), [&by_operator, &by_trainer]);
    assert_eq!(found("state_changed"), [&by_operator, &by_operator]);
    // Placement is the coordinator's own.
    let leased = found("leased");
    assert!(!leased.is_empty() && leased.iter().all(|by| *by == "coordinator"), "{made:?}");
}

#[test]
fn entries_of_data_sets_name_the_caller_too() {
    let tokens = TokenCluster::start(|_| {});
    let run = &tokens.cluster.runtime;
    let operator = tokens.client(Some("operator"));
    let request = pb::CreateDataSetRequest {
        data_set: "mails".into(),
        unit: "user".into(),
        neighbouring: "zero-out".into(),
        budget: Some(pb::PrivacyAmount { epsilon: 4.0, delta: 1e-6 }),
        per_block: false,
        approval_rule: None,
    };
    run.block_on(operator.budgets().create(request)).unwrap();
    let data_set = DataSetId::new("mails").unwrap();
    run.block_on(operator.budgets().grant(&data_set, PrivacyBudget::new(5.0, 1e-6).unwrap())).unwrap();
    let entries = run.block_on(operator.budgets().entries(&data_set)).unwrap();
    let by_operator = name(&tokens, "operator", "operator");
    let expected = [("data_set_created", &by_operator), ("budget_granted", &by_operator)];
    assert_eq!(made(&entries), expected.map(|(kind, by)| (kind.to_owned(), by.clone())));
}
