//! The payloads of messages.

use proto::{Commitment, CoordinateRange, ElementType, ServiceError};

use super::Message;

/// A request for a range of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Get {
    /// The number of the request among those that its sender has in flight.
    pub slot: u32,
    /// True where the data goes to the sender's part of the window, `offset` bytes from its start.
    pub in_window: bool,
    /// True where integers on a grid are requested, false where `f32`.
    pub integers: bool,
    /// The row, counted from 0.
    pub row: u64,
    /// The first coordinate.
    pub start: u64,
    /// The coordinate after the last.
    pub end: u64,
    /// Bytes from the start of the sender's part of the window; 0 where the data is sent.
    pub offset: u64,
    /// The branch that the row must be of, or [`super::ANY_BRANCH`].
    pub branch: u64,
    /// The bytes of the commitment.
    pub digest: [u8; Commitment::BYTES],
}

impl Get {
    /// Returns a request for the first coordinate of a row of floats.
    #[cfg(test)]
    pub fn first(row: u64, branch: u64, digest: [u8; Commitment::BYTES]) -> Self {
        Self { slot: 0, in_window: false, integers: false, row, start: 0, end: 1, offset: 0, branch, digest }
    }

    /// Returns the type of the values that are requested.
    pub fn element(&self) -> ElementType {
        if self.integers { ElementType::I32 } else { ElementType::F32 }
    }

    /// Returns the coordinates. Fails where they are no range.
    pub fn range(&self) -> Result<CoordinateRange, ServiceError> {
        CoordinateRange::new(self.start, self.end)
    }

    /// Returns the commitment. Fails where the bytes are none.
    pub fn commitment(&self) -> Result<Commitment, ServiceError> {
        Commitment::try_from(&self.digest[..])
    }

    /// Returns an answer that repeats this request, with `row`, `branch` and `text` in place of its own.
    pub fn reply(&self, branch: u64, row: u64, text: Vec<u8>) -> Reply {
        let Self { slot, in_window, start, end, offset, digest, .. } = *self;
        Reply { slot, in_window, flag: false, row, start, end, offset, branch, digest, text }
    }

    /// Returns the refusal of this request. `text` is a reason that [`error_text`] wrote.
    pub fn refusal(&self, text: Vec<u8>) -> Message {
        Message::Refused(self.reply(self.branch, self.row, text))
    }
}

/// An answer to a [`Get`] or a [`JobRequest`]. Fields that the answer does not replace are those of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The number of the request.
    pub slot: u32,
    /// Repeats the request.
    pub in_window: bool,
    /// True where a branch was opened; in a refusal, [`JobAction::Resume::replay`] of the request.
    pub flag: bool,
    /// A row, by the kind of the request.
    pub row: u64,
    /// Repeats the request.
    pub start: u64,
    /// Repeats the request; for [`JobAction::Report`], the length in bytes of the data that follows.
    pub end: u64,
    /// Repeats the request.
    pub offset: u64,
    /// The branch that the answer is of.
    pub branch: u64,
    /// Repeats the request.
    pub digest: [u8; Commitment::BYTES],
    /// A name, a cursor, or the reason of a refusal.
    pub text: Vec<u8>,
}

impl Reply {
    /// Returns the error that a refusal carries.
    pub fn error(&self) -> ServiceError {
        let text = String::from_utf8_lossy(&self.text);
        let mut lines = text.splitn(3, '\n');
        let [kind, fields, words] = std::array::from_fn(|_| lines.next().unwrap_or_default());
        let reason = || format!("a noise rank refused ({kind}): {words}");
        serde_json::from_str(fields).unwrap_or_else(|_| ServiceError::Internal { reason: reason() })
    }
}

/// Returns an error as a text: its kind, its fields as one line of JSON, and its message. Only the message is ever
/// truncated.
pub fn error_text(error: &ServiceError) -> Vec<u8> {
    let fields = serde_json::to_string(error).unwrap_or_default();
    format!("{}\n{fields}\n{error}", error.kind()).into_bytes()
}

/// A row of a branch and what it is bound to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    /// The branch that the binding is made on.
    pub branch: u64,
    /// The row, counted from 0.
    pub row: u64,
    /// The bytes of the commitment.
    pub digest: [u8; Commitment::BYTES],
}

impl Binding {
    /// Binds a row of a branch to a commitment.
    pub fn new(branch: u64, row: u64, commitment: Commitment) -> Self {
        Self { branch, row, digest: commitment.to_bytes() }
    }

    /// Returns the commitment. Fails where the bytes are none.
    pub fn commitment(&self) -> Result<Commitment, ServiceError> {
        Commitment::try_from(&self.digest[..])
    }
}

/// One rank's piece of a checkpoint, as it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The row that the shard generates next.
    pub next_row: u64,
    /// The length of the stored object in bytes.
    pub bytes: u64,
    /// The SHA-256 of the stored object.
    pub sha256: [u8; 32],
}

/// A request of a training rank about the job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRequest {
    /// The number of the request among those that its sender has in flight.
    pub slot: u32,
    /// The requested action.
    pub action: JobAction,
}

/// The action of a [`JobRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum JobAction {
    /// The job's name (the answer's text), its branch, and its next row.
    Status,
    /// A cursor before a row, in the answer's text.
    Cursor {
        /// The row, counted from 0.
        row: u64,
    },
    /// Continues at a cursor. The answer is flagged where a branch was opened.
    Resume {
        /// The bytes of the cursor.
        cursor: Vec<u8>,
        /// True where rows behind the cursor are to be served again.
        replay: bool,
    },
    /// Opens a branch with fresh noise from a row on.
    Rewind {
        /// The first row of the branch.
        row: u64,
    },
    /// A report of what was released, as JSON that follows the answer.
    Report,
}

impl JobRequest {
    /// Returns an answer with these fields.
    pub fn reply(&self, branch: u64, row: u64, text: Vec<u8>) -> Reply {
        Reply {
            slot: self.slot,
            in_window: false,
            flag: false,
            row,
            start: 0,
            end: 0,
            offset: 0,
            branch,
            digest: [0; Commitment::BYTES],
            text,
        }
    }

    /// Returns the refusal of this request.
    pub fn refusal(&self, error: &ServiceError) -> Message {
        let (row, flag) = match self.action {
            JobAction::Cursor { row } | JobAction::Rewind { row } => (row, false),
            JobAction::Resume { replay, .. } => (0, replay),
            JobAction::Status | JobAction::Report => (0, false),
        };
        Message::Refused(Reply { flag, ..self.reply(0, row, error_text(error)) })
    }
}
