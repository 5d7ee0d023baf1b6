//! Chunks as gRPC frames that keep their data apart: the sender never copies it into a message, the receiver never
//! gathers it before it knows where it goes.
//!
//! A frame is one byte "not compressed", four of length, then the message. The data field is written last, so that
//! the frame is [`frame_head`] followed by the data itself. Any gRPC peer reads it as an ordinary message.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::{Message, encoding::encode_varint};

use crate::{ChunkHead, ServiceError, pb};

/// Bytes before a message: one for compression, four for its length.
pub const FRAME_PREFIX: usize = 5;

/// More bytes than the fields beside the data ever take.
const MAX_HEAD: usize = 64;

/// The key of the data: field 3, length-delimited.
const DATA_KEY: u8 = 3 << 3 | 2;

/// Encodes everything of the frame of `chunk` that stands before its data.
pub fn frame_head(chunk: &pb::Chunk) -> Bytes {
    let fields = pb::Chunk { data: Bytes::new(), ..chunk.clone() };
    let mut head = BytesMut::with_capacity(FRAME_PREFIX + MAX_HEAD);
    head.put_slice(&[0; FRAME_PREFIX]);
    fields.encode_raw(&mut head);
    if !chunk.data.is_empty() {
        head.put_u8(DATA_KEY);
        encode_varint(chunk.data.len() as u64, &mut head);
    }
    let length = (head.len() - FRAME_PREFIX + chunk.data.len()) as u32;
    head[1..FRAME_PREFIX].copy_from_slice(&length.to_be_bytes());
    head.freeze()
}

/// A chunk as it was received, with its data in the pieces that the transport delivered.
#[derive(Clone, Debug)]
pub struct ReceivedChunk {
    /// The fields beside the data.
    pub head: ChunkHead,
    /// The data's pieces, in order.
    pub data: Vec<Bytes>,
}

impl ReceivedChunk {
    /// Joins the data to one message.
    pub fn into_message(mut self) -> pb::Chunk {
        let ChunkHead { row, start, crc32c, element, placed, data_len } = self.head;
        let data = match self.data.len() {
            1 => self.data.remove(0),
            _ => {
                let mut whole = BytesMut::with_capacity(data_len);
                self.data.iter().for_each(|piece| whole.extend_from_slice(piece));
                whole.freeze()
            }
        };
        pb::Chunk { row, start, data, crc32c, element_type: element.into(), placed }
    }
}

/// Reads chunks out of the pieces of a gRPC body.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// Bytes that are not yet decoded, oldest first.
    pieces: std::collections::VecDeque<Bytes>,
    buffered: usize,
}

impl FrameReader {
    /// Appends a piece of the body.
    pub fn push(&mut self, piece: Bytes) {
        self.buffered += piece.len();
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// Returns whether a message has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.buffered > 0
    }

    /// Takes the next complete chunk; `None` until it has arrived. Refuses compressed and oversized messages.
    pub fn next_chunk(&mut self) -> Result<Option<ReceivedChunk>, ServiceError> {
        let start = self.peek(FRAME_PREFIX + MAX_HEAD);
        let Some((prefix, rest)) = start.split_at_checked(FRAME_PREFIX) else { return Ok(None) };
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        if prefix[0] != 0 {
            return Err(ServiceError::internal("a compressed message, which was not requested"));
        }
        if length > crate::MAX_MESSAGE_BYTES {
            let limit = crate::MAX_MESSAGE_BYTES;
            return Err(ServiceError::internal(format!("a message of {length} bytes; allowed: {limit}")));
        }
        if self.buffered < FRAME_PREFIX + length {
            return Ok(None);
        }
        match head_of(&rest[..rest.len().min(length)], length) {
            Some((head, fields)) => {
                self.take(FRAME_PREFIX + fields);
                let data = self.take(head.data_len);
                Ok(Some(ReceivedChunk { head, data }))
            }
            // Another sender may order its fields differently.
            None => self.decoded(length).map(Some),
        }
    }

    fn decoded(&mut self, length: usize) -> Result<ReceivedChunk, ServiceError> {
        self.take(FRAME_PREFIX);
        let whole = self.take(length).concat();
        let chunk = pb::Chunk::decode(Bytes::from(whole)).map_err(ServiceError::internal)?;
        Ok(ReceivedChunk { head: ChunkHead::of(&chunk)?, data: vec![chunk.data] })
    }

    fn peek(&self, bytes: usize) -> Vec<u8> {
        self.pieces.iter().flat_map(|piece| piece.iter()).take(bytes).copied().collect()
    }

    fn take(&mut self, mut bytes: usize) -> Vec<Bytes> {
        self.buffered -= bytes.min(self.buffered);
        let mut taken = Vec::new();
        while bytes > 0
            && let Some(front) = self.pieces.front_mut()
        {
            let part = bytes.min(front.remaining());
            taken.push(front.split_to(part));
            bytes -= part;
            if front.is_empty() {
                self.pieces.pop_front();
            }
        }
        taken
    }
}

/// Reads the head, and how many bytes of the message it takes; `None` where the data field is not last.
fn head_of(message: &[u8], length: usize) -> Option<(ChunkHead, usize)> {
    let mut rest = message;
    loop {
        let before = message.len() - rest.len();
        let key = *rest.first()?;
        if key == DATA_KEY {
            rest.advance(1);
            let data_len = usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?;
            let fields = message.len() - rest.len();
            if fields.checked_add(data_len) != Some(length) {
                return None;
            }
            let mut head = ChunkHead::of(&pb::Chunk::decode(&message[..before]).ok()?).ok()?;
            head.data_len = data_len;
            return Some((head, fields));
        }
        let (field, wire) = prost::encoding::decode_key(&mut rest).ok()?;
        prost::encoding::skip_field(wire, field, &mut rest, Default::default()).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElementType, chunk_of};

    fn chunk(values: usize) -> pb::Chunk {
        let data: Vec<u8> = (0..values * 4).map(|i| i as u8).collect();
        chunk_of(1 << 40, 7 << 33, ElementType::F32, data.into())
    }

    fn framed(chunk: &pb::Chunk) -> Vec<u8> {
        [frame_head(chunk), chunk.data.clone()].concat()
    }

    #[test]
    fn a_frame_is_the_message_that_any_peer_reads() {
        for chunk in [chunk(1), chunk(300_000), pb::Chunk { placed: 9, ..chunk(0) }] {
            let frame = framed(&chunk);
            assert_eq!(frame[0], 0);
            assert_eq!(frame[1..5], (frame.len() as u32 - 5).to_be_bytes());
            assert_eq!(pb::Chunk::decode(&frame[5..]).unwrap(), chunk);
        }
    }

    #[test]
    fn chunks_are_read_however_the_bytes_are_cut() {
        let sent = [chunk(1), chunk(500), pb::Chunk { placed: 3, ..chunk(0) }, chunk(40)];
        let bytes: Vec<u8> = sent.iter().flat_map(framed).collect();
        for cut in [1, 3, 7, 64, 1000, bytes.len()] {
            let mut reader = FrameReader::default();
            let mut got = vec![];
            for piece in bytes.chunks(cut) {
                reader.push(Bytes::copy_from_slice(piece));
                while let Some(chunk) = reader.next_chunk().unwrap() {
                    got.push(chunk.into_message());
                }
            }
            assert_eq!(got, sent, "pieces of {cut}");
            assert!(!reader.is_inside());
        }
    }

    #[test]
    fn prosts_own_order_of_fields_is_read_too() {
        let sent = chunk(500);
        let message = sent.encode_to_vec();
        let mut reader = FrameReader::default();
        reader.push([&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat().into());
        assert_eq!(reader.next_chunk().unwrap().unwrap().into_message(), sent);
    }

    #[test]
    fn compressed_oversized_and_senseless_messages_are_refused() {
        for bytes in [&[1, 0, 0, 0, 1, 0][..], &[0, 255, 0, 0, 0], &[0, 0, 0, 0, 2, 255, 255]] {
            let mut reader = FrameReader::default();
            reader.push(Bytes::copy_from_slice(bytes));
            assert!(reader.next_chunk().is_err(), "{bytes:?}");
        }
    }
}
