use proto::Commitment;
use sha2::{Digest, Sha256};

use super::*;

fn decode(bytes: &[u8]) -> Result<Message, ServiceError> {
    Message::decode(bytes.try_into().unwrap())
}

/// Returns a commitment: 1, then 0 to 31.
fn digest() -> [u8; Commitment::BYTES] {
    std::array::from_fn(|at| if at == 0 { 1 } else { at as u8 - 1 })
}

fn get() -> Get {
    Get {
        slot: 77,
        in_window: true,
        integers: false,
        row: 7,
        start: 512,
        end: u64::MAX,
        offset: 3 << 40,
        branch: 9,
        digest: digest(),
    }
}

fn job(slot: u32, action: JobAction) -> JobRequest {
    JobRequest { slot, action }
}

fn resume(replay: bool) -> JobAction {
    JobAction::Resume { cursor: vec![7; 90], replay }
}

fn refused(reply: Reply) -> Message {
    Message::Refused(reply)
}

/// Returns a message of every kind with the first 16 hex digits of the SHA-256 of its bytes, which were computed by the
/// `struct` format of `python/rustle/mpi.py`.
fn frozen() -> Vec<(Message, &'static str)> {
    let binding = Binding { branch: 9, row: 7, digest: digest() };
    let id = 1 << 30;
    let piece = Piece {
        checkpoint: id,
        next_row: 12,
        bytes: 1 << 40,
        sha256: std::array::from_fn(|at| 100 + at as u8),
    };
    let draining = b"draining\n{\"kind\":\"draining\"}\nTEXT".to_vec();
    let opened = Reply { flag: true, ..job(5, resume(false)).reply(3, 40, vec![]) };
    let report = Reply { end: 900, ..job(6, JobAction::Report).reply(3, 0, vec![]) };
    let Message::Refused(of_resume) = job(8, resume(true)).refusal(&ServiceError::Draining) else { panic!() };
    vec![
        (Message::Get(get()), "cc4020b59e81e401"),
        (Message::Ready(get().reply(11, 2, b"job-1".to_vec())), "c460ea004bc0d2d9"),
        (Message::Ready(opened), "6792ac0f74916579"),
        (Message::Ready(report), "ad83baa7baad4db7"),
        (get().refusal(draining), "474b3339a70d1914"),
        (refused(Reply { text: b"why".to_vec(), ..of_resume }), "4673a1228de86d5b"),
        (Message::Bind(binding), "b14bf3a475726861"),
        (Message::Bound(binding), "5f43ee58e91f8a6b"),
        (Message::NotBound { binding, reason: b"why".to_vec() }, "7de5529c51a16fea"),
        (Message::Done, "388a8baa96599e01"),
        (Message::Checkpoint { id }, "a8339d177c7e5919"),
        (Message::Piece(piece), "fa60067d07555f6d"),
        (Message::PieceFailed { checkpoint: id }, "00e19e07b38ee351"),
        (Message::Idle, "b19b7429704bd76a"),
        (Message::Close, "01d129e73b9c8500"),
        (Message::Job(job(1, JobAction::Status)), "930a156fb8c8fcf5"),
        (Message::Job(job(2, JobAction::Cursor { row: 4 })), "e5830be9926614be"),
        (Message::Job(job(3, resume(true))), "ff502e0fb64dc7a3"),
        (Message::Job(job(3, resume(false))), "765c008b5f2f8345"),
        (Message::Job(job(4, JobAction::Rewind { row: 6 })), "520a466e4c4675d4"),
        (Message::Job(job(5, JobAction::Report)), "0eed08848002ac1a"),
        (Message::Branch { branch: 2, grant_bytes: 300 }, "1690a015b9a5cf52"),
        (Message::BranchServed, "6249fc2198cb42bb"),
    ]
}

#[test]
fn the_bytes_of_every_kind_are_frozen() {
    let all = frozen();
    for (message, expected) in &all {
        let bytes = message.encode();
        assert_eq!(bytes.len(), BYTES);
        assert_eq!(hex::encode(Sha256::digest(&bytes))[..16], **expected, "{message:?}");
        assert_eq!(decode(&bytes).as_ref(), Ok(message));
    }
    for number in 1..=19u16 {
        assert!(
            all.iter().any(|(message, _)| message.kind() as u16 == number),
            "no message of kind {number}"
        );
    }
}

/// The places of fields, spelled out for the message that uses most of them.
#[test]
fn a_request_has_its_fields_at_fixed_places() {
    let bytes = Message::Get(get()).encode();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(bytes[..16], [0x52, 0x53, 0x50, 0x4d, 3, 0, 1, 0, 77, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!([16, 24, 32, 40, 48].map(number), [7, 512, u64::MAX, 3 << 40, 9]);
    assert_eq!(bytes[56..89], digest());
    assert!(bytes[89..].iter().all(|byte| *byte == 0));
}

#[test]
fn messages_survive_the_wire() {
    let commitment = Commitment::of_text("step 7");
    let get = Get { digest: commitment.to_bytes(), ..get() };
    let bytes = Message::Get(get.clone()).encode();
    assert_eq!((bytes.len(), decode(&bytes).unwrap()), (BYTES, Message::Get(get.clone())));
    assert_eq!(get.commitment().unwrap(), commitment);
    for number in 1..=19u16 {
        let mut bytes = Message::Done.encode();
        bytes[6..8].copy_from_slice(&number.to_le_bytes());
        let message = decode(&bytes).unwrap();
        assert_eq!((message.kind() as u16, message.encode()), (number, bytes));
    }
    for number in [0, 20, u16::MAX] {
        let mut bytes = Message::Done.encode();
        bytes[6..8].copy_from_slice(&number.to_le_bytes());
        assert!(decode(&bytes).is_err(), "kind {number}");
    }
}

fn refusal(error: &ServiceError) -> Vec<u8> {
    get().refusal(error_text(error)).encode()
}

fn refused_with(bytes: &[u8]) -> Reply {
    match decode(bytes).unwrap() {
        Message::Refused(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_survive_the_wire() {
    let bound = ServiceError::AlreadyBound { job: "j".repeat(64), branch: 1, row: u64::MAX };
    for error in [ServiceError::Draining, bound] {
        assert_eq!(refused_with(&refusal(&error)).error(), error);
    }
}

#[test]
fn a_long_text_is_cut() {
    let long = ServiceError::invalid("é".repeat(300), 1, "less");
    let got = refused_with(&refusal(&long));
    assert_eq!(got.text.len(), MAX_TEXT);
    assert!(got.error().to_string().contains("invalid_argument"), "{}", got.error());
}

#[test]
fn what_is_no_message_is_refused() {
    let good = Message::Done.encode();
    for (at, word) in [(0, "magic"), (4, "protocol version"), (6, "message kind"), (TEXT - 1, "text length")]
    {
        let mut bad = good.clone();
        bad[at] ^= 0x7f;
        let error = decode(&bad).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
