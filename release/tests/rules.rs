//! The rules where the coordinator, the root rank under MPI and the engine in a Python process differ, and those that
//! they share, over a real ledger.
#![allow(clippy::unwrap_used)]

mod example;

use example::{NEW_NONCE, NONCE, PLAN};
use ledger::{JobCursor, JobRecord, Ledger, LedgerError};
use plan::Plan;
use proto::model::OpenBranch;
use proto::{Commitment, CoordinateRange, JobId, Nonce, RowRange, ServiceError};
use release::binding::{bind, bind_above};
use release::branches::{Resumption, open_branch_above, resume, resumption, rewind};
use release::job::{define, define_with_ranges, dimension, layout_digest};
use release::watermarks::{UnknownJob, Watermark, check_not_stale};
use tempfile::TempDir;

const LAYOUT: &str = "
[[layout.parameters]]
name = \"weights\"
shape = [30, 20]
";

fn new_ledger(folder: &TempDir) -> Ledger {
    let path = folder.path().join("ledger.redb");
    Ledger::init(&path, Nonce::from_bytes([1; 32])).unwrap();
    Ledger::open(&path).unwrap()
}

struct Fixture {
    _folder: TempDir,
    ledger: Ledger,
    record: JobRecord,
}

impl Fixture {
    /// A ledger with one job, of which `rows` rows are bound on branch 0.
    fn new(rows: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let ledger = new_ledger(&folder);
        let job = define(job(), &plan(PLAN), PLAN.to_owned(), 1_000, [7; 32], 2, NONCE).unwrap();
        ledger.create_job(&job.record, &job.shards).unwrap();
        let fixture = Self { _folder: folder, ledger, record: job.record };
        (0..rows).for_each(|row| fixture.bind(0, row));
        fixture
    }

    fn bind(&self, branch: u64, row: u64) {
        let rows = RowRange::new(row, row + 1).unwrap();
        bind(&self.ledger, &job(), branch, rows, &[commitment()]).unwrap();
    }

    fn layout(&self) -> [u8; 32] {
        layout_digest(&plan(PLAN), self.record.dimension).unwrap()
    }

    fn cursor(&self, next_row: u64) -> JobCursor {
        self.ledger.cursor(&job(), self.layout(), Some(next_row)).unwrap()
    }

    fn branch(&self) -> u64 {
        self.ledger.job(&job()).unwrap().unwrap().branch
    }
}

fn job() -> JobId {
    JobId::new("digits").unwrap()
}

fn plan(text: &str) -> Plan {
    Plan::from_toml_str(text).unwrap()
}

fn commitment() -> Commitment {
    Commitment::of_text("a")
}

fn mark(branch: u64, next_row: u64) -> Watermark<&'static str> {
    let commitment = (next_row > 0).then(commitment);
    Watermark { witness: "worker w", nonce: NONCE, branch, next_row, commitment }
}

fn behind<T: std::fmt::Debug>(result: Result<T, LedgerError>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, LedgerError::Behind { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_plan_on_a_grid_is_a_job() {
    let grid = "layout.dimension = 1000\ngrid = { step = -26, rounding = 'nearest', summing_error = 0.0 }\n";
    let text = PLAN.replacen("\n[", &format!("\n{grid}\n["), 1);
    assert!(define(job(), &plan(&text), text.clone(), 1_000, [7; 32], 2, NONCE).is_ok());
}

#[test]
fn a_watermark_above_the_ledger_stops_a_binding_before_it_is_written() {
    let fixture = Fixture::new(3);
    let rows = RowRange::new(3, 4).unwrap();
    let try_with = |marks: &[Watermark<&'static str>]| {
        bind_above(&fixture.ledger, &job(), 0, rows, &[commitment()], marks)
    };
    let text = behind(try_with(&[mark(0, 3), mark(0, 4)]));
    assert!(text.contains("branch 0 up to row 3") && text.contains("branch 0 up to row 4"), "{text}");
    assert!(behind(try_with(&[mark(1, 0)])).contains("branch 1 up to row 0"));
    assert_eq!(fixture.ledger.binding_summary(&job(), 0).unwrap().next_row, 3);
    assert_eq!(try_with(&[mark(0, 3), mark(0, 0)]).unwrap().newly, 1);
}

#[test]
fn each_watermark_is_compared_with_its_own_branch() {
    let fixture = Fixture::new(3);
    rewind(&fixture.ledger, &job(), 1, 0, NEW_NONCE).unwrap();
    fixture.bind(1, 1);
    let check = |mark| check_not_stale(&fixture.ledger, &job(), &[mark], UnknownJob::Skip);
    check(mark(0, 3)).unwrap();
    check(mark(1, 2)).unwrap();
    assert!(behind(check(mark(0, 4))).contains("knows branch 0 up to row 3"));
    assert!(behind(check(mark(1, 3))).contains("knows branch 1 up to row 2"));
}

/// An old copy that has bound as many rows since, or more, knows as high a row as the worker.
#[test]
fn rows_that_are_bound_to_other_commitments_contradict_a_watermark() {
    let fixture = Fixture::new(3);
    let check = |mark| check_not_stale(&fixture.ledger, &job(), &[mark], UnknownJob::Skip);
    for next_row in 1..=3 {
        check(mark(0, next_row)).unwrap();
        let other = Watermark { commitment: Some(Commitment::of_text("b")), ..mark(0, next_row) };
        let text = behind(check(other));
        assert!(text.contains(&format!("row {} of branch 0 under the commitment", next_row - 1)), "{text}");
    }
    let text = behind(check(Watermark { nonce: NEW_NONCE, ..mark(0, 1) }));
    assert!(text.contains("knows one with the nonce"), "{text}");
}

#[test]
fn a_job_that_the_ledger_does_not_know_is_skipped_or_refused_as_the_caller_says() {
    let folder = TempDir::new().unwrap();
    let ledger = new_ledger(&folder);
    let check = |mark, unknown| check_not_stale(&ledger, &job(), &[mark], unknown);
    check(mark(0, 5), UnknownJob::Skip).unwrap();
    check(mark(0, 0), UnknownJob::Refuse).unwrap();
    for seen in [mark(0, 5), mark(1, 0)] {
        assert!(behind(check(seen, UnknownJob::Refuse)).contains("knows nothing"));
    }
    // What is skipped is refused by the ledger itself.
    let rows = RowRange::new(0, 1).unwrap();
    let bound = bind_above(&ledger, &job(), 0, rows, &[commitment()], &[mark(0, 5)]);
    assert!(matches!(bound, Err(LedgerError::NotFound { .. })), "{bound:?}");
    let request = OpenBranch { job: job(), from_row: 0, expected_branch: 0, parent: None };
    let opened = open_branch_above(&ledger, &request, NEW_NONCE, &[mark(0, 5)]);
    assert!(matches!(opened, Err(LedgerError::NotFound { .. })), "{opened:?}");
}

#[test]
fn a_stale_ledger_opens_no_branch() {
    let fixture = Fixture::new(3);
    let request = OpenBranch { job: job(), from_row: 1, expected_branch: 0, parent: None };
    behind(open_branch_above(&fixture.ledger, &request, NEW_NONCE, &[mark(0, 9)]));
    assert_eq!(fixture.branch(), 0);
    assert!(open_branch_above(&fixture.ledger, &request, NEW_NONCE, &[mark(0, 3)]).unwrap().newly);
}

#[test]
fn a_job_resumes_on_its_branch_where_nothing_lies_beyond_the_cursor() {
    let fixture = Fixture::new(3);
    let cursor = fixture.cursor(3);
    let resumed = resume(&fixture.ledger, &job(), fixture.layout(), &cursor, false, NEW_NONCE).unwrap();
    assert_eq!((resumed.branch, resumed.next_row, resumed.opened_branch), (0, 3, false));
    fixture.bind(0, 3);
    let found = resumption(&fixture.ledger, &job(), fixture.layout(), &cursor, false).unwrap();
    assert!(
        matches!(found, Resumption::NewBranch(OpenBranch { from_row: 3, parent: Some(0), .. })),
        "{found:?}"
    );
    assert_eq!(fixture.branch(), 0, "deciding opens nothing");
    let resumed = resume(&fixture.ledger, &job(), fixture.layout(), &cursor, false, NEW_NONCE).unwrap();
    assert_eq!((resumed.branch, resumed.next_row, resumed.opened_branch), (1, 3, true));
    // The same cursor again finds the branch that it opened.
    let again = resume(&fixture.ledger, &job(), fixture.layout(), &cursor, false, NEW_NONCE).unwrap();
    assert_eq!(again, resumed);
}

#[test]
fn rows_that_come_again_exactly_need_no_branch() {
    let fixture = Fixture::new(3);
    let cursor = fixture.cursor(1);
    let exact = Commitment::exact([3; 32]);
    let replay = |replay| resumption(&fixture.ledger, &job(), fixture.layout(), &cursor, replay).unwrap();
    assert!(matches!(replay(true), Resumption::NewBranch(_)), "text commitments are not exact");
    drop(fixture);

    let fixture = Fixture::new(0);
    for row in 0..3 {
        bind(&fixture.ledger, &job(), 0, RowRange::new(row, row + 1).unwrap(), &[exact]).unwrap();
    }
    let cursor = fixture.cursor(1);
    let replay = |replay| resumption(&fixture.ledger, &job(), fixture.layout(), &cursor, replay).unwrap();
    assert!(matches!(replay(true), Resumption::Continue { branch: 0 }));
    assert!(matches!(replay(false), Resumption::NewBranch(_)));
}

#[test]
fn a_cursor_of_another_layout_is_refused() {
    let fixture = Fixture::new(3);
    let cursor = fixture.cursor(3);
    let other = layout_digest(&plan(PLAN), 999).unwrap();
    let refused = resume(&fixture.ledger, &job(), other, &cursor, false, NEW_NONCE);
    assert!(matches!(refused, Err(LedgerError::CursorMismatch { what: "layout", .. })), "{refused:?}");
}

#[test]
fn a_dimension_is_given_or_follows_from_the_layout() {
    let plain = plan(PLAN);
    let with_layout = plan(&format!("{PLAN}{LAYOUT}"));
    assert_eq!(dimension(Some(5), &plain).unwrap(), 5);
    assert_eq!(dimension(None, &with_layout).unwrap(), 600);
    assert_eq!(dimension(Some(600), &with_layout).unwrap(), 600);
    let refused = [
        (Some(0), &plain, "1 to "),
        (Some(u64::MAX), &plain, "1 to "),
        (None, &plain, "no layout"),
        (Some(5), &with_layout, "600, as in the plan's layout"),
    ];
    for (given, plan, allowed) in refused {
        let error = dimension(given, plan).unwrap_err();
        assert!(matches!(error, ServiceError::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(allowed), "{error}");
    }
    assert_ne!(layout_digest(&with_layout, 600).unwrap(), layout_digest(&plain, 600).unwrap());
}

#[test]
fn a_definition_is_the_same_by_count_and_by_ranges() {
    let plan = plan(PLAN);
    let by_count = define(job(), &plan, PLAN.to_owned(), 1_000, [7; 32], 2, NONCE).unwrap();
    let ranges = [CoordinateRange::new(0, 512).unwrap(), CoordinateRange::new(512, 1_000).unwrap()];
    assert_eq!(by_count, define_with_ranges(job(), &plan, PLAN.to_owned(), &ranges, [7; 32], NONCE).unwrap());
    assert_eq!((by_count.record.dimension, by_count.record.shards), (1_000, 2));
    assert!(
        define(job(), &plan, PLAN.to_owned(), 1_000, [7; 32], 3, NONCE).is_err(),
        "more shards than blocks"
    );
}
