//! Bound rows read from the text that the ledger writes of them, without the detours of a general reader of JSON.
//!
//! Nearly all of a large ledger is text of this one form, and opening the ledger reads all of it. Text of any other form is
//! left to the general reader: what is read here is what that one would return.

use proto::{Commitment, CommitmentKind};

use super::event::{BoundRow, Event};

/// Hex digits of a digest.
const DIGITS: usize = 64;
/// The fewest bytes of a row's text, with its comma.
const SHORTEST_ROW: usize = "[0,\"exact\",\"\"],".len() + DIGITS;
/// What stands for no digit in [`VALUES`].
const NO_DIGIT: u8 = 0xFF;
/// The value of each character as a hex digit.
const VALUES: [u8; 256] = values();

const fn values() -> [u8; 256] {
    let digits = b"0123456789abcdef";
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < digits.len() {
        values[digits[value] as usize] = value as u8;
        value += 1;
    }
    values
}

/// Reads the fields of a `bound` event, as they follow the opening brace; `None` where they are of another event, or spelled
/// in another way.
pub fn read(fields: &[u8]) -> Option<Event> {
    let rest = fields.strip_prefix(b"\"event\":\"bound\",\"branch\":")?;
    let (branch, rest) = number(rest)?;
    let mut rest = rest.strip_prefix(b",\"rows\":[")?;
    let mut rows = Vec::with_capacity(rest.len() / SHORTEST_ROW + 1);
    loop {
        let (row, after) = bound_row(rest)?;
        rows.push(row);
        match after {
            b"]}" => return Some(Event::Bound { branch, rows }),
            [b',', after @ ..] => rest = after,
            _ => return None,
        }
    }
}

/// Reads one row and returns the text after it.
fn bound_row(text: &[u8]) -> Option<(BoundRow, &[u8])> {
    let (row, rest) = number(text.strip_prefix(b"[")?)?;
    let (kind, rest) = if let Some(rest) = rest.strip_prefix(b",\"declared\",\"") {
        (CommitmentKind::Declared, rest)
    } else {
        (CommitmentKind::Exact, rest.strip_prefix(b",\"exact\",\"")?)
    };
    let (digits, rest) = rest.split_first_chunk::<DIGITS>()?;
    let commitment = Commitment { kind, digest: digest(digits)? };
    Some((BoundRow { row, commitment }, rest.strip_prefix(b"\"]")?))
}

/// Reads a number and returns the text after it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    Some((digits.iter().try_fold(0, add)?, rest))
}

fn digest(digits: &[u8; DIGITS]) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let mut seen = 0;
    for (byte, pair) in digest.iter_mut().zip(digits.as_chunks::<2>().0) {
        let high = VALUES[usize::from(pair[0])];
        let low = VALUES[usize::from(pair[1])];
        // No digit has a bit of the upper half.
        seen |= high | low;
        *byte = high << 4 | low & 0x0F;
    }
    (seen <= 0x0F).then_some(digest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{chain::stamp::event_of, tables};

    fn rows() -> impl Strategy<Value = Vec<BoundRow>> {
        let row = prop_oneof![0..20u64, any::<u64>()];
        let commitment = (any::<bool>(), any::<[u8; 32]>()).prop_map(|(is_exact, digest)| {
            if is_exact { Commitment::exact(digest) } else { Commitment::declared(digest) }
        });
        let bound = (row, commitment).prop_map(|(row, commitment)| BoundRow { row, commitment });
        prop::collection::vec(bound, 1..6)
    }

    fn text(branch: u64, rows: &[BoundRow]) -> Vec<u8> {
        tables::encode(&Event::Bound { branch, rows: rows.to_vec() }).unwrap_or_default()[1..].to_vec()
    }

    proptest! {
        #[test]
        fn what_the_ledger_writes_is_read(branch: u64, rows in rows()) {
            prop_assert_eq!(read(&text(branch, &rows)), Some(Event::Bound { branch, rows }));
        }

        /// Whatever is read here, the general reader reads alike. The oracle is serde.
        #[test]
        fn altered_text_is_read_as_the_general_reader_does_or_not_at_all(
            branch in 0..12u64, rows in rows(), at: prop::sample::Index, kind in 0..3u8, byte: u8,
        ) {
            let mut text = text(branch, &rows);
            let at = at.index(text.len());
            match kind {
                0 => text[at] = byte,
                1 => text.insert(at, b" 0,\"[]ae"[usize::from(byte) % 8]),
                _ => drop(text.remove(at)),
            }
            if let Some(read) = read(&text) {
                let general: Option<Event> = tables::decode(&event_of(&text)).ok();
                prop_assert_eq!(Some(read), general, "{}", String::from_utf8_lossy(&text));
            }
        }
    }

    #[test]
    fn other_spellings_and_other_events_are_left_to_the_general_reader() {
        let digest = "a".repeat(64);
        let row = format!("[1,\"declared\",\"{digest}\"]");
        let event = |rows: &str| format!("\"event\":\"bound\",\"branch\":0,\"rows\":[{rows}]}}");
        assert!(read(event(&row).as_bytes()).is_some());
        let big = format!("[18446744073709551616,\"exact\",\"{digest}\"]");
        let upper = row.replacen('a', "A", 8);
        let spellings = [
            String::new(),
            row.replace("[1", "[01"),
            row.replace("[1", "[ 1"),
            big,
            upper,
            format!("{row},"),
        ];
        for rows in spellings {
            assert_eq!(read(event(&rows).as_bytes()), None, "{rows}");
        }
        let whole = event(&row);
        for other in [
            "",
            "\"event\":\"checkpoint_removed\",\"id\":1}",
            &format!("{whole} "),
            &whole[..whole.len() - 1],
        ] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
    }
}
