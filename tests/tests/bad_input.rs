//! Tests invalid requests: each is refused with a message that says what to do, is logged once, and changes nothing.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{fs, ops::Range, time::Duration};

use proto::{Commitment, PROTOCOL_VERSION, ReleaseToken, RowRange, ServiceError, pb};
use tests::{TestCluster, flags, job, plans, start_with};

const DIMENSION: u64 = 1_000;
const TOKEN_TTL: Duration = Duration::from_secs(3);

type Outcome = Result<(), ServiceError>;

/// One caller's view of a cluster with one worker.
struct Caller<'a>(&'a TestCluster);

impl Caller<'_> {
    fn bind(
        &self,
        name: &str,
        branch: u64,
        rows: Range<u64>,
        text: &str,
    ) -> Result<ReleaseToken, ServiceError> {
        let commitments = vec![Commitment::of_text(text); rows.clone().count()];
        let name = job(name);
        let bind = self.0.client.bind(&name, branch, rows.clone().into(), &commitments);
        let row = RowRange { start: rows.start, end: rows.start + 1 };
        self.0.runtime.block_on(bind).and_then(|released| released.token(row))
    }

    /// Straight to the worker.
    fn fetch(&self, name: &str, branch: u64, row: u64, token: ReleaseToken, behind: u64) -> Outcome {
        let routing = self.0.runtime.block_on(self.0.client.routing(&job(name)))?;
        let request = pb::FetchSliceRequest {
            job: name.into(),
            branch,
            lease_epoch: routing.routes[0].lease_epoch - behind,
            rows: Some(pb::RowRange { start: row, end: row + 1 }),
            range: Some(pb::CoordinateRange { start: 0, end: 8 }),
            token: Some(token.into()),
            deadline_ms: 5_000,
            ..pb::FetchSliceRequest::default()
        };
        let endpoint = routing.routes[0].endpoint.clone();
        let endpoint = endpoint.ok_or(ServiceError::Unavailable { what: "the shard".into() })?;
        self.0.runtime.block_on(async {
            let mut worker = pb::shards_client::ShardsClient::connect(endpoint).await.unwrap();
            worker.fetch_slice(request).await.map(|_| ()).map_err(ServiceError::from)
        })
    }

    fn register_as_another_release(&self) -> Outcome {
        let request = pb::RegisterRequest {
            worker: "w".into(),
            endpoint: "http://127.0.0.1:1".into(),
            protocol_version: PROTOCOL_VERSION + 1,
            stream_version: plan::STREAM_VERSION,
            incarnation: vec![0; 16],
            ..pb::RegisterRequest::default()
        };
        self.0.runtime.block_on(async {
            let workers = pb::workers_client::WorkersClient::connect(self.0.cluster.url());
            workers.await.unwrap().register(request).await.map(|_| ()).map_err(ServiceError::from)
        })
    }

    fn create_another_plan_under_the_name(&self) -> Outcome {
        self.0.create(&job("digits"), &plans()[1], DIMENSION, 1).map(|_| ())
    }

    /// Returns the head of every job's chain of events.
    fn heads(&self) -> Vec<(u64, Vec<u8>)> {
        let head = |name: &str| self.0.runtime.block_on(self.0.client.jobs().head(&job(name))).unwrap();
        ["digits", "other"].map(head).into_iter().map(|head| (head.entries, head.hash)).collect()
    }
}

/// Lines that name a refusal of this kind.
fn named(log: &str, kind: &str) -> usize {
    let kind = format!("kind=\"{kind}\"");
    log.lines().filter(|line| line.contains("a request was refused") && line.contains(&kind)).count()
}

#[test]
fn each_refusal_says_what_to_do_is_logged_once_and_changes_nothing() {
    let ttl = format!("{}ms", TOKEN_TTL.as_millis());
    let mut cluster =
        start_with(1, |options| options.coordinator_flags.extend(flags(&["--token-ttl", &ttl])));
    for name in ["digits", "other"] {
        cluster.create(&job(name), &plans()[0], DIMENSION, 1).unwrap();
        cluster.wait_ready(&job(name));
    }
    let of_a_coordinator_before = Caller(&cluster).bind("other", 0, 0..1, "first").unwrap();
    cluster.cluster.kill_coordinator().unwrap();
    cluster.cluster.start_coordinator().unwrap();
    cluster.wait_ready(&job("digits"));

    let caller = Caller(&cluster);
    caller.bind("digits", 0, 0..3, "first").unwrap();
    cluster.runtime.block_on(cluster.client.jobs().rewind(&job("digits"), 1, 0)).unwrap();
    let fresh = || caller.bind("digits", 1, 1..2, "second").unwrap();
    // The worker hears of the branch and of the new coordinator.
    cluster.wait_until("the branch is served", || caller.fetch("digits", 1, 1, fresh(), 0).is_ok());
    let expired = fresh();
    std::thread::sleep(TOKEN_TTL + Duration::from_millis(500));
    caller.bind("other", 0, 0..1, "first").unwrap();
    let cursor = cluster.runtime.block_on(cluster.client.jobs().cursor(&job("other"), None)).unwrap();
    let check_cursor = || {
        let checked = cluster.client.jobs();
        cluster.runtime.block_on(checked.check_cursor(&job("digits"), cursor.clone())).map(|_| ())
    };
    let others = || caller.bind("other", 0, 0..1, "first").unwrap();

    let heads = caller.heads();
    type Ask<'a> = Box<dyn Fn() -> Outcome + 'a>;
    let at_coordinator: Vec<(&str, &str, Ask<'_>)> = vec![
        ("already_bound", "send the first one", Box::new(|| caller.bind("digits", 1, 1..2, "x").map(|_| ()))),
        (
            "branch_superseded",
            "continue with branch 1",
            Box::new(|| caller.bind("digits", 0, 5..6, "x").map(|_| ())),
        ),
        (
            "row_beyond_iterations",
            "rows 0..40 exist",
            Box::new(|| caller.bind("digits", 1, 40..41, "x").map(|_| ())),
        ),
        ("cursor_mismatch", "stored beside this", Box::new(check_cursor)),
        ("protocol_version_mismatch", "run one release", Box::new(|| caller.register_as_another_release())),
        ("already_exists", "another definition", Box::new(|| caller.create_another_plan_under_the_name())),
    ];
    let at_worker: Vec<(&str, &str, Ask<'_>)> = vec![
        ("not_bound", "bind it first", Box::new(|| caller.fetch("digits", 1, 1, others(), 0))),
        (
            "token_expired",
            "bind the row again",
            Box::new(|| caller.fetch("digits", 1, 1, expired.clone(), 0)),
        ),
        (
            "stale_epoch",
            "ask the coordinator that runs now",
            Box::new(|| caller.fetch("other", 0, 0, of_a_coordinator_before.clone(), 0)),
        ),
        ("fenced", "ask for the routing again", Box::new(|| caller.fetch("digits", 1, 1, fresh(), 1))),
    ];
    let processes = [(cluster.cluster.coordinator(), at_coordinator), (cluster.cluster.worker(0), at_worker)];
    for (process, cases) in processes {
        let log = process.unwrap().log();
        for (kind, says, ask) in cases {
            for _ in 0..3 {
                let error = ask().unwrap_err();
                assert_eq!(error.kind(), kind, "{error}");
                assert!(error.to_string().contains(says), "{kind} does not say what to do: {error}");
            }
            let log = fs::read_to_string(log).unwrap();
            assert_eq!(named(&log, kind), 1, "lines for three {kind}:\n{log}");
        }
    }
    assert_eq!(caller.heads(), heads, "a refusal changed the ledger");
    let is_served = || caller.fetch("digits", 1, 1, fresh(), 0).is_ok();
    cluster.wait_until("what may be asked for is answered as before", is_served);
}
