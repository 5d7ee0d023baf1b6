//! Words of commands that messages name: they can be pasted into a shell.

use std::borrow::Cow;

/// Returns the text as one word of a POSIX shell, in quotes where it needs them.
///
/// ```
/// assert_eq!(proto::shell_word("/data/ledger.redb"), "/data/ledger.redb");
/// assert_eq!(proto::shell_word("/it's here/ledger.redb"), r"'/it'\''s here/ledger.redb'");
/// ```
#[must_use]
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:@%+=,-".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}
