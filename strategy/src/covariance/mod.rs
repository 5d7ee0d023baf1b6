//! The per-round squared errors of a banded strategy where A⁻¹ is banded too, and their gradient; O(n·q²).
//!
//! With D = A⁻¹, L = C·D has q = p−1+reach sub-diagonals and B = A·C⁻¹ = L⁻¹. The covariance S = BBᵀ satisfies
//! L·S = L⁻ᵀ, so the next row follows from a window of the last q rows of S: with d = L[i, i], l = L[i, i−q…i−1] and
//! W the window, v = W·l, S[i, i−q…i−1] = −v/d and S[i, i] = (1 + l·v)/d². The reverse pass needs nothing but
//! the band of S, n·q numbers.

mod factor;
mod ring;
#[cfg(test)]
mod tests;

use ndarray::ArrayView2;

use crate::numeric::dot;
use crate::workload::InverseBands;
use factor::{Factor, Row};
use ring::Ring;

/// Σ_j B[i,j]² for each of the first `rounds` rounds; O(q²) memory beside the result.
pub(crate) fn row_errors(columns: ArrayView2<'_, f64>, d: &InverseBands, rounds: usize) -> Vec<f64> {
    let factor = Factor::new(d, rounds, columns.ncols());
    let mut window = Ring::new(factor.ring());
    let columns = columns.to_slice().unwrap_or_default();
    let mut errors = Vec::with_capacity(rounds);
    forward(&factor, columns, rounds, &mut window, |error, _| errors.push(error));
    errors
}

/// Errors and gradients of strategies of one shape; its memory, n·q numbers, is used again for each of them.
pub(crate) struct Covariance {
    factor: Factor,
    rounds: usize,
    /// Rows n−q…n−1 of S.
    window: Ring,
    /// S[i, i].
    errors: Vec<f64>,
    /// Row i: S[i, i−q…i−1], the column j at j mod q.
    band: Vec<f64>,
}

impl Covariance {
    /// The errors of strategies with `bands` numbers in each of `rounds` columns.
    pub fn new(d: &InverseBands, rounds: usize, bands: usize) -> Self {
        let factor = Factor::new(d, rounds, bands);
        let size = factor.ring();
        let band = vec![0.0; rounds * size];
        Self { factor, rounds, window: Ring::new(size), errors: vec![0.0; rounds], band }
    }

    /// Σ_j B[i,j]² of every row for `columns`, shape (n, p) in standard layout.
    pub fn errors(&mut self, columns: &[f64]) -> &[f64] {
        let size = self.factor.ring();
        self.window.clear();
        let mut slots = self.errors.iter_mut().zip(self.band.chunks_exact_mut(size));
        forward(&self.factor, columns, self.rounds, &mut self.window, |error, row| {
            if let Some((slot, band)) = slots.next() {
                *slot = error;
                band.copy_from_slice(row);
            }
        });
        &self.errors
    }

    /// Writes the gradient of Σ_t weights[t]·S[t,t] by `columns`, those of the last call of [`Self::errors`]; zero for
    /// entries below row n−1.
    ///
    /// This is the reverse pass of `forward`. A bar marks the derivative of the sum by a number, G that by the entries
    /// of the window (its lower half is kept). From the last round to the first:
    ///
    /// ```text
    /// W  ← the window that round i read, rows i−q…i−1 of S      (shifted back by one row, from the band)
    /// r̄, ē ← row i of G, twice its entries off the diagonal; ē ← ē + weights[i]
    /// v̄  = (ē·l/d − r̄)/d                  from  S[i, ·] = −v/d  and  S[i, i] = (1 + l·v)/d²
    /// l̄  = −(W·r̄ + 2ē·S[i, ·])/d          since v = W·l, and −v/d is the row itself
    /// d̄  = −(2ē·S[i, i] + r̄·S[i, ·])/d
    /// G  ← G + ½(v̄·lᵀ + l·v̄ᵀ)             since v = W·l and W is symmetric
    /// C̄[i, ·] ← (l̄, d̄) through L = C·D    (`Factor::scatter`)
    /// ```
    ///
    /// Each round costs O(q²), as it does forwards, and no window is stored: the band of S has all that W needs.
    pub fn gradient(&mut self, columns: &[f64], weights: &[f64], gradient: &mut [f64]) {
        gradient.fill(0.0);
        let size = self.factor.ring();
        let mut row = Row::new(size);
        let mut adjoint = Ring::new(size);
        let mut own = vec![0.0; size];
        let mut outer = vec![0.0; size];
        let mut by_l = vec![0.0; size];
        for i in (0..self.rounds).rev() {
            let at = i % size;
            self.window_before(i, &mut outer);
            self.factor.row(columns, i, &mut row);
            let l = &row.off;
            let new = &self.band[i * size..][..size];
            let scale = 1.0 / row.diagonal;
            // Entries off the diagonal stand for both triangles; S[i, i−q] is in no later window.
            adjoint.take_half_row(at, &mut own);
            let by_error = own[at] + weights[i];
            own[at] = 0.0;
            own.iter_mut().for_each(|g| *g *= 2.0);
            self.window.times(&own, &mut by_l);
            let by_d = -scale * (2.0 * self.errors[i] * by_error + dot(new, &own));
            for k in 0..size {
                by_l[k] = -scale * (by_l[k] + 2.0 * by_error * new[k]);
                outer[k] = 0.5 * scale * (by_error * scale * l[k] - own[k]);
            }
            adjoint.add_to_half(&outer, l);
            self.factor.scatter(i, by_d, &by_l, &mut row, gradient);
        }
    }

    /// Turns the window of rows i−q+1…i into that of rows i−q…i−1; `row` is overwritten.
    fn window_before(&mut self, i: usize, row: &mut [f64]) {
        let size = self.factor.ring();
        let at = i % size;
        row.fill(0.0);
        if let Some(first) = i.checked_sub(size) {
            row[at] = self.errors[first];
            // Rounds first+1… are at at+1…, then from 0 on.
            let later = self.band[first * size..i * size].chunks_exact(size).skip(1);
            (at + 1..size).chain(0..at).zip(later).for_each(|(k, entries)| row[k] = entries[at]);
        }
        self.window.replace(at, row);
    }
}

/// Passes S[i, i] and S[i, i−q…i−1] of each round to `keep`.
fn forward(
    factor: &Factor,
    columns: &[f64],
    rounds: usize,
    window: &mut Ring,
    mut keep: impl FnMut(f64, &[f64]),
) {
    let size = factor.ring();
    let mut row = Row::new(size);
    let mut new = vec![0.0; size];
    for i in 0..rounds {
        factor.row(columns, i, &mut row);
        window.times(&row.off, &mut new);
        let error = (1.0 + dot(&row.off, &new)) / (row.diagonal * row.diagonal);
        let scale = -1.0 / row.diagonal;
        new.iter_mut().for_each(|v| *v *= scale);
        keep(error, &new);
        new[i % size] = error;
        window.replace(i % size, &new);
    }
}
