//! The choice about buckets without TLS.

/// The choice whether an S3 endpoint may be reached without TLS, for tests on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only TLS is accepted.
    #[default]
    Refused,
    /// Plain HTTP is accepted too.
    Allowed,
}
