//! `bench coordinator` with its ledger in a file.
#![allow(clippy::unwrap_used)] // a test says best where it stands

mod answered;

#[test]
fn everybody_is_answered_and_counted() {
    let found = answered::with_ledgers(&["redb"], "2");
    assert!(found[0]["etcd"].is_null());
}
