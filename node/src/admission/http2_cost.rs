//! What frames cost, as soon as they are read: a call that is given up, a ping or a reset takes a processor's time, and
//! no handler tells of it.

/// What every HTTP/2 client sends first.
pub const PREFACE_BYTES: usize = 24;
/// Length, kind, flags and stream of a frame (RFC 9113, section 4.1).
pub const HEAD_BYTES: usize = 9;
/// What servers read at most in one piece; what they write goes by the client's choice. Whoever claims more is cut off
/// before it comes.
pub const FRAME_BYTES: u32 = 128 << 10;
const DATA: u8 = 0;
const RESET: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
/// Bytes of a frame that count as one call.
const BYTES_A_CALL: f64 = (16 << 10) as f64;
/// What was begun for a call is given up, and whoever does so too often is cut off and shakes hands again.
const OF_RESET: f64 = 4.0;
/// However short a piece of a message is.
const OF_DATA: f64 = 1.0 / 64.0;
/// Who takes many rows with a small window sends thousands a second.
const OF_WINDOW: f64 = 1.0 / 16.0;

/// Follows the frames that a client sends by their heads alone.
#[derive(Debug)]
pub struct Frames {
    /// Until the next head.
    skip: usize,
    head: [u8; HEAD_BYTES],
    known: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { skip: PREFACE_BYTES, head: [0; HEAD_BYTES], known: 0 }
    }
}

impl Frames {
    /// Bytes until the next frame begins, at least.
    pub fn body(&self) -> usize {
        self.skip
    }

    /// In calls, of the frames that begin in the next bytes.
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
                (self.skip, self.known) = (u32::from_be_bytes([0, a, b, c]) as usize, 0);
                let least = match kind {
                    DATA => OF_DATA,
                    RESET => OF_RESET,
                    WINDOW_UPDATE => OF_WINDOW,
                    _ => 1.0,
                };
                cost += least.max(self.skip.min(FRAME_BYTES as usize) as f64 / BYTES_A_CALL);
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
            let mut frames = Frames::default();
            let cost: f64 = sent.chunks(at_once).map(|bytes| frames.cost(bytes)).sum();
            let of_data = 70_000.0 / BYTES_A_CALL + OF_DATA + 2048.0 / BYTES_A_CALL;
            assert!(
                (cost - 4.0 - OF_RESET - OF_WINDOW - of_data).abs() < 1e-9,
                "{cost}, {at_once} bytes at once"
            );
            assert_eq!(frames.body(), 0);
        }
    }

    #[test]
    fn a_frame_costs_its_bytes_and_none_that_it_may_not_have() {
        let cost = |kind, length: u32| {
            let mut frames = Frames::default();
            let head = [&[4; PREFACE_BYTES], &length.to_be_bytes()[1..], &[kind], &[0; 5]].concat();
            let cost = frames.cost(&head);
            assert_eq!(frames.body(), length as usize);
            cost
        };
        // Of a kind that nobody knows, of headers that go on, of messages.
        for kind in [0xfa, 9, DATA] {
            assert_eq!(cost(kind, FRAME_BYTES), 8.0);
            assert_eq!(cost(kind, (1 << 24) - 1), 8.0);
        }
    }
}
