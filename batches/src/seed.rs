//! The secret that batches come from, and one key derived from it for each purpose.

use std::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::{BatchError, Result};

const SALT: &[u8] = b"rustle batches v1";

/// The seed of a run's batches: 32 secret bytes. Draw them from the operating system, and use them for no other run and no
/// noise.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Reads a seed.
    ///
    /// # Errors
    /// [`BatchError::SeedLength`] for anything but 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match bytes.try_into() {
            Ok(seed) => Ok(Self(seed)),
            Err(_) => Err(BatchError::SeedLength { got: bytes.len() }),
        }
    }
}

impl From<[u8; 32]> for Seed {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// A seed bound to a scheme and a population.
#[derive(Clone)]
pub(crate) struct Keys {
    seed: Seed,
    /// SHA-256 of scheme and population.
    bound_to: [u8; 32],
}

/// The ChaCha key of one purpose: 2⁶⁴ streams.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// Returns the key itself.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Keys {
    pub fn new(seed: Seed, bound_to: [u8; 32]) -> Self {
        Self { seed, bound_to }
    }

    /// Returns the digest that keys are bound to.
    pub fn bound_to(&self) -> [u8; 32] {
        self.bound_to
    }

    /// Derives the key of a purpose.
    pub fn derive(&self, purpose: &'static str) -> Key {
        let mut key = Key([0; 32]);
        let hkdf = Hkdf::<Sha256>::new(Some(SALT), &self.seed.0);
        let info = [purpose.as_bytes(), &[0], &self.bound_to];
        // One block of SHA-256; HKDF refuses only more than 255.
        hkdf.expand_multi_info(&info, &mut key.0).expect("32 bytes are one block of HKDF");
        key
    }
}
