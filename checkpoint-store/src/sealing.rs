//! Sealing of a shard's payload: AES-256-GCM in segments that know their place and which of them is the last (the
//! STREAM construction; Hoang, Reyhanitabar, Rogaway, Vizár: Online Authenticated-Encryption, 2015).
//!
//! Every object has a key of its own, HKDF-SHA256 of the job's checkpoint key with 32 random bytes in the header as
//! salt. So the segment's number suffices as nonce, and nothing is ever sealed twice under one key and nonce.

use std::fmt;

use hkdf::Hkdf;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::shard_file::TAG_BYTES;

const INFO: &[u8] = b"rustle checkpoint object v3";

/// The key that seals and opens what is stored of one job. Workers derive it from the job's key; a coordinator never
/// has it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct CheckpointKey([u8; 32]);

impl CheckpointKey {
    /// Creates the key from 32 secret bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(*bytes)
    }
}

impl fmt::Debug for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckpointKey(secret)")
    }
}

/// Draws a salt for one object. Error: the system has no random bytes.
pub fn new_salt() -> Result<[u8; 32], String> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|error| format!("the system has no random bytes: {error}"))?;
    Ok(salt)
}

/// The segments of one object, to be sealed or opened one after the other.
pub struct Segments {
    key: LessSafeKey,
    /// The object's bytes before the payload.
    head: Vec<u8>,
    next: u64,
    count: u64,
}

impl Segments {
    /// Begins with the first of `count` segments. `head` is the bytes before the payload, which every segment
    /// authenticates.
    pub fn new(key: &CheckpointKey, salt: &[u8; 32], head: Vec<u8>, count: u64) -> Result<Self, String> {
        let mut bytes = Zeroizing::new([0u8; 32]);
        let expanded = Hkdf::<Sha256>::new(Some(salt), &key.0).expand(INFO, &mut *bytes);
        expanded.map_err(|error| format!("its key can't be derived: {error}"))?;
        let unbound = UnboundKey::new(&AES_256_GCM, &*bytes);
        let unbound = unbound.map_err(|_| "its key has the wrong length".to_owned())?;
        Ok(Self { key: LessSafeKey::new(unbound), head, next: 0, count })
    }

    /// Returns whether the last segment was sealed or opened.
    pub fn is_done(&self) -> bool {
        self.next == self.count
    }

    /// Seals the plain bytes from `start` to the end of `buffer`, in place, and appends the tag.
    pub fn seal(&mut self, buffer: &mut Vec<u8>, start: usize) -> Result<(), String> {
        let nonce = self.nonce()?;
        let plain = &mut buffer[start..];
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(&self.head), plain);
        buffer.extend_from_slice(tag.map_err(|_| "a segment is too long to be sealed".to_owned())?.as_ref());
        Ok(())
    }

    /// Opens a sealed segment in place. Error: at least one bit differs from what was sealed.
    pub fn open<'a>(&mut self, sealed: &'a mut [u8]) -> Result<&'a [u8], String> {
        let nonce = self.nonce()?;
        let number = self.next - 1;
        match self.key.open_in_place(nonce, Aad::from(&self.head), sealed) {
            Ok(plain) => Ok(plain),
            Err(_) => Err(format!("segment {number} is damaged, or was sealed with another key")),
        }
    }

    /// Returns the next nonce: 3 zero bytes | the segment's number, big-endian | 1 for the last segment, else 0.
    fn nonce(&mut self) -> Result<Nonce, String> {
        if self.is_done() {
            return Err(format!("there are more than its {} segments", self.count));
        }
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        nonce[11] = u8::from(self.is_done());
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

const _: () = assert!(ring::aead::MAX_TAG_LEN == TAG_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(key: u8, salt: u8, head: &[u8], count: u64) -> Segments {
        Segments::new(&CheckpointKey::new(&[key; 32]), &[salt; 32], head.to_vec(), count).unwrap()
    }

    fn sealed() -> Vec<Vec<u8>> {
        let mut sealing = segments(1, 2, b"head", 3);
        let seal = |text: &str| {
            let mut buffer = [b"before", text.as_bytes()].concat();
            sealing.seal(&mut buffer, 6).unwrap();
            buffer.split_off(6)
        };
        ["one", "two", "the last"].map(seal).into()
    }

    #[test]
    fn segments_open_in_their_order_alone() {
        let good = sealed();
        let mut opening = segments(1, 2, b"head", 3);
        for (sealed, plain) in good.iter().zip(["one", "two", "the last"]) {
            assert_eq!(opening.open(&mut sealed.clone()).unwrap(), plain.as_bytes());
        }
        assert!(opening.is_done() && opening.open(&mut good[0].clone()).is_err());
        let opens = |mut by: Segments, at: usize| by.open(&mut good[at].clone()).is_ok();
        assert!(opens(segments(1, 2, b"head", 3), 0));
        assert!(!opens(segments(1, 2, b"head", 3), 1), "another place");
        assert!(!opens(segments(1, 2, b"head", 1), 0), "cut after the first");
        assert!(!opens(segments(1, 2, b"Head", 3), 0), "another header");
        assert!(!opens(segments(1, 3, b"head", 3), 0), "another object");
        assert!(!opens(segments(4, 2, b"head", 3), 0), "another key");
    }

    #[test]
    fn the_same_bytes_never_look_the_same() {
        let seal = |salt| {
            let mut buffer = vec![0; 64];
            segments(1, salt, b"", 1).seal(&mut buffer, 0).unwrap();
            buffer
        };
        assert_ne!(seal(1), seal(2));
        assert_ne!(new_salt().unwrap(), new_salt().unwrap());
        assert_eq!(format!("{:?}", CheckpointKey::new(&[7; 32])), "CheckpointKey(secret)");
    }
}
