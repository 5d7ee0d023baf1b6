//! The fixed fields of a message, and what they mean for each kind.

use proto::{Commitment, ServiceError};

use super::{BYTES, Binding, Get, JobAction, JobRequest, MAGIC, Message, Piece, Reply, TEXT, VERSION};

/// The numbers of the kinds of message on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// See [`Message::Get`].
    Get = 1,
    /// See [`Message::Ready`].
    Ready = 2,
    /// See [`Message::Refused`].
    Refused = 3,
    /// See [`Message::Bind`].
    Bind = 4,
    /// See [`Message::Bound`].
    Bound = 5,
    /// See [`Message::NotBound`].
    NotBound = 6,
    /// See [`Message::Done`].
    Done = 7,
    /// See [`Message::Checkpoint`].
    Checkpoint = 8,
    /// See [`Message::Piece`].
    Piece = 9,
    /// See [`Message::PieceFailed`].
    PieceFailed = 10,
    /// See [`Message::Idle`].
    Idle = 11,
    /// See [`Message::Close`].
    Close = 12,
    /// See [`JobAction::Status`].
    Status = 13,
    /// See [`JobAction::Cursor`].
    Cursor = 14,
    /// See [`JobAction::Resume`].
    Resume = 15,
    /// See [`JobAction::Rewind`].
    Rewind = 16,
    /// See [`JobAction::Report`].
    Report = 17,
    /// See [`Message::Branch`].
    Branch = 18,
    /// See [`Message::BranchServed`].
    BranchServed = 19,
}

impl Kind {
    fn from_number(number: u16) -> Option<Self> {
        use Kind::*;
        let kinds = [
            Get,
            Ready,
            Refused,
            Bind,
            Bound,
            NotBound,
            Done,
            Checkpoint,
            Piece,
            PieceFailed,
            Idle,
            Close,
            Status,
            Cursor,
            Resume,
            Rewind,
            Report,
            Branch,
            BranchServed,
        ];
        kinds.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// The fixed fields of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    kind: Kind,
    /// The number of a request.
    slot: u32,
    in_window: bool,
    flag: bool,
    row: u64,
    start: u64,
    end: u64,
    /// An offset in the window, or the length of a piece.
    offset: u64,
    /// The number of a checkpoint or of a branch.
    id: u64,
    /// A commitment, or the SHA-256 of a piece and a zero.
    digest: [u8; Commitment::BYTES],
    /// UTF-8, or a cursor; truncated to what fits.
    text: Vec<u8>,
}

impl Frame {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            slot: 0,
            in_window: false,
            flag: false,
            row: 0,
            start: 0,
            end: 0,
            offset: 0,
            id: 0,
            digest: [0; Commitment::BYTES],
            text: Vec::new(),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.kind as u16).to_le_bytes());
        bytes.extend(self.slot.to_le_bytes());
        bytes.extend((u32::from(self.in_window) | u32::from(self.flag) << 1).to_le_bytes());
        for number in [self.row, self.start, self.end, self.offset, self.id] {
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

    /// Reads the fields. Fails where the bytes are no message of this version.
    pub(super) fn decode(bytes: &[u8; BYTES]) -> Result<Self, ServiceError> {
        let [magic, slot, flags] = [0, 8, 12].map(|at| u32::from_le_bytes(array(bytes, at)));
        let [version, kind, length] = [4, 6, TEXT - 2].map(|at| u16::from_le_bytes(array(bytes, at)));
        let [row, start, end, offset, id] =
            [16, 24, 32, 40, 48].map(|at| u64::from_le_bytes(array(bytes, at)));
        if magic != MAGIC {
            return Err(ServiceError::invalid("message", format!("magic {magic:#x}"), format!("{MAGIC:#x}")));
        }
        if version != VERSION {
            let expected = VERSION.into();
            let actual = version.into();
            return Err(ServiceError::ProtocolVersionMismatch { expected, actual });
        }
        let kind =
            Kind::from_number(kind).ok_or_else(|| ServiceError::invalid("message kind", kind, "1 to 19"))?;
        let text = bytes
            .get(TEXT..TEXT + length as usize)
            .ok_or_else(|| ServiceError::invalid("text length", length, format!("0 to {}", BYTES - TEXT)))?;
        let text = text.to_vec();
        let digest = array(bytes, 56);
        let in_window = flags & 1 != 0;
        let flag = flags & 2 != 0;
        Ok(Self { kind, slot, in_window, flag, row, start, end, offset, id, digest, text })
    }
}

/// Returns the `N` bytes from `at`, which must lie within the message.
fn array<const N: usize>(bytes: &[u8; BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

impl From<&Message> for Frame {
    fn from(message: &Message) -> Self {
        let frame = Self::new(message.kind());
        match message {
            Message::Get(get) => {
                let Get { slot, in_window, integers: flag, row, start, end, offset, branch, digest } = *get;
                Self { slot, in_window, flag, row, start, end, offset, id: branch, digest, ..frame }
            }
            Message::Ready(reply) | Message::Refused(reply) => {
                let Reply { slot, in_window, flag, row, start, end, offset, branch, digest, .. } = *reply;
                let text = reply.text.clone();
                Self { slot, in_window, flag, row, start, end, offset, id: branch, digest, text, ..frame }
            }
            Message::Bind(binding) | Message::Bound(binding) => {
                let Binding { branch, row, digest } = *binding;
                Self { row, id: branch, digest, ..frame }
            }
            Message::NotBound { binding: Binding { branch, row, digest }, reason } => {
                Self { row: *row, id: *branch, digest: *digest, text: reason.clone(), ..frame }
            }
            Message::Checkpoint { id } | Message::PieceFailed { checkpoint: id } => Self { id: *id, ..frame },
            Message::Piece(Piece { checkpoint, next_row, bytes, sha256 }) => {
                let mut digest = frame.digest;
                digest[..32].copy_from_slice(sha256);
                Self { row: *next_row, offset: *bytes, id: *checkpoint, digest, ..frame }
            }
            Message::Job(JobRequest { slot, action }) => {
                let frame = Self { slot: *slot, ..frame };
                match action {
                    JobAction::Status | JobAction::Report => frame,
                    JobAction::Cursor { row } | JobAction::Rewind { row } => Self { row: *row, ..frame },
                    JobAction::Resume { cursor, replay } => {
                        Self { flag: *replay, text: cursor.clone(), ..frame }
                    }
                }
            }
            Message::Branch { branch, grant_bytes } => Self { id: *branch, end: *grant_bytes, ..frame },
            Message::Done | Message::Idle | Message::Close | Message::BranchServed => frame,
        }
    }
}

impl From<Frame> for Message {
    fn from(frame: Frame) -> Self {
        let Frame { kind, slot, in_window, flag, row, start, end, offset, id, digest, text } = frame;
        let job = |action| Self::Job(JobRequest { slot, action });
        let binding = Binding { branch: id, row, digest };
        match kind {
            Kind::Get => {
                let integers = flag;
                Self::Get(Get { slot, in_window, integers, row, start, end, offset, branch: id, digest })
            }
            Kind::Ready | Kind::Refused => {
                let reply =
                    Reply { slot, in_window, flag, row, start, end, offset, branch: id, digest, text };
                if kind == Kind::Ready { Self::Ready(reply) } else { Self::Refused(reply) }
            }
            Kind::Bind => Self::Bind(binding),
            Kind::Bound => Self::Bound(binding),
            Kind::NotBound => Self::NotBound { binding, reason: text },
            Kind::Done => Self::Done,
            Kind::Checkpoint => Self::Checkpoint { id },
            Kind::Piece => {
                let sha256 = std::array::from_fn(|index| digest[index]);
                Self::Piece(Piece { checkpoint: id, next_row: row, bytes: offset, sha256 })
            }
            Kind::PieceFailed => Self::PieceFailed { checkpoint: id },
            Kind::Idle => Self::Idle,
            Kind::Close => Self::Close,
            Kind::Status => job(JobAction::Status),
            Kind::Cursor => job(JobAction::Cursor { row }),
            Kind::Resume => job(JobAction::Resume { cursor: text, replay: flag }),
            Kind::Rewind => job(JobAction::Rewind { row }),
            Kind::Report => job(JobAction::Report),
            Kind::Branch => Self::Branch { branch: id, grant_bytes: end },
            Kind::BranchServed => Self::BranchServed,
        }
    }
}
