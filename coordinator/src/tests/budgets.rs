//! Data sets: admission through the service, and what an ended job keeps.

use proto::model::{
    AddBlock, BudgetedAccount, CreateDataSet, JobMark, NeighbouringRelation, OpenBranch, PrivacyBudget,
    PrivacyUnit,
};
use proto::{BlockId, DataSetId, Day, pb};

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
        tenant: None,
        blocks: Default::default(),
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
        per_block: false,
        approval_rule: None,
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

    coordinator.bind_now(bind(0..3, "x")).await.unwrap();
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
    coordinator.bind_now(bind(0..3, "x")).await.unwrap();
    let back = OpenBranch { job: job(), from_row: 1, expected_branch: 0, parent: None };
    let refused = coordinator.open_branch(back.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), "budget_exceeded", "{refused}");
    coordinator.bind_now(bind(3..4, "x")).await.unwrap();
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
    let mark = JobMark { job: job(), nonce, branch: 0, next_row: 5, commitment };
    let asked = registration("a", 1);
    let record = WorkerRecord { marks: vec![mark], ..asked.record.clone() };
    coordinator.register(Register { record, ..asked }).unwrap();
    coordinator.destroy_job(job()).await.unwrap();
    let shown = coordinator.data_set(mails()).await.unwrap();
    assert_eq!(shown.charges[0].state, "spent", "{shown:?}");
}

fn proof_by_epoch(coordinator: &Coordinator) -> WorkerRecord {
    WorkerRecord { ledger: Some(LEDGER), highest_epoch: coordinator.epoch() + 1, marks: Vec::new() }
}

/// The record of a worker that has released a row of a job which the ledger has lost.
fn proof_by_lost_job() -> WorkerRecord {
    let mark = JobMark {
        job: JobId::new("lost").unwrap(),
        nonce: Nonce::from_bytes([8; 32]),
        branch: 0,
        next_row: 1,
        commitment: Some(Commitment::of_text("x")),
    };
    WorkerRecord { ledger: Some(LEDGER), highest_epoch: 0, marks: vec![mark] }
}

#[tokio::test(start_paused = true)]
async fn a_ledger_with_a_later_coordinator_gives_nothing_back() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    with_data_set(&coordinator, 100.0).await;
    coordinator.create_job(charged("job")).await.unwrap();
    coordinator.accept_record(&worker("a"), &proof_by_epoch(&coordinator));
    coordinator.destroy_job(job()).await.unwrap();
    let shown = coordinator.data_set(mails()).await.unwrap();
    assert_eq!(shown.charges[0].state, "spent", "{shown:?}");
}

/// The copy has lost the charges after it, and would pay with what they spent.
#[tokio::test(start_paused = true)]
async fn an_old_ledger_charges_and_grants_nothing() {
    for by_epoch in [false, true] {
        let folder = TempDir::new().unwrap();
        let coordinator = open(&folder);
        with_data_set(&coordinator, 100.0).await;
        coordinator.create_job(charged("job")).await.unwrap();
        coordinator.bind_now(bind(0..3, "x")).await.unwrap();
        coordinator.meter_budgets().await;
        assert!(coordinator.series().contains("data_set=\"mails\""));
        let proof = if by_epoch { proof_by_epoch(&coordinator) } else { proof_by_lost_job() };
        coordinator.accept_record(&worker("a"), &proof);

        let created = coordinator.create_job(charged("other")).await.unwrap_err();
        assert_eq!(created.kind(), "ledger_behind", "{created}");
        let budget = PrivacyBudget::new(200.0, 1e-6).unwrap();
        let granted = coordinator.grant_budget(mails(), budget).await.unwrap_err();
        assert_eq!(granted.kind(), "ledger_behind", "{granted}");
        let back = OpenBranch { job: job(), from_row: 1, expected_branch: 0, parent: None };
        let opened = coordinator.open_branch(back).await.unwrap_err();
        assert_eq!(opened.kind(), "ledger_behind", "{opened}");
        assert!(!opened.to_string().contains("lost"), "a job's holder learns of no other job: {opened}");
        assert!(!coordinator.series().contains("data_set=\"mails\""), "it states no budget");
        // What is charged already is not charged anew.
        coordinator.create_job(charged("job")).await.unwrap();
        assert_eq!(coordinator.data_set(mails()).await.unwrap().charges.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_job_is_charged_when_workers_have_reported() {
    let folder = TempDir::new().unwrap();
    let first = open(&folder);
    with_data_set(&first, 100.0).await;
    drop(first);
    let coordinator = open(&folder);
    let late = async {
        tokio::time::sleep(TTL).await;
        coordinator.accept_record(&worker("a"), &proof_by_lost_job());
    };
    let (created, ()) = tokio::join!(coordinator.create_job(charged("job")), late);
    let refused = created.unwrap_err();
    assert!(refused.kind() == "ledger_behind" && refused.to_string().contains("worker a"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_job_is_charged_in_each_block_that_it_names_or_refused() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    with_data_set(&coordinator, of_jobs(6.0)).await;
    // A user has data in both months: a job that reads both costs each of them what four jobs cost.
    let of = |name: &str, blocks: &[&str]| {
        let request = charged(name);
        let blocks = blocks.iter().map(|block| BlockId::new(*block).unwrap()).collect();
        CreateJob {
            account: request.account.clone().map(|account| BudgetedAccount { blocks, ..account }),
            ..request
        }
    };
    let nothing = coordinator.create_job(of("job", &["nov"])).await.unwrap_err();
    assert_eq!(nothing.kind(), "invalid_argument", "{nothing}");
    for (block, month, jobs) in [("nov", 11, 4.0), ("oct", 10, 5.0)] {
        let day = |month: u32| Day::new(format!("2026-{month:02}-01")).unwrap();
        let request = AddBlock {
            data_set: mails(),
            block: BlockId::new(block).unwrap(),
            from: day(month),
            until: day(month + 1),
            budget: Some(PrivacyBudget::new(of_jobs(jobs) + 0.001, 1e-6).unwrap()),
        };
        coordinator.add_block(request).await.unwrap();
    }
    let none = coordinator.create_job(charged("job")).await.unwrap_err();
    assert!(none.to_string().contains("account.blocks is missing"), "{none}");
    let unknown = coordinator.create_job(of("job", &["dec"])).await.unwrap_err();
    assert_eq!(unknown.kind(), "not_found", "{unknown}");
    coordinator.create_job(of("job", &["nov", "oct"])).await.unwrap();
    let refused = coordinator.create_job(of("other", &["oct", "nov"])).await.unwrap_err();
    let ServiceError::BudgetExceeded(shortfall) = &refused else { panic!("{refused}") };
    assert!(shortfall.block == "nov" && shortfall.left.starts_with("0.00"), "{refused}");
    coordinator.create_job(of("other", &["oct"])).await.unwrap();
    coordinator.bind_now(bind(0..1, "x")).await.unwrap();
    let shown = coordinator.data_set(mails()).await.unwrap();
    let spent: Vec<f64> = shown.blocks.iter().map(|block| epsilon(block.spent)).collect();
    assert!(spent.len() == 2 && spent.iter().all(|spent| (spent - of_jobs(4.0)).abs() < 1e-6), "{shown:?}");
    assert!((epsilon(shown.blocks[1].reserved) - (of_jobs(5.0) - of_jobs(4.0))).abs() < 1e-6, "{shown:?}");
    // Three series say how full they are, whatever their number; the status names the fullest.
    coordinator.meter_budgets().await;
    let series = coordinator.budget_meter().series();
    let of = |name: &str| {
        let line = series
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}{{data_set=\"mails\",delta=\"1e-6\"}} ")));
        line.unwrap_or_else(|| panic!("no {name}: {series}")).parse::<f64>().unwrap()
    };
    assert_eq!((of("rustle_data_set_blocks"), of("rustle_data_set_blocks_used_up")), (2.0, 2.0), "{series}");
    let used = of("rustle_data_set_fullest_block_used_ratio");
    assert!((used - of_jobs(5.0) / (of_jobs(5.0) + 0.001)).abs() < 1e-6, "{series}");
    assert_eq!(coordinator.budget_meter().to_json()[0]["blocks"]["fullest"], "oct");
}
