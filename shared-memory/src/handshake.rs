//! The handshake of a lease: the lender's hello, which describes its region, and the worker's answer. Fixed fields,
//! little-endian.

use proto::{CoordinateRange, ElementType, Result, ServiceError};

use crate::{Layout, RegionId};

/// The first bytes of a hello.
pub const MAGIC: [u8; 8] = *b"RUSTLSHM";
/// The version of the handshake.
pub const VERSION: u32 = 1;
/// Length of a hello, in bytes.
pub const HELLO_BYTES: usize = 72;

/// Longest text of an answer, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// Returns the hello of a region:
///
/// ```text
/// 0 magic | 8 version u32 | 12 element type u32 | 16 region id, 16 bytes | 32 first coordinate u64
/// 40 coordinates u64 | 48 slots u32 | 52 zero u32 | 56 data offset u64 | 64 slot stride u64
/// ```
pub(crate) fn encode(layout: &Layout) -> [u8; HELLO_BYTES] {
    let mut hello = [0; HELLO_BYTES];
    let mut put = |at: usize, bytes: &[u8]| hello[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC);
    put(8, &VERSION.to_le_bytes());
    put(12, &u32::from(layout.element.number()).to_le_bytes());
    put(16, &layout.id.0);
    put(32, &layout.range.start.to_le_bytes());
    put(40, &layout.range.len().to_le_bytes());
    put(48, &layout.slots.to_le_bytes());
    put(56, &layout.offset.to_le_bytes());
    put(64, &layout.stride.to_le_bytes());
    hello
}

/// Returns the region that a hello describes.
pub(crate) fn decode(hello: &[u8; HELLO_BYTES]) -> Result<Layout> {
    let u32_at = |at: usize| u32::from_le_bytes([hello[at], hello[at + 1], hello[at + 2], hello[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    if hello[..8] != MAGIC {
        return Err(ServiceError::invalid("hello", "without the magic", "first bytes RUSTLSHM"));
    }
    if u32_at(8) != VERSION {
        return Err(ServiceError::invalid("hello's version", u32_at(8), VERSION.to_string()));
    }
    let element = match u32_at(12) {
        1 => ElementType::F32,
        2 => ElementType::Bf16,
        3 => ElementType::I32,
        other => return Err(ServiceError::invalid("element type", other, "1 (f32), 2 (bf16) or 3 (i32)")),
    };
    if u32_at(52) != 0 {
        return Err(ServiceError::invalid("hello's bytes 52 to 56", u32_at(52), "0"));
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hello[16..32]);
    let start = u64_at(32);
    let len = u64_at(40);
    let range = CoordinateRange::new(start, start.saturating_add(len))?;
    let slots = u32_at(48);
    let offset = u64_at(56);
    let stride = u64_at(64);
    let layout = Layout { id: RegionId(id), range, slots, element, offset, stride };
    layout.check()?;
    Ok(layout)
}

/// Returns the worker's answer: 0 where it has mapped the region, else 1; the length of the reason; the reason, UTF-8.
pub(crate) fn answer(outcome: Result<(), &ServiceError>) -> Vec<u8> {
    let text = outcome.as_ref().err().map(|error| error.to_string()).unwrap_or_default();
    let text = &text.as_bytes()[..text.len().min(MAX_TEXT_BYTES)];
    [&u32::from(outcome.is_err()).to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text].concat()
}

/// Reads an answer. The inner error is the worker's reason to refuse.
pub(crate) fn read_answer(from: &mut impl std::io::Read) -> std::io::Result<Result<(), String>> {
    let mut start = [0; 8];
    from.read_exact(&mut start)?;
    let length = u32::from_le_bytes([start[4], start[5], start[6], start[7]]) as usize;
    let mut text = vec![0; length.min(MAX_TEXT_BYTES)];
    from.read_exact(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(if start[..4] == [0; 4] { Ok(()) } else { Err(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_survives_and_damage_is_named() {
        let range = CoordinateRange { start: 1 << 40, end: (1 << 40) + 777 };
        let layout = Layout::new(RegionId([9; 16]), range, 5, ElementType::Bf16).unwrap();
        let hello = encode(&layout);
        assert_eq!(decode(&hello), Ok(layout));
        let damaged =
            [(0, "magic"), (8, "version"), (12, "element"), (52, "52"), (56, "offset"), (64, "stride")];
        for (at, word) in damaged {
            let mut hello = hello;
            hello[at] ^= 9;
            let error = decode(&hello).unwrap_err().to_string();
            assert!(error.contains(word), "{at}: {error}");
        }
        let mut none = hello;
        none[40..48].fill(0);
        assert!(decode(&none).is_err());
    }

    #[test]
    fn answers_survive() {
        assert_eq!(read_answer(&mut answer(Ok(())).as_slice()).unwrap(), Ok(()));
        let refused = ServiceError::Draining;
        let read = read_answer(&mut answer(Err(&refused)).as_slice()).unwrap();
        assert_eq!(read, Err(refused.to_string()));
    }
}
