//! The control messages between training ranks and noise ranks: 512 bytes, little-endian (docs/mpi.md).

use proto::{Commitment, CoordinateRange, ServiceError};

pub const BYTES: usize = 512;
const MAGIC: u32 = 0x4D50_5352;
pub const VERSION: u16 = 3;

/// Every message to a noise rank.
pub const CONTROL: mpi::Tag = 1;
/// Requests that one training rank may have under way.
pub const SLOTS: u32 = 8192;

/// Of the shard that a noise rank is granted on a new branch.
pub const GRANT: mpi::Tag = 2;

/// A get of whatever branch the job is on.
pub const ANY_BRANCH: u64 = u64::MAX;

/// Of the answer to the request in `slot`.
pub fn reply_tag(slot: u32) -> mpi::Tag {
    16 + 2 * (slot % SLOTS) as mpi::Tag
}

/// Of that request's data.
pub fn data_tag(slot: u32) -> mpi::Tag {
    reply_tag(slot) + 1
}

/// Bytes of one data message: counts of MPI are 32 bits wide.
pub const DATA_BYTES: usize = 1 << 30;

/// Where the text begins.
const TEXT: usize = 96;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Training rank to noise rank: a range of a row of branch `id` under a commitment.
    Get = 1,
    /// Noise rank to training rank: the data follows, or lies in the window. Of a get: `id`, the branch that it is of;
    /// `row`, where that was opened; the job's name as text.
    Ready = 2,
    /// Noise rank to training rank: why not, as text.
    Refused = 3,
    /// Noise rank to the first noise rank: bind this row on branch `id`.
    Bind = 4,
    /// The first noise rank to all others: the row is durably bound on branch `id`.
    Bound = 5,
    /// The first noise rank to who asked: why it may not be bound on branch `id`.
    NotBound = 6,
    /// Training rank to every noise rank: it will ask for nothing more.
    Done = 7,
    /// The first noise rank to all others: write your piece of checkpoint `id`.
    Checkpoint = 8,
    /// Noise rank to the first: the piece is written (`row`: its next row; `place`: its bytes; digest).
    Piece = 9,
    /// Noise rank to the first: it could not be written.
    NoPiece = 10,
    /// Noise rank to the first: nobody asks me for anything more.
    Leave = 11,
    /// The first noise rank to all others: the end.
    Close = 12,
    /// Training rank to the first noise rank: the job's name (the answer's text), branch (`id`) and next row.
    Place = 13,
    /// The same: a cursor before `row`, in the answer's text.
    Cursor = 14,
    /// The same: go on at the cursor in the text. `marked`: rows behind it come again. The answer is marked where a
    /// branch was opened.
    Resume = 15,
    /// The same: fresh noise from `row` on.
    Rewind = 16,
    /// The same: what was released; `end` bytes of JSON follow the answer.
    Report = 17,
    /// The first noise rank to all others: the job is on a new branch; a grant of `end` bytes follows.
    Branch = 18,
    /// Noise rank to the first: it serves that branch now.
    Turned = 19,
}

impl Kind {
    fn of(number: u16) -> Option<Self> {
        use Kind::*;
        let kinds = [
            Get, Ready, Refused, Bind, Bound, NotBound, Done, Checkpoint, Piece, NoPiece, Leave, Close,
            Place, Cursor, Resume, Rewind, Report, Branch, Turned,
        ];
        kinds.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// One message. Fields that a kind does not use are 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub kind: Kind,
    /// Of the asker's requests under way.
    pub slot: u32,
    /// The data goes to the asker's part of the window, at `place`.
    pub in_window: bool,
    /// What the kind says.
    pub marked: bool,
    pub row: u64,
    pub start: u64,
    pub end: u64,
    pub place: u64,
    /// Of a checkpoint, or a branch.
    pub id: u64,
    /// A commitment, or the SHA-256 of a piece.
    pub digest: [u8; Commitment::BYTES],
    /// UTF-8, or a cursor; cut to what fits.
    pub text: Vec<u8>,
}

impl Message {
    pub fn new(kind: Kind) -> Self {
        let digest = [0; Commitment::BYTES];
        let slot = 0;
        let row = 0;
        let start = 0;
        let end = 0;
        let place = 0;
        let id = 0;
        let in_window = false;
        let marked = false;
        let text = Vec::new();
        Self { kind, slot, in_window, marked, row, start, end, place, id, digest, text }
    }

    pub fn about(kind: Kind, row: u64, commitment: Commitment) -> Self {
        Self { row, digest: commitment.to_bytes(), ..Self::new(kind) }
    }

    /// With an error's name, its fields as one line of JSON, and its words, which alone may be cut.
    pub fn saying(self, error: &ServiceError) -> Self {
        let fields = serde_json::to_string(error).unwrap_or_default();
        Self { text: format!("{}\n{fields}\n{error}", error.kind()).into_bytes(), ..self }
    }

    /// The error that a refusal says.
    pub fn error(&self) -> ServiceError {
        let text = String::from_utf8_lossy(&self.text);
        let mut lines = text.splitn(3, '\n');
        let [kind, fields, words] = std::array::from_fn(|_| lines.next().unwrap_or_default());
        let reason = || format!("a noise rank refused ({kind}): {words}");
        serde_json::from_str(fields).unwrap_or_else(|_| ServiceError::Internal { reason: reason() })
    }

    pub fn range(&self) -> Result<CoordinateRange, ServiceError> {
        CoordinateRange::new(self.start, self.end)
    }

    pub fn commitment(&self) -> Result<Commitment, ServiceError> {
        Commitment::try_from(&self.digest[..])
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.kind as u16).to_le_bytes());
        bytes.extend(self.slot.to_le_bytes());
        bytes.extend((u32::from(self.in_window) | u32::from(self.marked) << 1).to_le_bytes());
        for number in [self.row, self.start, self.end, self.place, self.id] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.digest);
        bytes.resize(TEXT - 2, 0);
        let text = &self.text[..self.text.len().min(BYTES - TEXT)];
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text);
        bytes.resize(BYTES, 0);
        bytes
    }

    /// Error: bytes that are no message of this version.
    pub fn decode(bytes: &[u8; BYTES]) -> Result<Self, ServiceError> {
        let [magic, slot, flags] = [0, 8, 12].map(|at| u32::from_le_bytes(array(bytes, at)));
        let [version, kind, length] = [4, 6, TEXT - 2].map(|at| u16::from_le_bytes(array(bytes, at)));
        let [row, start, end, place, id] =
            [16, 24, 32, 40, 48].map(|at| u64::from_le_bytes(array(bytes, at)));
        if magic != MAGIC {
            return Err(ServiceError::invalid("message", format!("magic {magic:#x}"), format!("{MAGIC:#x}")));
        }
        if version != VERSION {
            let expected = VERSION.into();
            let actual = version.into();
            return Err(ServiceError::ProtocolVersionMismatch { expected, actual });
        }
        let kind = Kind::of(kind).ok_or_else(|| ServiceError::invalid("message kind", kind, "1 to 19"))?;
        let text = bytes
            .get(TEXT..TEXT + length as usize)
            .ok_or_else(|| ServiceError::invalid("text length", length, format!("0 to {}", BYTES - TEXT)))?;
        let text = text.to_vec();
        let digest = array(bytes, 56);
        let in_window = flags & 1 != 0;
        let marked = flags & 2 != 0;
        Ok(Self { kind, slot, in_window, marked, row, start, end, place, id, digest, text })
    }
}

/// `N` bytes from `at`, which lie within.
fn array<const N: usize>(bytes: &[u8; BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Result<Message, ServiceError> {
        Message::decode(bytes.try_into().unwrap())
    }

    #[test]
    fn messages_survive_the_wire() {
        let commitment = Commitment::of_text("step 7");
        let get = Message {
            slot: 77,
            in_window: true,
            marked: true,
            start: 512,
            end: u64::MAX,
            place: 3 << 40,
            id: 9,
            ..Message::about(Kind::Get, 7, commitment)
        };
        let bytes = get.encode();
        assert_eq!((bytes.len(), decode(&bytes).unwrap()), (BYTES, get.clone()));
        assert_eq!(get.commitment().unwrap(), commitment);
        for kind in (1..=19).filter_map(Kind::of) {
            assert_eq!(decode(&Message::new(kind).encode()).unwrap().kind, kind);
        }
        assert_eq!((1..=20).filter_map(Kind::of).count(), 19);
    }

    #[test]
    fn errors_survive_the_wire() {
        let refused = |error: &ServiceError| Message::new(Kind::Refused).saying(error).encode();
        let bound = ServiceError::AlreadyBound { job: "j".repeat(64), branch: 1, row: u64::MAX };
        for error in [ServiceError::Draining, bound] {
            assert_eq!(decode(&refused(&error)).unwrap().error(), error);
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = ServiceError::invalid("é".repeat(300), 1, "less");
        let got = decode(&Message::new(Kind::Refused).saying(&long).encode()).unwrap();
        assert_eq!(got.text.len(), BYTES - TEXT);
        assert!(got.error().to_string().contains("invalid_argument"), "{}", got.error());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let good = Message::new(Kind::Done).encode();
        for (at, word) in
            [(0, "magic"), (4, "protocol version"), (6, "message kind"), (TEXT - 1, "text length")]
        {
            let mut bad = good.clone();
            bad[at] ^= 0x7f;
            let error = decode(&bad).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
