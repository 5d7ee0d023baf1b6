//! Bytes that must not be printed and must not outlive their use.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Exactly `N` secret bytes: wiped on drop, and never copied, printed, compared or serialised by accident.
///
/// They live on the heap, so moving the value moves a pointer and leaves no second copy on the stack.
#[derive(ZeroizeOnDrop)]
pub struct SecretBytes<const N: usize = 32>(Box<[u8; N]>);

impl<const N: usize> SecretBytes<N> {
    /// Copies `bytes` and wipes the original.
    pub fn take(bytes: &mut [u8; N]) -> SecretBytes<N> {
        let secret = SecretBytes::copy(bytes);
        bytes.zeroize();
        secret
    }

    /// Fresh bytes from the operating system.
    pub fn random() -> Result<SecretBytes<N>, getrandom::Error> {
        let mut secret = SecretBytes(Box::new([0; N]));
        getrandom::fill(&mut secret.0[..])?;
        Ok(secret)
    }

    /// The name is long so that each use is easy to find.
    pub fn expose_secret(&self) -> &[u8; N] {
        &self.0
    }

    /// The caller wipes `bytes`.
    pub(crate) fn copy(bytes: &[u8; N]) -> SecretBytes<N> {
        let mut secret = SecretBytes(Box::new([0; N]));
        secret.0.copy_from_slice(bytes);
        secret
    }
}

impl<const N: usize> fmt::Debug for SecretBytes<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "only printed")]
        struct Holder {
            key: SecretBytes,
        }
        let shown = format!("{:?}", Holder { key: SecretBytes::take(&mut [7; 32]) });
        assert_eq!(shown, "Holder { key: [secret] }");
    }

    #[test]
    fn take_wipes_what_it_took() {
        let mut bytes = [7; 32];
        let secret = SecretBytes::take(&mut bytes);
        assert_eq!(bytes, [0; 32]);
        assert_eq!(secret.expose_secret(), &[7; 32]);
    }

    #[test]
    fn random_keys_differ() {
        let one: SecretBytes = SecretBytes::random().unwrap();
        let other: SecretBytes = SecretBytes::random().unwrap();
        assert_ne!(one.expose_secret(), other.expose_secret());
    }
}
