//! The format of a stored shard: the one place where bincode is used.
//!
//! ```text
//! "RUSTLESH" | container version, u32 | header length, u32 | header, bincode | sealed payload
//! payload = state, then window rows, oldest first, in values of four bytes; everything little-endian
//! ```
//!
//! A value is an f32 where the header's element type is f32. Where it is i32, of a plan on a grid, rows hold whole
//! numbers, and state does too or, of a BLT, binary64 numbers of two values each, the lower half first: which of the two
//! follows from the plan. In memory all of them are words that hold four bytes and that nothing computes with.
//!
//! The payload is sealed in segments of the header's length ([`crate::sealing`]), each of which authenticates the
//! header too. Its length follows from the header, so nothing may follow it and nothing of it may be missing.

use std::fmt;

use bincode::{
    Decode, Encode,
    config::{Configuration, Fixint, Limit, LittleEndian},
};
use proto::{CoordinateRange, ElementType, JobId, tiling::SHARD_ALIGNMENT as BLOCK};

pub const MAGIC: &[u8; 8] = b"RUSTLESH";
pub const VERSION: u32 = 3;
pub const PREFIX_BYTES: usize = 16;
/// More than any header needs, so that a damaged length never causes an allocation.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Bytes that sealing adds to a segment.
pub const TAG_BYTES: usize = 16;

/// The lengths that a segment may have, in plain bytes: few enough to stay in the cache.
pub const SEGMENT_BYTES: std::ops::RangeInclusive<u32> = 64..=1 << 24;

const CONFIG: Configuration<LittleEndian, Fixint, Limit<MAX_HEADER_BYTES>> =
    bincode::config::standard().with_little_endian().with_fixed_int_encoding().with_limit();

/// The description of a stored shard: which state it is, and how long its parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardHeader {
    /// The job's name.
    pub job: String,
    /// The branch that the job was on.
    pub branch: u64,
    /// Digest of the job's plan.
    pub plan_digest: [u8; 32],
    /// Commitment to the job's key.
    pub key_commitment: [u8; 32],
    /// Version of the noise stream.
    pub stream_version: u32,
    /// The shard's coordinates.
    pub range: CoordinateRange,
    /// The first row that was not generated yet.
    pub next_row: u64,
    /// First row of the window, whose rows are `window_start..next_row`.
    pub window_start: u64,
    /// Values of state for each block of 512 coordinates, of four bytes each.
    pub block_state_len: u64,
    /// The type of the rows: f32, or i32 of a plan on a grid.
    pub element: ElementType,
}

/// A shard's state and rows, as they were stored. Secret: they predict noise.
#[derive(Clone, PartialEq)]
pub struct ShardCheckpoint {
    /// The description of the whole object.
    pub header: ShardHeader,
    /// State, of all blocks in order: four bytes a word, whose meaning is that of the header's element type.
    pub state: Vec<f32>,
    /// The rows `window_start..next_row`, oldest first.
    pub window: Vec<Vec<f32>>,
}

impl fmt::Debug for ShardCheckpoint {
    /// Never shows state or rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardCheckpoint")
            .field("header", &self.header)
            .field("state_len", &self.state.len())
            .field("window_rows", &self.window.len())
            .finish_non_exhaustive()
    }
}

/// The header's bytes on disk. A change of a field is a new [`VERSION`].
#[derive(Encode, Decode)]
struct StoredHeader {
    job: String,
    branch: u64,
    plan_digest: [u8; 32],
    key_commitment: [u8; 32],
    stream_version: u32,
    start: u64,
    end: u64,
    next_row: u64,
    window_start: u64,
    block_state_len: u64,
    element: u8,
    segment_bytes: u32,
    salt: [u8; 32],
}

/// The parameters of an object's sealing. They are not secret, and differ for each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    pub segment_bytes: u32,
    pub salt: [u8; 32],
}

/// The lengths that follow from a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub state_len: usize,
    pub row_len: usize,
    pub rows: usize,
    pub payload_bytes: u64,
}

impl Seal {
    /// Returns the number of segments. An empty payload has one, so that every header is authenticated.
    pub fn segments(&self, payload_bytes: u64) -> u64 {
        payload_bytes.div_ceil(u64::from(self.segment_bytes)).max(1)
    }

    fn sealed_bytes(&self, payload_bytes: u64) -> Option<u64> {
        payload_bytes.checked_add(self.segments(payload_bytes).checked_mul(TAG_BYTES as u64)?)
    }
}

impl ShardHeader {
    pub(crate) fn shape(&self) -> Result<Shape, String> {
        JobId::new(self.job.as_str()).map_err(|error| error.to_string())?;
        let CoordinateRange { start, end } = self.range;
        if start >= end {
            return Err(format!("range is {}; allowed: start < end", self.range));
        }
        let rows = self.next_row.checked_sub(self.window_start).ok_or_else(|| {
            format!(
                "window starts at row {}; allowed: at most the next row, {}",
                self.window_start, self.next_row
            )
        })?;
        if self.element.bytes() != 4 {
            return Err(format!("its values are {}; this build stores f32 and i32", self.element));
        }
        let too_large = || "its lengths are beyond what this machine can address".to_owned();
        // Shards meet at block boundaries; the last one may end inside a block, which then has whole state.
        let blocks = end.div_ceil(BLOCK) - start / BLOCK;
        let state = blocks.checked_mul(self.block_state_len).ok_or_else(too_large)?;
        let window = rows.checked_mul(end - start).ok_or_else(too_large)?;
        let payload = state.checked_add(window).and_then(|all| all.checked_mul(4)).ok_or_else(too_large)?;
        let size = |len: u64| usize::try_from(len).map_err(|_| too_large());
        Ok(Shape {
            state_len: size(state)?,
            row_len: size(end - start)?,
            rows: size(rows)?,
            payload_bytes: payload,
        })
    }
}

/// Returns the object's bytes before the payload: prefix and header.
pub fn encode(header: &ShardHeader, seal: &Seal) -> Result<Vec<u8>, String> {
    let header = header.clone();
    let stored = StoredHeader {
        job: header.job,
        branch: header.branch,
        plan_digest: header.plan_digest,
        key_commitment: header.key_commitment,
        stream_version: header.stream_version,
        start: header.range.start,
        end: header.range.end,
        next_row: header.next_row,
        window_start: header.window_start,
        block_state_len: header.block_state_len,
        element: header.element.number(),
        segment_bytes: seal.segment_bytes,
        salt: seal.salt,
    };
    let body = bincode::encode_to_vec(stored, CONFIG).map_err(|error| format!("header: {error}"))?;
    let length = u32::try_from(body.len()).map_err(|_| format!("header has {} bytes", body.len()))?;
    Ok([&MAGIC[..], &VERSION.to_le_bytes(), &length.to_le_bytes(), &body].concat())
}

/// Prefix and header of an object, read and checked.
pub struct ParsedHead {
    pub header: ShardHeader,
    pub shape: Shape,
    pub seal: Seal,
    pub payload_offset: u64,
}

/// Reads prefix and header of an object of `size` bytes from its first bytes.
pub fn decode(first: &[u8], size: u64) -> Result<ParsedHead, String> {
    let (prefix, rest) = first
        .split_at_checked(PREFIX_BYTES)
        .ok_or_else(|| format!("it has {size} bytes, fewer than the {PREFIX_BYTES} it must begin with"))?;
    if &prefix[..8] != MAGIC {
        return Err("it is no stored shard: its first bytes are not RUSTLESH".to_owned());
    }
    let version = u32_at(prefix, 8);
    if version != VERSION {
        return Err(format!("it has container version {version}; this build reads version {VERSION}"));
    }
    let length = u32_at(prefix, 12) as usize;
    let body = rest.get(..length).filter(|_| length <= MAX_HEADER_BYTES).ok_or_else(|| {
        format!("its header of {length} bytes is cut off or longer than the {MAX_HEADER_BYTES} allowed")
    })?;
    let (stored, used): (StoredHeader, usize) = bincode::decode_from_slice(body, CONFIG)
        .map_err(|error| format!("its header can't be read: {error}"))?;
    if used != length {
        return Err(format!("its header has {length} bytes, of which {used} were read"));
    }
    let seal = Seal { segment_bytes: stored.segment_bytes, salt: stored.salt };
    if !SEGMENT_BYTES.contains(&seal.segment_bytes) || !seal.segment_bytes.is_multiple_of(4) {
        let least = SEGMENT_BYTES.start();
        let most = SEGMENT_BYTES.end();
        return Err(format!(
            "its segments have {} bytes; allowed: {least} to {most}, a multiple of 4",
            seal.segment_bytes
        ));
    }
    let header = from_stored(stored)?;
    let shape = header.shape()?;
    let payload_offset = (PREFIX_BYTES + length) as u64;
    let sealed = seal.sealed_bytes(shape.payload_bytes);
    if sealed.is_none() || size.checked_sub(payload_offset) != sealed {
        let plain = shape.payload_bytes;
        return Err(format!("it has {size} bytes, its header implies {payload_offset} + {plain} sealed"));
    }
    Ok(ParsedHead { header, shape, seal, payload_offset })
}

fn from_stored(stored: StoredHeader) -> Result<ShardHeader, String> {
    let element = match stored.element {
        0 => return Err("its element type is 0; allowed: 1 (f32) or 3 (i32)".to_owned()),
        number => ElementType::try_from(i32::from(number)).map_err(|error| format!("its {error}"))?,
    };
    Ok(ShardHeader {
        job: stored.job,
        branch: stored.branch,
        plan_digest: stored.plan_digest,
        key_commitment: stored.key_commitment,
        stream_version: stored.stream_version,
        range: CoordinateRange { start: stored.start, end: stored.end },
        next_row: stored.next_row,
        window_start: stored.window_start,
        block_state_len: stored.block_state_len,
        element,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Appends the values' bytes, little-endian.
pub fn to_bytes(values: &[f32], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len() * 4, 0);
    for (bytes, value) in out[start..].as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
}

/// Appends the values of whole little-endian f32.
pub fn from_bytes(bytes: &[u8], out: &mut Vec<f32>) {
    out.extend(bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)));
}

#[cfg(test)]
mod tests;
