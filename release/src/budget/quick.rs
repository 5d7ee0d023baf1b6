//! The quick answer to most requests: a bound of ε by Rényi divergences that add up.
//!
//! It only ever admits. What it doesn't, the composition decides, so that no request is refused that the composition holds.
//! What it admits, the composition holds as well:
//!
//! ```text
//! ε of the composition ≤ quick bound                   Rényi divergences add up; their conversion is an upper bound
//! quick bound ≤ 0.97 · budget                          or it admits nothing
//! the accountant's ε ≤ 1.03 · ε of the composition     its grids aim at 1.00002
//! so the accountant's ε ≤ budget
//! ```
//!
//! For Gaussian mechanisms alone the accountant's ε is exact, and where a sweep is charged it is by the same divergences at ten
//! times as many orders. Where a grid would be too large, the accountant takes the divergences' ε if its coarse grid says more.
//!
//! What the quick bound does not admit, a coarse grid may, which takes a sixth of the time of a fine one and bounds it from above.

use std::sync::Arc;

use accounting::pld::Figure;
use accounting::{Account, RenyiCurve};
use ledger::{ChargedJob, DataSetState, LedgerError};
use proto::model::PrivacyBudget;

use super::bound::Bound;
use super::counted::{Counted, Terms};
use super::events;
use super::kinds::{Kind, Kinds};
use super::rounding::ROUNDING;

/// The part of a budget up to which the quick bound admits. The rest is room for an account that is less than exact.
const CLEARLY: f64 = 0.97;

/// Accuracy of the coarse grid, relatively, and the part of a budget up to which its ε admits.
const COARSE: f64 = 1e-2;
const NEARLY: f64 = 0.999;

/// Returns whether the bound clearly holds `asked` beside those of its charges that `others` selects.
pub fn clearly_holds(
    state: &DataSetState,
    bound: &Bound,
    others: impl Fn(&ChargedJob) -> bool,
    asked: &Counted,
) -> bool {
    let most = CLEARLY * bound.budget.epsilon;
    epsilon(state, bound, others, asked).is_some_and(|epsilon| epsilon * (1.0 + ROUNDING) <= most)
}

/// Returns ε of the account at the bound's δ: that of a coarse grid where the budget holds it, else as it is accounted for.
///
/// # Errors
/// [`LedgerError::Invalid`] where there is no figure that f64 holds.
pub fn epsilon_to_decide(bound: &Bound, account: &Account) -> Result<f64, LedgerError> {
    let PrivacyBudget { epsilon: budget, delta } = bound.budget;
    let coarse = account.epsilon_figure(delta, COARSE);
    match coarse {
        // Without a grid nothing is coarse.
        Ok(Figure { value, spacing, .. }) if spacing == 0.0 || value <= NEARLY * budget => Ok(value),
        _ => bound.epsilon_of(account),
    }
}

/// Returns an upper bound of ε of all these charges together at the bound's δ; `None` where there is none.
fn epsilon(
    state: &DataSetState,
    bound: &Bound,
    others: impl Fn(&ChargedJob) -> bool,
    asked: &Counted,
) -> Option<f64> {
    let text = events::to_text(&asked.event).ok()?;
    let (texts, shared): (Vec<&str>, Vec<bool>) =
        bound.texts(state, others).chain([(text.as_str(), asked.is_shared)]).unzip();
    let kinds = Kinds::of(texts.into_iter())?;
    let charges = || kinds.iter().zip(&shared);
    let terms = Terms::new(charges().any(|(kind, is_shared)| *is_shared && kind.is_sampled), &state.record);
    let curve = |(kind, is_shared): (&Arc<Kind>, &bool)| kind.curve(terms, *is_shared);
    let curves = charges().map(curve).collect::<Option<Vec<Arc<RenyiCurve>>>>()?;
    RenyiCurve::composed(curves.iter().map(Arc::as_ref)).ok()?.epsilon(bound.budget.delta).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use accounting::{Event, MatrixMechanism, Partition, Sampling};
    use ledger::{BlockRecord, Charge, ChargeState, DataSetRecord, Head, JobState, SweepRecord};
    use proto::model::{NeighbouringRelation, PrivacyUnit};
    use proto::{BlockId, DataSetId, Day, JobId, Nonce, SweepId, TenantId};

    use super::*;
    use crate::budget::bound::ChargeKind;

    const MIXES: u64 = 60;

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }

        fn event(&mut self) -> Event {
            let sigma = [1.0, 1.5, 4.0, 9.0][self.below(4) as usize];
            let q = [0.002, 0.01][self.below(2) as usize];
            let bands = 1 + self.below(3);
            let run = MatrixMechanism::cyclic_poisson(sigma, q, bands, 30, Partition::Independent);
            let plan_digest = format!("{:02x}", self.below(256));
            let sampled = MatrixMechanism { plan_digest, ..run };
            let whole = MatrixMechanism { sampling: Sampling::AnyOrder, sensitivity: 1.5, ..sampled.clone() };
            match self.below(4) {
                0 => Event::MatrixMechanism(whole),
                // A job that went back.
                1 => {
                    let left = Event::Gaussian { noise_multiplier: 2.0 * sigma };
                    Event::Composed { events: vec![Event::MatrixMechanism(whole), left] }
                }
                _ => Event::MatrixMechanism(sampled),
            }
        }

        fn blocks(&mut self) -> BTreeSet<BlockId> {
            let names = [vec!["a"], vec!["b"], vec!["a", "b"], vec![]];
            let named = &names[self.below(4) as usize];
            named.iter().map(|name| BlockId::new(*name).unwrap()).collect()
        }

        /// Charges of a data set with two blocks and two tenants, some of them given back or of a sweep's runs.
        fn state(&mut self) -> DataSetState {
            let budget = PrivacyBudget::new(5.0, 1e-6).unwrap();
            let day = |month: u32| Day::new(format!("2026-{month:02}-01")).unwrap();
            let block = |month| BlockRecord { from: day(month), until: day(month + 1), budget };
            let neighbouring = [
                NeighbouringRelation::ZeroOut,
                NeighbouringRelation::AddRemove,
                NeighbouringRelation::Replace,
            ][self.below(3) as usize];
            let tenant = |name: &str| TenantId::new(name).unwrap();
            let record = DataSetRecord {
                data_set: DataSetId::new("mails").unwrap(),
                unit: [PrivacyUnit::User, PrivacyUnit::Example][self.below(2) as usize],
                neighbouring,
                budget,
                shares: BTreeMap::from([(tenant("ads"), budget), (tenant("search"), budget)]),
                blocks: [("a", block(1)), ("b", block(2))]
                    .map(|(name, block)| (BlockId::new(name).unwrap(), block))
                    .into(),
                per_block: self.below(2) == 0,
                approvals: None,
            };
            let charges = (0..1 + self.below(6)).map(|number| self.charged(number, &record)).collect();
            let sweep = |charge| SweepRecord {
                sweep: SweepId::new("rates").unwrap(),
                data_set: record.data_set.clone(),
                run: String::new(),
                charge: events::to_text(&charge).unwrap(),
                seed: [0; 32],
                runs: 3,
                started: 0,
            };
            let run = Event::Gaussian { noise_multiplier: 8.0 };
            let sweeps = (self.below(4) == 0)
                .then(|| sweep(Event::RepeatAndSelect { event: Box::new(run), mean: 3.0, shape: Some(1.0) }));
            let head = Head { entries: 1, hash: [0; 32] };
            DataSetState { record: record.clone(), charges, sweeps: sweeps.into_iter().collect(), head }
        }

        fn charged(&mut self, number: u64, record: &DataSetRecord) -> ChargedJob {
            let event = events::to_text(&self.event()).unwrap();
            let charge = Charge {
                data_set: record.data_set.clone(),
                job_nonce: Nonce::from_bytes([number as u8; 32]),
                planned: event.clone(),
                event,
                state: [ChargeState::Open, ChargeState::Final, ChargeState::Open, ChargeState::GivenBack]
                    [self.below(4) as usize],
                sweep: (self.below(8) == 0).then(|| SweepId::new("rates").unwrap()),
                tenant: Some(TenantId::new(["ads", "search"][self.below(2) as usize]).unwrap()),
                blocks: self.blocks(),
            };
            let job = JobId::new(format!("job-{number}")).unwrap();
            ChargedJob { job, charge, state: JobState::Running, branch: 0, rows_bound: 0, is_adopted: false }
        }
    }

    #[test]
    fn no_quick_bound_is_below_the_account_of_the_same_charges() {
        let mut ratios = Vec::new();
        for mix in 0..MIXES {
            let mut dice = Dice(mix);
            let state = dice.state();
            let blocks = dice.blocks();
            let asked = dice.event();
            let ads = TenantId::new("ads").unwrap();
            let not_the_first = |charged: &ChargedJob| mix % 2 == 0 || charged.job.as_str() != "job-0";
            for bound in Bound::of_charge(&state.record, ChargeKind::Job(Some(&ads)), &blocks).unwrap() {
                let asked = bound.counted(asked.clone(), &blocks, &state.record);
                let all = [bound.charged(&state, not_the_first).unwrap(), vec![asked.clone()]].concat();
                let exact = bound.epsilon(all, &state.record).unwrap();
                let quick = epsilon(&state, &bound, not_the_first, &asked).unwrap();
                assert!(exact <= quick, "{mix}: {exact} above {quick} of {bound:?}");
                ratios.push(quick / exact);
            }
        }
        ratios.sort_by(f64::total_cmp);
        assert!(ratios.len() as u64 > 2 * MIXES && ratios[ratios.len() / 2] < 1.25, "{ratios:?}");
    }

    #[test]
    fn what_is_clearly_within_a_budget_needs_no_composition_and_nothing_else_does() {
        let mut state = Dice(1).state();
        let bound = |epsilon: f64| Bound {
            budget: PrivacyBudget::new(epsilon, 1e-6).unwrap(),
            ..Bound::whole(&state.record)
        };
        let asked = Counted::whole(Event::Gaussian { noise_multiplier: 4.0 });
        let quick = epsilon(&state, &bound(1.0), |_| true, &asked).unwrap();
        let holds = |state: &DataSetState, bound: &Bound| clearly_holds(state, bound, |_| true, &asked);
        assert!(holds(&state, &bound(quick * 1.04)) && !holds(&state, &bound(quick * 1.03)));
        // What this build does not read is left to the composition, which refuses it by name.
        let large = bound(1000.0);
        state.charges[0].charge.event = "{\"kind\":\"of-a-newer-build\"}".to_owned();
        state.charges[0].charge.state = ChargeState::Open;
        state.charges[0].charge.sweep = None;
        assert!(!holds(&state, &large));
    }

    /// Both sides of where the coarse grid's ε is enough, and of where ε is.
    #[test]
    fn a_coarse_grid_decides_as_the_account_does() {
        let run = MatrixMechanism::cyclic_poisson(1.0, 0.01, 1, 500, Partition::Independent);
        let account = Account::new(&Event::MatrixMechanism(run), accounting::Neighbouring::ZeroOut).unwrap();
        let exact = account.epsilon(1e-6).unwrap();
        let mut coarse = 0;
        for part in [0.9, 0.98, 0.985, 0.99, 0.993, 0.996, 0.999, 0.9999, 1.0, 1.0001, 1.01] {
            let budget = PrivacyBudget::new(exact / part, 1e-6).unwrap();
            let bound = Bound { tenant: None, block: None, budget };
            let decided = epsilon_to_decide(&bound, &account).unwrap();
            assert!(decided >= exact, "{part}: {decided} below {exact}");
            assert_eq!(decided <= budget.epsilon, exact <= budget.epsilon, "{part}: {decided}");
            coarse += u64::from(decided != exact);
        }
        assert!((2..9).contains(&coarse), "{coarse}");
    }
}
