//! A symmetric matrix over the last q rounds, round i at i mod q, so that moving on by a round replaces one row
//! and one column. All inner loops run over slices whose length is a multiple of [`LANES`].

/// Sizes are multiples of this many numbers.
pub(super) const LANES: usize = 4;

pub(super) struct Ring {
    size: usize,
    data: Vec<f64>,
}

impl Ring {
    /// Zeros; `size` is a multiple of [`LANES`].
    pub fn new(size: usize) -> Self {
        Self { size, data: vec![0.0; size * size] }
    }

    pub fn clear(&mut self) {
        self.data.fill(0.0);
    }

    /// Writes one row and the same column.
    pub fn replace(&mut self, at: usize, values: &[f64]) {
        for (row, value) in self.data.chunks_exact_mut(self.size).zip(values) {
            row[at] = *value;
        }
        self.data[at * self.size..][..self.size].copy_from_slice(values);
    }

    /// out = M·x. Sums over rows, several columns at once, so that no sum is split.
    pub fn times(&self, x: &[f64], out: &mut [f64]) {
        let mut from = 0;
        while self.size - from >= 16 {
            self.columns_times::<16>(x, from, out);
            from += 16;
        }
        while self.size - from >= 8 {
            self.columns_times::<8>(x, from, out);
            from += 8;
        }
        while from < self.size {
            self.columns_times::<LANES>(x, from, out);
            from += LANES;
        }
    }

    #[inline(always)]
    fn columns_times<const N: usize>(&self, x: &[f64], from: usize, out: &mut [f64]) {
        let mut sums = [0.0; N];
        for (row, x) in self.data.chunks_exact(self.size).zip(x) {
            if let Some(row) = row[from..].first_chunk::<N>() {
                for k in 0..N {
                    sums[k] += x * row[k];
                }
            }
        }
        out[from..from + N].copy_from_slice(&sums);
    }

    /// M += u·vᵀ + v·uᵀ in the lower half. What this leaves above the diagonal is never read.
    pub fn add_to_half(&mut self, u: &[f64], v: &[f64]) {
        let mut from = 0;
        while self.size - from >= 8 {
            self.add_to_columns::<8>(u, v, from);
            from += 8;
        }
        while from < self.size {
            self.add_to_columns::<LANES>(u, v, from);
            from += LANES;
        }
    }

    #[inline(always)]
    fn add_to_columns<const N: usize>(&mut self, u: &[f64], v: &[f64], from: usize) {
        let (Some(u_here), Some(v_here)) = (u[from..].first_chunk::<N>(), v[from..].first_chunk::<N>())
        else {
            return;
        };
        let rows = self.data.chunks_exact_mut(self.size).zip(u).zip(v).skip(from);
        for ((row, u), v) in rows {
            if let Some(row) = row[from..].first_chunk_mut::<N>() {
                for k in 0..N {
                    row[k] += u * v_here[k] + v * u_here[k];
                }
            }
        }
    }

    /// Moves a row out of a matrix whose lower half alone is kept, leaving zeros.
    pub fn take_half_row(&mut self, at: usize, out: &mut [f64]) {
        let own = &mut self.data[at * self.size..][..=at];
        out[..=at].copy_from_slice(own);
        own.fill(0.0);
        let below = self.data.chunks_exact_mut(self.size).zip(out).skip(at + 1);
        below.for_each(|(row, out)| *out = std::mem::take(&mut row[at]));
    }
}
