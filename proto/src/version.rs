//! Which protocol a caller speaks, said with every call.

use crate::{Result, ServiceError};

/// Rises with every change that an older process can't speak.
pub const PROTOCOL_VERSION: u32 = 3;

/// Header of every call of our clients: the caller's version, in decimal.
pub const PROTOCOL_HEADER: &str = "rustle-protocol";

/// Refuses a caller that says it speaks another version. Who says nothing, as other gRPC clients do, is not asked.
pub fn check_protocol(said: Option<&[u8]>) -> Result<()> {
    let Some(said) = said else { return Ok(()) };
    let text = String::from_utf8_lossy(said);
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
        assert_eq!((check_protocol(None), check_protocol(Some(b"3"))), (Ok(()), Ok(())));
        for actual in [2, 4] {
            let said = actual.to_string();
            let expected = PROTOCOL_VERSION;
            let refused = Err(ServiceError::ProtocolVersionMismatch { expected, actual });
            assert_eq!(check_protocol(Some(said.as_bytes())), refused);
        }
        for bad in [&b""[..], b"two", b"-1", b"\xff"] {
            assert_eq!(check_protocol(Some(bad)).unwrap_err().kind(), "invalid_argument");
        }
    }
}
