//! The hash tree over the rows and commitments of one Bind call: its root is what the coordinator signs, and a part of
//! the rows is shown to be in it by the hashes beside them.
//!
//! The tree is that of RFC 6962: a leaf is SHA-256(0 ‖ row ‖ commitment), a node SHA-256(1 ‖ left ‖ right), and the
//! left half of a span has the largest power of two below its length. Leaf and node never have the same text. The root does
//! not say how many rows there are: their range is signed beside it.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::{Commitment, RowRange};

/// A hash of the tree.
pub type RowHash = [u8; 32];

fn leaf(row: u64, commitment: &Commitment) -> RowHash {
    let text = Sha256::new().chain_update([0]).chain_update(row.to_le_bytes());
    text.chain_update(commitment.to_bytes()).finalize().into()
}

fn node(left: &RowHash, right: &RowHash) -> RowHash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// Returns the first row of the right half of a span of at least two.
fn middle(span: &Range<u64>) -> u64 {
    span.start + (span.end - span.start).next_power_of_two() / 2
}

/// All hashes of a tree, from which paths are taken.
#[derive(Clone, Debug)]
pub struct RowTree {
    first_row: u64,
    /// Level k has one hash for each 2^k rows; of a last one without a neighbour, the hash below it.
    levels: Vec<Vec<RowHash>>,
}

impl RowTree {
    /// Returns the tree of rows from `first_row` on, with one commitment each; there is at least one.
    pub fn new(first_row: u64, commitments: &[Commitment]) -> Self {
        let mut levels = vec![leaves(first_row, commitments)];
        while let Some(below) = levels.last().filter(|below| below.len() > 1) {
            levels.push(level_above(below));
        }
        Self { first_row, levels }
    }

    /// Returns the hashes that are needed to get from `rows` to the root, left to right. None where `rows` are all.
    pub fn path(&self, rows: RowRange) -> Vec<RowHash> {
        let all = self.first_row..self.first_row + self.levels[0].len() as u64;
        let mut path = Vec::new();
        self.gather(all, &rows, &mut path);
        path
    }

    fn gather(&self, span: Range<u64>, rows: &RowRange, path: &mut Vec<RowHash>) {
        if span.end <= rows.start || rows.end <= span.start {
            path.push(self.of(&span));
        } else if span.end - span.start > 1 {
            let middle = middle(&span);
            self.gather(span.start..middle, rows, path);
            self.gather(middle..span.end, rows, path);
        }
    }

    fn of(&self, span: &Range<u64>) -> RowHash {
        let level = (span.end - span.start).next_power_of_two().trailing_zeros();
        self.levels[level as usize][((span.start - self.first_row) >> level) as usize]
    }
}

fn leaves(first_row: u64, commitments: &[Commitment]) -> Vec<RowHash> {
    (first_row..).zip(commitments).map(|(row, commitment)| leaf(row, commitment)).collect()
}

fn level_above(below: &[RowHash]) -> Vec<RowHash> {
    let of_pair = |pair: &[RowHash]| match pair {
        [left, right] => node(left, right),
        alone => alone[0],
    };
    below.chunks(2).map(of_pair).collect()
}

/// Returns the root of all rows from `first_row` on, with one commitment each; there is at least one.
pub fn root(first_row: u64, commitments: &[Commitment]) -> RowHash {
    let mut level = leaves(first_row, commitments);
    while level.len() > 1 {
        level = level_above(&level);
    }
    level[0]
}

/// Returns the root of a tree over the rows `bound`, of which `rows` have `commitments` and the others are in `path`;
/// `None` where these are too many or too few.
pub fn root_by_path(
    bound: RowRange,
    rows: RowRange,
    commitments: &[Commitment],
    path: &[RowHash],
) -> Option<RowHash> {
    if !bound.contains(&rows) || commitments.len() as u64 != rows.len() {
        return None;
    }
    let mut climb = Climb { rows, commitments, path: path.iter() };
    let root = climb.root(bound.as_range())?;
    climb.path.next().is_none().then_some(root)
}

struct Climb<'a> {
    rows: RowRange,
    commitments: &'a [Commitment],
    path: std::slice::Iter<'a, RowHash>,
}

impl Climb<'_> {
    fn root(&mut self, span: Range<u64>) -> Option<RowHash> {
        if span.end <= self.rows.start || self.rows.end <= span.start {
            return self.path.next().copied();
        }
        if span.end - span.start == 1 {
            return Some(leaf(span.start, &self.commitments[(span.start - self.rows.start) as usize]));
        }
        let middle = middle(&span);
        let left = self.root(span.start..middle)?;
        Some(node(&left, &self.root(middle..span.end)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn commitments(rows: u64) -> Vec<Commitment> {
        (0..rows).map(|row| Commitment::of_text(&format!("step {row}"))).collect()
    }

    /// RFC 6962, section 2.1, word for word: the hash of a list is that of its two halves.
    fn plain(first_row: u64, commitments: &[Commitment]) -> RowHash {
        let n = commitments.len();
        if n == 1 {
            let text = [&[0][..], &first_row.to_le_bytes(), &commitments[0].to_bytes()].concat();
            return Sha256::digest(text).into();
        }
        let k = (0..).map(|power| 1 << power).take_while(|k| *k < n).last().unwrap();
        let left = plain(first_row, &commitments[..k]);
        let right = plain(first_row + k as u64, &commitments[k..]);
        Sha256::digest([&[1][..], &left, &right].concat()).into()
    }

    proptest! {
        #[test]
        fn every_part_leads_to_the_plain_trees_root(
            first in 0..1u64 << 40, n in 1..70u64, from in 0..70u64, len in 1..70u64, flip in any::<(u8, u8)>(),
        ) {
            let all = commitments(n);
            let bound = RowRange { start: first, end: first + n };
            let start = from % n;
            let part = start..(start + len).min(n);
            let rows = RowRange { start: first + part.start, end: first + part.end };
            let own = &all[part.start as usize..part.end as usize];
            let expected = plain(first, &all);
            let tree = RowTree::new(first, &all);
            let path = tree.path(rows);
            prop_assert_eq!(root(first, &all), expected);
            prop_assert_eq!(root_by_path(bound, rows, own, &path), Some(expected));
            prop_assert!(path.len() <= 2 * 7, "{}", path.len());
            prop_assert_eq!(path.is_empty(), rows == bound);

            let mut other = own.to_vec();
            other[flip.0 as usize % own.len()].digest[0] ^= 1;
            prop_assert_ne!(root_by_path(bound, rows, &other, &path), Some(expected));
            let mut longer = path.clone();
            longer.push([0; 32]);
            prop_assert_eq!(root_by_path(bound, rows, own, &longer), None);
            if let Some(at) = path.len().checked_sub(1) {
                prop_assert_eq!(root_by_path(bound, rows, own, &path[..at]), None);
                let mut changed = path.clone();
                changed[flip.1 as usize % path.len()][0] ^= 1;
                prop_assert_ne!(root_by_path(bound, rows, own, &changed), Some(expected));
            }
            let moved = RowRange { start: rows.start + 1, end: rows.end + 1 };
            prop_assert_ne!(root_by_path(bound, moved, own, &path), Some(expected));
        }
    }

    /// Second preimages: the text of a node, taken for one of a row, has another hash, whatever the row.
    #[test]
    fn a_node_is_never_a_leaf() {
        let all = commitments(4);
        let tree = RowTree::new(0, &all);
        let [left, right] = [tree.levels[1][0], tree.levels[1][1]];
        assert_eq!(node(&left, &right), root(0, &all));
        // 64 bytes of two hashes can't be the 41 of a row and its commitment, and the first byte differs besides.
        let as_leaf: RowHash =
            Sha256::new().chain_update([0]).chain_update(left).chain_update(right).finalize().into();
        assert_ne!(as_leaf, root(0, &all));
        let one = leaf(7, &all[0]);
        let as_node: RowHash =
            Sha256::digest([&[1][..], &7u64.to_le_bytes(), &all[0].to_bytes()].concat()).into();
        assert_ne!(as_node, one);
        // Four rows' root is not that of two rows whose leaves are the nodes between.
        let two = RowRange { start: 0, end: 2 };
        assert_ne!(
            root_by_path(two, RowRange { start: 0, end: 1 }, &all[..1], &[right]),
            Some(root(0, &all))
        );
    }

    #[test]
    fn a_row_of_the_largest_call_has_a_short_path() {
        let all = commitments(65_536);
        let tree = RowTree::new(9, &all);
        let row = RowRange { start: 9 + 40_000, end: 9 + 40_001 };
        let path = tree.path(row);
        assert_eq!(path.len(), 16);
        let bound = RowRange { start: 9, end: 9 + 65_536 };
        assert_eq!(root_by_path(bound, row, &all[40_000..40_001], &path), Some(root(9, &all)));
    }
}
