//! The per-round squared errors of a banded strategy for prefix sums, in O(n·p²).
//!
//! With D = A⁻¹ the first difference, L = C·D has p sub-diagonals and B = A·C⁻¹ = L⁻¹. The covariance
//! S = BBᵀ satisfies L·S = L⁻ᵀ, so a window of the last p rows of S gives the next row.

use ndarray::Array2;

use crate::banded::Banded;
use crate::workload::InverseBands;

/// Row i of L = C·D as (diagonal, [L[i,i−1], L[i,i−2], …]), nearest first.
pub(crate) fn difference_row(c: &Banded, d: &InverseBands, i: usize) -> (f64, Vec<f64>) {
    let reach = i.min(c.bands() - 1 + d.reach());
    let entry = |j: usize| (j..=i.min(j + 2)).map(|m| c.entry(i, m) * d.row(m)[m - j]).sum::<f64>();
    (entry(i), (1..=reach).map(|back| entry(i - back)).collect())
}

/// A square window of S for the rows i−1, i−2, …, nearest first, in a ring so that moving on copies nothing.
pub(crate) struct Window {
    size: usize,
    data: Vec<f64>,
}

impl Window {
    pub fn new(size: usize) -> Self {
        Self { size, data: vec![0.0; size * size] }
    }

    /// Stores S[i, i−back] for back = 0, 1, …, in both triangles.
    pub fn set_row(&mut self, i: usize, values: &[f64]) {
        for (back, value) in values.iter().enumerate().take(self.size) {
            let j = (i - back) % self.size;
            self.data[(i % self.size) * self.size + j] = *value;
            self.data[j * self.size + i % self.size] = *value;
        }
    }

    /// v = W·l over the rows i−1, i−2, …, nearest first.
    pub fn times(&self, i: usize, l: &[f64]) -> Vec<f64> {
        (1..=l.len())
            .map(|a| {
                let row = &self.data[((i - a) % self.size) * self.size..][..self.size];
                l.iter().enumerate().map(|(b, l)| l * row[(i - 1 - b) % self.size]).sum()
            })
            .collect()
    }
}

/// S[i, i], S[i, i−1], … from the window of the rows before: (diagonal and off-diagonals, nearest first).
pub(crate) fn next_row(window: &Window, c: &Banded, d: &InverseBands, i: usize) -> Vec<f64> {
    let (d, l) = difference_row(c, d, i);
    let v = window.times(i, &l);
    let own = (1.0 + l.iter().zip(&v).map(|(l, v)| l * v).sum::<f64>()) / (d * d);
    std::iter::once(own).chain(v.iter().map(|v| -v / d)).collect()
}

/// Σ_j B[i,j]² for each of the first `rounds` rounds.
pub(crate) fn row_errors(c: &Banded, d: &InverseBands, rounds: usize) -> Vec<f64> {
    let mut window = Window::new(c.bands() - 1 + d.reach());
    (0..rounds)
        .map(|i| {
            let row = next_row(&window, c, d, i);
            window.set_row(i, &row);
            row[0]
        })
        .collect()
}

/// (RmsError², its gradient by the entries of `columns`, shape (n, p)); O(n·p²), by the reverse pass of the
/// recursion. The windows of the way back are read from the stored band of S, n·(p+1) numbers.
pub(crate) fn error_gradient(c: &Banded) -> (f64, Array2<f64>) {
    let n = c.iterations();
    let band = stored_band(c);
    let total: f64 = band.iter().map(|row| row[0]).sum();
    let mut adjoint: Vec<Vec<f64>> = band.iter().map(|row| vec![0.0; row.len()]).collect();
    adjoint.iter_mut().for_each(|row| row[0] = 1.0 / n as f64);
    let mut gradient = Array2::zeros(c.columns().dim());
    for i in (0..n).rev() {
        let own = std::mem::take(&mut adjoint[i]);
        reverse_row(c, i, &band, &own, &mut adjoint, &mut gradient);
    }
    (total / n as f64, gradient)
}

/// S[i, i−back] for back = 0…min(i, p), for every row.
fn stored_band(c: &Banded) -> Vec<Vec<f64>> {
    let mut window = Window::new(c.bands());
    (0..c.iterations())
        .map(|i| {
            let row = next_row(&window, c, &InverseBands::Difference, i);
            window.set_row(i, &row);
            row
        })
        .collect()
}

/// The reverse of one [`next_row`]: `own` holds the adjoints of S[i, i−back]; those of earlier entries of S
/// and of C are added to `adjoint` and `gradient`.
fn reverse_row(
    c: &Banded,
    i: usize,
    band: &[Vec<f64>],
    own: &[f64],
    adjoint: &mut [Vec<f64>],
    gradient: &mut Array2<f64>,
) {
    let (d, l) = difference_row(c, &InverseBands::Difference, i);
    let (g_s, g_n) = (own[0], &own[1..]);
    let row = &band[i];
    let new_dot: f64 = row[1..].iter().zip(g_n).map(|(new, g)| new * g).sum();
    let mut g_l: Vec<f64> = row[1..].iter().map(|new| -2.0 * g_s * new / d).collect();
    let outer: Vec<f64> = l.iter().zip(g_n).map(|(l, g)| g_s * l / (d * d) - g / d).collect();
    for a in 0..l.len() {
        let stored = &band[i - 1 - a];
        let target = &mut adjoint[i - 1 - a];
        g_l[a] -= stored[0] * g_n[a] / d;
        target[0] += outer[a] * l[a];
        // S[i−1−a, i−1−b] for b > a is stored once and stands for both triangles.
        for b in a + 1..l.len() {
            let s = stored[b - a];
            g_l[a] -= s * g_n[b] / d;
            g_l[b] -= s * g_n[a] / d;
            target[b - a] += outer[a] * l[b] + outer[b] * l[a];
        }
    }
    let mut add = |column: usize, value: f64| {
        if i - column < c.bands() {
            gradient[[column, i - column]] += value;
        }
    };
    add(i, -2.0 * row[0] * g_s / d - new_dot / d);
    for (a, g) in g_l.iter().enumerate() {
        // L[i, j] = C[i, j] − C[i, j+1] with j = i−1−a.
        add(i - 1 - a, *g);
        add(i - a, -g);
    }
}
