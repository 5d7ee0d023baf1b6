//! Who made an entry of a chain, and when.

use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use proto::PersonId;

use crate::{LedgerError, Result, error::Fail};

/// The most characters of a principal's name.
const MAX_NAME: usize = 256;

/// Who acts on a ledger: a role with a certificate's name or the first digits of a token's digest, or a name such as `local`.
/// Never a token or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    name: Arc<str>,
    /// The person, where credentials name one. No entry has it: events that rest on it name it themselves.
    person: Option<PersonId>,
}

impl Principal {
    /// Returns the principal of this name. Characters that could end a line or a quotation become `?`, and a name is cut
    /// after 256 characters: whatever a principal is called, it is recorded.
    pub fn new(name: &str) -> Self {
        let safe = |c: char| if c.is_ascii() && is_safe(c as u8) { c } else { '?' };
        let name: String = name.trim().chars().map(safe).take(MAX_NAME).collect();
        // Once more: the cut may end with a space.
        match name.trim() {
            "" => Self::named("unknown"),
            name => Self::named(name),
        }
    }

    fn named(name: &str) -> Self {
        Self { name: name.into(), person: None }
    }

    /// Returns the same principal, who is this person.
    #[must_use]
    pub fn of_person(self, person: Option<PersonId>) -> Self {
        Self { person, ..self }
    }

    /// Returns the person; `None` where it is not known who acts.
    pub fn person(&self) -> Option<&PersonId> {
        self.person.as_ref()
    }

    /// Returns whether [`Principal::new`] leaves the name as it is.
    fn is_name(name: &str) -> bool {
        let is_known = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_safe);
        is_known && !name.starts_with(' ') && !name.ends_with(' ')
    }

    /// Returns the principal of a process that has the ledger open itself: a command, a Python process, an MPI launch.
    pub fn local() -> Self {
        Self::named("local")
    }

    /// Returns the principal of a coordinator that acts on its own, such as one that places shards.
    pub fn coordinator() -> Self {
        Self::named("coordinator")
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns whether a name may have the character: one that ends no line and no quotation.
fn is_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" -_./:@+=?".contains(&byte)
}

/// A source of the time, in milliseconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// Returns a clock that asks `now`.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the operating system's clock; 0 before 1970.
    pub fn of_system() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }

    /// Returns the time.
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

/// Who made an entry, and when by the clock of the process that did. Clocks go back: the order of entries is that of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Who acted.
    pub by: Principal,
    /// Milliseconds since 1970.
    pub at_ms: u64,
}

impl Stamp {
    /// Splits an entry's JSON, as [`Entry::event`](crate::Entry::event) has it, into its stamp and the JSON of its event.
    ///
    /// # Errors
    /// [`LedgerError::Invalid`] for JSON that begins with no stamp.
    pub fn split(entry: &str) -> Result<(Self, String)> {
        let (stamp, fields) = parse(entry.as_bytes()).ok_or_else(|| {
            let shown: String = entry.chars().take(80).collect();
            LedgerError::invalid("entry", shown, "{\"at_ms\":…,\"by\":\"…\",…}")
        })?;
        Ok((stamp, format!("{{{}", String::from_utf8_lossy(fields))))
    }

    /// Returns an event's JSON object with this stamp as its first two fields: what is stored and hashed.
    pub(crate) fn joined(&self, event: &[u8]) -> Vec<u8> {
        let fields = format!("{{\"at_ms\":{},\"by\":\"{}\",", self.at_ms, self.by);
        [fields.as_bytes(), event.strip_prefix(b"{").unwrap_or(event)].concat()
    }

    /// Splits a stored entry's JSON into its stamp and the fields of its event, which a brace ends and none begins.
    pub(crate) fn split_stored(entry: &[u8]) -> Result<(Self, &[u8]), Fail> {
        parse(entry).ok_or_else(without_stamp)
    }
}

/// Returns the fields of a stored entry's event as [`Stamp::split_stored`] does, for a replay: who made it and when changes
/// nothing there.
pub fn fields_of(entry: &[u8]) -> Result<&[u8], Fail> {
    cut_stamp(entry).map(|(.., fields)| fields).ok_or_else(without_stamp)
}

fn without_stamp() -> Fail {
    Fail::Record("an entry says neither who made it nor when".to_owned())
}

/// Returns the JSON of an event from its fields, as [`Stamp::split_stored`] returns them.
pub fn event_of(fields: &[u8]) -> Vec<u8> {
    [b"{", fields].concat()
}

fn parse(entry: &[u8]) -> Option<(Stamp, &[u8])> {
    let (at_ms, by, fields) = cut_stamp(entry)?;
    Some((Stamp { by: Principal::named(by), at_ms }, fields))
}

/// Cuts an entry into its time, its author's name and the fields of its event.
fn cut_stamp(entry: &[u8]) -> Option<(u64, &str, &[u8])> {
    let (digits, rest) = cut(entry.strip_prefix(b"{\"at_ms\":")?, b",\"by\":\"")?;
    let (by, fields) = cut(rest, b"\",")?;
    let by = std::str::from_utf8(by).ok()?;
    // Another spelling of the same stamp would be another hash.
    let is_canonical =
        digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || !digits.starts_with(b"0"));
    let at_ms = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (is_canonical && Principal::is_name(by)).then_some((at_ms, by, fields))
}

fn cut<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let place = text.windows(at.len()).position(|window| window == at)?;
    Some((&text[..place], &text[place + at.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_and_its_event_come_apart_again() {
        let stamp = Stamp { by: Principal::new("operator token:4fa01b23c4d5"), at_ms: 1_790_000_000_123 };
        let event = r#"{"event":"bound","branch":0,"rows":[]}"#;
        let joined = String::from_utf8(stamp.joined(event.as_bytes())).unwrap();
        assert_eq!(
            joined,
            r#"{"at_ms":1790000000123,"by":"operator token:4fa01b23c4d5","event":"bound","branch":0,"rows":[]}"#
        );
        assert_eq!(Stamp::split(&joined).unwrap(), (stamp.clone(), event.to_owned()));
        let (again, fields) = Stamp::split_stored(joined.as_bytes()).unwrap();
        assert_eq!((again, event_of(fields)), (stamp, event.as_bytes().to_vec()));
    }

    #[test]
    fn entries_without_a_stamp_or_with_another_spelling_are_refused() {
        for bad in [
            r#"{"event":"bound"}"#,
            r#"{"at_ms":1,"event":"bound"}"#,
            r#"{"by":"x","at_ms":1,"event":"bound"}"#,
            r#"{"at_ms":01,"by":"x","event":"bound"}"#,
            r#"{"at_ms":-1,"by":"x","event":"bound"}"#,
            r#"{"at_ms":1,"by":" x","event":"bound"}"#,
            r#"{"at_ms":1,"by":"a\nb","event":"bound"}"#,
            "",
        ] {
            assert!(Stamp::split(bad).is_err(), "{bad}");
            assert!(Stamp::split_stored(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_principals_name_ends_no_line_and_no_quotation() {
        assert_eq!(Principal::new("a\"b\\c\nd\u{1b}ü").as_str(), "a?b?c?d??");
        assert_eq!(Principal::new("  ").as_str(), "unknown");
        assert_eq!(Principal::new(&"x".repeat(999)).as_str().len(), MAX_NAME);
        let cut = Principal::new(&format!("{} y", "x".repeat(MAX_NAME - 1)));
        assert_eq!(Principal::new(cut.as_str()), cut);
    }
}
