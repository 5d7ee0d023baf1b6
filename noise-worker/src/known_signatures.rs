//! Signatures that were checked: a check takes some fifty microseconds, a look here one.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use proto::{CoordinatorPublicKey, SIGNATURE_BYTES, SignedText};
use sha2::{Digest, Sha256};

/// Grants that are remembered: the Binds of some thousand trainers, at 64 bytes each.
const MOST: usize = 4096;

type Known = [u8; 32];

/// The newest signatures that were found good, each with its key and text.
#[derive(Debug, Default)]
pub struct KnownSignatures(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    known: HashSet<Known>,
    oldest_first: VecDeque<Known>,
}

impl KnownSignatures {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the owner of the key signed the text.
    pub fn are_good(
        &self,
        key: &CoordinatorPublicKey,
        text: &SignedText,
        signature: &[u8; SIGNATURE_BYTES],
    ) -> bool {
        // Key and signature have a fixed length, so that no two triples have one text.
        let digest = Sha256::new().chain_update(key.as_bytes()).chain_update(signature);
        let digest: Known = digest.chain_update(text.as_bytes()).finalize().into();
        if self.ring().known.contains(&digest) {
            return true;
        }
        // Outside of the lock: others need not wait.
        let is_good = key.has_signed(text, signature);
        if is_good {
            self.ring().remember(digest);
        }
        is_good
    }
}

impl Ring {
    fn remember(&mut self, digest: Known) {
        if !self.known.insert(digest) {
            return;
        }
        self.oldest_first.push_back(digest);
        if self.oldest_first.len() > MOST
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::CoordinatorKey;

    use super::*;

    #[test]
    fn no_more_than_the_newest_are_kept() {
        let known = KnownSignatures::default();
        let key = CoordinatorKey::new(&[1; 32]);
        let text = |at: usize| SignedText::new("t", &[&at.to_le_bytes()]);
        for at in 0..MOST + 3 {
            assert!(known.are_good(&key.public(), &text(at), &key.sign(&text(at))));
        }
        let ring = known.ring();
        assert_eq!((ring.known.len(), ring.oldest_first.len()), (MOST, MOST));
        drop(ring);
        assert!(!known.are_good(&key.public(), &text(0), &[0; 64]));
        assert!(known.are_good(&key.public(), &text(0), &key.sign(&text(0))));
    }
}
