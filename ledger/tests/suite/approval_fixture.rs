//! A ledger whose data set takes two persons.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ledger::{
    Approvals, Clock, DataSetRecord, Head, Ledger, LedgerError, Principal, Recharge, Reservation, Result,
    Stamp,
};
use proto::{
    DataSetId, PersonId, TenantId,
    model::{ApprovalRule, GuardedChange, NeighbouringRelation, OpenBranch, PrivacyBudget, PrivacyUnit},
};

use crate::{Place, commitment, id, job, nonce, rows, two_shards};

pub const HOUR_MS: u64 = 3_600_000;

pub fn name() -> DataSetId {
    DataSetId::new("mails").unwrap()
}

pub fn at(epsilon: f64) -> PrivacyBudget {
    PrivacyBudget::new(epsilon, 1e-6).unwrap()
}

pub fn budget(epsilon: f64) -> GuardedChange {
    GuardedChange::Budget { budget: at(epsilon) }
}

pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub fn share(of: &str, epsilon: Option<f64>) -> GuardedChange {
    GuardedChange::Share { tenant: tenant(of), share: epsilon.map(at) }
}

pub fn mails(free_rewinds: u32) -> DataSetRecord {
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
pub struct Fixture {
    pub place: Place,
    pub ledger: Ledger,
    pub now_ms: Arc<AtomicU64>,
}

impl Fixture {
    pub fn new(free_rewinds: u32) -> Self {
        let place = Place::new();
        let now_ms = Arc::new(AtomicU64::new(HOUR_MS));
        let read = now_ms.clone();
        let ledger = place.open().with_clock(Clock::new(move || read.load(Ordering::SeqCst)));
        let fixture = Self { place, ledger, now_ms };
        fixture.by("ann").create_data_set(&mails(free_rewinds)).unwrap();
        fixture
    }

    /// The ledger as this person's credentials act on it; as no person's where the name is empty.
    pub fn by(&self, person: &str) -> Ledger {
        self.ledger.acting_as(Principal::new(&format!("of {person}")).of_person(PersonId::new(person).ok()))
    }

    pub fn head(&self) -> Head {
        self.ledger.data_set(&name()).unwrap().head
    }

    pub fn approve(&self, person: &str, change: &GuardedChange) -> Result<()> {
        self.by(person).approve(&name(), change, HOUR_MS)
    }

    pub fn grant(&self, person: &str, epsilon: f64) -> Result<()> {
        self.by(person).grant_budget(&name(), at(epsilon), self.head())
    }

    pub fn set_share(&self, person: &str, of: &str, epsilon: Option<f64>) -> Result<()> {
        self.by(person).set_share(&name(), &tenant(of), epsilon.map(at), self.head())
    }

    pub fn budget(&self) -> f64 {
        self.ledger.data_set(&name()).unwrap().record.budget.epsilon
    }

    /// The kinds of the last events, from the data set's entry `first` on.
    pub fn kinds(&self, first: u64) -> Vec<String> {
        let entries = self.ledger.data_set_entries(&name(), first, 100, 1 << 20).unwrap();
        let kind = |event: &str| Stamp::split(event).unwrap().1.split('"').nth(3).unwrap().to_owned();
        entries.iter().map(|entry| kind(&entry.event)).collect()
    }

    /// Opens the ledger again, which replays its chains.
    pub fn assert_whole(self) {
        let Self { place, ledger, .. } = self;
        drop(ledger);
        place.open();
    }
}

#[track_caller]
pub fn refused(outcome: Result<()>, reason: &str) {
    match outcome {
        Err(LedgerError::ApprovalRequired { data_set, reason: said, .. }) => {
            assert_eq!(data_set, "mails");
            assert!(said.contains(reason), "{said}");
        }
        other => panic!("{other:?}, where {reason} was expected"),
    }
}

pub fn charged(fixture: &Fixture) {
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

pub fn back(expected_branch: u64) -> OpenBranch {
    OpenBranch { job: id("j"), from_row: 1, expected_branch, parent: None }
}

pub fn rewind(fixture: &Fixture, person: &str, request: &OpenBranch, event: &str) -> Result<()> {
    let recharge = Recharge { event: event.to_owned(), expected: fixture.head(), rows_bound: 2 };
    let draw = nonce(request.expected_branch + 1);
    fixture.by(person).open_charged_branch(request, draw, Some(&recharge)).map(drop)
}
