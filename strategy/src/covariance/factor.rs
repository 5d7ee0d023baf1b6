//! Rows of L = C·D from the columns of C, and the way back for gradients.

use super::ring::LANES;
use crate::workload::InverseBands;

/// The shape of C with the diagonals of D.
pub(super) struct Factor {
    bands: usize,
    ring: usize,
    /// D[m, m−r] at `ring` + m, zeros before.
    d: [Vec<f64>; 3],
}

/// One row of L, with the memory to make it.
pub(super) struct Row {
    /// L[i, i].
    pub diagonal: f64,
    /// L[i, j] for the `ring` rounds j before i, at j mod `ring`.
    pub off: Vec<f64>,
    /// C[i, i−ring…i] and two zeros.
    c: Vec<f64>,
    /// Two zeros and L[i, i−ring…i], or its adjoint.
    l: Vec<f64>,
}

impl Row {
    pub fn new(ring: usize) -> Self {
        Self { diagonal: 0.0, off: vec![0.0; ring], c: vec![0.0; ring + 3], l: vec![0.0; ring + 3] }
    }
}

impl Factor {
    pub fn new(d: &InverseBands, rounds: usize, bands: usize) -> Self {
        let ring = (bands - 1 + d.reach()).next_multiple_of(LANES);
        let mut diagonals = [(); 3].map(|()| vec![0.0; ring]);
        for m in 0..rounds {
            diagonals.iter_mut().zip(d.row(m)).for_each(|(diagonal, value)| diagonal.push(value));
        }
        diagonals.iter_mut().for_each(|diagonal| diagonal.extend([0.0; 2]));
        Self { bands, ring, d: diagonals }
    }

    /// The number of earlier rounds that a row of L reaches, rounded up to whole lanes.
    pub fn ring(&self) -> usize {
        self.ring
    }

    /// Row `i` of L for `columns`, shape (n, p) in standard layout.
    pub fn row(&self, columns: &[f64], i: usize, row: &mut Row) {
        let ring = self.ring;
        let p = self.bands;
        row.c.fill(0.0);
        for m in (i + 1).saturating_sub(p)..=i {
            row.c[ring + m - i] = columns[m * p + i - m];
        }
        let c0 = &row.c[..=ring];
        let c1 = &row.c[1..ring + 2];
        let c2 = &row.c[2..ring + 3];
        let [d0, d1, d2] = &self.d;
        let d0 = &d0[i..=i + ring];
        let d1 = &d1[i + 1..][..=ring];
        let d2 = &d2[i + 2..][..=ring];
        let l = &mut row.l[2..ring + 3];
        for k in 0..=ring {
            l[k] = c0[k] * d0[k] + c1[k] * d1[k] + c2[k] * d2[k];
        }
        row.diagonal = l[ring];
        // Round i−ring is at the place of i.
        let at = i % ring;
        let before = ring - i % ring;
        row.off[at..].copy_from_slice(&l[..before]);
        row.off[..at].copy_from_slice(&l[before..ring]);
    }

    /// Writes the gradient by the entries of C in row `i` from that by L[i, i] and by L[i, ·], the latter in the
    /// order of [`Row::off`].
    pub fn scatter(&self, i: usize, by_diagonal: f64, by_off: &[f64], row: &mut Row, gradient: &mut [f64]) {
        let ring = self.ring;
        let p = self.bands;
        let at = i % self.ring;
        row.l[2..2 + ring - at].copy_from_slice(&by_off[at..]);
        row.l[2 + ring - at..2 + ring].copy_from_slice(&by_off[..at]);
        row.l[2 + ring] = by_diagonal;
        row.l[..2].fill(0.0);
        let [d0, d1, d2] = &self.d;
        for m in (i + 1).saturating_sub(p)..=i {
            let k = 2 + ring + m - i;
            let own = ring + m;
            gradient[m * p + i - m] = row.l[k] * d0[own] + row.l[k - 1] * d1[own] + row.l[k - 2] * d2[own];
        }
    }
}
