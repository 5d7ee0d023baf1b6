//! What this machine could do at best: copying memory, drawing keystream, drawing normals in cache.

use std::time::{Duration, Instant};

use noise_kernel::{Backend, JobKey, NoiseContext, Rounds, Stream};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use crate::cases::Case;
use crate::job::Job;
use crate::memory;

/// Coordinates a thread draws in cache, and rows at once: 384 KiB of output a thread.
const CACHED: u64 = 96 * 512;
const CACHED_ROWS: usize = 2;

/// Measures the limits again and again, beside whatever else is measured. Holds buffers far larger than the
/// last-level cache, touched by the threads of the current pool.
pub struct Limits {
    from: Vec<f32>,
    to: Vec<f32>,
    identity: Job,
    time: Duration,
}

/// The limits at one time, all threads.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Bytes copied a second, each counted once.
    pub copied: f64,
    /// Coordinates a second of `identity`, in cache.
    pub identity: f64,
}

impl Moment {
    /// Bytes read and written a second: copying does both.
    pub fn traffic(&self) -> f64 {
        2.0 * self.copied
    }
}

impl Limits {
    /// `short`: buffers just past the last-level cache and short measurements.
    pub fn new(backend: Backend, short: bool) -> anyhow::Result<Self> {
        let cache = memory::last_level_cache();
        let bytes = if short { cache } else { (4 * cache).max(256 << 20) };
        let mut from = vec![0f32; bytes as usize / 4];
        let mut to = vec![0f32; bytes as usize / 4];
        // Memory that was never written is one page of zeros: reading it would say nothing.
        from.par_iter_mut().for_each(|value| *value = 1.0);
        copy(&from, &mut to);
        let case: Case = "identity".parse().map_err(anyhow::Error::msg)?;
        let width = CACHED * rayon::current_num_threads() as u64;
        let identity = Job::new(&case, 0..width, CACHED_ROWS, backend)?;
        Ok(Self { from, to, identity, time: Duration::from_millis(if short { 4 } else { 30 }) })
    }

    pub fn measure(&mut self) -> anyhow::Result<Moment> {
        let started = Instant::now();
        copy(&self.from, &mut self.to);
        let copied = size_of_val(self.from.as_slice()) as f64 / started.elapsed().as_secs_f64();
        std::hint::black_box(&self.to);
        Ok(Moment { copied, identity: self.identity.rate(self.time)? })
    }
}

/// One long piece a thread, so that the C library may pick the stores it has for long copies.
fn copy(from: &[f32], to: &mut [f32]) {
    let piece = from.len().div_ceil(rayon::current_num_threads());
    to.par_chunks_mut(piece).zip(from.par_chunks(piece)).for_each(|(to, from)| to.copy_from_slice(from));
}

/// A keystream to hold others against: its name, and bytes a second on one core.
pub type Keystream = (&'static str, fn(Duration) -> anyhow::Result<f64>);

/// The keystreams of this build.
pub const KEYSTREAMS: [Keystream; 2] = [("rand_chacha ChaCha20", rand_chacha), ("Rustle ChaCha20", ours)];

/// On the best instruction set.
fn ours(time: Duration) -> anyhow::Result<f64> {
    let any = [7; 32];
    let context = NoiseContext { job_nonce: any, plan_digest: any, dimension: 1, layout_digest: any };
    let branch = JobKey::from_bytes(&any)?.branch(&context, &any);
    let stream = Stream::new(&branch, Rounds::Twenty);
    let mut words = [[0f32; 16]; 16];
    let mut block = 0;
    Ok(bytes_a_second(time, || {
        stream.keystream(0, block, &mut words);
        block += 16;
        std::hint::black_box(&words);
        size_of_val(&words)
    }))
}

fn rand_chacha(time: Duration) -> anyhow::Result<f64> {
    let mut stream = ChaCha20Rng::from_seed([7; 32]);
    let mut buffer = vec![0u8; 1 << 14];
    Ok(bytes_a_second(time, || {
        stream.fill_bytes(&mut buffer);
        std::hint::black_box(&buffer);
        buffer.len()
    }))
}

/// `draw` returns how many bytes it drew.
fn bytes_a_second(time: Duration, mut draw: impl FnMut() -> usize) -> f64 {
    // The first time pays for what is made once.
    draw();
    let started = Instant::now();
    let mut bytes = 0;
    while started.elapsed() < time {
        // A look at the clock costs as much as a few hundred bytes.
        bytes += (0..64).map(|_| draw()).sum::<usize>();
    }
    bytes as f64 / started.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_what_is_read_and_what_is_written() {
        assert_eq!(Moment { copied: 3.0, identity: 1.0 }.traffic(), 6.0);
    }

    #[test]
    fn everything_is_copied() {
        let from: Vec<f32> = (0..1001).map(|i| i as f32).collect();
        let mut to = vec![0f32; from.len()];
        copy(&from, &mut to);
        assert_eq!(from, to);
    }
}
