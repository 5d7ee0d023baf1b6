//! The control messages between training ranks and noise ranks: 512 bytes, little-endian (docs/mpi.md).
//!
//! A [`Message`] is what a rank means. `frame` has the same as the fixed fields of the wire; a field that a kind of
//! message does not use is 0 there.

mod body;
mod frame;
#[cfg(test)]
mod tests;

use proto::ServiceError;

use frame::Frame;

pub use body::{Binding, Get, JobAction, JobRequest, Piece, Reply, error_text};
pub use frame::Kind;

/// An MPI tag: the number that distinguishes messages between two ranks.
pub type Tag = i32;

/// The length of a message in bytes.
pub const BYTES: usize = 512;
const MAGIC: u32 = 0x4D50_5352;
/// The version of this protocol. All ranks of a launch must have the same.
pub const VERSION: u16 = 3;

/// The tag of every message to a noise rank.
pub const CONTROL: Tag = 1;
/// The number of requests that one training rank may have in flight.
pub const SLOTS: u32 = 8192;

/// The tag of a grant: the shard that a noise rank owns on a new branch.
pub const GRANT: Tag = 2;

/// The branch of a [`Get`] that accepts whatever branch the job is on.
pub const ANY_BRANCH: u64 = u64::MAX;

/// Returns the tag of the answer to the request in `slot`.
pub fn reply_tag(slot: u32) -> Tag {
    16 + 2 * (slot % SLOTS) as Tag
}

/// Returns the tag of the data that the request in `slot` asks for.
pub fn data_tag(slot: u32) -> Tag {
    reply_tag(slot) + 1
}

/// The maximum length of one data message in bytes: counts of MPI are 32 bits wide.
pub const DATA_BYTES: usize = 1 << 30;

/// The offset of the text within a message.
const TEXT: usize = 96;

/// The maximum length of a text in bytes. A longer one is truncated.
pub const MAX_TEXT: usize = BYTES - TEXT;

/// One control message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Training rank to noise rank: asks for a range of a row under a commitment.
    Get(Get),
    /// Noise rank to training rank: the request is answered.
    ///
    /// For a [`Get`], the data follows or lies in the window already. `branch` is the branch of the row and `row` the row
    /// at which that branch was opened; the text is the job's name.
    Ready(Reply),
    /// Noise rank to training rank: the request is refused. [`Reply::error`] is the reason.
    Refused(Reply),
    /// Noise rank to the first noise rank: requests that a row be bound.
    Bind(Binding),
    /// The first noise rank to all others: the row is durably bound.
    Bound(Binding),
    /// The first noise rank to the one that requested the binding: the row may not be bound so.
    NotBound {
        /// The binding that was requested.
        binding: Binding,
        /// The reason, as [`error_text`] writes it.
        reason: Vec<u8>,
    },
    /// Training rank to every noise rank: it will request nothing more.
    Done,
    /// The first noise rank to all others: write your piece of a checkpoint.
    Checkpoint {
        /// The number of the checkpoint.
        id: u64,
    },
    /// Noise rank to the first: its piece of a checkpoint is written.
    Piece(Piece),
    /// Noise rank to the first: its piece could not be written.
    PieceFailed {
        /// The number of the checkpoint.
        checkpoint: u64,
    },
    /// Noise rank to the first: all training ranks are done with it.
    Idle,
    /// The first noise rank to all others: the launch ends.
    Close,
    /// Training rank to the first noise rank: a request about the job.
    Job(JobRequest),
    /// The first noise rank to all others: the job is on a new branch. The grant follows under the tag [`GRANT`].
    Branch {
        /// The number of the new branch.
        branch: u64,
        /// The length of the grant in bytes.
        grant_bytes: u64,
    },
    /// Noise rank to the first: it serves the new branch now.
    BranchServed,
}

impl Message {
    /// Returns the kind that the message has on the wire.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Get(_) => Kind::Get,
            Self::Ready(_) => Kind::Ready,
            Self::Refused(_) => Kind::Refused,
            Self::Bind(_) => Kind::Bind,
            Self::Bound(_) => Kind::Bound,
            Self::NotBound { .. } => Kind::NotBound,
            Self::Done => Kind::Done,
            Self::Checkpoint { .. } => Kind::Checkpoint,
            Self::Piece(_) => Kind::Piece,
            Self::PieceFailed { .. } => Kind::PieceFailed,
            Self::Idle => Kind::Idle,
            Self::Close => Kind::Close,
            Self::Job(JobRequest { action, .. }) => match action {
                JobAction::Status => Kind::Status,
                JobAction::Cursor { .. } => Kind::Cursor,
                JobAction::Resume { .. } => Kind::Resume,
                JobAction::Rewind { .. } => Kind::Rewind,
                JobAction::Report => Kind::Report,
            },
            Self::Branch { .. } => Kind::Branch,
            Self::BranchServed => Kind::BranchServed,
        }
    }

    /// Returns the 512 bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        Frame::from(self).encode()
    }

    /// Reads a message. Fails where the bytes are no message of this version.
    pub fn decode(bytes: &[u8; BYTES]) -> Result<Self, ServiceError> {
        Frame::decode(bytes).map(Self::from)
    }
}
