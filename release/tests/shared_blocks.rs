//! Jobs of several blocks of a data set of users: what is left of a user's data when that in one block goes contributes something
//! else, up to two clip norms away.
#![allow(clippy::unwrap_used)]

mod data_set;
mod identity_plan;

use std::collections::BTreeSet;

use accounting::{Account, Event, Neighbouring, gaussian};
use data_set::{DELTA, begun};
use identity_plan::identity_plan;
use ledger::{Ledger, LedgerError};
use plan::Plan;
use proto::model::{AddBlock, BudgetedAccount, NeighbouringRelation, PrivacyBudget, PrivacyUnit};
use proto::{BlockId, Day, JobId, Nonce};
use release::budget::{add_block, create_job, message_of, planned_event};
use release::job::define;
use tempfile::TempDir;

const SIGMA: f64 = 4.0;
const POISSON: &str =
    "{\"kind\":\"cyclic-poisson\",\"sampling_probability\":0.01,\"partition\":\"independent\"}";

/// Independent noise, of which one unit takes part in one of ten rounds.
fn plan() -> Plan {
    identity_plan(SIGMA, 10, 1)
}

struct Fixture {
    _folder: TempDir,
    ledger: Ledger,
    account: BudgetedAccount,
}

impl Fixture {
    fn new(unit: PrivacyUnit, neighbouring: NeighbouringRelation) -> Self {
        let folder = TempDir::new().unwrap();
        let account = BudgetedAccount { unit, neighbouring, ..data_set::account() };
        let ledger = begun(&folder.path().join("ledger.redb"), &account, 1_000.0, false);
        Self { _folder: folder, ledger, account }
    }

    fn add(&self, block: &str, month: u32, epsilon: f64) -> Result<(), LedgerError> {
        let day = |month: u32| Day::new(format!("2026-{month:02}-01")).unwrap();
        let request = AddBlock {
            data_set: self.account.data_set.clone(),
            block: BlockId::new(block).unwrap(),
            from: day(month),
            until: day(month + 1),
            budget: Some(PrivacyBudget::new(epsilon, DELTA).unwrap()),
        };
        add_block(&self.ledger, &request)
    }

    fn create(&self, name: &str, blocks: &[&str], sampling: &str) -> Result<(), LedgerError> {
        let blocks: BTreeSet<BlockId> = blocks.iter().map(|block| BlockId::new(*block).unwrap()).collect();
        let account = BudgetedAccount { blocks, sampling: sampling.to_owned(), ..self.account.clone() };
        let event = planned_event(&plan(), &account).unwrap();
        let text = plan().to_toml_string().unwrap();
        let name = JobId::new(name).unwrap();
        let job = define(name, &plan(), text, 1_000, [7; 32], 1, Nonce::from_bytes([9; 32])).unwrap();
        create_job(&self.ledger, &job, &account, &event).map(drop)
    }

    /// What is charged to the block, or to all together.
    fn charged(&self, block: Option<&str>) -> f64 {
        let shown = message_of(&self.ledger.data_set(&self.account.data_set).unwrap()).unwrap();
        let reserved = match block {
            None => shown.reserved,
            Some(name) => shown.blocks.iter().find(|shown| shown.block == name).unwrap().reserved,
        };
        reserved.unwrap().epsilon
    }
}

fn of_mu(squared: f64) -> f64 {
    gaussian::epsilon(DELTA, squared.sqrt() / SIGMA).unwrap()
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-4, "{value}, expected {expected}");
}

#[test]
fn a_block_that_shares_a_users_contribution_counts_twice_the_sensitivity() {
    for (unit, neighbouring, single, shared) in [
        (PrivacyUnit::User, NeighbouringRelation::ZeroOut, 1.0, 4.0),
        (PrivacyUnit::Device, NeighbouringRelation::AddRemove, 1.0, 4.0),
        (PrivacyUnit::Example, NeighbouringRelation::ZeroOut, 1.0, 1.0),
        (PrivacyUnit::User, NeighbouringRelation::Replace, 4.0, 4.0),
    ] {
        let fixture = Fixture::new(unit, neighbouring);
        fixture.add("jan", 1, 100.0).unwrap();
        fixture.add("feb", 2, of_mu(shared) + 0.001).unwrap();
        fixture.create("a", &["jan"], "").unwrap();
        near(fixture.charged(Some("jan")), of_mu(single));
        fixture.create("b", &["jan", "feb"], "").unwrap();
        near(fixture.charged(Some("feb")), of_mu(shared));
        near(fixture.charged(Some("jan")), of_mu(single + shared));
        // All data of a user is clipped as a whole.
        near(fixture.charged(None), of_mu(2.0 * single));
        let Err(LedgerError::BudgetExceeded(shortfall)) = fixture.create("c", &["feb", "jan"], "") else {
            panic!("{unit}")
        };
        assert_eq!(shortfall.block, "feb");
        near(shortfall.asked.parse().unwrap(), of_mu(shared));
        // Of μ² beside that of b: a little of the block is left.
        let fits: f64 = shortfall.fits.parse().unwrap();
        let all = of_mu(shared * (1.0 + (SIGMA / fits).powi(2)));
        assert!(all <= of_mu(shared) + 0.001 && all > of_mu(shared) + 0.0005, "{unit}: {fits}, {all}");
    }
}

/// A job that names no block may have read any, beside data that is in none.
#[test]
fn a_job_from_before_the_first_block_shares_too() {
    let fixture = Fixture::new(PrivacyUnit::User, NeighbouringRelation::ZeroOut);
    fixture.create("old", &[], "").unwrap();
    let refused = fixture.add("jan", 1, of_mu(4.0) - 0.001).unwrap_err().to_string();
    assert!(refused.contains("are charged in every block"), "{refused}");
    fixture.add("jan", 1, of_mu(4.0) + 0.001).unwrap();
    near(fixture.charged(Some("jan")), of_mu(4.0));
}

/// Whether a user is in a batch does not change with its data, so that sampling still hides its contributions.
#[test]
fn a_sampled_job_of_several_blocks_is_charged_as_under_replacement() {
    let fixture = Fixture::new(PrivacyUnit::User, NeighbouringRelation::ZeroOut);
    fixture.add("jan", 1, 100.0).unwrap();
    fixture.add("feb", 2, 100.0).unwrap();
    let of = |relation: Neighbouring, others: Vec<Event>| {
        let round = Event::PoissonSampledGaussian { noise_multiplier: SIGMA, sampling_probability: 0.01 };
        let events = [vec![round.times(10)], others].concat();
        Account::new(&Event::Composed { events }, relation).unwrap().epsilon(DELTA).unwrap()
    };
    fixture.create("a", &["jan"], POISSON).unwrap();
    near(fixture.charged(Some("jan")), of(Neighbouring::ZeroOut, Vec::new()));
    fixture.create("b", &["feb", "jan"], POISSON).unwrap();
    near(fixture.charged(Some("feb")), of(Neighbouring::Replace, Vec::new()));
    let unsampled = Event::Gaussian { noise_multiplier: SIGMA };
    fixture.create("c", &["feb"], "").unwrap();
    near(fixture.charged(Some("feb")), of(Neighbouring::Replace, vec![unsampled]));
}
