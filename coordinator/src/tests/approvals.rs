//! Changes that take two persons, as callers with tokens make them.

use std::fs;
use std::sync::Arc;

use node::auth::{Authenticator, CallerName, CallerRole, Refusal, TokenEntry, Tokens, digest_of};
use proto::model::{
    ApprovalRule, ApproveChange, BudgetedAccount, CreateDataSet, GuardedChange, NeighbouringRelation,
    OpenBranch, PrivacyBudget, PrivacyUnit, SetShare,
};
use proto::{DataSetId, PersonId, TenantId, pb, rpc};
use tonic::codegen::http::{Extensions, HeaderMap, HeaderValue, header::AUTHORIZATION};

use super::*;

/// A token's text, its role, and its person.
type TokenOf = (&'static str, CallerRole, Option<&'static str>);

const TOKENS: [TokenOf; 6] = [
    ("ann", CallerRole::Operator, Some("ann")),
    ("ann-approves", CallerRole::Approver, Some("ann")),
    ("ben", CallerRole::Operator, Some("ben")),
    ("ben-approves", CallerRole::Approver, Some("ben")),
    ("unnamed", CallerRole::Operator, None),
    ("ann-trains", CallerRole::Trainer, Some("ann")),
];

fn mails() -> DataSetId {
    DataSetId::new("mails").unwrap()
}

fn at(epsilon: f64) -> PrivacyBudget {
    PrivacyBudget::new(epsilon, 1e-6).unwrap()
}

struct Fixture {
    _folder: TempDir,
    coordinator: Arc<Coordinator>,
    authenticator: Authenticator,
}

impl Fixture {
    async fn new(free_rewinds: u32) -> Self {
        let folder = TempDir::new().unwrap();
        let line = |(token, role, person): &TokenOf| {
            let entry = TokenEntry {
                sha256: digest_of(token.as_bytes()),
                role: *role,
                name: None,
                expires: None,
                ranges: None,
                tenant: None,
                person: person.map(|name| PersonId::new(name).unwrap()),
            };
            format!("{}\n", serde_json::to_string(&entry).unwrap())
        };
        let path = folder.path().join("tokens");
        fs::write(&path, TOKENS.iter().map(line).collect::<String>()).unwrap();
        let authenticator = Authenticator::new(None, Some(Tokens::load(&path).unwrap()));
        let coordinator = Arc::new(open(&folder));
        let fixture = Self { _folder: folder, coordinator, authenticator };
        let create = || CreateDataSet {
            data_set: mails(),
            unit: PrivacyUnit::User,
            neighbouring: NeighbouringRelation::ZeroOut,
            budget: at(20.0),
            per_block: false,
            approval_rule: Some(ApprovalRule { free_rewinds }),
        };
        // Without a person, and where callers are not authenticated.
        let coordinator = &fixture.coordinator;
        for refused in [
            fixture.by("unnamed", coordinator.create_data_set(create())).await,
            coordinator.create_data_set(create()).await,
        ] {
            assert_eq!(refused.unwrap_err().kind(), "invalid_argument");
        }
        fixture.by("ann", coordinator.create_data_set(create())).await.unwrap();
        fixture
    }

    fn name(&self, token: &str) -> CallerName {
        let headers = self.headers(token);
        let roles = [CallerRole::Operator, CallerRole::Approver, CallerRole::Trainer];
        self.authenticator.caller(&Extensions::new(), &headers).unwrap().name(&roles)
    }

    fn headers(&self, token: &str) -> HeaderMap {
        let bearer: HeaderValue = format!("Bearer {token}").parse().unwrap();
        HeaderMap::from_iter([(AUTHORIZATION, bearer)])
    }

    /// Whether the guard in front of the service admits the call.
    fn admits(&self, token: &str, method: &str) -> Result<(), Refusal> {
        let caller = self.authenticator.caller(&Extensions::new(), &self.headers(token))?;
        let path = format!("/rustle.v1.Budgets/{method}");
        self.authenticator.admit(&caller, rpc::find(&path)).map(drop)
    }

    async fn by<T>(&self, token: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.name(token).scope(call).await
    }

    async fn approve(&self, token: &str, change: GuardedChange) -> Result<pb::DataSet> {
        let is_rewind = matches!(change, GuardedChange::Rewind { .. });
        let data_set = (!is_rewind).then(mails);
        let request = ApproveChange { data_set, change, valid_ms: 3_600_000 };
        self.by(token, self.coordinator.approve_change(request)).await
    }

    async fn grant(&self, token: &str, epsilon: f64) -> Result<pb::DataSet> {
        self.by(token, self.coordinator.grant_budget(mails(), at(epsilon))).await
    }
}

#[track_caller]
fn required<T: std::fmt::Debug>(outcome: Result<T>, reason: &str) {
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.retry_safe()), ("approval_required", false), "{error}");
    assert!(error.to_string().contains(reason), "{error}");
}

#[tokio::test(start_paused = true)]
async fn two_tokens_of_one_person_do_not_make_two_persons() {
    let fixture = Fixture::new(0).await;
    let change = || GuardedChange::Budget { budget: at(30.0) };
    required(
        fixture.grant("ann", 30.0).await,
        "rustle budget approve grant mails --epsilon 30 --delta 0.000001",
    );
    let shown = fixture.approve("ann-approves", change()).await.unwrap();
    assert_eq!(shown.approval_rule, Some(pb::ApprovalRule { free_rewinds: 0 }));
    assert_eq!((shown.pending_approvals.len(), shown.pending_approvals[0].approver.as_str()), (1, "ann"));
    required(fixture.grant("ann", 30.0).await, "ann has approved it");
    required(fixture.grant("unnamed", 30.0).await, "no person");
    fixture.approve("ben-approves", change()).await.unwrap();
    required(fixture.grant("ben", 30.0).await, "ben has approved it");
    let granted = fixture.grant("ann", 30.0).await.unwrap();
    assert!(granted.pending_approvals.is_empty());
    fixture.grant("unnamed", 25.0).await.unwrap();
    required(fixture.grant("ann", 30.0).await, "no person has approved it");

    let share = |epsilon: f64| SetShare {
        data_set: mails(),
        tenant: TenantId::new("ads").unwrap(),
        share: Some(at(epsilon)),
    };
    let set = |token, request| fixture.by(token, fixture.coordinator.set_share(request));
    set("unnamed", share(1.0)).await.unwrap();
    required(set("ann", share(2.0)).await, "no person has approved it");
}

#[tokio::test(start_paused = true)]
async fn approvers_alone_approve_and_approve_alone() {
    let fixture = Fixture::new(0).await;
    for (token, may_approve) in
        [("ben-approves", true), ("ben", false), ("unnamed", false), ("ann-trains", false)]
    {
        assert_eq!(fixture.admits(token, "ApproveChange").is_ok(), may_approve, "{token}");
    }
    for method in ["GrantBudget", "SetShare", "CreateDataSet", "AddBlock"] {
        assert_eq!(fixture.admits("ben-approves", method), Err(Refusal::Forbidden), "{method}");
    }
    for method in ["GetDataSet", "ListDataSets", "ListDataSetEntries"] {
        fixture.admits("ben-approves", method).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_rewind_is_approved_for_one_row_of_one_branch() {
    let fixture = Fixture::new(1).await;
    let coordinator = &fixture.coordinator;
    let account = BudgetedAccount {
        data_set: mails(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        sampling: String::new(),
        tenant: None,
        blocks: Default::default(),
    };
    let request = CreateJob { account: Some(account), ..create(4096, 1) };
    fixture.by("unnamed", coordinator.create_job(request)).await.unwrap();
    let back = |expected_branch| OpenBranch { job: job(), from_row: 1, expected_branch, parent: None };
    let rewind = |token, expected_branch| fixture.by(token, coordinator.open_branch(back(expected_branch)));
    coordinator.bind_now(bind(0..3, "x")).await.unwrap();
    rewind("unnamed", 0).await.unwrap();
    let on_branch_1 = Bind { branch: 1, ..bind(1..3, "y") };
    coordinator.bind_now(on_branch_1).await.unwrap();
    required(rewind("unnamed", 1).await, "no person");
    required(
        rewind("ann-trains", 1).await,
        "rustle budget approve rewind --job job --to-row 1 --expected-branch 1",
    );
    // A resume rewinds as well.
    let cursor = coordinator.job_cursor(job(), Some(1)).await.unwrap().cursor;
    required(fixture.by("ann-trains", coordinator.resume(job(), &cursor, false)).await, "no person has");
    let approved = fixture.approve("ben-approves", GuardedChange::from(&back(1))).await.unwrap();
    assert_eq!(approved.pending_approvals[0].change, "a rewind of job job to row 1 of branch 1");
    required(rewind("ben", 1).await, "who makes it");
    assert_eq!(rewind("ann-trains", 1).await.unwrap().branch, 2);
    // No job of this name is charged.
    let other = OpenBranch { job: JobId::new("other").unwrap(), ..back(0) };
    let unknown = fixture.approve("ben-approves", GuardedChange::from(&other)).await.unwrap_err();
    assert_eq!(unknown.kind(), "invalid_argument", "{unknown}");
}
