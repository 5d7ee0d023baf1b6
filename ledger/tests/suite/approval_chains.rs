//! Chains that pass over a rule on approvals are refused, wherever they are read.

use ledger::{ChainCheck, Entry, EntryLine, Head, Ledger, Recharge};

use crate::{
    approval_fixture::{Fixture, HOUR_MS, back, budget, charged, name},
    commitment, id, nonce, rows,
};

/// Whether a chain of these events passes the check of exported entries, which replays them.
fn check(events: &[String]) -> Result<(), String> {
    let chain = "data-set/mails";
    let mut head = Head::empty(chain);
    let mut check = ChainCheck::default();
    for (index, event) in (0..).zip(events) {
        let next = head.next(event.as_bytes());
        let entry = Entry { index, previous: head.hash, hash: next.hash, event: event.clone() };
        check.take(&EntryLine::new(chain, entry).unwrap())?;
        head = next;
    }
    Ok(())
}

#[test]
fn a_chain_that_passes_over_the_rule_is_refused() {
    let fixture = Fixture::new(0);
    fixture.approve("ben", &budget(6.0)).unwrap();
    fixture.grant("ann", 6.0).unwrap();
    fixture.grant("ann", 3.0).unwrap();
    let entries = fixture.ledger.data_set_entries(&name(), 0, 10, 1 << 20).unwrap();
    let whole: Vec<String> = entries.into_iter().map(|entry| entry.event).collect();
    let [created, approved, used, raised, lowered] = &whole[..] else { panic!("{whole:?}") };
    check(&whole).unwrap();
    let altered = |event: &String, old: &str, new: &str| {
        assert!(event.contains(old), "{event}");
        event.replace(old, new)
    };
    let late = altered(used, &format!("\"at_ms\":{HOUR_MS}"), &format!("\"at_ms\":{}", 2 * HOUR_MS));
    let more = altered(raised, "6.0", "7.0");
    let refused = [
        ("no person did", vec![created, approved, raised]),
        ("no person gave", vec![created, used, raised]),
        ("no person gave", vec![created, approved, used, raised, lowered, used, raised]),
        ("used for nothing", vec![created, approved, used, used, raised]),
        ("used for nothing", vec![created, approved, used, lowered]),
        ("no person did", vec![created, approved, used, &more]),
        ("had ended", vec![created, approved, &late, raised]),
    ];
    let both = altered(used, "\"operator\":\"ann\"", "\"operator\":\"ben\"");
    let by_eve = altered(used, "\"approver\":\"ben\"", "\"approver\":\"eve\"");
    let of_others = [
        ("the person who made", vec![created, approved, &both, raised]),
        ("another person", vec![created, approved, &by_eve, raised]),
    ];
    for (reason, events) in refused.into_iter().chain(of_others) {
        let said = check(&events.iter().map(|event| (*event).clone()).collect::<Vec<_>>()).unwrap_err();
        assert!(said.contains(reason), "{reason}: {said}");
    }
    let without_rule = altered(created, ",\"approval_rule\":{\"free_rewinds\":0}", "");
    check(&[without_rule, raised.clone()]).unwrap();
}

/// A branch that its data set's chain calls one of an adoption, in a job that never was adopted.
#[test]
fn a_branch_that_is_called_an_adoptions_and_is_none_is_damage() {
    let fixture = Fixture::new(0);
    charged(&fixture);
    let recharge = Recharge { event: "{\"more\":1}".to_owned(), expected: fixture.head(), rows_bound: 2 };
    fixture.ledger.open_adopted_branch(&back(0), nonce(1), Some(&recharge)).unwrap();
    fixture.ledger.bind(&id("j"), 1, rows(1, 2), &[commitment("again")]).unwrap();
    let Fixture { place, ledger, .. } = fixture;
    drop(ledger);
    let damaged = Ledger::open(&place.path()).err().unwrap();
    assert!(damaged.to_string().contains("opened in no adoption"), "{damaged}");
}
