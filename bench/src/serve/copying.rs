//! Copying memory: what no transport on one host can beat.

use std::time::Instant;

use rayon::prelude::*;

/// Far more than any cache: floats of the long copy.
const LONG: usize = 1 << 27;

pub struct Copying {
    row: (Vec<f32>, Vec<f32>),
    long: (Vec<f32>, Vec<f32>),
}

impl Copying {
    pub fn new(dimension: u64) -> Self {
        let buffers = |floats: usize| {
            let mut from = vec![0f32; floats];
            from.par_iter_mut().for_each(|value| *value = 1.0);
            (from.clone(), from)
        };
        Self { row: buffers(dimension as usize), long: buffers(LONG) }
    }

    /// Seconds to copy one row that was not used a moment ago, all threads.
    pub fn row(&mut self) -> f64 {
        // Displaces the row from cache: a row that was made ahead has long left it.
        copy(&self.long.0[..LONG / 4], &mut self.long.1[..LONG / 4]);
        let started = Instant::now();
        copy(&self.row.0, &mut self.row.1);
        started.elapsed().as_secs_f64()
    }

    /// Bytes copied a second, each counted once, all threads.
    pub fn bandwidth(&mut self) -> f64 {
        let started = Instant::now();
        copy(&self.long.0, &mut self.long.1);
        (LONG * 4) as f64 / started.elapsed().as_secs_f64()
    }
}

/// One long piece a thread, so that the C library may pick the stores it has for long copies.
fn copy(from: &[f32], to: &mut [f32]) {
    let piece = from.len().div_ceil(rayon::current_num_threads()).max(1);
    to.par_chunks_mut(piece).zip(from.par_chunks(piece)).for_each(|(to, from)| to.copy_from_slice(from));
    std::hint::black_box(to);
}
