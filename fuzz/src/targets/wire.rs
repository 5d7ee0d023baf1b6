//! Frames of chunks, release tokens, and errors in trailers.

use bytes::Bytes;
use prost::Message;
use proto::{
    Commitment, CoordinateRange, CoordinatorKey, CoordinatorPublicKey, ElementType, FrameReader,
    GrantedBranch, JobId, Nonce, ReleaseToken, RowRange, ServiceError, Validity, chunk_of, frame_head, pb,
};
use tonic::{Code, Status, metadata::MetadataValue};

use crate::{Target, words};

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "frames", seeds: frame_seeds, run: frames, slice: 3_000 },
        Target { name: "token", seeds: token_seeds, run: token, slice: 2_000 },
        Target { name: "error-trailer", seeds: error_seeds, run: error_trailer, slice: 3_000 },
    ]
}

fn frame_seeds() -> Vec<Vec<u8>> {
    let frame = |row, values: usize| {
        let chunk = chunk_of(row, 512, ElementType::F32, vec![7; values * 4].into());
        [frame_head(&chunk), chunk.data].concat()
    };
    let mut two = frame(3, 5);
    two.extend(frame(4, 0));
    two.extend(frame(5, 40));
    // In the order in which another sender might write the fields.
    let message = chunk_of(3, 512, ElementType::F32, vec![7; 20].into()).encode_to_vec();
    let ordinary = [&[0, 0, 0, 0, message.len() as u8][..], &message].concat();
    vec![two, ordinary]
}

/// Returns the chunks, or those before an error. The length of the pieces follows from the input.
fn read(bytes: &[u8], piece: usize) -> Vec<Result<pb::Chunk, String>> {
    let mut reader = FrameReader::default();
    let mut chunks = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        reader.push(Bytes::copy_from_slice(piece));
        loop {
            match reader.next_chunk() {
                Ok(Some(chunk)) => {
                    let data: usize = chunk.data.iter().map(Bytes::len).sum();
                    assert_eq!(data, chunk.head.data_len, "the head has another length");
                    chunks.push(Ok(chunk.into_message()));
                }
                Ok(None) => break,
                Err(error) => {
                    chunks.push(Err(words(error)));
                    return chunks;
                }
            }
        }
    }
    chunks
}

/// The same bytes give the same chunks however they are split.
fn frames(bytes: &[u8]) -> String {
    let whole = read(bytes, bytes.len());
    for piece in [1, 3, 7, 64] {
        assert_eq!(read(bytes, piece), whole, "in pieces of {piece}");
    }
    let last = whole
        .last()
        .map_or("nothing".to_owned(), |last| last.as_ref().map_or_else(Clone::clone, |_| "ok".into()));
    format!("{} {last}", whole.len().min(4))
}

const NONCE: Nonce = Nonce::from_bytes([5; 32]);
const ROWS: RowRange = RowRange { start: 3, end: 5 };

fn coordinator_key() -> CoordinatorKey {
    CoordinatorKey::new(&[1; 32])
}

fn token_seeds() -> Vec<Vec<u8>> {
    let Ok(job) = JobId::new("job-1") else { return Vec::new() };
    let of = GrantedBranch { job: &job, nonce: &NONCE, branch: 0 };
    let extent = CoordinateRange { start: 0, end: 512 };
    let signed = |bound: RowRange, extent| {
        let commitments = bound.as_range().map(|row| Commitment::of_text(&row.to_string())).collect();
        let validity = Validity { epoch: 1, until_ms: 1_000, extent };
        let token = coordinator_key().release(of, bound, commitments, validity).token(ROWS);
        token.map(|token| pb::ReleaseToken::from(token).encode_to_vec()).unwrap_or_default()
    };
    vec![signed(ROWS, None), signed(RowRange { start: 0, end: 9 }, Some(extent)), vec![0; 150]]
}

/// Only tokens that were signed are accepted.
fn token(bytes: &[u8]) -> String {
    let good = &token_seeds()[..2];
    let Ok(job) = JobId::new("job-1") else { return String::new() };
    let of = GrantedBranch { job: &job, nonce: &NONCE, branch: 0 };
    let _ = CoordinatorPublicKey::from_slice(bytes).map(|key| format!("{key:?}"));
    let Ok(message) = pb::ReleaseToken::decode(bytes) else { return "no message".into() };
    match ReleaseToken::try_from(message) {
        Ok(token) => {
            let is_good = token.verify(&coordinator_key().public(), of, ROWS).is_ok();
            let again = pb::ReleaseToken::from(token).encode_to_vec();
            assert_eq!(is_good, good.contains(&again), "an unsigned token was accepted");
            format!("token {is_good}")
        }
        Err(error) => words(error),
    }
}

fn error_seeds() -> Vec<Vec<u8>> {
    let errors = [
        ServiceError::Draining,
        ServiceError::AlreadyBound { job: "job-1".into(), branch: 0, row: 3 },
        ServiceError::invalid("rows", 3, "1 or more"),
    ];
    let detail = |error: &ServiceError| pb::ErrorDetail {
        kind: error.kind().to_owned(),
        retry_safe: error.retry_safe(),
        fields_json: serde_json::to_string(error).unwrap_or_default(),
    };
    errors.iter().map(|error| detail(error).encode_to_vec()).collect()
}

fn error_trailer(bytes: &[u8]) -> String {
    let mut status = Status::new(Code::Internal, "message");
    status.metadata_mut().insert_bin("rustle-error-bin", MetadataValue::from_bytes(bytes));
    let error = ServiceError::from(status);
    let again = ServiceError::from(Status::from(error.clone()));
    assert_eq!(again, error, "it changed on a second way");
    error.kind().to_owned()
}
