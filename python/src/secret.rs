//! The secret of a training job, under which its session digests sums, and its place in cursors.
//!
//! Readers of a ledger see commitments. A digest of a sum without a key would tell them whether a guess of the sum is right;
//! one under a secret that never leaves the training job reveals nothing.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use ledger::JobCursor;
use proto::{Result, SECRET_CURSOR, ServiceError};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of the checksum over tag and secret.
const CHECKSUM: usize = 4;
/// Bytes before the ledger's cursor.
const BEFORE: usize = 1 + 32 + CHECKSUM;

/// 32 bytes that the training job draws, keeps in its cursors, and gives to no service.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([secret])")
    }
}

/// The place of a sum: the same values elsewhere have another digest.
#[derive(Clone, Copy, Debug)]
pub struct SumPlace {
    /// The branch of the row.
    pub branch: u64,
    /// The row.
    pub row: u64,
    /// The first coordinate.
    pub start: u64,
    /// The number that the sum was divided by, and its noise will be.
    pub divide_by: f32,
}

impl Secret {
    /// Draws a secret.
    ///
    /// # Errors
    /// A system without randomness.
    pub fn draw() -> Result<Self> {
        Ok(Self(random_bytes()?))
    }

    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for other ranks of the training job.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Returns the keyed digest of a sum whose bytes come in pieces.
    pub fn digest(&self, place: SumPlace, pieces: &[&[u8]]) -> [u8; 32] {
        let mut mac =
            <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(b"rustle exact sum v2");
        for number in [place.branch, place.row, place.start] {
            mac.update(&number.to_le_bytes());
        }
        mac.update(&place.divide_by.to_le_bytes());
        for piece in pieces {
            mac.update(&(piece.len() as u64).to_le_bytes());
            mac.update(piece);
        }
        mac.finalize().into_bytes().into()
    }

    /// Returns the seed of a row's dither: of no other branch, row or session, and known to the training job alone.
    pub fn dither_seed(&self, branch: u64, row: u64) -> [u8; 32] {
        let mut mac =
            <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(b"rustle grid dither v1");
        mac.update(&branch.to_le_bytes());
        mac.update(&row.to_le_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Returns a session's cursor: tag, secret and checksum before the ledger's cursor.
    pub fn with_cursor(&self, cursor: &[u8]) -> Vec<u8> {
        let mut bytes = vec![SECRET_CURSOR];
        bytes.extend(self.0);
        let sum = Sha256::digest(&bytes);
        bytes.extend(&sum[..CHECKSUM]);
        bytes.extend(cursor);
        bytes
    }

    /// Splits a cursor in its secret and the ledger's cursor. One that the ledger itself issued has no secret, and cannot
    /// be replayed from. What is neither may be a damaged one with its secret: it must not reach a service.
    ///
    /// # Errors
    /// A secret that is cut or changed, none where rows are to be replayed, and bytes that are no cursor.
    pub fn of_cursor(bytes: &[u8], replay: bool) -> Result<(Option<Self>, &[u8])> {
        if bytes.first() != Some(&SECRET_CURSOR) {
            JobCursor::from_bytes(bytes)?;
            let allowed =
                "with replay: as session.cursor() returned it, with the secret of exact commitments";
            let refused = || ServiceError::invalid("cursor", "without a secret", allowed);
            return if replay { Err(refused()) } else { Ok((None, bytes)) };
        }
        let damaged = || {
            let allowed = "a cursor as session.cursor() returned it, whole and unchanged";
            ServiceError::invalid("cursor", "damaged: its checksum is wrong", allowed)
        };
        let (before, cursor) = bytes.split_at_checked(BEFORE).ok_or_else(damaged)?;
        let (body, sum) = before.split_at(1 + 32);
        if Sha256::digest(body)[..CHECKSUM] != *sum {
            return Err(damaged());
        }
        let secret = body[1..].try_into().map_err(|_| damaged())?;
        Ok((Some(Self(secret)), cursor))
    }
}

/// Draws 32 bytes of randomness.
///
/// # Errors
/// A system without randomness.
pub fn random_bytes() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| ServiceError::internal(format!("the system's randomness: {error}")))?;
    Ok(bytes)
}
