//! Approvals: a change that takes two persons is made once, as one of them approved it, by the other, in time.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ledger::{
    Approvals, ChainCheck, Clock, DataSetRecord, Entry, EntryLine, Head, Ledger, LedgerError, Principal,
    Recharge, Reservation, Result, Stamp,
};
use proto::{
    DataSetId, PersonId, TenantId,
    model::{ApprovalRule, GuardedChange, NeighbouringRelation, OpenBranch, PrivacyBudget, PrivacyUnit},
};

use crate::{Place, commitment, id, job, nonce, rows, two_shards};

const HOUR_MS: u64 = 3_600_000;

fn name() -> DataSetId {
    DataSetId::new("mails").unwrap()
}

fn at(epsilon: f64) -> PrivacyBudget {
    PrivacyBudget::new(epsilon, 1e-6).unwrap()
}

fn budget(epsilon: f64) -> GuardedChange {
    GuardedChange::Budget { budget: at(epsilon) }
}

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

fn share(of: &str, epsilon: Option<f64>) -> GuardedChange {
    GuardedChange::Share { tenant: tenant(of), share: epsilon.map(at) }
}

fn mails(free_rewinds: u32) -> DataSetRecord {
    DataSetRecord {
        data_set: name(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        budget: at(4.0),
        shares: Default::default(),
        blocks: Default::default(),
        per_block: false,
        approvals: Some(Approvals::from(ApprovalRule { free_rewinds })),
    }
}

/// A ledger whose data set takes two persons, ann and ben, and a clock that tests set.
struct Fixture {
    place: Place,
    ledger: Ledger,
    now_ms: Arc<AtomicU64>,
}

impl Fixture {
    fn new(free_rewinds: u32) -> Self {
        let place = Place::new();
        let now_ms = Arc::new(AtomicU64::new(HOUR_MS));
        let read = now_ms.clone();
        let ledger = place.open().with_clock(Clock::new(move || read.load(Ordering::SeqCst)));
        let fixture = Self { place, ledger, now_ms };
        fixture.by("ann").create_data_set(&mails(free_rewinds)).unwrap();
        fixture
    }

    /// The ledger as this person's credentials act on it; as no person's where the name is empty.
    fn by(&self, person: &str) -> Ledger {
        self.ledger.acting_as(Principal::new(&format!("of {person}")).of_person(PersonId::new(person).ok()))
    }

    fn head(&self) -> Head {
        self.ledger.data_set(&name()).unwrap().head
    }

    fn approve(&self, person: &str, change: &GuardedChange) -> Result<()> {
        self.by(person).approve(&name(), change, HOUR_MS)
    }

    fn grant(&self, person: &str, epsilon: f64) -> Result<()> {
        self.by(person).grant_budget(&name(), at(epsilon), self.head())
    }

    fn set_share(&self, person: &str, of: &str, epsilon: Option<f64>) -> Result<()> {
        self.by(person).set_share(&name(), &tenant(of), epsilon.map(at), self.head())
    }

    fn budget(&self) -> f64 {
        self.ledger.data_set(&name()).unwrap().record.budget.epsilon
    }

    /// The kinds of the last events, from the data set's entry `first` on.
    fn kinds(&self, first: u64) -> Vec<String> {
        let entries = self.ledger.data_set_entries(&name(), first, 100, 1 << 20).unwrap();
        let kind = |event: &str| Stamp::split(event).unwrap().1.split('"').nth(3).unwrap().to_owned();
        entries.iter().map(|entry| kind(&entry.event)).collect()
    }

    /// Opens the ledger again, which replays its chains.
    fn assert_whole(self) {
        let Self { place, ledger, .. } = self;
        drop(ledger);
        place.open();
    }
}

#[track_caller]
fn refused(outcome: Result<()>, reason: &str) {
    match outcome {
        Err(LedgerError::ApprovalRequired { data_set, reason: said, .. }) => {
            assert_eq!(data_set, "mails");
            assert!(said.contains(reason), "{said}");
        }
        other => panic!("{other:?}, where {reason} was expected"),
    }
}

#[test]
fn a_budget_rises_once_by_another_person_than_the_one_who_approved() {
    let fixture = Fixture::new(0);
    let before = fixture.head();
    refused(fixture.grant("ann", 6.0), "no person has approved it");
    refused(fixture.grant("", 6.0), "no person");
    fixture.approve("ben", &budget(6.0)).unwrap();
    refused(fixture.grant("", 6.0), "no person");
    refused(fixture.grant("ben", 6.0), "ben has approved it, who makes it");
    refused(fixture.grant("ann", 6.5), "what ben approved is a budget of ε = 6 at δ = 0.000001");
    refused(
        fixture
            .set_share("ann", "ads", Some(1.0))
            .and_then(|()| fixture.set_share("ann", "search", Some(1.0))),
        "no person has",
    );
    fixture.grant("ann", 6.0).unwrap();
    assert_eq!(fixture.kinds(before.entries), ["approved", "share_set", "approval_used", "budget_granted"]);

    // Back down takes no approval, and up again one.
    fixture.grant("ann", 5.0).unwrap();
    refused(fixture.grant("ann", 6.0), "no person has approved it");
    assert!((fixture.budget() - 5.0).abs() < 1e-12);
    fixture.assert_whole();
}

#[test]
fn an_approval_ends_by_the_ledgers_clock_and_a_later_one_takes_its_place() {
    let fixture = Fixture::new(0);
    fixture.approve("ben", &budget(6.0)).unwrap();
    fixture.now_ms.store(2 * HOUR_MS, Ordering::SeqCst);
    refused(fixture.grant("ann", 6.0), "the approval of ben has ended");
    fixture.approve("ben", &budget(7.0)).unwrap();
    fixture.approve("eve", &budget(6.0)).unwrap();
    refused(fixture.grant("ann", 7.0), "what eve approved is");
    fixture.now_ms.store(3 * HOUR_MS - 1, Ordering::SeqCst);
    fixture.grant("ben", 6.0).unwrap();
    fixture.assert_whole();
}

#[test]
fn delta_counts_as_epsilon_does() {
    let fixture = Fixture::new(0);
    let grant = |epsilon, delta| {
        let budget = PrivacyBudget::new(epsilon, delta).unwrap();
        fixture.by("ann").grant_budget(&name(), budget, fixture.head())
    };
    refused(grant(1.0, 2e-6), "no person has");
    refused(grant(4.1, 1e-9), "no person has");
    grant(4.0, 1e-7).unwrap();
    refused(grant(4.0, 1e-6), "no person has");
}

#[test]
fn no_one_gets_more_of_a_budget_by_shares_alone() {
    let fixture = Fixture::new(0);
    // Everybody may spend the whole before.
    fixture.set_share("ann", "ads", Some(1.0)).unwrap();
    refused(fixture.set_share("ann", "ads", Some(1.5)), "no person has");
    refused(fixture.set_share("ann", "search", Some(0.1)), "no person has");
    // Without it everybody may, and ads itself may get a larger first share.
    refused(fixture.set_share("ann", "ads", None), "no person has");
    fixture.set_share("ann", "ads", Some(0.5)).unwrap();
    fixture.approve("ben", &share("search", Some(0.1))).unwrap();
    refused(fixture.set_share("ann", "ads", Some(0.6)), "no person has");
    refused(fixture.set_share("ann", "search", Some(0.2)), "what ben approved is a share of ε = 0.1");
    fixture.set_share("ann", "search", Some(0.1)).unwrap();
    fixture.set_share("ann", "search", None).unwrap();
    refused(fixture.set_share("ann", "search", Some(0.1)), "no person has");
    fixture.approve("ben", &share("ads", None)).unwrap();
    fixture.set_share("ann", "ads", None).unwrap();
    fixture.assert_whole();
}

fn charged(fixture: &Fixture) {
    let reservation = Reservation {
        data_set: name(),
        event: "{\"kind\":\"planned\"}".to_owned(),
        expected: Some(fixture.head()),
        sweep: None,
        tenant: None,
        blocks: Default::default(),
    };
    fixture.ledger.create_charged_job(&job("j"), &two_shards(), Some(&reservation)).unwrap();
    fixture.ledger.bind(&id("j"), 0, rows(0, 2), &["0", "1"].map(commitment)).unwrap();
}

fn back(expected_branch: u64) -> OpenBranch {
    OpenBranch { job: id("j"), from_row: 1, expected_branch, parent: None }
}

fn rewind(fixture: &Fixture, person: &str, request: &OpenBranch, event: &str) -> Result<()> {
    let recharge = Recharge { event: event.to_owned(), expected: fixture.head(), rows_bound: 2 };
    let draw = nonce(request.expected_branch + 1);
    fixture.by(person).open_charged_branch(request, draw, Some(&recharge)).map(drop)
}

#[test]
fn rewinds_beyond_the_free_ones_are_as_approved_unless_they_cost_nothing() {
    let fixture = Fixture::new(1);
    charged(&fixture);
    rewind(&fixture, "", &back(0), "{\"more\":1}").unwrap();
    refused(rewind(&fixture, "", &back(1), "{\"more\":2}"), "no person");
    refused(rewind(&fixture, "ann", &back(1), "{\"more\":2}"), "no person has");
    rewind(&fixture, "", &back(1), "{\"more\":1}").unwrap();
    fixture.approve("ben", &GuardedChange::from(&OpenBranch { from_row: 0, ..back(2) })).unwrap();
    refused(
        rewind(&fixture, "ann", &back(2), "{\"more\":2}"),
        "what ben approved is a rewind of job j to row 0",
    );
    fixture.approve("ben", &GuardedChange::from(&back(2))).unwrap();
    refused(rewind(&fixture, "ann", &OpenBranch { parent: Some(0), ..back(2) }, "{\"more\":2}"), "what ben");
    refused(rewind(&fixture, "ben", &back(2), "{\"more\":2}"), "who makes it");
    let before = fixture.head();
    rewind(&fixture, "ann", &back(2), "{\"more\":2}").unwrap();
    assert_eq!(fixture.kinds(before.entries), ["approval_used", "recharged"]);
    refused(rewind(&fixture, "ann", &back(3), "{\"more\":3}"), "no person has");
    assert_eq!(fixture.ledger.job(&id("j")).unwrap().unwrap().branch, 3);
    fixture.assert_whole();
}

/// An operator who adopts a ledger has its folder: all jobs get fresh noise, with no approval.
#[test]
fn an_adoption_takes_no_approval_and_the_chain_says_that_it_is_one() {
    let fixture = Fixture::new(0);
    charged(&fixture);
    let recharge = Recharge { event: "{\"more\":1}".to_owned(), expected: fixture.head(), rows_bound: 2 };
    fixture.ledger.open_adopted_branch(&back(0), nonce(1), Some(&recharge)).unwrap();
    let last = fixture.ledger.data_set_entries(&name(), fixture.head().entries - 1, 1, 1 << 20).unwrap();
    assert!(last[0].event.ends_with("\"adopted\":true}"), "{}", last[0].event);
    fixture.assert_whole();
}

#[test]
fn only_persons_make_rules_and_approve_and_only_where_there_is_a_rule() {
    let place = Place::new();
    let ledger = place.open();
    let refused_rule = ledger.create_data_set(&mails(0)).unwrap_err();
    assert!(matches!(&refused_rule, LedgerError::Invalid { field: "approval_rule", .. }), "{refused_rule}");
    let without = DataSetRecord { approvals: None, ..mails(0) };
    ledger.create_data_set(&without).unwrap();
    let ben = ledger.acting_as(Principal::new("ben").of_person(PersonId::new("ben").ok()));
    let pointless = ben.approve(&name(), &budget(6.0), HOUR_MS).unwrap_err();
    assert!(matches!(&pointless, LedgerError::Invalid { field: "approval", .. }), "{pointless}");
    for other in [mails(0), mails(1)] {
        let other = ben.create_data_set(&other).unwrap_err();
        assert!(other.to_string().contains("approval_rule is none"), "{other}");
    }
    let fixture = Fixture::new(0);
    refused(fixture.approve("", &budget(6.0)), "no person who could consent");
}

#[test]
fn approvals_that_wait_are_bounded_and_those_that_have_ended_make_room() {
    let fixture = Fixture::new(0);
    let of = |number: u32| share(&format!("t{number}"), Some(1.0));
    for number in 0..100 {
        fixture.approve("ben", &of(number)).unwrap();
    }
    let full = fixture.approve("ben", &of(100)).unwrap_err();
    assert!(matches!(&full, LedgerError::Invalid { field: "approvals", .. }), "{full}");
    fixture.approve("eve", &of(5)).unwrap();
    fixture.now_ms.store(2 * HOUR_MS, Ordering::SeqCst);
    fixture.approve("ben", &of(100)).unwrap();
    let pending = fixture.ledger.data_set(&name()).unwrap().record.approvals.unwrap().pending;
    assert_eq!(pending.len(), 1);
    fixture.assert_whole();
}

/// Whether a chain of these events passes the check of exported entries, which replays them.
fn check(events: &[String]) -> std::result::Result<(), String> {
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
    fixture.grant("ann", 5.0).unwrap();
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
