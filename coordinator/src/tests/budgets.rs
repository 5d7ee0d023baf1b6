//! Data sets: admission through the service, and what an ended job keeps.

use proto::model::{
    BudgetedAccount, CreateDataSet, NeighbouringRelation, OpenBranch, PrivacyBudget, PrivacyUnit,
};
use proto::{DataSetId, pb};

use super::*;

fn mails() -> DataSetId {
    DataSetId::new("mails").unwrap()
}

fn charged(name: &str) -> CreateJob {
    let account = BudgetedAccount {
        data_set: mails(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        sampling: String::new(),
    };
    CreateJob { job: JobId::new(name).unwrap(), account: Some(account), ..create(4096, 1) }
}

/// ε of k jobs of the plan: two participations at σ = 1.
fn of_jobs(k: f64) -> f64 {
    accounting::gaussian::epsilon(1e-6, (2.0 * k).sqrt()).unwrap()
}

async fn with_data_set(coordinator: &Coordinator, epsilon: f64) -> pb::DataSet {
    let request = CreateDataSet {
        data_set: mails(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        budget: PrivacyBudget::new(epsilon, 1e-6).unwrap(),
    };
    coordinator.create_data_set(request).await.unwrap()
}

fn epsilon(amount: Option<pb::PrivacyAmount>) -> f64 {
    amount.unwrap().epsilon
}

#[tokio::test(start_paused = true)]
async fn jobs_share_the_budget_of_their_data_set() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    with_data_set(&coordinator, of_jobs(2.0) + 0.01).await;
    coordinator.create_job(charged("job")).await.unwrap();
    coordinator.create_job(charged("other")).await.unwrap();
    let refused = coordinator.create_job(charged("third")).await.unwrap_err();
    let ServiceError::BudgetExceeded(shortfall) = &refused else { panic!("{refused}") };
    assert_eq!((shortfall.data_set.as_str(), refused.retry_safe()), ("mails", false));
    assert!(shortfall.fits.parse::<f64>().unwrap() > 5.0, "{refused}");
    assert_eq!(coordinator.list_jobs().len(), 2);

    coordinator.bind(bind(0..3, "x")).await.unwrap();
    coordinator.finish_job(job()).await.unwrap();
    coordinator.destroy_job(JobId::new("other").unwrap()).await.unwrap();
    let shown = coordinator.data_set(mails()).await.unwrap();
    assert!((epsilon(shown.spent) - of_jobs(1.0)).abs() < 1e-6, "{shown:?}");
    assert!(epsilon(shown.reserved) == 0.0 && shown.adaptive);
    let states: Vec<_> =
        shown.charges.iter().map(|charge| (charge.job.as_str(), charge.state.as_str())).collect();
    assert_eq!(states, [("job", "spent"), ("other", "given-back")]);
    coordinator.create_job(charged("third")).await.unwrap();

    coordinator.meter_budgets().await;
    let series = coordinator.series();
    let spent = series.lines().find(|line| line.starts_with("rustle_data_set_privacy_spent_epsilon{"));
    assert!(spent.is_some_and(|line| line.contains("data_set=\"mails\",delta=\"1e-6\"")), "{series}");
    let entries = pb::ListDataSetEntriesRequest { data_set: "mails".into(), first: 1, most: 2 };
    assert_eq!(coordinator.data_set_entries(entries).await.unwrap().entries.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_rewind_beyond_the_budget_is_refused_and_the_job_goes_on() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    with_data_set(&coordinator, of_jobs(1.0) + 0.01).await;
    coordinator.create_job(charged("job")).await.unwrap();
    coordinator.bind(bind(0..3, "x")).await.unwrap();
    let back = OpenBranch { job: job(), from_row: 1, expected_branch: 0, parent: None };
    let refused = coordinator.open_branch(back.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), "budget_exceeded", "{refused}");
    coordinator.bind(bind(3..4, "x")).await.unwrap();
    let granted = PrivacyBudget::new(of_jobs(2.0), 1e-6).unwrap();
    coordinator.grant_budget(mails(), granted).await.unwrap();
    assert_eq!(coordinator.open_branch(back).await.unwrap().branch, 1);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_may_require_a_data_set() {
    let folder = TempDir::new().unwrap();
    let settings = Settings {
        checkpoint_url: None,
        require_data_set: true,
        ..Settings::in_folder(folder.path()).unwrap()
    };
    let stop = FatalStop::new(CancellationToken::new());
    let coordinator = Coordinator::open(ledger_in(&folder), settings, Connections::new(), stop).unwrap();
    let refused = coordinator.create_job(create(4096, 1)).await.unwrap_err();
    assert!(refused.to_string().contains("account.data_set is missing"), "{refused}");
    let unknown = coordinator.create_job(charged("job")).await.unwrap_err();
    assert_eq!(unknown.kind(), "not_found", "{unknown}");
    with_data_set(&coordinator, 100.0).await;
    coordinator.create_job(charged("job")).await.unwrap();
}

/// A worker remembers rows that this ledger does not know: nothing is given back, whatever the ledger says.
#[tokio::test(start_paused = true)]
async fn an_old_ledger_gives_nothing_back() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    with_data_set(&coordinator, 100.0).await;
    coordinator.create_job(charged("job")).await.unwrap();
    let nonce = coordinator.cluster().job(&job()).unwrap().record.nonce;
    let commitment = Some(Commitment::of_text("elsewhere"));
    let mark = proto::model::JobMark { job: job(), nonce, branch: 0, next_row: 5, commitment };
    let asked = registration("a", 1);
    let record = WorkerRecord { marks: vec![mark], ..asked.record.clone() };
    coordinator.register(Register { record, ..asked }).unwrap();
    coordinator.destroy_job(job()).await.unwrap();
    let shown = coordinator.data_set(mails()).await.unwrap();
    assert_eq!(shown.charges[0].state, "spent", "{shown:?}");
}
