//! Past normals of an inverse mechanism: kept, or drawn again.
//!
//! Both ways produce the same bits. Kept normals are a cache beside the state: no checkpoint holds them, and they are
//! drawn again where they are missing.

use crate::block::{BLOCK, ZERO_BLOCK};
use crate::memory::Buffer;
use crate::{BranchKey, Stream};
use plan::{Coefficients, Inverse};
use std::sync::OnceLock;
use std::time::Instant;

/// The treatment of past normals, which an inverse mechanism looks back at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// Keep them where that costs less than drawing them again, as measured on this machine, and where they fit a
    /// limit.
    Auto {
        /// Most bytes of kept normals.
        limit_bytes: u64,
    },
    /// Keep them.
    Keep,
    /// Draw them again. Each thread holds those of one block of 512 coordinates while it works.
    #[default]
    Redraw,
}

impl History {
    /// Returns the rows to keep for each coordinate, 0 for none. `coordinates` are those of the whole blocks that the
    /// range touches.
    pub(crate) fn slots(
        self,
        stream: &Stream,
        coefficients: &Coefficients,
        iterations: u64,
        coordinates: u64,
        rows_at_once: u64,
    ) -> usize {
        let Coefficients::Inverse(inverse) = coefficients else { return 0 };
        let reach = match inverse {
            Inverse::Toeplitz { coefficients } => coefficients.len() as u64 - 1,
            Inverse::Dense { .. } => iterations - 1,
        };
        let reach = reach.min(iterations - 1);
        let keep = match self {
            History::Keep => true,
            History::Redraw => false,
            History::Auto { limit_bytes } => {
                let bytes = u128::from(reach) * u128::from(coordinates) * 4;
                bytes <= u128::from(limit_bytes)
                    && Costs::measured(stream).favour_keeping(reach, rows_at_once)
            }
        };
        if keep { usize::try_from(reach).unwrap_or(usize::MAX) } else { 0 }
    }
}

/// Normals that an inverse mechanism looks back at, as a banded state holds its rows: row t in slot t % slots.
pub(crate) struct PastNormals {
    pub slots: usize,
    pub values: Buffer,
    /// The row before which they are complete.
    pub next_row: u64,
}

/// Costs in seconds on one thread.
#[derive(Clone, Copy, Debug)]
struct Costs {
    draw_value: f64,
    move_byte: f64,
}

impl Costs {
    /// The costs, measured once in a process with a key of no job.
    fn measured(stream: &Stream) -> Self {
        static MEASURED: OnceLock<Costs> = OnceLock::new();
        *MEASURED.get_or_init(|| {
            let stream = stream.with_key(&BranchKey::from_array([0; 32]));
            let mut block = ZERO_BLOCK;
            let blocks = 1_024;
            let draw = best_of(5, || {
                (0..blocks).for_each(|number| stream.fill_block(0, number, &mut block));
            });
            // More than any cache that this thread would have to itself.
            let from = vec![1.0f32; 1 << 22];
            let mut to = vec![0.0f32; 1 << 22];
            let copy = best_of(5, || to.copy_from_slice(std::hint::black_box(&from)));
            Costs {
                draw_value: draw / (blocks * BLOCK as u64) as f64,
                move_byte: copy / (2 * size_of_val(from.as_slice())) as f64,
            }
        })
    }

    /// Returns whether keeping is cheaper for a row that looks back at `reach` others, while `rows_at_once` are made
    /// together.
    fn favour_keeping(self, reach: u64, rows_at_once: u64) -> bool {
        let reach = reach as f64;
        let together = rows_at_once as f64;
        let redraw = reach / together * self.draw_value;
        // All of the past is read and the new rows are written, once for all rows made together.
        let keep = 4.0 * (reach + together) / together * self.move_byte;
        keep < redraw
    }
}

fn best_of(times: usize, mut work: impl FnMut()) -> f64 {
    let timed = (0..times).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    });
    timed.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_way_is_chosen() {
        // A value drawn costs as much as 30 bytes moved.
        let costs = Costs { draw_value: 30e-10, move_byte: 1e-10 };
        assert!(costs.favour_keeping(1, 1) && costs.favour_keeping(400, 16));
        // One look back for many rows: drawing is a small part of a row's cost, writing all rows is not.
        assert!(!costs.favour_keeping(1, 16));
        let slow_memory = Costs { draw_value: 1e-10, move_byte: 1e-10 };
        assert!(!slow_memory.favour_keeping(7, 1));
    }
}
