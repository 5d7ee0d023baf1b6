//! Tests incompatible releases: each side reports the reason and the remedy, and nothing is changed.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use ledger::Ledger;
use proto::{
    Commitment, Nonce, PROTOCOL_HEADER, PROTOCOL_VERSION, ServiceError,
    pb::{
        self,
        noise_client::NoiseClient,
        shards_client::ShardsClient,
        workers_server::{Workers, WorkersServer},
    },
};
use redb::{Database, TableDefinition};
use tests::{KEY, job, plans, program, start};
use tonic::{Request, Response, Status};

const OTHERS: [u32; 2] = [PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1];

fn mismatch(expected: u32, actual: u32) -> ServiceError {
    ServiceError::ProtocolVersionMismatch { expected, actual }
}

fn ended_badly(output: &Output) -> String {
    assert!(!output.status.success());
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A coordinator of another release, as far as a worker gets with it.
struct OtherCoordinator(u32);

#[tonic::async_trait]
impl Workers for OtherCoordinator {
    async fn register(
        &self,
        request: Request<pb::RegisterRequest>,
    ) -> Result<Response<pb::RegisterResponse>, Status> {
        Err(mismatch(self.0, request.into_inner().protocol_version).into())
    }

    async fn heartbeat(
        &self,
        _: Request<pb::HeartbeatRequest>,
    ) -> Result<Response<pb::HeartbeatResponse>, Status> {
        Err(Status::unimplemented("heartbeat"))
    }

    async fn deregister(
        &self,
        _: Request<pb::DeregisterRequest>,
    ) -> Result<Response<pb::DeregisterResponse>, Status> {
        Err(Status::unimplemented("deregister"))
    }

    async fn get_job_plan(&self, _: Request<pb::GetJobPlanRequest>) -> Result<Response<pb::JobPlan>, Status> {
        Err(Status::unimplemented("get_job_plan"))
    }

    async fn drain_worker(
        &self,
        _: Request<pb::DrainWorkerRequest>,
    ) -> Result<Response<pb::DrainWorkerResponse>, Status> {
        Err(Status::unimplemented("drain_worker"))
    }
}

#[test]
fn a_worker_ends_beside_a_coordinator_of_another_release() {
    let runtime = node::process::runtime::Runtime::new().unwrap();
    for other in OTHERS {
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let server =
            tonic::transport::Server::builder().add_service(WorkersServer::new(OtherCoordinator(other)));
        runtime.spawn(server.serve_with_incoming(incoming));
        let mut worker = Command::new(program())
            .args(["worker", "--name", "w", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
            .args(["--key-fd", "0", "--state-dir", "none", "--coordinator", &url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        worker.stdin.take().unwrap().write_all(&KEY).unwrap();
        let said = ended_badly(&worker.wait_with_output().unwrap());
        let reason = mismatch(other, PROTOCOL_VERSION).to_string();
        assert!(said.contains(&reason), "{said}");
    }
}

#[test]
fn a_client_of_another_release_is_refused_and_binds_nothing() {
    let cluster = start(1);
    let job = job("versions");
    cluster.create(&job, &plans()[0], 512, 1).unwrap();
    cluster.wait_ready(&job);
    let bind = || pb::BindRequest {
        job: job.to_string(),
        branch: 0,
        rows: Some(pb::RowRange { start: 0, end: 1 }),
        commitments: vec![Commitment::of_text("step 0").to_bytes().to_vec()],
        range: None,
    };
    let ask = |said: Option<String>| {
        cluster.runtime.block_on(async {
            let said = said.as_deref();
            let mut noise = NoiseClient::connect(cluster.cluster.url()).await.unwrap();
            let bound = noise.bind(saying(said, bind())).await.map(drop).map_err(ServiceError::from);
            let worker = cluster.cluster.worker(0).unwrap().grpc().to_owned();
            let mut shards = ShardsClient::connect(worker).await.unwrap();
            let slice = pb::FetchSliceRequest { job: job.to_string(), ..pb::FetchSliceRequest::default() };
            let sliced = shards.fetch_slice(saying(said, slice)).await.map(drop).map_err(ServiceError::from);
            (bound, sliced)
        })
    };
    for other in OTHERS {
        let refused = mismatch(PROTOCOL_VERSION, other);
        let text = refused.to_string();
        assert!(text.contains("docs/operations.md"), "{text}");
        assert_eq!(ask(Some(other.to_string())), (Err(refused.clone()), Err(refused)));
    }
    let unreadable = ask(Some("two".into())).0.unwrap_err();
    assert_eq!(unreadable.kind(), "invalid_argument");
    let entries = cluster.runtime.block_on(cluster.client.jobs().entries(&job)).unwrap();
    let bound = entries.iter().filter(|entry| entry.event.contains("\"event\":\"bound\""));
    assert_eq!(bound.count(), 0, "a refusal has bound a row");
    // Who says nothing is not asked, and our own clients say it.
    assert_eq!(ask(None).0, Ok(()));
    cluster.fetch(&job, 0..1, 0..512).unwrap();
}

fn saying<M>(version: Option<&str>, message: M) -> Request<M> {
    let mut request = Request::new(message);
    if let Some(version) = version {
        request.metadata_mut().insert(PROTOCOL_HEADER, version.parse().unwrap());
    }
    request
}

#[test]
fn a_coordinator_leaves_the_ledger_of_a_newer_release_alone() {
    const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    Ledger::init(&path, Nonce::from_bytes([1; 32])).unwrap();
    let db = Database::open(&path).unwrap();
    let transaction = db.begin_write().unwrap();
    // This release's is 7.
    let format = 8;
    transaction.open_table(META).unwrap().insert("format", format).unwrap();
    transaction.commit().unwrap();
    drop(db);
    let before = fs::read(&path).unwrap();
    let coordinator = Command::new(program())
        .args(["coordinator", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    let said = ended_badly(&coordinator);
    assert!(said.contains(&format!("has format {format}")) && said.contains("newer build"), "{said}");
    assert!(fs::read(&path).unwrap() == before, "the ledger was changed by being refused");
}
