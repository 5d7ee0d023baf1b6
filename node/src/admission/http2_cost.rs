//! The cost of HTTP/2 frames, counted as soon as they are read: a call that is given up, a ping or a reset takes a
//! processor's time that no handler sees.

/// Length of the connection preface, which every HTTP/2 client sends first (RFC 9113, section 3.4).
pub const PREFACE_BYTES: usize = 24;
/// Length of a frame's head: its length, kind, flags and stream (RFC 9113, section 4.1).
pub const HEAD_BYTES: usize = 9;
/// Largest frame body that servers accept, in bytes. A client that announces more is disconnected before it arrives; what
/// servers write goes by the client's choice.
pub const FRAME_BYTES: u32 = 128 << 10;
const DATA: u8 = 0;
const RESET: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
/// Bytes of a frame that count as one call.
const BYTES_PER_CALL: f64 = (16 << 10) as f64;
/// A reset gives up what was begun for a call; a client that resets too often is disconnected and pays for another
/// handshake.
const RESET_CALLS: f64 = 4.0;
/// The least cost of a piece of a message, however short.
const LEAST_DATA_CALLS: f64 = 1.0 / 64.0;
/// A client that reads many rows with a small window sends thousands of updates a second.
const WINDOW_UPDATE_CALLS: f64 = 1.0 / 16.0;

/// A walk over the frames that a client sends, by their heads alone. It begins before the connection preface.
#[derive(Debug)]
pub struct FrameCosts {
    /// Bytes until the next head.
    skip: usize,
    head: [u8; HEAD_BYTES],
    known: usize,
}

impl Default for FrameCosts {
    fn default() -> Self {
        Self { skip: PREFACE_BYTES, head: [0; HEAD_BYTES], known: 0 }
    }
}

impl FrameCosts {
    /// Returns the bytes until the next frame begins, at least.
    pub fn bytes_to_next_head(&self) -> usize {
        self.skip
    }

    /// Returns the cost, in calls, of the frames whose heads end in the next bytes of the stream.
    pub fn cost(&mut self, mut bytes: &[u8]) -> f64 {
        let mut cost = 0.0;
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            let missing = HEAD_BYTES - self.known;
            let (head, rest) = bytes[skipped..].split_at(missing.min(bytes.len() - skipped));
            self.skip -= skipped;
            self.head[self.known..][..head.len()].copy_from_slice(head);
            self.known += head.len();
            bytes = rest;
            if self.known == HEAD_BYTES {
                let [a, b, c, kind, ..] = self.head;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                self.known = 0;
                let least = match kind {
                    DATA => LEAST_DATA_CALLS,
                    RESET => RESET_CALLS,
                    WINDOW_UPDATE => WINDOW_UPDATE_CALLS,
                    _ => 1.0,
                };
                cost += least.max(self.skip.min(FRAME_BYTES as usize) as f64 / BYTES_PER_CALL);
            }
        }
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: u32) -> Vec<u8> {
        [&length.to_be_bytes()[1..], &[kind], &[0; 5], &vec![kind; length as usize]].concat()
    }

    #[test]
    fn frames_count_by_their_kind_however_they_are_cut() {
        let sent =
            [vec![4; PREFACE_BYTES], frame(4, 6), frame(1, 40), frame(0, 70_000), frame(6, 8)].concat();
        let sent = [sent, frame(8, 4), frame(4, 0), frame(3, 4), frame(0, 0), frame(0, 2048)].concat();
        for at_once in [1, 2, 7, 9, 100, 1 << 20] {
            let mut frames = FrameCosts::default();
            let cost: f64 = sent.chunks(at_once).map(|bytes| frames.cost(bytes)).sum();
            let of_data = 70_000.0 / BYTES_PER_CALL + LEAST_DATA_CALLS + 2048.0 / BYTES_PER_CALL;
            assert!(
                (cost - 4.0 - RESET_CALLS - WINDOW_UPDATE_CALLS - of_data).abs() < 1e-9,
                "{cost}, {at_once} bytes at once"
            );
            assert_eq!(frames.bytes_to_next_head(), 0);
        }
    }

    #[test]
    fn a_frame_costs_its_bytes_and_none_that_it_may_not_have() {
        let cost = |kind, length: u32| {
            let mut frames = FrameCosts::default();
            let head = [&[4; PREFACE_BYTES], &length.to_be_bytes()[1..], &[kind], &[0; 5]].concat();
            let cost = frames.cost(&head);
            assert_eq!(frames.bytes_to_next_head(), length as usize);
            cost
        };
        // Frames of an unknown kind, continued headers, and messages.
        for kind in [0xfa, 9, DATA] {
            assert_eq!(cost(kind, FRAME_BYTES), 8.0);
            assert_eq!(cost(kind, (1 << 24) - 1), 8.0);
        }
    }
}
