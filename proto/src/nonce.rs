//! Nonces: random values that tie noise to the ledger that guards it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::ServiceError;

/// 32 random bytes that a job or a branch draws once, when it begins. Public: noise needs the job's key too.
///
/// No two ledgers draw the same one, so that one key used by two of them makes two kinds of noise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce([u8; 32]);

impl Nonce {
    /// Returns the nonce with these bytes; those of a new one come from the operating system.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the nonce in a message. `field` is what an error calls it.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] for another number of bytes than 32.
    pub fn from_slice(field: &str, bytes: &[u8]) -> Result<Self, ServiceError> {
        let refused = |_| ServiceError::invalid(field, format!("{} bytes", bytes.len()), "32 bytes");
        bytes.try_into().map(Self).map_err(refused)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// 64 hex digits.
impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({self})")
    }
}

impl FromStr for Nonce {
    type Err = ServiceError;
    fn from_str(text: &str) -> Result<Self, ServiceError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)
            .map_err(|_| ServiceError::invalid("nonce", format!("{text:?}"), "64 hex digits"))?;
        Ok(Self(bytes))
    }
}

impl Serialize for Nonce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values_say_the_same() {
        let nonce = Nonce::from_bytes(std::array::from_fn(|at| at as u8));
        assert_eq!(nonce.to_string().parse::<Nonce>().unwrap(), nonce);
        let json = serde_json::to_string(&nonce).unwrap();
        assert_eq!(json, format!("\"{nonce}\""));
        assert_eq!(serde_json::from_str::<Nonce>(&json).unwrap(), nonce);
        assert_eq!(Nonce::from_slice("nonce", nonce.as_bytes()).unwrap(), nonce);
        for bad in ["", "00", &"0".repeat(63), &"g".repeat(64), &"0".repeat(66)] {
            assert!(bad.parse::<Nonce>().is_err(), "{bad}");
        }
        assert!(Nonce::from_slice("nonce", &[0; 31]).is_err());
    }
}
