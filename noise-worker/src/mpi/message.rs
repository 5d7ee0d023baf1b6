//! The control messages between training ranks and noise ranks: 512 bytes, little-endian (docs/mpi.md).

use proto::{Commitment, CoordinateRange, ServiceError};

pub const BYTES: usize = 512;
const MAGIC: u32 = 0x4D50_5352;
pub const VERSION: u16 = 1;

/// Every message to a noise rank.
pub const CONTROL: mpi::Tag = 1;
/// Requests that one training rank may have under way.
pub const SLOTS: u32 = 8192;

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
    /// Training rank to noise rank: a range of a row under a commitment.
    Get = 1,
    /// Noise rank to training rank: the data follows, or lies in the window.
    Ready = 2,
    /// Noise rank to training rank: why not, as text.
    Refused = 3,
    /// Noise rank to the first noise rank: bind this row.
    Bind = 4,
    /// The first noise rank to all others: the row is durably bound.
    Bound = 5,
    /// The first noise rank to who asked: why it may not be bound.
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
}

impl Kind {
    fn of(number: u16) -> Option<Self> {
        use Kind::*;
        let kinds =
            [Get, Ready, Refused, Bind, Bound, NotBound, Done, Checkpoint, Piece, NoPiece, Leave, Close];
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
    pub row: u64,
    pub start: u64,
    pub end: u64,
    pub place: u64,
    pub id: u64,
    /// A commitment, or the SHA-256 of a piece.
    pub digest: [u8; Commitment::BYTES],
    /// Cut to what fits.
    pub text: String,
}

impl Message {
    pub fn new(kind: Kind) -> Self {
        let digest = [0; Commitment::BYTES];
        let (slot, row, start, end, place, id) = (0, 0, 0, 0, 0, 0);
        Self { kind, slot, in_window: false, row, start, end, place, id, digest, text: String::new() }
    }

    pub fn about(kind: Kind, row: u64, commitment: Commitment) -> Self {
        Self { row, digest: commitment.to_bytes(), ..Self::new(kind) }
    }

    /// With an error's name and words.
    pub fn saying(self, error: &ServiceError) -> Self {
        Self { text: format!("{}\n{error}", error.kind()), ..self }
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
        bytes.extend(u32::from(self.in_window).to_le_bytes());
        for number in [self.row, self.start, self.end, self.place, self.id] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.digest);
        bytes.resize(TEXT - 2, 0);
        let length = (0..=self.text.len().min(BYTES - TEXT)).rev().find(|at| self.text.is_char_boundary(*at));
        let text = &self.text.as_bytes()[..length.unwrap_or(0)];
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
            let (expected, actual) = (VERSION.into(), version.into());
            return Err(ServiceError::ProtocolVersionMismatch { expected, actual });
        }
        let kind = Kind::of(kind).ok_or_else(|| ServiceError::invalid("message kind", kind, "1 to 12"))?;
        let text = bytes
            .get(TEXT..TEXT + length as usize)
            .ok_or_else(|| ServiceError::invalid("text length", length, format!("0 to {}", BYTES - TEXT)))?;
        let text = String::from_utf8_lossy(text).into_owned();
        let in_window = flags & 1 != 0;
        Ok(Self { kind, slot, in_window, row, start, end, place, id, digest: array(bytes, 56), text })
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
            start: 512,
            end: u64::MAX,
            place: 3 << 40,
            id: 9,
            ..Message::about(Kind::Get, 7, commitment)
        };
        let bytes = get.encode();
        assert_eq!((bytes.len(), decode(&bytes).unwrap()), (BYTES, get.clone()));
        assert_eq!(get.commitment().unwrap(), commitment);
        let refused = Message::new(Kind::Refused).saying(&ServiceError::Draining);
        assert!(decode(&refused.encode()).unwrap().text.starts_with("draining\n"));
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        let long = Message { text: "é".repeat(400), ..Message::new(Kind::Refused) };
        let got = decode(&long.encode()).unwrap().text;
        assert!(long.text.starts_with(&got) && got.len() == BYTES - TEXT, "{}", got.len());
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
