//! The lines of an audit log, and how many are written at once.

use std::collections::VecDeque;

/// Bytes that are written at once, but for a longer line: a quarter of what an OpenTelemetry collector takes by default.
const PIECE_BYTES: usize = 1 << 20;

/// An entry of the ledger's chains, as an audit log has it.
pub struct Line {
    pub chain: String,
    pub index: u64,
    /// The entry's JSON and the end of the line.
    pub text: String,
}

/// Lines that are still to be written, in order, in pieces that are written at once; none is empty.
pub struct Pieces(VecDeque<Vec<Line>>);

impl Pieces {
    pub fn new(lines: Vec<Line>) -> Self {
        let mut pieces = VecDeque::new();
        let mut piece = Vec::new();
        let mut bytes = 0;
        for line in lines {
            if !piece.is_empty() && bytes + line.text.len() > PIECE_BYTES {
                pieces.push_back(std::mem::take(&mut piece));
                bytes = 0;
            }
            bytes += line.text.len();
            piece.push(line);
        }
        if !piece.is_empty() {
            pieces.push_back(piece);
        }
        Self(pieces)
    }

    /// Returns the piece that comes next.
    pub fn first(&self) -> Option<&[Line]> {
        self.0.front().map(Vec::as_slice)
    }

    /// Ends with the piece that came next.
    pub fn advance(&mut self) {
        self.0.pop_front();
    }

    /// Has the first half of the next piece come before the second.
    pub fn halve(&mut self) {
        if let Some(first) = self.0.front_mut().filter(|first| first.len() > 1) {
            let second = first.split_off(first.len() / 2);
            self.0.insert(1, second);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lengths: &[usize]) -> Vec<Line> {
        let line = |(index, length): (usize, &usize)| Line {
            chain: "job".to_owned(),
            index: index as u64,
            text: "x".repeat(*length),
        };
        lengths.iter().enumerate().map(line).collect()
    }

    fn indices(pieces: &Pieces) -> Vec<Vec<u64>> {
        pieces.0.iter().map(|piece| piece.iter().map(|line| line.index).collect()).collect()
    }

    #[test]
    fn pieces_are_cut_by_bytes_and_halved_in_order() {
        let third = PIECE_BYTES / 3;
        let mut pieces = Pieces::new(lines(&[third, third, third, 2, 3 * PIECE_BYTES, 1, 1, 1]));
        assert_eq!(indices(&pieces), [vec![0, 1, 2], vec![3], vec![4], vec![5, 6, 7]]);
        pieces.halve();
        pieces.halve();
        assert_eq!(indices(&pieces)[..3], [vec![0], vec![1, 2], vec![3]]);
        pieces.advance();
        assert_eq!(pieces.first().unwrap().len(), 2);
        assert!(Pieces::new(Vec::new()).first().is_none());
    }
}
