//! Archived jobs: all that a report says of them stays, and so does every refusal.

use ledger::{
    AnchorPlace, Archives, BranchReleases, ChainCheck, Created, EntryLine, Head, JobRecord, JobState, Ledger,
    LedgerError, LedgerFile, MAX_ARCHIVE_BYTES, Opening, Principal, ShardRecord,
};
use proto::{CheckpointRecord, Lineage, model::OpenBranch};

use crate::{Place, commitment, id, job, nonce, range, rows, two_shards};

/// What stays of a job.
#[derive(Debug, PartialEq)]
struct Kept {
    record: JobRecord,
    shards: Vec<ShardRecord>,
    released: Vec<BranchReleases>,
    charged: Vec<BranchReleases>,
    openings: Vec<Opening>,
    doubt: Option<String>,
    lineages: Vec<Lineage>,
    rows_bound: u64,
    next_rows: Vec<u64>,
    checkpoints: Vec<CheckpointRecord>,
}

impl Kept {
    fn of(ledger: &Ledger, name: &str) -> Self {
        let job = id(name);
        let record = ledger.job(&job).unwrap().unwrap();
        let branches = 0..=record.branch;
        Self {
            shards: ledger.shards(&job).unwrap(),
            released: ledger.released(&job).unwrap(),
            charged: ledger.charged(&job).unwrap(),
            openings: ledger.openings(&job).unwrap(),
            doubt: ledger.doubt(&job).unwrap(),
            lineages: branches.clone().map(|branch| ledger.lineage(&job, branch).unwrap()).collect(),
            rows_bound: ledger.rows_bound(&job).unwrap(),
            next_rows: branches
                .map(|branch| ledger.binding_summary(&job, branch).unwrap().next_row)
                .collect(),
            checkpoints: ledger.checkpoints(&job).unwrap(),
            record,
        }
    }
}

fn rewind(ledger: &Ledger, job: &str, expected_branch: u64, from_row: u64) {
    let request = OpenBranch { job: id(job), from_row, expected_branch, parent: None };
    ledger.open_branch(&request, nonce(expected_branch + 1)).unwrap();
}

/// The job `j`, rewound twice and destroyed, with rows that it skipped, and `k`, which runs.
fn place() -> Place {
    let place = Place::new();
    let ledger = place.with_job().acting_as(Principal::new("operator token:4fa01b23c4d5"));
    ledger.create_job(&job("k"), &two_shards()).unwrap();
    ledger.bind(&id("k"), 0, rows(0, 1), &[commitment("a")]).unwrap();
    ledger.bind(&id("j"), 0, rows(0, 3), &["a", "b", "c"].map(commitment)).unwrap();
    ledger.bind(&id("j"), 0, rows(7, 9), &["h", "i"].map(commitment)).unwrap();
    rewind(&ledger, "j", 0, 2);
    ledger.bind(&id("j"), 1, rows(2, 3), &[commitment("d")]).unwrap();
    rewind(&ledger, "j", 1, 3);
    ledger.replace_shards(&id("j"), &[range(0, 2000)]).unwrap();
    ledger.set_job_state(&id("j"), JobState::Destroyed).unwrap();
    place
}

fn lines(path: &std::path::Path) -> Vec<EntryLine> {
    let file = LedgerFile::read(path).unwrap();
    let mut lines = Vec::new();
    for chain in file.chains().unwrap() {
        let visit = |entry| {
            lines.push(EntryLine::new(&chain.name, entry)?);
            Ok::<_, LedgerError>(true)
        };
        file.entries(&chain.name, 0, visit).unwrap();
    }
    lines
}

#[test]
fn a_report_of_an_archived_job_says_what_it_said_before() {
    let place = place();
    let ledger = place.open();
    let before = ["j", "k"].map(|name| Kept::of(&ledger, name));
    let heads = ["j", "k"].map(|name| ledger.head(&id(name)).unwrap());
    drop(ledger);
    let archived = Ledger::compact(&place.path()).unwrap();
    assert_eq!(archived.too_large, []);
    let [of_j] = archived.archived.as_slice() else { panic!("{archived:?}") };
    assert_eq!((of_j.job.as_str(), of_j.entries, of_j.rows), ("j", heads[0].entries, 6));
    let ledger = place.open();
    assert_eq!(["j", "k"].map(|name| Kept::of(&ledger, name)), before);
    assert_eq!(["j", "k"].map(|name| ledger.is_archived(&id(name)).unwrap()), [true, false]);
    // The chain continues from where it was.
    let entries = ledger.entries(&id("j"), 0, 99, usize::MAX).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].index, entries[0].previous), (heads[0].entries, heads[0].hash));
    assert_eq!(ledger.head(&id("j")).unwrap().entries, heads[0].entries + 1);
    assert_eq!(ledger.head(&id("k")).unwrap(), heads[1]);
    // From its index, as from 0; what is gone is gone.
    assert_eq!(ledger.entries(&id("j"), heads[0].entries, 99, usize::MAX).unwrap(), entries);
    assert_eq!(ledger.entries(&id("j"), 1, 99, usize::MAX).unwrap(), []);
    assert_eq!(ledger.archive_destroyed().unwrap(), Archives::default(), "twice");
    drop(ledger);
    let file = LedgerFile::read(&place.path()).unwrap();
    assert_eq!(file.verify().unwrap(), None);
    let archived: Vec<_> =
        file.chains().unwrap().iter().map(|chain| (chain.rows_bound, chain.archived)).collect();
    assert_eq!(archived, [(6, heads[0].entries), (1, 0)]);
}

#[test]
fn an_archived_job_stays_destroyed_and_its_name_in_use() {
    let place = place();
    Ledger::compact(&place.path()).unwrap();
    let ledger = place.open();
    let j = id("j");
    let rewind = OpenBranch { job: j.clone(), from_row: 0, expected_branch: 2, parent: None };
    let bind = |branch, text: &str| ledger.bind(&j, branch, rows(0, 1), &[commitment(text)]).map(drop);
    let refused = [
        ledger.create_job(&job("j"), &two_shards()).map(drop),
        // Under the commitment that the row was bound to, and under another one.
        bind(2, "a"),
        bind(2, "z"),
        bind(0, "a"),
        ledger.unbound(&j, 2, rows(9, 10), &[commitment("z")]).map(drop),
        ledger.open_branch(&rewind, nonce(3)).map(drop),
        ledger.set_job_state(&j, JobState::Running).map(drop),
        ledger.set_job_state(&j, JobState::Finished).map(drop),
        ledger.set_owners(&j, &[(0, None)]).map(drop),
        ledger.bindings(&j, 0, 0..9).map(drop),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(LedgerError::JobState { .. })), "{refused:?}");
    }
    let other = JobRecord { plan_digest: [9; 32], ..job("j") };
    let error = ledger.create_job(&other, &two_shards()).unwrap_err();
    assert!(matches!(error, LedgerError::AlreadyExists { .. }), "{error}");
    // Others are as they were.
    assert_eq!(ledger.create_job(&job("k"), &two_shards()).unwrap(), Created::Existing);
    ledger.bind(&id("k"), 0, rows(1, 2), &[commitment("b")]).unwrap();
    let error = ledger.bind(&id("k"), 0, rows(0, 1), &[commitment("z")]).unwrap_err();
    assert!(matches!(error, LedgerError::AlreadyBound { .. }), "{error}");
}

#[test]
fn an_export_can_be_checked_with_an_archive_and_with_what_it_stands_for() {
    let place = place();
    let whole = lines(&place.path());
    Ledger::compact(&place.path()).unwrap();
    let archived = lines(&place.path());
    let check = |lines: &[EntryLine]| {
        let mut check = ChainCheck::default();
        lines.iter().try_for_each(|line| check.take(line)).map(|()| check.heads().clone())
    };
    let heads = check(&archived).unwrap();
    // An audit log that was there before has all entries, and then the archive.
    let is_of = |name: &'static str| move |line: &&EntryLine| line.chain == name;
    let both: Vec<EntryLine> = whole.iter().chain(archived.iter().filter(is_of("j"))).cloned().collect();
    assert_eq!(check(&both).unwrap(), heads);
    // An archive follows the entry that it names and no other.
    let mut cut = both.clone();
    cut.remove(4);
    assert!(check(&cut).is_err());
    // One that says something else than they do is found, although its hash is right.
    let archive: serde_json::Value = serde_json::from_str(&archived[0].event).unwrap();
    let text = |value: &serde_json::Value| serde_json::to_string(value).unwrap();
    let root = text(&archive["bound"][0]["root"]);
    let openings = archived[0].event.split_once(r#""openings":"#).unwrap().1;
    let created = archive["first"].as_str().unwrap().split_once(',').unwrap().0;
    let created = created.trim_start_matches('{').replace('"', r#"\""#);
    for (old, new) in [
        // Other rows of the same number.
        (r#""released":[[0,3],[7,9]]"#, r#""released":[[0,2],[6,9]]"#),
        (&*root, &*root.replace(&root[1..3], if &root[1..3] == "00" { "01" } else { "00" })),
        (openings, "[]}"),
        (r#""by":"operator token:4fa01b23c4d5","at_ms":"#, r#""by":"operator token:4fa01b23c4d6","at_ms":"#),
        (&*created, r#"\"at_ms\":1"#),
        (r#""entries":8"#, r#""entries":7"#),
        (r#""from_row":2"#, r#""from_row":1"#),
        (r#""layout_epoch":1"#, r#""layout_epoch":2"#),
        (r#""job":"j""#, r#""job":"k""#),
    ] {
        let line = archived[0].clone();
        let event = line.event.replacen(old, new, 1);
        assert_ne!(event, line.event, "{old}");
        let hash = Head { entries: line.index, hash: line.previous }.next(event.as_bytes()).hash;
        let altered = EntryLine { event, hash, ..line };
        let error = check(&whole.iter().cloned().chain([altered]).collect::<Vec<_>>()).unwrap_err();
        assert!(error.contains("archive"), "{error}");
    }
    let late = ChainCheck::of_partial_chains().take(&archived[0]);
    assert_eq!(late, Ok(()));
    // Any other entry begins no chain.
    assert!(check(&whole[1..]).is_err());
}

#[test]
fn an_adopted_ledger_is_doubted_as_before_once_its_jobs_are_archived() {
    let place = Place::new();
    let ledger = place.with_job();
    ledger.bind(&id("j"), 0, rows(0, 5), &["a", "b", "c", "d", "e"].map(commitment)).unwrap();
    rewind(&ledger, "j", 0, 4);
    // What comes between the two branches keeps the first one out of the adoption.
    ledger.bind(&id("j"), 1, rows(4, 5), &[commitment("E")]).unwrap();
    rewind(&ledger, "j", 1, 5);
    let anchor = AnchorPlace::of_ledger(&place.path());
    ledger.for_adoption().take_over(&anchor, nonce(50), nonce(51)).unwrap();
    ledger.set_job_state(&id("j"), JobState::Destroyed).unwrap();
    let before = Kept::of(&ledger, "j");
    assert!(before.doubt.is_some() && before.charged != before.released, "{before:?}");
    drop(ledger);
    Ledger::compact(&place.path()).unwrap();
    assert_eq!(Kept::of(&place.open(), "j"), before);
}

/// Many rows, so that their room shows.
#[test]
fn a_job_whose_archive_no_message_could_list_stays_as_it_is() {
    let place = place();
    let ledger = place.open();
    let long = JobRecord { mechanism: "x".repeat(MAX_ARCHIVE_BYTES), ..job("long") };
    ledger.create_job(&long, &two_shards()).unwrap();
    ledger.bind(&id("long"), 0, rows(0, 1), &[commitment("x")]).unwrap();
    ledger.set_job_state(&id("long"), JobState::Destroyed).unwrap();
    let done = ledger.archive_destroyed().unwrap();
    let [archived] = done.archived.as_slice() else { panic!("{done:?}") };
    let [left] = done.too_large.as_slice() else { panic!("{done:?}") };
    assert_eq!((archived.job.as_str(), left.job.as_str()), ("j", "long"));
    assert!(left.bytes > MAX_ARCHIVE_BYTES);
    assert!(!ledger.is_archived(&id("long")).unwrap());
    assert_eq!(ledger.bindings(&id("long"), 0, 0..9).unwrap(), [(0, commitment("x"))]);
    drop(ledger);
    place.open();
}

#[test]
fn a_ledger_that_is_open_is_not_compacted() {
    let place = place();
    let ledger = place.open();
    let error = Ledger::compact(&place.path()).unwrap_err();
    assert!(matches!(error, LedgerError::Locked { .. }), "{error}");
    assert!(!ledger.is_archived(&id("j")).unwrap());
    let error = Ledger::compact(&place.path().with_file_name("none.redb")).unwrap_err();
    assert!(matches!(error, LedgerError::Missing { .. }), "{error}");
}
