//! The key of a coordinator: it signs what workers act on, and workers hold its public half alone.

use std::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::ServiceError;

/// The length of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// The secret that signs release grants and orders to workers. Each start of a coordinator draws a new one; it never
/// leaves that process.
pub struct CoordinatorKey(SigningKey);

/// The public half of a [`CoordinatorKey`]: its holder can check what the coordinator signed, and sign nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CoordinatorPublicKey(VerifyingKey);

/// What is signed, as bytes that no other domain, and no other list of parts, has too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedText(Vec<u8>);

impl SignedText {
    /// Returns the text of a domain and its parts, each behind its length.
    pub fn new(domain: &str, parts: &[&[u8]]) -> Self {
        let mut text = Vec::new();
        for part in std::iter::once(domain.as_bytes()).chain(parts.iter().copied()) {
            text.extend_from_slice(&(part.len() as u64).to_le_bytes());
            text.extend_from_slice(part);
        }
        Self(text)
    }

    /// Returns the bytes to sign.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl CoordinatorKey {
    /// Creates the key from 32 secret bytes.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(secret))
    }

    /// Returns the half that workers get.
    pub fn public(&self) -> CoordinatorPublicKey {
        CoordinatorPublicKey(self.0.verifying_key())
    }

    /// Signs a text.
    pub fn sign(&self, text: &SignedText) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(text.as_bytes()).to_bytes()
    }
}

impl fmt::Debug for CoordinatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoordinatorKey([secret])")
    }
}

impl CoordinatorPublicKey {
    /// Reads a key from a message.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] for another length than 32 bytes, and for bytes that are no point of the curve.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, ServiceError> {
        let refused = |value: String| {
            ServiceError::invalid("coordinator_key", value, "an Ed25519 public key, 32 bytes")
        };
        let bytes = bytes.try_into().map_err(|_| refused(format!("{} bytes", bytes.len())))?;
        VerifyingKey::from_bytes(bytes).map(Self).map_err(|_| refused("no point of the curve".into()))
    }

    /// Returns the bytes, for a message.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Returns whether the owner of the key signed the text.
    pub fn has_signed(&self, text: &SignedText, signature: &[u8; SIGNATURE_BYTES]) -> bool {
        // Strict: a key or signature of small order would be good for more than one text.
        self.0.verify_strict(text.as_bytes(), &Signature::from_bytes(signature)).is_ok()
    }
}

impl fmt::Debug for CoordinatorPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CoordinatorPublicKey({}…)", hex::encode(&self.as_bytes()[..6]))
    }
}

/// Reads a signature from a message. `field` is what an error calls it.
///
/// # Errors
/// [`ServiceError::InvalidArgument`] for another length than 64 bytes.
pub fn signature(field: &str, bytes: &[u8]) -> Result<[u8; SIGNATURE_BYTES], ServiceError> {
    let allowed = format!("{SIGNATURE_BYTES} bytes");
    bytes.try_into().map_err(|_| ServiceError::invalid(field, format!("{} bytes", bytes.len()), allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_half_checks_and_signs_nothing() {
        let key = CoordinatorKey::new(&[1; 32]);
        let public = CoordinatorPublicKey::from_slice(key.public().as_bytes()).unwrap();
        let text = SignedText::new("d", &[b"a", b"b"]);
        let signature = key.sign(&text);
        assert!(public.has_signed(&text, &signature));
        // The bytes that a worker is sent, used as a secret, make another key.
        let by_worker = CoordinatorKey::new(public.as_bytes());
        assert!(!public.has_signed(&text, &by_worker.sign(&text)));
        for at in 0..SIGNATURE_BYTES {
            let mut changed = signature;
            changed[at] ^= 1;
            assert!(!public.has_signed(&text, &changed), "byte {at}");
        }
        assert_eq!(format!("{key:?}"), "CoordinatorKey([secret])");
        assert!(CoordinatorPublicKey::from_slice(&[1; 31]).is_err());
    }

    #[test]
    fn no_two_lists_of_parts_are_one_text() {
        let texts = [
            SignedText::new("d", &[b"ab"]),
            SignedText::new("d", &[b"a", b"b"]),
            SignedText::new("d", &[b"a", b"b", b""]),
            SignedText::new("da", &[b"b"]),
            SignedText::new("d", &[b"", b"ab"]),
        ];
        for (at, text) in texts.iter().enumerate() {
            assert!(texts[at + 1..].iter().all(|other| other != text), "{at}");
        }
    }

    /// The first vectors of RFC 8032, section 7.1, by the same calls.
    #[test]
    fn signatures_are_those_of_rfc_8032() {
        let of = |secret: &str, public: &str, message: &[u8], signature: &str| {
            let bytes = |text: &str| -> [u8; 32] { hex::decode(text).unwrap().try_into().unwrap() };
            let key = CoordinatorKey::new(&bytes(secret));
            assert_eq!(key.public().as_bytes(), &bytes(public));
            let text = SignedText(message.to_vec());
            assert_eq!(hex::encode(key.sign(&text)), signature);
            assert!(key.public().has_signed(&text, &key.sign(&text)));
        };
        of(
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            b"",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        );
        of(
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            &[0x72],
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        );
    }
}
