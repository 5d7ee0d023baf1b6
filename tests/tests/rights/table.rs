//! The expected answer to every kind of caller at every RPC, written by hand and independent of `proto/src/rpc.rs`.

use bytes::Bytes;
use node::auth::CallerRole;
use proto::ServiceError;
use tests::raw_call::about;

/// `yes`: allowed. `own`: allowed if the caller's credentials name the job or worker of the request, or all of them.
/// `-`: refused. The columns are those of [`CallerRole::ALL`].
const TABLE: &str = "
                                                                coordinator worker trainer operator auditor scraper approver
/rustle.v1.Jobs/CreateJob                                       -           -      -       own      -       -       -
/rustle.v1.Jobs/GetJob                                          -           -      own     own      own     -       -
/rustle.v1.Jobs/ListJobs                                        -           -      yes     yes      yes     -       -
/rustle.v1.Jobs/GetStatus                                       -           -      yes     yes      yes     -       -
/rustle.v1.Jobs/FinishJob                                       -           -      own     own      -       -       -
/rustle.v1.Jobs/DestroyJob                                      -           -      -       own      -       -       -
/rustle.v1.Jobs/ReshardJob                                      -           -      -       own      -       -       -
/rustle.v1.Jobs/SetPlacementHints                               -           -      own     own      -       -       -
/rustle.v1.Jobs/CheckpointJob                                   -           -      own     own      -       -       -
/rustle.v1.Jobs/GetReport                                       -           -      own     own      own     -       -
/rustle.v1.Jobs/OpenBranch                                      -           -      own     own      -       -       -
/rustle.v1.Jobs/ListEntries                                     -           -      own     own      own     -       -
/rustle.v1.Jobs/GetHead                                         -           -      own     own      own     -       -
/rustle.v1.Jobs/GetCursor                                       -           -      own     own      -       -       -
/rustle.v1.Jobs/CheckCursor                                     -           -      own     own      -       -       -
/rustle.v1.Jobs/ResumeJob                                       -           -      own     own      -       -       -
/rustle.v1.Budgets/CreateDataSet                                 -           -      -       yes      -        -     -
/rustle.v1.Budgets/GetDataSet                                    -           -      -       yes      yes      -     yes
/rustle.v1.Budgets/ListDataSets                                  -           -      -       yes      yes      -     yes
/rustle.v1.Budgets/GrantBudget                                   -           -      -       yes      -        -     -
/rustle.v1.Budgets/SetShare                                      -           -      -       yes      -        -     -
/rustle.v1.Budgets/AddBlock                                      -           -      -       yes      -        -     -
/rustle.v1.Budgets/ApproveChange                                 -           -      -       -        -        -     yes
/rustle.v1.Budgets/ListDataSetEntries                            -           -      -       yes      yes      -     yes
/rustle.v1.Noise/GetRouting                                     -           -      own     own      -       -       -
/rustle.v1.Noise/Bind                                           -           -      own     -        -       -       -
/rustle.v1.Noise/Fetch                                          -           -      own     -        -       -       -
/rustle.v1.Workers/Register                                     -           own    -       -        -       -       -
/rustle.v1.Workers/Heartbeat                                    -           own    -       -        -       -       -
/rustle.v1.Workers/Deregister                                   -           own    -       -        -       -       -
/rustle.v1.Workers/GetJobPlan                                   -           yes    -       -        -       -       -
/rustle.v1.Workers/DrainWorker                                  -           -      -       yes      -       -       -
/rustle.v1.Shards/FetchSlice                                    own         -      own     own      -       -       -
/rustle.v1.Shards/Snapshot                                      yes         -      -       -        -       -       -
/grpc.health.v1.Health/Check                                    yes         yes    yes     yes      yes     yes     yes
/grpc.reflection.v1.ServerReflection/ServerReflectionInfo       yes         yes    yes     yes      yes     yes     yes
";

/// One RPC of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// `/package.Service/Method`.
    pub path: &'static str,
    rights: [&'static str; CallerRole::ALL.len()],
}

/// Returns the rows of the table.
pub fn rows() -> impl Iterator<Item = Row> {
    let mut lines = TABLE.trim_start_matches('\n').lines();
    let columns: Vec<_> = lines.next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(columns, CallerRole::ALL.map(CallerRole::name));
    lines.map(|line| {
        let cells: Vec<_> = line.split_whitespace().collect();
        Row { path: cells[0], rights: cells[1..].try_into().expect("a cell for each role") }
    })
}

impl Row {
    /// Returns whether workers serve the RPC; otherwise the coordinator does.
    pub fn is_of_workers(&self) -> bool {
        self.path.starts_with("/rustle.v1.Shards/")
    }

    /// Returns the job or worker that the request names. There is none of that name, so that an allowed call changes
    /// nothing.
    pub fn subject(&self) -> &'static str {
        if self.path.starts_with("/rustle.v1.Workers/") { "worker-9" } else { "own" }
    }

    /// Returns the request. Health and reflection take an empty one.
    pub fn request(&self) -> Bytes {
        if self.path.starts_with("/rustle") { about(self.subject()) } else { Bytes::new() }
    }

    /// Returns the cell of a role.
    pub fn right(&self, role: CallerRole) -> &'static str {
        self.rights[CallerRole::ALL.iter().position(|of| *of == role).expect("a column for each role")]
    }

    /// Returns the refusal that a caller gets whose credentials name `name` (`None`: all jobs or workers); `None` where
    /// the call is allowed.
    pub fn refusal(&self, role: CallerRole, name: Option<&str>) -> Option<ServiceError> {
        let is_allowed = match self.right(role) {
            "yes" => true,
            "own" => name.is_none_or(|name| name == self.subject()),
            "-" => false,
            other => panic!("{other:?} is not a right; allowed: yes, own, -"),
        };
        (!is_allowed).then_some(ServiceError::PermissionDenied)
    }
}

/// Checks an answer: exactly the refusal, or an answer of the method itself.
#[track_caller]
pub fn assert_answer(
    answer: &Result<(), ServiceError>,
    refusal: Option<ServiceError>,
    caller: &str,
    row: &Row,
) {
    if let Some(refusal) = refusal {
        assert_eq!(*answer, Err(refusal), "{caller} at {}", row.path);
        return;
    }
    let is_refused = matches!(answer, Err(ServiceError::Unauthenticated | ServiceError::PermissionDenied));
    // A worker that keeps no checkpoints answers a snapshot with an error of the same kind.
    let is_lost = matches!(answer, Err(ServiceError::Unavailable { what }) if !what.contains("checkpoint"));
    assert!(!is_refused && !is_lost, "{caller} at {}: {answer:?}", row.path);
}
