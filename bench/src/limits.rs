//! What this machine could do at best: copying memory, and drawing keystream by the reference implementation.

use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// Bytes copied a second (each counted once), all threads of the current pool, from and to memory.
pub fn copy_bandwidth() -> f64 {
    const FLOATS: usize = 1 << 26;
    let from = vec![1f32; FLOATS];
    let mut to = vec![0f32; FLOATS];
    // The first copy touches the pages, which costs far more than copying does.
    copy(&from, &mut to);
    let started = Instant::now();
    copy(&from, &mut to);
    let seconds = started.elapsed().as_secs_f64();
    std::hint::black_box(&to);
    (FLOATS * 4) as f64 / seconds
}

fn copy(from: &[f32], to: &mut [f32]) {
    to.par_chunks_mut(1 << 16).zip(from.par_chunks(1 << 16)).for_each(|(to, from)| to.copy_from_slice(from));
}

/// Bytes of ChaCha20 keystream a second by `rand_chacha`, on one core.
pub fn reference_keystream() -> f64 {
    let mut stream = ChaCha20Rng::from_seed([7; 32]);
    let mut buffer = vec![0u8; 1 << 26];
    let started = Instant::now();
    stream.fill_bytes(&mut buffer);
    let seconds = started.elapsed().as_secs_f64();
    std::hint::black_box(&buffer);
    buffer.len() as f64 / seconds
}
