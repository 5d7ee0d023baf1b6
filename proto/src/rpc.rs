//! The one table of RPCs: what each is called, who may call it, whose name it carries, and how large and how slow it
//! may be. A call that is not in the table is refused wherever callers are authenticated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::CallerRole::{Approver, Auditor, Coordinator, Operator, Trainer, Worker};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Longest request of a control call, in bytes. It also limits calls that are not in the table.
pub const CONTROL_BYTES: usize = 64 * KIB;
/// Longest time until a control call's answer begins. It also limits calls that are not in the table.
pub const CONTROL_TIME: Duration = Duration::from_secs(30);
/// A plan may hold a matrix.
const PLAN_BYTES: usize = 16 * MIB;
/// 65,536 rows at once carry their commitments.
const BIND_BYTES: usize = 4 * MIB;
/// 65,536 rows at once carry their commitments again.
const SLICE_BYTES: usize = 8 * MIB;
/// A worker may hold thousands of shards, and have rows of thousands of jobs in its release log.
const WORKER_BYTES: usize = 4 * MIB;
/// A plan is checked, or a report computed, before the answer begins.
const PLAN_TIME: Duration = Duration::from_secs(300);
/// A checkpoint of the whole vector is written before the answer begins.
const CHECKPOINT_TIME: Duration = Duration::from_secs(3600);

/// The path of `Shards.FetchSlice`, which client and worker handle below the generated code.
pub const FETCH_SLICE: &str = "/rustle.v1.Shards/FetchSlice";

/// What a caller is to the cluster: the columns of the table of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerRole {
    /// A coordinator of the same cluster.
    Coordinator,
    /// A worker of the same cluster.
    Worker,
    /// A training job: it binds and fetches rows.
    Trainer,
    /// A person or program that creates, changes and ends jobs.
    Operator,
    /// A reader of jobs, reports and ledger entries.
    Auditor,
    /// A reader of metrics and health.
    Scraper,
    /// A person who consents to changes of budgets that another person makes.
    Approver,
}

impl CallerRole {
    /// Every role, in the order of the table's columns.
    pub const ALL: [Self; 7] = [
        Self::Coordinator,
        Self::Worker,
        Self::Trainer,
        Self::Operator,
        Self::Auditor,
        Self::Scraper,
        Self::Approver,
    ];

    /// Returns the role's name in token files and in docs/security.md.
    pub fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
            Self::Trainer => "trainer",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
            Self::Scraper => "scraper",
            Self::Approver => "approver",
        }
    }
}

/// Whose name a request carries: handlers compare it with the caller's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The request names one job.
    Job,
    /// The request names no job, and the answer holds only the jobs that the caller may see.
    VisibleJobs,
    /// The request names one worker.
    Worker,
    /// The request names nothing that belongs to a caller.
    Nothing,
}

/// The calls of a table entry that last for as long as their caller likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endless {
    /// No call: each ends by itself.
    Never,
    /// Every call of the entry.
    Always,
    /// The calls of one method of the entry's service.
    Method(&'static str),
}

/// One RPC, or all methods of a service where the path ends in `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rpc {
    /// `/package.Service/Method`, as in the HTTP/2 request.
    pub path: &'static str,
    /// The roles that may call it.
    pub roles: &'static [CallerRole],
    /// Whose name a request carries.
    pub subject: Subject,
    /// Longest request message, in bytes.
    pub request_bytes: usize,
    /// Longest time until the answer begins. A stream that has begun may take as long as it needs.
    pub time: Duration,
    /// The calls that never end by themselves.
    pub endless: Endless,
}

impl Rpc {
    /// Returns whether the entry covers `path`.
    pub fn covers(&self, path: &str) -> bool {
        match self.path.strip_suffix('*') {
            Some(service) => path.starts_with(service),
            None => self.path == path,
        }
    }

    /// Returns whether a call of `path`, which the entry covers, lasts for as long as its caller likes.
    pub fn is_endless(&self, path: &str) -> bool {
        match self.endless {
            Endless::Never => false,
            Endless::Always => true,
            Endless::Method(method) => path.rsplit('/').next() == Some(method),
        }
    }

    /// A call of the given roles with the limits of a control call.
    const fn control(path: &'static str, roles: &'static [CallerRole], subject: Subject) -> Self {
        Self {
            path,
            roles,
            subject,
            request_bytes: CONTROL_BYTES,
            time: CONTROL_TIME,
            endless: Endless::Never,
        }
    }

    const fn bytes(self, request_bytes: usize) -> Self {
        Self { request_bytes, ..self }
    }

    const fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    const fn endless(self, endless: Endless) -> Self {
        Self { endless, ..self }
    }
}

const EVERYONE: &[CallerRole] = &CallerRole::ALL;
const READERS: &[CallerRole] = &[Trainer, Operator, Auditor];
/// Those who may read what is of data sets, and of no single job.
const OVERSEERS: &[CallerRole] = &[Operator, Auditor, Approver];
const OWNERS: &[CallerRole] = &[Trainer, Operator];

/// Every RPC of the service, and the health and reflection services of gRPC.
pub const RPCS: &[Rpc] = &[
    Rpc::control("/rustle.v1.Jobs/CreateJob", &[Operator], Subject::Job).bytes(PLAN_BYTES).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Jobs/GetJob", READERS, Subject::Job),
    Rpc::control("/rustle.v1.Jobs/ListJobs", READERS, Subject::VisibleJobs),
    Rpc::control("/rustle.v1.Jobs/FinishJob", OWNERS, Subject::Job).within(CHECKPOINT_TIME),
    Rpc::control("/rustle.v1.Jobs/DestroyJob", &[Operator], Subject::Job).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Jobs/ReshardJob", &[Operator], Subject::Job).within(CHECKPOINT_TIME),
    Rpc::control("/rustle.v1.Jobs/SetPlacementHints", OWNERS, Subject::Job),
    Rpc::control("/rustle.v1.Jobs/CheckpointJob", OWNERS, Subject::Job).within(CHECKPOINT_TIME),
    Rpc::control("/rustle.v1.Jobs/GetReport", READERS, Subject::Job).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Jobs/GetStatus", READERS, Subject::VisibleJobs),
    Rpc::control("/rustle.v1.Jobs/OpenBranch", OWNERS, Subject::Job),
    Rpc::control("/rustle.v1.Jobs/ListEntries", READERS, Subject::Job),
    Rpc::control("/rustle.v1.Jobs/GetHead", READERS, Subject::Job),
    Rpc::control("/rustle.v1.Jobs/GetCursor", OWNERS, Subject::Job),
    Rpc::control("/rustle.v1.Jobs/CheckCursor", OWNERS, Subject::Job),
    Rpc::control("/rustle.v1.Jobs/ResumeJob", OWNERS, Subject::Job),
    Rpc::control("/rustle.v1.Budgets/CreateDataSet", &[Operator], Subject::Nothing),
    Rpc::control("/rustle.v1.Budgets/GetDataSet", OVERSEERS, Subject::Nothing).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Budgets/ListDataSets", OVERSEERS, Subject::Nothing).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Budgets/GrantBudget", &[Operator], Subject::Nothing).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Budgets/SetShare", &[Operator], Subject::Nothing).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Budgets/AddBlock", &[Operator], Subject::Nothing).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Budgets/ApproveChange", &[Approver], Subject::Nothing).within(PLAN_TIME),
    Rpc::control("/rustle.v1.Budgets/ListDataSetEntries", OVERSEERS, Subject::Nothing),
    Rpc::control("/rustle.v1.Noise/GetRouting", OWNERS, Subject::Job),
    Rpc::control("/rustle.v1.Noise/Bind", &[Trainer], Subject::Job).bytes(BIND_BYTES),
    Rpc::control("/rustle.v1.Noise/Fetch", &[Trainer], Subject::Job).bytes(BIND_BYTES),
    Rpc::control("/rustle.v1.Workers/Register", &[Worker], Subject::Worker).bytes(WORKER_BYTES),
    Rpc::control("/rustle.v1.Workers/Heartbeat", &[Worker], Subject::Worker).bytes(WORKER_BYTES),
    Rpc::control("/rustle.v1.Workers/Deregister", &[Worker], Subject::Worker),
    Rpc::control("/rustle.v1.Workers/GetJobPlan", &[Worker], Subject::Nothing),
    Rpc::control("/rustle.v1.Workers/DrainWorker", &[Operator], Subject::Nothing),
    // It also needs a release grant, which only a trainer gets: an operator can reach a worker, not read rows.
    Rpc::control(FETCH_SLICE, &[Coordinator, Trainer, Operator], Subject::Job).bytes(SLICE_BYTES),
    // It also needs the coordinator's signature, where callers are authenticated and where they are not.
    Rpc::control("/rustle.v1.Shards/Snapshot", &[Coordinator], Subject::Nothing).within(CHECKPOINT_TIME),
    Rpc::control("/grpc.health.v1.Health/*", EVERYONE, Subject::Nothing).endless(Endless::Method("Watch")),
    Rpc::control("/grpc.reflection.v1.ServerReflection/*", EVERYONE, Subject::Nothing)
        .endless(Endless::Always),
];

/// Returns the entry of [`RPCS`] that covers `path`.
pub fn find(path: &str) -> Option<&'static Rpc> {
    find_in(RPCS, path)
}

/// Returns the entry of `table` that covers `path`.
pub fn find_in<'a>(table: &'a [Rpc], path: &str) -> Option<&'a Rpc> {
    table.iter().find(|rpc| rpc.covers(path))
}

/// Returns the paths of a service's methods, in the order of the table. `service` is its full name, such as
/// `rustle.v1.Jobs`.
pub fn paths_of(service: &str) -> impl Iterator<Item = &'static str> {
    let in_service = move |path: &&str| path[1..].split_once('/').is_some_and(|(own, _)| own == service);
    RPCS.iter().map(|rpc| rpc.path).filter(in_service)
}

/// Returns the table of rights as docs/security.md prints it.
pub fn markdown() -> String {
    let mut text = String::from("| RPC |");
    CallerRole::ALL.iter().for_each(|role| text += &format!(" {} |", role.name()));
    text += "\n|---|";
    text += &"---|".repeat(CallerRole::ALL.len());
    for rpc in RPCS {
        let path = rpc.path.trim_start_matches("/rustle.v1.").trim_start_matches("/grpc.");
        text += &format!("\n| {} |", path.replace('/', "."));
        for role in CallerRole::ALL {
            text += match (rpc.roles.contains(&role), rpc.subject) {
                (false, _) => " – |",
                (true, Subject::Job | Subject::VisibleJobs | Subject::Worker) => " own |",
                (true, Subject::Nothing) => " yes |",
            };
        }
    }
    text + "\n"
}
