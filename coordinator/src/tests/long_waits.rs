//! Waits for what workers have on record.

use std::sync::Arc;

use proto::MAX_MARKS_PER_MESSAGE;
use proto::model::JobMark;
use tokio::time::{Instant, sleep};

use super::*;

/// A record that fills a message says that more is to come.
fn endless_record() -> WorkerRecord {
    let mark = JobMark {
        job: JobId::new("unheard-of").unwrap(),
        nonce: Nonce::from_bytes([9; 32]),
        branch: 0,
        next_row: 0,
        commitment: None,
    };
    let marks = vec![mark; MAX_MARKS_PER_MESSAGE];
    WorkerRecord { ledger: Some(LEDGER), marks, ..WorkerRecord::default() }
}

/// Who reports without end, under one name after the other, makes bindings wait: not without end, and not unnamed.
#[tokio::test(start_paused = true)]
async fn a_binding_waits_for_records_for_so_long_and_names_a_worker() {
    let folder = TempDir::new().unwrap();
    let coordinator = Arc::new(open(&folder));
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let register = |number: u32| {
        let endless = Register { record: endless_record(), ..registration(&format!("liar-{number}"), 1) };
        coordinator.register(endless).unwrap();
    };
    register(0);
    let began = Instant::now();
    let reporting = async {
        for number in 1.. {
            sleep(Duration::from_secs(1)).await;
            register(number);
        }
    };
    let error = tokio::select! {
        bound = coordinator.bind_now(bind(0..1, "x")) => bound.unwrap_err(),
        () = reporting => unreachable!(),
    };
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert!(error.retry_safe() && error.to_string().contains("worker liar-"), "{error}");
    assert_eq!(coordinator.ledger().rows_bound(&job()).unwrap(), 0);
    // They are gone, and what they reported holds up nothing.
    sleep(Duration::from_secs(3)).await;
    coordinator.bind_now(bind(0..1, "x")).await.unwrap();
}
