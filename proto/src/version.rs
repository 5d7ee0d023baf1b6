//! The version of the protocol, which a client sends with every call.

use crate::{Result, ServiceError};

/// The version of the protocol. It rises with every change that an older process can't speak.
pub const PROTOCOL_VERSION: u32 = 6;

/// The header of every call that holds the caller's version, in decimal.
pub const PROTOCOL_HEADER: &str = "rustle-protocol";

/// Refuses a caller with another version. A call without the header is accepted, as other gRPC clients send it.
pub fn check_protocol(header: Option<&[u8]>) -> Result<()> {
    let Some(version) = header else { return Ok(()) };
    let text = String::from_utf8_lossy(version);
    match text.parse() {
        Ok(PROTOCOL_VERSION) => Ok(()),
        Ok(actual) => Err(ServiceError::ProtocolVersionMismatch { expected: PROTOCOL_VERSION, actual }),
        Err(_) => {
            Err(ServiceError::invalid(PROTOCOL_HEADER, format!("{text:?}"), PROTOCOL_VERSION.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_by_name() {
        assert_eq!((check_protocol(None), check_protocol(Some(b"5"))), (Ok(()), Ok(())));
        for actual in [4, 6] {
            let header = actual.to_string();
            let expected = PROTOCOL_VERSION;
            let refused = Err(ServiceError::ProtocolVersionMismatch { expected, actual });
            assert_eq!(check_protocol(Some(header.as_bytes())), refused);
        }
        for bad in [&b""[..], b"two", b"-1", b"\xff"] {
            assert_eq!(check_protocol(Some(bad)).unwrap_err().kind(), "invalid_argument");
        }
    }
}
