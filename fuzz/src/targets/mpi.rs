//! What ranks of an MPI launch say to each other. None of it needs an MPI library to be read.

use std::sync::Arc;

use noise_worker::release_log::{ReleaseLog, ReleasedRow};
use proto::{Commitment, JobId, RowRange, ServiceError};

use super::{etcd::LEDGER, files::runtime};
use crate::{
    Target,
    of_the_worker::{
        agreed::{self, Agreed},
        hello::{self, Hello, Role},
        message::{self, Kind, Message},
        told::{Part, Telling, Told},
    },
    outcome, refusal, words,
};

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "mpi-message", seeds: message_seeds, run: message, slice: 3_000 },
        Target { name: "mpi-hello", seeds: hello_seeds, run: hello, slice: 3_000 },
        Target { name: "mpi-told", seeds: told_seeds, run: told, slice: 1_000 },
        Target { name: "mpi-agreed", seeds: agreed_seeds, run: agreed, slice: 3_000 },
    ]
}

/// MPI delivers so many bytes and no others: what is missing is zeros, what is more is left out.
fn sized<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

fn message_seeds() -> Vec<Vec<u8>> {
    let commitment = Commitment::of_text("step 7");
    let get = Message {
        slot: 77,
        in_window: true,
        start: 512,
        end: 1_300,
        ..Message::about(Kind::Get, 7, commitment)
    };
    let bound = ServiceError::AlreadyBound { job: "job-1".into(), branch: 1, row: 7 };
    let cursor = Message { text: vec![7; 90], marked: true, ..Message::new(Kind::Resume) };
    [get, Message::new(Kind::Refused).saying(&bound), cursor].iter().map(Message::encode).collect()
}

/// What is taken comes back the same, and so does the error that a refusal says.
fn message(bytes: &[u8]) -> String {
    match Message::decode(&sized(bytes)) {
        Ok(message) => {
            assert_eq!(
                decoded(&message).as_ref(),
                Ok(&message),
                "another message after it was written and read"
            );
            let reply = message::reply_tag(message.slot);
            let data = message::data_tag(message.slot);
            // The highest tag that every MPI has.
            assert!(reply > message::GRANT && data > reply && data <= 32_767, "tags {reply} and {data}");
            let error = message.error();
            let saying = Message::new(Kind::Refused).saying(&error);
            if saying.text.len() <= message::BYTES - 96 {
                let again = decoded(&saying).map(|message| message.error());
                assert_eq!(again, Ok(error), "another error after it was said");
            }
            let range = message.range().is_ok();
            format!("{:?} {range} {}", message.kind, message.commitment().is_ok())
        }
        Err(error) => refusal(&error),
    }
}

fn decoded(message: &Message) -> Result<Message, ServiceError> {
    Message::decode(&sized(&message.encode()))
}

fn job() -> Option<JobId> {
    JobId::new("job-1").ok()
}

fn root() -> Option<Hello> {
    Some(Hello {
        dimension: 1_300,
        plan_digest: [1; 32],
        key_commitment: [2; 32],
        job: Hello::of_job(&job()?),
        iterations: 9,
        ..Hello::noise()
    })
}

fn hello_seeds() -> Vec<Vec<u8>> {
    root().into_iter().chain([Hello::training(1 << 40)]).map(|hello| hello.encode()).collect()
}

/// What is taken comes back the same; who is let in has the first noise rank's job; ranges tile the vector.
fn hello(bytes: &[u8]) -> String {
    let hello = match Hello::decode(&sized::<{ hello::BYTES }>(bytes)) {
        Ok(hello) => hello,
        Err(error) => return refusal(&error),
    };
    let again = Hello::decode(&hello.encode());
    assert_eq!(again.as_ref(), Ok(&hello), "another hello after it was written and read");
    let ranges = tiles(hello.dimension, 1 + hello.iterations as usize % 9);
    let Some(root) = root() else { return String::new() };
    match Hello::disagreement(&[root.clone(), hello.clone()]) {
        Some(differs) => {
            // Without digests and numbers.
            let words = differs.split(' ').filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
            format!("{} {ranges}", words.take(4).collect::<Vec<_>>().join(" "))
        }
        None => {
            assert!(goes_with(&hello, &root), "{hello:?} was let in");
            format!("{:?} {ranges}", hello.role)
        }
    }
}

fn goes_with(hello: &Hello, root: &Hello) -> bool {
    let any = |is_zero: bool| hello.role == Role::Training && is_zero;
    let of = |hello: &Hello| (hello.job, hello.key_commitment, hello.stream_version, hello.noise_version);
    hello.version == root.version
        && (hello.dimension == root.dimension || any(hello.dimension == 0))
        && (hello.plan_digest == root.plan_digest || any(hello.plan_digest == [0; 32]))
        && (hello.role == Role::Training || of(hello) == of(root))
}

fn tiles(dimension: u64, count: usize) -> bool {
    let Ok(ranges) = hello::ranges(dimension, count) else { return false };
    assert_eq!(ranges.len(), count);
    let starts = ranges.iter().map(|range| range.start);
    let ends = [0].into_iter().chain(ranges.iter().map(|range| range.end));
    assert!(starts.eq(ends.take(count)), "{ranges:?} leave a gap");
    assert_eq!(ranges.last().map(|range| range.end), Some(dimension));
    true
}

fn told_seeds() -> Vec<Vec<u8>> {
    let marks = Arc::new(ReleaseLog::open(None).expect("a record in memory"));
    let Some(job) = job() else { return Vec::new() };
    let released = |branch, row| ReleasedRow { branch, row, commitment: Commitment::of_text("a") };
    let noted = async {
        marks.clone().record(job.clone(), 0, vec![released(0, 1), released(0, 2)]).await?;
        marks.clone().record(job.clone(), 1, vec![released(1, 3)]).await
    };
    runtime().block_on(noted).expect("a record that is written");
    vec![Telling::of(&marks, &job).next_part().to_vec()]
}

/// A launch goes on only where the ledger has all that a plain reading finds.
fn told(bytes: &[u8]) -> String {
    let part: Part = sized(bytes);
    let words: Vec<u64> = part.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let left = words[0];
    let most = words.len() as u64 / 2 - 1;
    let mut marks = words[2..].as_chunks::<2>().0.iter().take(left.min(most) as usize);
    let Some(job) = job() else { return String::new() };
    let mut told = Told::default();
    assert_eq!(told.take([(0, part)]), left > most, "of {left} marks");
    let has = |[branch, next_row]: &[u64; 2]| match branch {
        // Of the two branches of the log that is the seed.
        0 => *next_row <= 3,
        1 => *next_row <= 4,
        _ => false,
    };
    let all = marks.all(has);
    let known = told.is_known_to(&LEDGER, &job);
    assert_eq!(known.is_ok(), all, "{known:?}");
    outcome(known)
}

fn agreed_seeds() -> Vec<Vec<u8>> {
    let rows = RowRange { start: 3, end: 9 };
    let said = |commitment| Agreed { rows, checkpoint_every: 7, commitment }.to_bytes().to_vec();
    vec![said(Commitment::exact([9; 32])), said(Commitment::of_text("step 7"))]
}

/// What is taken is written just so.
fn agreed(bytes: &[u8]) -> String {
    let said: agreed::Bytes = sized(bytes);
    match Agreed::of(&said) {
        Ok(agreed) => {
            assert_eq!(agreed.to_bytes(), said);
            "ok".into()
        }
        Err(error) => words(format!("{error:#}")),
    }
}
