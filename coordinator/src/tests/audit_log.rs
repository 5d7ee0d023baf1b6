//! The audit log has every entry of the ledger, in order, wherever its file is moved to, and stops no release.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ledger::{ChainCheck, ChainGap, EntryLine};
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::*;
use crate::audit_log::{AuditFault, AuditLog};

fn open_with(folder: &TempDir, audit_log: &Path) -> anyhow::Result<Coordinator> {
    open(folder, Some(audit_log.to_owned()))
}

fn open(folder: &TempDir, audit_log: Option<PathBuf>) -> anyhow::Result<Coordinator> {
    let settings =
        Settings { checkpoint_url: None, audit_log, ..Settings::in_folder(folder.path()).unwrap() };
    let stop = FatalStop::new(CancellationToken::new());
    Coordinator::open(ledger_in(folder), settings, Connections::new(), stop)
}

fn lines(files: &[&Path]) -> Vec<EntryLine> {
    let texts: String = files.iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect();
    texts.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The entries of the job as the ledger has them.
fn expected(coordinator: &Coordinator) -> Vec<EntryLine> {
    let entries = coordinator.ledger().entries(&job(), 0, 1_000, usize::MAX).unwrap();
    entries.into_iter().map(|entry| EntryLine::new(job().as_str(), entry).unwrap()).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn has_problem(coordinator: &Coordinator) -> bool {
    coordinator.problems().iter().any(|problem| problem.kind == "audit_log")
}

#[tokio::test]
async fn entries_are_written_in_order_also_once_the_file_is_moved_away() {
    let folder = TempDir::new().unwrap();
    let [file, moved] = ["audit.jsonl", "audit.jsonl.1"].map(|name| folder.path().join(name));
    let coordinator = open_with(&folder, &file).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    for row in 0..4 {
        coordinator.bind_now(bind(row..row + 1, "x")).await.unwrap();
    }
    let all = expected(&coordinator);
    assert_eq!(all.len(), 5);
    wait_until("the entries came to the file", || lines(&[&file]) == all);
    fs::rename(&file, &moved).unwrap();
    coordinator.bind_now(bind(4..5, "x")).await.unwrap();
    coordinator.finish_job(job()).await.unwrap();
    let all = expected(&coordinator);
    wait_until("the entries came to the new file", || lines(&[&moved, &file]) == all);
    assert_eq!((lines(&[&moved]).len(), has_problem(&coordinator)), (5, false));
    let mut check = ChainCheck::default();
    all.iter().for_each(|line| check.take(line).unwrap());
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_file_that_can_not_be_written_is_a_problem_and_stops_no_release() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("audit.jsonl");
    let coordinator = open_with(&folder, &file).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    wait_until("the first entry came", || lines(&[&file]).len() == 1);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    for row in 0..4 {
        coordinator.bind_now(bind(row..row + 1, "x")).await.unwrap();
    }
    wait_until("the problem is shown", || has_problem(&coordinator));
    fs::remove_dir(&file).unwrap();
    // The entries waited.
    let late = expected(&coordinator)[1..].to_vec();
    wait_until("what waited was written", || file.is_file() && lines(&[&file]) == late);
    wait_until("the problem is over", || !has_problem(&coordinator));
}

#[tokio::test]
async fn a_coordinator_that_is_to_have_an_audit_log_does_not_begin_without_one() {
    let folder = TempDir::new().unwrap();
    let error = open_with(&folder, folder.path()).err().unwrap();
    assert!(
        format!("{error:#}").contains("audit_log") && format!("{error:#}").contains("no file"),
        "{error:#}"
    );
    // What was written when one ends is there for the next.
    let file = folder.path().join("audit.jsonl");
    let coordinator = open_with(&folder, &file).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let all = expected(&coordinator);
    drop(coordinator);
    assert_eq!(lines(&[&file]), all);
    drop(open_with(&folder, &file).unwrap());
    assert_eq!(lines(&[&file]), all);
}

#[tokio::test]
async fn what_a_crash_has_torn_is_cut_off_and_other_files_are_left_as_they_are() {
    let folder = TempDir::new().unwrap();
    let [file, notes] = ["audit.jsonl", "notes"].map(|name| folder.path().join(name));
    fs::write(&file, r#"{"chain":"jo"#).unwrap();
    let coordinator = open_with(&folder, &file).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let all = expected(&coordinator);
    drop(coordinator);
    assert_eq!(lines(&[&file]), all);
    let whole = fs::read_to_string(&file).unwrap();
    for torn in ["{", &whole[..whole.len() / 2], &format!("{}{}", &whole[..20], "x".repeat(200_000))] {
        fs::write(&file, format!("{whole}{torn}")).unwrap();
        drop(open_with(&folder, &file).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    }
    fs::write(&notes, "milk\nbread").unwrap();
    let error = open_with(&folder, &notes).err().unwrap();
    assert!(format!("{error:#}").contains("no entry"), "{error:#}");
    assert_eq!(fs::read_to_string(&notes).unwrap(), "milk\nbread");
}

#[tokio::test]
async fn a_check_of_a_partial_log_names_what_it_lacks_and_goes_on() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder, None).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    for row in 0..6 {
        coordinator.bind_now(bind(row..row + 1, "x")).await.unwrap();
    }
    let all = expected(&coordinator);
    let mut check = ChainCheck::of_partial_chains();
    for line in [&all[0], &all[1], &all[4], &all[5]] {
        check.take(line).unwrap();
    }
    let gap = ChainGap { chain: job().to_string(), entries: 2..4 };
    assert_eq!((check.gaps(), check.begun_late().len()), (&[gap][..], 0));
    // What is there again, or altered, remains a fault.
    assert!(check.take(&all[4]).unwrap_err().contains("entry 6 comes next"));
    let altered = EntryLine { event: all[5].event.clone(), ..all[6].clone() };
    assert!(check.take(&altered).unwrap_err().contains("not that of its event"));
    check.take(&all[6]).unwrap();
}

#[tokio::test]
async fn entries_that_a_log_never_gets_are_counted_as_it_ends() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("audit.jsonl");
    let coordinator = open(&folder, None).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let log = AuditLog::open(&file).unwrap();
    AuditLog::follow(std::slice::from_ref(&log), coordinator.ledger());
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    for row in 0..4 {
        coordinator.bind_now(bind(row..row + 1, "x")).await.unwrap();
    }
    assert_eq!(log.end(), 4);
}

/// Bytes of a message that the collector below takes.
const MOST_BYTES: usize = 4096;

/// A collector that rejects the entry of one index in each request, and takes the others.
#[derive(Clone)]
struct PickyCollector {
    rejected: u64,
    taken: Arc<Mutex<BTreeMap<u64, EntryLine>>>,
}

#[tonic::async_trait]
impl LogsService for PickyCollector {
    async fn export(
        &self,
        request: tonic::Request<ExportLogsServiceRequest>,
    ) -> Result<tonic::Response<ExportLogsServiceResponse>, tonic::Status> {
        let logs = request.into_inner().resource_logs.remove(0).scope_logs.remove(0).log_records;
        let entry = |body: Option<Value>| match body {
            Some(Value::StringValue(text)) => serde_json::from_str::<EntryLine>(&text).unwrap(),
            other => panic!("a record is {other:?}"),
        };
        let mut rejected_log_records = 0;
        for line in logs.into_iter().map(|record| entry(record.body.unwrap().value)) {
            if line.index == self.rejected {
                rejected_log_records += 1;
            } else {
                self.taken.lock().unwrap().insert(line.index, line);
            }
        }
        let partial = ExportLogsPartialSuccess { rejected_log_records, error_message: "no".to_owned() };
        Ok(tonic::Response::new(ExportLogsServiceResponse { partial_success: Some(partial) }))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_all_but_what_it_refuses() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder, None).unwrap();
    // No collector listens at the address until all entries wait.
    let address: SocketAddr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let log = AuditLog::to_collector(&format!("http://{address}")).unwrap();
    AuditLog::follow(std::slice::from_ref(&log), coordinator.ledger());
    let plan_toml = PLAN.replace("iterations = 8", "iterations = 80");
    coordinator.create_job(CreateJob { plan_toml, ..create(4096, 1) }).await.unwrap();
    wait_until("the collector is missed", || log.fault().is_some());
    for row in 0..8 {
        coordinator.bind_now(bind(row..row + 1, "x")).await.unwrap();
    }
    coordinator.bind_now(bind(8..72, "x")).await.unwrap();
    coordinator.bind_now(bind(72..73, "x")).await.unwrap();
    let all = expected(&coordinator);
    let sizes: Vec<usize> = all.iter().map(|line| line.to_json().len()).collect();
    let is_large = |size: &usize| *size > MOST_BYTES;
    assert!(sizes.iter().sum::<usize>() - sizes[9] > MOST_BYTES / 2, "{sizes:?}");
    let large: Vec<usize> = (0..sizes.len()).filter(|index| is_large(&sizes[*index])).collect();
    assert_eq!(large, [9], "{sizes:?}");

    let collector = PickyCollector { rejected: 4, taken: Arc::default() };
    let service = LogsServiceServer::new(collector.clone()).max_decoding_message_size(MOST_BYTES);
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve(address));
    let lacks_two = |fault: AuditFault| fault.missing == 2 && fault.reason.is_none();
    let has_last = || collector.taken.lock().unwrap().contains_key(&10);
    wait_until("all but two came", || has_last() && log.fault().is_some_and(lacks_two));
    let taken: Vec<EntryLine> = collector.taken.lock().unwrap().values().cloned().collect();
    let others = all.into_iter().filter(|line| ![4, 9].contains(&line.index));
    assert_eq!(taken, others.collect::<Vec<_>>());
    assert_eq!(log.end(), 0);
}
