//! Messages between the ranks of an MPI launch. Reading them needs no MPI library.

use std::{collections::BTreeMap, sync::Arc};

use noise_worker::release_log::{ReleaseLog, ReleasedRow};
use proto::{Commitment, JobId, Nonce, RowRange, ServiceError, model::JobIdentity};
use rustle_mpi::{
    handshake::{self, Handshake, Role},
    launch_options::{self, LaunchOptions},
    watermark_exchange::{Part, WatermarkSender, Watermarks},
    wire::{self, Get, JobAction, JobRequest, MAX_TEXT, Message, Reply, error_text},
};

use super::{etcd::LEDGER, files::runtime};
use crate::{Target, outcome, refusal, words};

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "mpi-message", seeds: message_seeds, run: message, slice: 3_000 },
        Target { name: "mpi-hello", seeds: hello_seeds, run: hello, slice: 3_000 },
        Target { name: "mpi-watermarks", seeds: watermark_seeds, run: watermarks, slice: 1_000 },
        Target { name: "mpi-options", seeds: option_seeds, run: options, slice: 3_000 },
    ]
}

/// Returns exactly as many bytes as MPI delivers: missing ones are zeros, further ones are left out.
fn sized<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

fn message_seeds() -> Vec<Vec<u8>> {
    let digest = Commitment::of_text("step 7").to_bytes();
    let get = Get {
        slot: 77,
        in_window: true,
        integers: true,
        row: 7,
        start: 512,
        end: 1_300,
        offset: 0,
        branch: 0,
        digest,
    };
    let bound = ServiceError::AlreadyBound { job: "job-1".into(), branch: 1, row: 7 };
    let refused = get.refusal(error_text(&bound));
    let action = JobAction::Resume { cursor: vec![7; 90], replay: true };
    let resume = Message::Job(JobRequest { slot: 0, action });
    [Message::Get(get), refused, resume].iter().map(Message::encode).collect()
}

/// Accepted messages are written as the same bytes, and so is the error of a refusal.
fn message(bytes: &[u8]) -> String {
    let bytes = sized(bytes);
    match Message::decode(&bytes) {
        Ok(message) => {
            assert_eq!(
                decoded(&message).as_ref(),
                Ok(&message),
                "another message after it was written and read"
            );
            let slot = u32::from_le_bytes(std::array::from_fn(|at| bytes[8 + at]));
            let reply = wire::reply_tag(slot);
            let data = wire::data_tag(slot);
            // The highest tag that every MPI guarantees.
            assert!(reply > wire::GRANT && data > reply && data <= 32_767, "tags {reply} and {data}");
            check_error(&message);
            let (range, commitment) = match &message {
                Message::Get(get) => (get.range().is_ok(), get.commitment().is_ok()),
                Message::Bind(binding) | Message::Bound(binding) | Message::NotBound { binding, .. } => {
                    (true, binding.commitment().is_ok())
                }
                _ => (true, true),
            };
            format!("{:?} {range} {commitment}", message.kind())
        }
        Err(error) => refusal(&error),
    }
}

/// Reads the text of a message as an error, whatever its kind, and writes that error again.
fn check_error(message: &Message) {
    let get = |text| {
        let digest = [0; Commitment::BYTES];
        let get = Get {
            slot: 0,
            in_window: false,
            integers: false,
            row: 0,
            start: 0,
            end: 0,
            offset: 0,
            branch: 0,
            digest,
        };
        get.reply(0, 0, text)
    };
    let text = match message {
        Message::Ready(reply) | Message::Refused(reply) => reply.text.clone(),
        Message::NotBound { reason, .. } => reason.clone(),
        Message::Job(JobRequest { action: JobAction::Resume { cursor, .. }, .. }) => cursor.clone(),
        _ => Vec::new(),
    };
    let error = get(text).error();
    let text = error_text(&error);
    if text.len() > MAX_TEXT {
        return;
    }
    let again = match decoded(&Message::Refused(Reply { text, ..get(Vec::new()) })) {
        Ok(Message::Refused(reply)) => Ok(reply.error()),
        Ok(other) => panic!("a refusal was read as {:?}", other.kind()),
        Err(error) => Err(error),
    };
    assert_eq!(again, Ok(error), "another error after it was sent");
}

fn decoded(message: &Message) -> Result<Message, ServiceError> {
    Message::decode(&sized(&message.encode()))
}

fn job() -> Option<JobId> {
    JobId::new("job-1").ok()
}

fn root() -> Option<Handshake> {
    Some(Handshake {
        dimension: 1_300,
        plan_digest: [1; 32],
        key_commitment: [2; 32],
        job: Handshake::job_digest(&job()?),
        iterations: 9,
        ..Handshake::noise()
    })
}

fn hello_seeds() -> Vec<Vec<u8>> {
    root().into_iter().chain([Handshake::training(1 << 40)]).map(|hello| hello.encode()).collect()
}

/// Accepted messages are written as the same bytes; an admitted rank has the first noise rank's job; ranges tile the
/// vector.
fn hello(bytes: &[u8]) -> String {
    let hello = match Handshake::decode(&sized::<{ handshake::BYTES }>(bytes)) {
        Ok(hello) => hello,
        Err(error) => return refusal(&error),
    };
    let again = Handshake::decode(&hello.encode());
    assert_eq!(again.as_ref(), Ok(&hello), "another hello after it was written and read");
    let ranges = tiles(hello.dimension, 1 + hello.iterations as usize % 9);
    let Some(root) = root() else { return String::new() };
    match Handshake::disagreement(&[root.clone(), hello.clone()]) {
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

fn goes_with(hello: &Handshake, root: &Handshake) -> bool {
    let any = |is_zero: bool| hello.role == Role::Training && is_zero;
    let of = |hello: &Handshake| (hello.job, hello.key_commitment, hello.stream_version, hello.noise_version);
    hello.version == root.version
        && (hello.dimension == root.dimension || any(hello.dimension == 0))
        && (hello.plan_digest == root.plan_digest || any(hello.plan_digest == [0; 32]))
        && (hello.role == Role::Training || of(hello) == of(root))
}

fn tiles(dimension: u64, count: usize) -> bool {
    let Ok(ranges) = handshake::ranges(dimension, count) else { return false };
    assert_eq!(ranges.len(), count);
    let starts = ranges.iter().map(|range| range.start);
    let ends = [0].into_iter().chain(ranges.iter().map(|range| range.end));
    assert!(starts.eq(ends.take(count)), "{ranges:?} leave a gap");
    assert_eq!(ranges.last().map(|range| range.end), Some(dimension));
    true
}

/// The job of the seed's ledger.
fn identity() -> Option<JobIdentity> {
    let job = job()?;
    let nonce = LEDGER.job(&job).expect("a ledger that is read")?.nonce;
    Some(JobIdentity { ledger: LEDGER.id().expect("a ledger that is read"), nonce, job })
}

fn watermark_seeds() -> Vec<Vec<u8>> {
    let marks = Arc::new(ReleaseLog::open(None).expect("a record in memory"));
    let Some(job) = identity() else { return Vec::new() };
    let bound = |branch, row: u64| {
        let bound = LEDGER.bindings(&job.job, branch, row..row + 1).expect("a ledger that is read");
        let commitment = bound.first().map_or(Commitment::of_text("a"), |(_, commitment)| *commitment);
        ReleasedRow { branch, row, commitment }
    };
    let elsewhere = JobIdentity { ledger: Nonce::from_bytes([7; 32]), ..job.clone() };
    let recorded = async {
        marks.clone().record(job.clone(), 0, vec![bound(0, 1), bound(0, 2)]).await?;
        marks.clone().record(job.clone(), 1, vec![bound(1, 3)]).await?;
        marks.clone().record(elsewhere, 4, vec![bound(4, 9)]).await
    };
    runtime().block_on(recorded).expect("a written record");
    vec![WatermarkSender::new(&marks, &job.job).next_part().to_vec()]
}

/// A ledger's id, a job's nonce and a branch.
type Stretch<'a> = (&'a [u8], &'a [u8], u64);
/// The number of rows released, and the commitment of the last.
type LastRow<'a> = (u64, &'a [u8]);

/// A launch resumes only if the ledger has everything that a plain reading finds.
fn watermarks(bytes: &[u8]) -> String {
    let part: Part = sized(bytes);
    let Some(job) = identity() else { return String::new() };
    let left = u64::from_le_bytes(sized(&part[..8]));
    let found = part[8..].chunks_exact(120);
    let most = found.len() as u64;
    let mut watermarks = Watermarks::default();
    assert_eq!(watermarks.take([(0, part)]), left > most, "of {left} marks");
    // Of each branch the first mark of the highest row counts.
    let mut highest: BTreeMap<Stretch<'_>, LastRow<'_>> = BTreeMap::new();
    for mark in found.take(left.min(most) as usize) {
        let [branch, next_row] = [0, 8].map(|at| u64::from_le_bytes(sized(&mark[at..at + 8])));
        let kept =
            highest.entry((&mark[16..48], &mark[48..80], branch)).or_insert((next_row, &mark[80..113]));
        if next_row > kept.0 {
            *kept = (next_row, &mark[80..113]);
        }
    }
    let has = |(&(_, nonce, branch), &(next_row, commitment)): (&Stretch<'_>, &LastRow<'_>)| {
        // The two branches of the ledger in the seed.
        let is_known = nonce == job.nonce.as_bytes()
            && match branch {
                0 => next_row <= 3,
                1 => next_row <= 4,
                _ => false,
            };
        let bound = next_row.checked_sub(1).filter(|_| is_known).map(|row| {
            let bound = LEDGER.bindings(&job.job, branch, row..next_row).expect("a ledger that is read");
            bound.first().map(|(_, commitment)| *commitment)
        });
        is_known && bound.is_none_or(|bound| bound == Commitment::try_from(commitment).ok())
    };
    let all = highest.iter().filter(|((ledger, ..), _)| *ledger == job.ledger.as_bytes()).all(has);
    let known = watermarks.check_against(&LEDGER, &job.job);
    assert_eq!(known.is_ok(), all, "{known:?}");
    outcome(known)
}

fn option_seeds() -> Vec<Vec<u8>> {
    let rows = RowRange { start: 3, end: 9 };
    let options = |commitment| LaunchOptions { rows, checkpoint_every: 7, commitment }.to_bytes().to_vec();
    vec![options(Commitment::exact([9; 32])), options(Commitment::of_text("step 7"))]
}

/// Accepted options are written as the same bytes.
fn options(bytes: &[u8]) -> String {
    let input: launch_options::Bytes = sized(bytes);
    match LaunchOptions::from_bytes(&input) {
        Ok(options) => {
            assert_eq!(options.to_bytes(), input);
            "ok".into()
        }
        Err(error) => words(format!("{error:#}")),
    }
}
