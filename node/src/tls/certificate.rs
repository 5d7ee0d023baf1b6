//! What a certificate says of itself, apart from its key: whom it is for, and when it ends. Its signature is not looked at.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use time::{Date, Month, OffsetDateTime, Time};

use super::error::TlsError;
use super::files::certificates;
use super::verify::identity_of;
use crate::auth::Identity;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The optional version in front of the serial number.
const VERSION: u8 = 0xa0;
/// The object identifier of a common name, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// The facts of a certificate that people look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The common name of its subject; empty where it has none.
    pub subject: String,
    /// Its subject alternative names: URIs, then DNS names.
    pub names: Vec<String>,
    /// The one identity of ours that it names, if it names one.
    pub identity: Option<Identity>,
    /// The first moment at which it is valid.
    pub begins: SystemTime,
    /// The last moment at which it is valid.
    pub ends: SystemTime,
}

impl CertificateFacts {
    /// Reads the first certificate of a PEM file.
    pub fn of_file(path: &Path) -> Result<Self, TlsError> {
        let unusable =
            || TlsError::Unusable { path: path.to_owned(), reason: "not an X.509 certificate".into() };
        let chain = certificates(path)?;
        chain.first().and_then(Self::of).ok_or_else(unusable)
    }

    /// Reads a certificate; `None` where it is none.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (begins, ends, subject) = validity_and_subject(certificate)?;
        let parsed = webpki::EndEntityCert::try_from(certificate).ok();
        let mut names = Vec::new();
        if let Some(parsed) = &parsed {
            names.extend(parsed.valid_uri_names().map(str::to_owned));
            names.extend(parsed.valid_dns_names().map(str::to_owned));
        }
        Some(Self { subject, names, identity: identity_of(certificate), begins, ends })
    }

    /// Returns the time until it ends; zero once it has.
    pub fn left(&self, now: SystemTime) -> Duration {
        self.ends.duration_since(now).unwrap_or_default()
    }
}

/// One element of DER: its tag, its content, and what follows it.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

/// Returns the first element of DER (X.690, definite lengths of up to four bytes).
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, bytes) = bytes.split_first()?;
    let (length, bytes) = match first {
        0..=0x7f => (usize::from(first), bytes),
        0x81..=0x84 => {
            let (length, bytes) = bytes.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), bytes)
        }
        _ => return None,
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some(Element { tag, content, rest })
}

fn inside(bytes: &[u8], tag: u8) -> Option<Element<'_>> {
    element(bytes).filter(|element| element.tag == tag)
}

/// Walks to the validity and the subject, whose places RFC 5280 (4.1) fixes.
fn validity_and_subject(certificate: &[u8]) -> Option<(SystemTime, SystemTime, String)> {
    let body = inside(inside(certificate, SEQUENCE)?.content, SEQUENCE)?.content;
    let first = element(body)?;
    let serial = if first.tag == VERSION { element(first.rest)? } else { first };
    let algorithm = inside(serial.rest, SEQUENCE)?;
    let issuer = inside(algorithm.rest, SEQUENCE)?;
    let validity = inside(issuer.rest, SEQUENCE)?;
    let begins = element(validity.content)?;
    let ends = element(begins.rest)?;
    let subject = inside(validity.rest, SEQUENCE)?;
    Some((moment(&begins)?, moment(&ends)?, common_name(subject.content).unwrap_or_default()))
}

/// Returns the last common name of a subject.
fn common_name(mut names: &[u8]) -> Option<String> {
    let mut found = None;
    while !names.is_empty() {
        let set = inside(names, SET)?;
        let pair = inside(set.content, SEQUENCE)?;
        let kind = inside(pair.content, OBJECT_IDENTIFIER)?;
        if kind.content == COMMON_NAME {
            found = Some(String::from_utf8_lossy(element(kind.rest)?.content).into_owned());
        }
        names = set.rest;
    }
    found
}

/// Returns a moment of RFC 5280: `YYMMDDhhmmssZ` in the years 1950 to 2049, or `YYYYMMDDhhmmssZ`.
fn moment(element: &Element<'_>) -> Option<SystemTime> {
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    let (year, text) = match element.tag {
        UTC_TIME => {
            let year: i32 = text.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let part = |at: usize| text.get(at..at + 2)?.parse::<u8>().ok();
    let date = Date::from_calendar_date(year, Month::try_from(part(0)?).ok()?, part(2)?).ok()?;
    let time = Time::from_hms(part(4)?, part(6)?, part(8)?).ok()?;
    let seconds = OffsetDateTime::new_utc(date, time).unix_timestamp();
    let since = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_moment_are_read() {
        let of = |tag, text: &str| moment(&Element { tag, content: text.as_bytes(), rest: &[] });
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(of(UTC_TIME, "260921141320Z"), at(1_790_000_000));
        assert_eq!(of(GENERALIZED_TIME, "20260921141320Z"), at(1_790_000_000));
        assert_eq!(of(GENERALIZED_TIME, "99991231235959Z"), at(253_402_300_799));
        assert!(of(UTC_TIME, "500101000000Z").unwrap() < UNIX_EPOCH);
        for bad in ["", "Z", "261321141320Z", "260921141320", "2609211413Z", "26092114132éZ"] {
            assert_eq!(of(UTC_TIME, bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_facts() {
        for bytes in
            [&[][..], &[0x30], &[0x30, 0x80], &[0x30, 0x84, 255, 255, 255, 255], &[0x30, 0x02, 0x30, 0x00]]
        {
            assert_eq!(CertificateFacts::of(&CertificateDer::from(bytes)), None);
        }
    }
}
