//! Sweeps over a real ledger: one charge for all runs, and no more runs than were drawn.
#![allow(clippy::unwrap_used)]

mod data_set;

use accounting::{Account, Event, Neighbouring};
use data_set::{DELTA, account};
use ledger::{AnchorPlace, Created, DataSetEvent, JobState, Ledger, LedgerError, Stamp};
use plan::Plan;
use proto::model::OpenBranch;
use proto::{Commitment, JobId, Nonce, RowRange, SweepId};
use release::adoption::{AdoptedJob, adopt};
use release::budget::{Odometer, Sweep, create_job, create_run, create_sweep, open_branch, planned_event};
use release::job::{JobDefinition, define};
use tempfile::TempDir;

const SIGMA: f64 = 6.0;

/// Independent noise, of which one unit takes part in one of ten rounds: μ is 1/σ.
fn plan_of(sigma: f64, clip_norm: f64) -> Plan {
    let text = format!(
        "format = 1\nstream_version = {}\nchacha_rounds = 20\niterations = 10\nnoise_multiplier = {sigma:?}\nclip_norm = \
         {clip_norm:?}\n[participation]\nmin_sep = 10\nmax_participations = 1\n[mechanism]\nname = \"identity\"\n",
        plan::STREAM_VERSION
    );
    Plan::from_toml_str(&text).unwrap()
}

fn rates() -> SweepId {
    SweepId::new("rates").unwrap()
}

fn sweep(mean: f64, shape: Option<f64>) -> Sweep {
    Sweep { sweep: rates(), mean, shape }
}

fn definition(name: &str, plan: &Plan) -> JobDefinition {
    let nonce = Nonce::from_bytes([name.len() as u8; 32]);
    define(JobId::new(name).unwrap(), plan, plan.to_toml_string().unwrap(), 1_000, [7; 32], 1, nonce).unwrap()
}

/// ε of the best of a geometric number of runs, by the event as it is written in docs.
fn selected(mean: f64, sigma: f64) -> f64 {
    let text = format!(
        r#"{{"kind":"repeat-and-select","event":{{"kind":"gaussian","noise_multiplier":{sigma}}},"mean":{mean},"shape":1}}"#
    );
    let event: Event = serde_json::from_str(&text).unwrap();
    Account::new(&event, Neighbouring::ZeroOut).unwrap().epsilon(DELTA).unwrap()
}

struct Fixture {
    folder: TempDir,
    ledger: Ledger,
}

impl Fixture {
    fn new(epsilon: f64) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.redb");
        let ledger = data_set::begun(&path, &account(), epsilon, false);
        Self { folder, ledger }
    }

    fn reopened(self) -> Self {
        let Self { folder, ledger } = self;
        drop(ledger);
        let ledger = Ledger::open(&folder.path().join("ledger.redb")).unwrap();
        Self { folder, ledger }
    }

    fn sweep(&self, mean: f64, shape: Option<f64>) -> Result<Created, LedgerError> {
        let run = planned_event(&plan_of(SIGMA, 1.0), &account()).unwrap();
        create_sweep(&self.ledger, &sweep(mean, shape), &account(), &run)
    }

    fn run(&self, name: &str, plan: &Plan) -> Result<Created, LedgerError> {
        let event = planned_event(plan, &account()).unwrap();
        create_run(&self.ledger, &rates(), &definition(name, plan), &account(), &event)
    }

    fn odometer(&self) -> Odometer {
        Odometer::of(&self.ledger.data_set(&account().data_set).unwrap()).unwrap()
    }

    /// The text of the whole chain.
    fn chain(&self) -> Vec<String> {
        let entries = self.ledger.data_set_entries(&account().data_set, 0, 10_000, 1 << 24).unwrap();
        entries.into_iter().map(|entry| Stamp::split(&entry.event).unwrap().1).collect()
    }
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-6 * expected
}

#[test]
fn all_runs_of_a_sweep_have_one_charge() {
    let fixture = Fixture::new(2.0);
    assert_eq!(fixture.sweep(5.0, Some(1.0)).unwrap(), Created::New);
    let drawn = fixture.ledger.sweep(&rates()).unwrap().runs;
    let before = fixture.odometer();
    assert!(near(before.spent, selected(5.0, SIGMA)) && before.reserved == 0.0 && !before.adaptive);

    // Again: the same number, and nothing more is reserved.
    assert_eq!(fixture.sweep(5.0, Some(1.0)).unwrap(), Created::Existing);
    let other = fixture.sweep(6.0, Some(1.0)).unwrap_err();
    assert!(matches!(other, LedgerError::AlreadyExists { what: "sweep", .. }), "{other}");

    // Runs may differ in what their event does not depend on, and in nothing else.
    let louder = fixture.run("x", &plan_of(SIGMA / 2.0, 1.0)).unwrap_err();
    assert!(louder.to_string().contains("as sweep rates has"), "{louder}");
    for run in 1..=drawn {
        let plan = plan_of(SIGMA, 0.5 * run as f64);
        assert_eq!(fixture.run(&format!("rates.{run}"), &plan).unwrap(), Created::New);
        assert_eq!(fixture.run(&format!("rates.{run}"), &plan).unwrap(), Created::Existing);
    }
    let fixture = fixture.reopened();
    let more = fixture.run("more", &plan_of(SIGMA, 1.0)).unwrap_err();
    assert!(more.to_string().contains("have started"), "{more}");
    assert!(fixture.ledger.job(&JobId::new("more").unwrap()).unwrap().is_none());
    let record = fixture.ledger.sweep(&rates()).unwrap();
    assert!(record.runs == drawn && record.is_complete());
    assert_eq!(fixture.odometer(), before);
}

#[test]
fn a_sweep_composes_with_jobs_and_is_refused_where_it_does_not_fit() {
    let run = 1.0 / SIGMA;
    let naive = accounting::gaussian::epsilon(DELTA, run * 20f64.sqrt()).unwrap();
    let budget = selected(20.0, SIGMA) + 0.05;
    assert!(budget < naive, "{budget} {naive}");
    let fixture = Fixture::new(budget);
    fixture.sweep(20.0, Some(1.0)).unwrap();
    let plan = plan_of(SIGMA, 1.0);
    let event = planned_event(&plan, &account()).unwrap();
    let refused = create_job(&fixture.ledger, &definition("a", &plan), &account(), &event).unwrap_err();
    assert!(matches!(refused, LedgerError::BudgetExceeded(_)), "{refused}");

    let small = Fixture::new(selected(20.0, SIGMA) - 0.05);
    let LedgerError::BudgetExceeded(shortfall) = small.sweep(20.0, Some(1.0)).unwrap_err() else {
        panic!("not refused for its budget")
    };
    let fits: f64 = shortfall.fits.parse().unwrap();
    assert!(fits > SIGMA && selected(20.0, fits) <= selected(20.0, SIGMA) - 0.05, "{fits}");
    assert!(small.ledger.sweep(&rates()).is_err());
    for (mean, shape) in [(0.5, Some(1.0)), (f64::NAN, None), (2.0, Some(-1.0)), (20_000.0, None)] {
        let refused = small.sweep(mean, shape).unwrap_err();
        assert!(matches!(refused, LedgerError::Invalid { field: "runs", .. }), "{refused}");
    }
}

/// The ledger's charge of runs on a grid is that of their accounted σ, with room for runs that leave their mechanism.
#[test]
fn a_sweep_of_runs_on_a_grid_costs_no_less_than_that_of_the_float_plan() {
    let float = plan_of(SIGMA, 1.0);
    let layout = Some(plan::Layout::dimension_only(1_000).unwrap());
    let spec = plan::PlanSpec { layout, ..float.spec().clone() };
    let grid = plan::grid::choose(&spec, Some(plan::Rounding::Nearest), Some(1e-3)).unwrap();
    let on_grid = Plan::new(plan::PlanSpec { grid: Some(grid), ..spec }).unwrap();
    let tau = on_grid.failure_probability();
    assert!(tau > 0.0);
    for (mean, shape) in [(5.0, Some(1.0)), (5.0, None)] {
        let spent = |plan: &Plan| {
            let fixture = Fixture::new(20.0);
            let run = planned_event(plan, &account()).unwrap();
            create_sweep(&fixture.ledger, &sweep(mean, shape), &account(), &run).unwrap();
            fixture.odometer().spent
        };
        let of_floats = spent(&float);
        let found = spent(&on_grid);
        assert!(found > of_floats && found < of_floats * 1.01, "{mean} {shape:?}: {found} {of_floats}");
        // The best of runs of the mechanism itself, with what of δ is left.
        let own = Event::Gaussian { noise_multiplier: on_grid.accounted_noise_multiplier() };
        let own = Event::RepeatAndSelect { event: Box::new(own), mean, shape };
        let left = DELTA - mean * tau * (1.0 + found.exp());
        let expected = Account::new(&own, Neighbouring::ZeroOut).unwrap().epsilon(left).unwrap();
        assert!(found >= expected && near(found, expected), "{mean} {shape:?}: {found} {expected}");
    }
}

#[test]
fn a_run_neither_rewinds_nor_gives_its_charge_back() {
    let fixture = Fixture::new(2.0);
    fixture.sweep(5.0, Some(1.0)).unwrap();
    let before = fixture.odometer();
    fixture.run("rates.1", &plan_of(SIGMA, 1.0)).unwrap();
    let job = JobId::new("rates.1").unwrap();
    fixture.ledger.bind(&job, 0, RowRange::new(0, 1).unwrap(), &[Commitment::of_text("a")]).unwrap();
    let back = OpenBranch { job: job.clone(), from_row: 0, expected_branch: 0, parent: None };
    let refused = open_branch(&fixture.ledger, &back, Nonce::from_bytes([3; 32])).unwrap_err();
    assert!(refused.to_string().contains("a run of sweep rates"), "{refused}");
    assert_eq!(fixture.ledger.job(&job).unwrap().unwrap().branch, 0);
    fixture.ledger.set_job_state(&job, JobState::Destroyed).unwrap();
    let fixture = fixture.reopened();
    assert_eq!(fixture.odometer(), before);
    assert_eq!(fixture.ledger.sweep(&rates()).unwrap().started, 1);
}

/// The other copy may continue the run: this one ends it, and keeps the charge.
#[test]
fn an_unfinished_run_is_finished_by_an_adoption() {
    let fixture = Fixture::new(2.0);
    fixture.sweep(5.0, Some(1.0)).unwrap();
    let before = fixture.odometer();
    fixture.run("rates.1", &plan_of(SIGMA, 1.0)).unwrap();
    let place = AnchorPlace::of_ledger(&fixture.folder.path().join("ledger.redb"));
    let mut drawn = 100;
    let nonce = || {
        drawn += 1;
        Ok::<_, LedgerError>(Nonce::from_bytes([drawn; 32]))
    };
    let job = JobId::new("rates.1").unwrap();
    let changed = [AdoptedJob { job: job.clone(), branch: None, from_row: 0 }];
    assert_eq!(adopt(&fixture.ledger, &place, nonce).unwrap().1, changed);
    let fixture = fixture.reopened();
    assert_eq!(fixture.ledger.job(&job).unwrap().unwrap().state, JobState::Finished);
    assert_eq!((fixture.odometer(), fixture.ledger.sweep(&rates()).unwrap().started), (before, 1));
}

#[test]
fn the_number_of_runs_is_in_no_chain_and_no_debug_text() {
    // A number that is in no digest and no other text by chance would do; its record's words do for certain.
    let fixture = Fixture::new(2.0);
    fixture.sweep(5.0, None).unwrap();
    let record = fixture.ledger.sweep(&rates()).unwrap();
    let chain = fixture.chain();
    let seed = serde_json::to_string(&record.seed).unwrap();
    for text in chain.iter().cloned().chain([format!("{record:?}")]) {
        assert!(!text.contains(&seed) && !text.contains("runs") && !text.contains("seed"), "{text}");
    }
    // The chain alone, read without the ledger's tables, has the sweep's whole charge.
    let events = chain.iter().filter_map(|text| match serde_json::from_str(text).unwrap() {
        DataSetEvent::SweepReserved { charge, commitment, .. } => {
            assert_eq!(commitment, record.commitment());
            Some(serde_json::from_str::<Event>(&charge).unwrap())
        }
        _ => None,
    });
    let all = Event::Composed { events: events.collect() };
    let epsilon = Account::new(&all, Neighbouring::ZeroOut).unwrap().epsilon(DELTA).unwrap();
    assert!(near(epsilon, fixture.odometer().spent));
}
