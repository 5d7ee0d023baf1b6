//! `bench coordinator` with its ledger in a file.

mod answered;

#[test]
fn everybody_is_answered_and_counted() {
    let found = answered::with_ledgers(&["redb"], "2");
    assert!(found[0]["etcd"].is_null());
}
