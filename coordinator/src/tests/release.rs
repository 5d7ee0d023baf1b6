//! Binding and tokens.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_row_is_bound_to_one_commitment() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let released = coordinator.bind_now(bind(0..3, "x")).await.unwrap();
    assert_eq!(coordinator.bind_now(bind(0..3, "x")).await.unwrap(), released);
    let error = coordinator.bind_now(bind(2..4, "y")).await.unwrap_err();
    assert!(matches!(error, ServiceError::AlreadyBound { row: 2, .. }), "{error}");
    // All or none: row 3 stayed free.
    coordinator.bind_now(bind(3..4, "z")).await.unwrap();
    let error = coordinator.bind_now(bind(7..9, "x")).await.unwrap_err();
    assert!(matches!(error, ServiceError::RowBeyondIterations { .. }), "{error}");
    let job = coordinator.job_message(&job()).unwrap();
    assert_eq!((job.rows_bound, job.next_row), (4, 4));
    let unknown = Bind { job: JobId::new("other").unwrap(), ..bind(0..1, "x") };
    assert!(matches!(coordinator.bind_now(unknown).await, Err(ServiceError::NotFound { .. })));
    assert!(matches!(
        coordinator.bind_now(bind(0..100_000, "x")).await,
        Err(ServiceError::InvalidArgument { .. })
    ));
}

/// Checks the token of `rows`, used for the rows `asked`, as a worker does.
fn is_good(
    coordinator: &Coordinator,
    released: &ReleasedRows,
    rows: RowRange,
    asked: RowRange,
) -> Result<()> {
    let job = job();
    let nonce = coordinator.cluster().job(&job)?.record.nonce;
    let of = GrantedBranch { job: &job, nonce: &nonce, branch: 0 };
    released.token(rows)?.verify(&coordinator.release_authority().public_key(), of, asked)
}

#[tokio::test]
async fn grants_are_good_under_the_key_that_workers_get() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let released = coordinator.bind_now(bind(2..4, "x")).await.unwrap();
    let [second, third] = [2..3, 3..4].map(RowRange::from);
    assert_eq!(is_good(&coordinator, &released, second, second), Ok(()));
    assert_eq!(is_good(&coordinator, &released, third, third), Ok(()));
    assert!(is_good(&coordinator, &released, second, third).is_err());
}

#[tokio::test(start_paused = true)]
async fn bindings_outlive_the_coordinator_and_grants_do_not() {
    let folder = TempDir::new().unwrap();
    let first = open(&folder);
    first.create_job(create(4096, 1)).await.unwrap();
    let old = first.bind_now(bind(0..2, "x")).await.unwrap();
    let epoch = first.epoch();
    drop(first);
    let second = open(&folder);
    assert!(second.epoch() > epoch);
    assert_eq!(second.job_message(&job()).unwrap().rows_bound, 2);
    assert!(matches!(second.bind_now(bind(1..2, "y")).await, Err(ServiceError::AlreadyBound { .. })));
    let row = RowRange { start: 0, end: 1 };
    assert!(is_good(&second, &old, row, row).is_err());
    let new = second.bind_now(bind(0..2, "x")).await.unwrap();
    assert_eq!(is_good(&second, &new, row, row), Ok(()));
}

#[tokio::test]
async fn a_proxied_fetch_checks_its_range_before_it_binds() {
    let folder = TempDir::new().unwrap();
    let coordinator = std::sync::Arc::new(open(&folder));
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let range = CoordinateRange { start: 0, end: 4097 };
    let fetch = proto::model::Fetch {
        bind: bind(0..1, "x"),
        range,
        element: proto::ElementType::F32,
        deadline_ms: Some(50),
    };
    let error = coordinator.fetch(fetch, Requester::default()).await.err().unwrap();
    assert!(matches!(error, ServiceError::RangeBeyondDimension { .. }), "{error}");
    assert_eq!(coordinator.job_message(&job()).unwrap().rows_bound, 0);
}

#[tokio::test(start_paused = true)]
async fn without_workers_a_proxied_fetch_names_what_is_missing() {
    use tokio_stream::StreamExt;
    let folder = TempDir::new().unwrap();
    let coordinator = std::sync::Arc::new(open(&folder));
    coordinator.create_job(create(4096, 2)).await.unwrap();
    let range = CoordinateRange { start: 100, end: 4000 };
    let fetch = proto::model::Fetch {
        bind: bind(0..1, "x"),
        range,
        element: proto::ElementType::F32,
        deadline_ms: Some(300),
    };
    let items: Vec<_> = coordinator.fetch(fetch, Requester::default()).await.unwrap().collect().await;
    match items.as_slice() {
        [Err(ServiceError::RangeUnavailable { missing, waited_ms, .. })] => {
            assert_eq!((missing.as_slice(), *waited_ms >= 300), ([range].as_slice(), true));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_ledger_that_fails_ends_the_coordinator_also_when_the_caller_has_left() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    let (fail, failing) = std::sync::mpsc::channel();
    let call = coordinator.with_ledger(move |_| {
        failing.recv().unwrap();
        let path = "l".into();
        let reason = "a commit failed".to_owned();
        Err::<(), _>(ledger::LedgerError::Stopped { path, reason })
    });
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err(), "it waits for the disk");
    assert_eq!(coordinator.fatal_stop().reason(), None);
    fail.send(()).unwrap();
    let stopped = async {
        while coordinator.fatal_stop().reason().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), stopped).await.unwrap();
    assert!(coordinator.fatal_stop().reason().unwrap().contains("a commit failed"));
}
