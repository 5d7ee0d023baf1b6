//! Callers of tenants: what they spend is in their own share, whatever they state and whichever of their tokens they show.

use std::fs;
use std::sync::Arc;

use node::auth::{Authenticator, Caller, CallerName, CallerRole, TokenEntry, Tokens, digest_of};
use proto::model::{
    BudgetedAccount, CreateDataSet, NeighbouringRelation, OpenBranch, PrivacyBudget, PrivacyUnit, SetShare,
};
use proto::pb::jobs_server::Jobs;
use proto::{DataSetId, TenantId, pb, rpc};
use tonic::Request;
use tonic::codegen::http::{Extensions, HeaderMap, HeaderValue, header::AUTHORIZATION};

use super::*;
use crate::grpc::JobsService;

fn mails() -> DataSetId {
    DataSetId::new("mails").unwrap()
}

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

/// ε of k jobs of the plan: two participations at σ = 1.
fn of_jobs(k: f64) -> f64 {
    accounting::gaussian::epsilon(1e-6, (2.0 * k).sqrt()).unwrap()
}

fn amount(epsilon: f64) -> PrivacyBudget {
    PrivacyBudget::new(epsilon, 1e-6).unwrap()
}

/// Callers who show these tokens: each is a token's text, its role, its job and its tenant.
type TokenOf = (&'static str, CallerRole, Option<&'static str>, Option<&'static str>);

struct Callers {
    folder: TempDir,
    authenticator: Authenticator,
}

impl Callers {
    fn new(tokens: &[TokenOf]) -> Self {
        let folder = TempDir::new().unwrap();
        let line = |(token, role, job, of): &TokenOf| {
            let entry = TokenEntry {
                sha256: digest_of(token.as_bytes()),
                role: *role,
                name: job.map(str::to_owned),
                expires: None,
                ranges: None,
                tenant: of.map(tenant),
                person: None,
            };
            format!("{}\n", serde_json::to_string(&entry).unwrap())
        };
        let path = folder.path().join("tokens");
        fs::write(&path, tokens.iter().map(line).collect::<String>()).unwrap();
        let authenticator = Authenticator::new(None, Some(Tokens::load(&path).unwrap()));
        Self { folder, authenticator }
    }

    fn name(&self, token: &str) -> CallerName {
        self.caller(token).name(&[CallerRole::Operator])
    }

    fn caller(&self, token: &str) -> Caller {
        let bearer: HeaderValue = format!("Bearer {token}").parse().unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        self.authenticator.caller(&Extensions::new(), &headers).unwrap()
    }

    /// A request as it comes from the guard in front of the service.
    fn request<M>(&self, token: &str, rpc: &str, message: M) -> Request<M> {
        let path = format!("/rustle.v1.Jobs/{rpc}");
        let access = self.authenticator.admit(&self.caller(token), rpc::find(&path)).unwrap();
        let mut request = Request::new(message);
        request.extensions_mut().insert(access);
        request
    }
}

struct Fixture {
    coordinator: Arc<Coordinator>,
    callers: Callers,
}

impl Fixture {
    /// A data set whose budget holds four jobs, of which ads may have two and search three.
    async fn new() -> Self {
        let callers = Callers::new(&[
            ("admin", CallerRole::Operator, None, None),
            ("ads", CallerRole::Operator, None, Some("ads")),
            ("ads-again", CallerRole::Operator, None, Some("ads")),
            ("search", CallerRole::Operator, None, Some("search")),
            ("shareless", CallerRole::Operator, None, Some("shareless")),
            ("any-trainer", CallerRole::Trainer, None, None),
            ("ads-trainer", CallerRole::Trainer, None, Some("ads")),
            ("search-trainer", CallerRole::Trainer, None, Some("search")),
            ("job-trainer", CallerRole::Trainer, Some("job"), None),
            ("ads-job-trainer", CallerRole::Trainer, Some("job"), Some("ads")),
        ]);
        let coordinator = Arc::new(open(&callers.folder));
        let fixture = Self { coordinator, callers };
        let request = CreateDataSet {
            data_set: mails(),
            unit: PrivacyUnit::User,
            neighbouring: NeighbouringRelation::ZeroOut,
            budget: amount(of_jobs(4.0) + 0.01),
            per_block: false,
            approval_rule: None,
        };
        fixture.by("admin", fixture.coordinator.create_data_set(request)).await.unwrap();
        for (name, jobs) in [("ads", 2.0), ("search", 3.0)] {
            let share = Some(amount(of_jobs(jobs) + 0.005));
            let request = SetShare { data_set: mails(), tenant: tenant(name), share };
            fixture.by("admin", fixture.coordinator.set_share(request)).await.unwrap();
        }
        fixture
    }

    /// What a call answers that the caller with this token makes.
    async fn by<T>(&self, token: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.callers.name(token).scope(call).await
    }

    async fn create(&self, token: &str, name: &str, stated: Option<&str>) -> Result<pb::Job> {
        let account = BudgetedAccount {
            data_set: mails(),
            unit: PrivacyUnit::User,
            neighbouring: NeighbouringRelation::ZeroOut,
            sampling: String::new(),
            tenant: stated.map(tenant),
            blocks: Default::default(),
        };
        let request = CreateJob { job: JobId::new(name).unwrap(), account: Some(account), ..create(4096, 1) };
        self.by(token, self.coordinator.create_job(request)).await
    }
}

#[track_caller]
fn beyond(outcome: Result<pb::Job>, tenant: &str) {
    match outcome.unwrap_err() {
        ServiceError::BudgetExceeded(shortfall) => assert_eq!(shortfall.tenant, tenant, "{shortfall}"),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_has_one_share_whatever_it_states_and_shows() {
    let fixture = Fixture::new().await;
    fixture.create("ads", "a1", None).await.unwrap();
    fixture.create("ads-again", "a2", Some("ads")).await.unwrap();
    beyond(fixture.create("ads", "a3", None).await, "ads");
    beyond(fixture.create("ads-again", "a3", None).await, "ads");
    let other = fixture.create("ads", "a3", Some("search")).await.unwrap_err();
    assert!(other.to_string().contains("allowed: ads, the tenant of this caller's credentials"), "{other}");
    let none = fixture.create("shareless", "a3", None).await.unwrap_err();
    assert!(none.to_string().contains("ads, search"), "{none}");
    // Nor does a job outside of every budget.
    let outside = fixture.by("ads", fixture.coordinator.create_job(create(4096, 1))).await.unwrap_err();
    assert!(outside.to_string().contains("account.data_set is missing"), "{outside}");
    // Who is of no tenant says which one is charged.
    let missing = fixture.create("admin", "a3", None).await.unwrap_err();
    assert!(missing.to_string().contains("account.tenant is missing"), "{missing}");
    beyond(fixture.create("admin", "a3", Some("ads")).await, "ads");
    fixture.create("admin", "s1", Some("search")).await.unwrap();
    fixture.create("search", "s2", None).await.unwrap();
    beyond(fixture.create("search", "s3", None).await, "");

    let shown = fixture.coordinator.data_set(mails()).await.unwrap();
    let tenants: Vec<_> = shown.charges.iter().map(|charge| charge.tenant.as_str()).collect();
    assert_eq!(tenants, ["ads", "ads", "search", "search"]);
    let ads = &shown.shares[0];
    assert!((ads.reserved.unwrap().epsilon - of_jobs(2.0)).abs() < 1e-6 && ads.tenant == "ads", "{ads:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_changes_no_budget_and_no_job_of_another() {
    let fixture = Fixture::new().await;
    fixture.create("search", "job", None).await.unwrap();
    let coordinator = &fixture.coordinator;
    coordinator.bind_now(bind(0..3, "x")).await.unwrap();
    let denied = |outcome: Result<()>| assert_eq!(outcome, Err(ServiceError::PermissionDenied));
    let back = || OpenBranch { job: job(), from_row: 1, expected_branch: 0, parent: None };
    let cursor = coordinator.job_cursor(job(), Some(1)).await.unwrap().cursor;
    let more = amount(of_jobs(9.0));
    let share = SetShare { data_set: mails(), tenant: tenant("ads"), share: Some(amount(1.0)) };
    let create = CreateDataSet {
        data_set: DataSetId::new("own").unwrap(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        budget: more,
        per_block: false,
        approval_rule: None,
    };
    denied(fixture.by("ads", coordinator.open_branch(back())).await.map(drop));
    denied(fixture.by("ads", coordinator.resume(job(), &cursor, false)).await.map(drop));
    denied(fixture.by("ads", coordinator.finish_job(job())).await.map(drop));
    denied(fixture.by("ads", coordinator.destroy_job(job())).await.map(drop));
    denied(fixture.by("ads", coordinator.reshard_job(job(), 2)).await.map(drop));
    let jobs = JobsService(coordinator.clone());
    let own = || job().to_string();
    let hints = pb::SetPlacementHintsRequest { job: own(), hints: Vec::new() };
    let hinted = async |token, hints| {
        let request = fixture.callers.request(token, "SetPlacementHints", hints);
        let call = async { jobs.set_placement_hints(request).await.map(drop).map_err(ServiceError::from) };
        fixture.by(token, call).await
    };
    denied(hinted("ads", hints.clone()).await);
    denied(hinted("ads-trainer", hints.clone()).await);
    hinted("search", hints).await.unwrap();
    let written = async |token| {
        let message = pb::CheckpointJobRequest { job: own() };
        let request = fixture.callers.request(token, "CheckpointJob", message);
        let call = async { jobs.checkpoint_job(request).await.map(drop).map_err(ServiceError::from) };
        fixture.by(token, call).await
    };
    denied(written("ads").await);
    assert_ne!(written("search").await, Err(ServiceError::PermissionDenied));
    denied(fixture.by("ads", coordinator.grant_budget(mails(), more)).await.map(drop));
    denied(fixture.by("ads", coordinator.set_share(share)).await.map(drop));
    denied(fixture.by("ads", coordinator.create_data_set(create)).await.map(drop));
    assert_eq!(coordinator.data_set(mails()).await.unwrap().entries, 4, "nothing was recorded");
    // Its own tenant rewinds it, and pays.
    let opened = fixture.by("search", coordinator.open_branch(back())).await.unwrap();
    assert_eq!(opened.branch, 1);
    let shown = coordinator.data_set(mails()).await.unwrap();
    let search = shown.shares.iter().find(|share| share.tenant == "search").unwrap();
    assert!(search.spent.unwrap().epsilon > of_jobs(1.0) + 0.1, "{search:?}");
}

#[tokio::test(start_paused = true)]
async fn a_trainer_rewinds_the_job_of_its_token_or_of_its_tenant_alone() {
    let fixture = Fixture::new().await;
    fixture.create("search", "job", None).await.unwrap();
    let coordinator = &fixture.coordinator;
    coordinator.bind_now(bind(0..1, "x")).await.unwrap();
    let jobs = JobsService(coordinator.clone());
    let rewind = async |token, expected_branch| {
        let message =
            pb::OpenBranchRequest { job: job().to_string(), from_row: 1, expected_branch, parent: None };
        let request = fixture.callers.request(token, "OpenBranch", message);
        let call = async { jobs.open_branch(request).await.map(|opened| opened.into_inner().branch) };
        fixture.by(token, async { call.await.map_err(ServiceError::from) }).await
    };
    let cursor = coordinator.job_cursor(job(), Some(1)).await.unwrap().cursor;
    let resume = async |token| {
        let message = pb::ResumeJobRequest { job: job().to_string(), cursor: cursor.clone(), replay: false };
        let request = fixture.callers.request(token, "ResumeJob", message);
        let call = async { jobs.resume_job(request).await.map(drop).map_err(ServiceError::from) };
        fixture.by(token, call).await
    };
    for token in ["any-trainer", "ads-trainer", "ads-job-trainer"] {
        assert_eq!(rewind(token, 0).await, Err(ServiceError::PermissionDenied), "{token}");
    }
    // A resume may open a branch, and is refused even where it would open none.
    assert_eq!(resume("any-trainer").await, Err(ServiceError::PermissionDenied));
    for token in ["job-trainer", "search-trainer"] {
        resume(token).await.unwrap();
    }
    assert_eq!(rewind("job-trainer", 0).await, Ok(1));
    assert_eq!(rewind("search-trainer", 1).await, Ok(2));
    assert_eq!(rewind("admin", 2).await, Ok(3), "an operator without a tenant spends what it likes");
}
