//! Replays rows that have left the window, from the key. Rare, and correct at any price: a row costs all rows before it,
//! for the requested coordinates.

use std::sync::Arc;

use noise_kernel::{KernelError, RowGenerator};
use proto::{CoordinateRange, ServiceError};

use crate::{
    generation_spec::GenerationSpec, limits::Limits, metric_definitions::ROWS_REPLAYED, row_check::RowCheck,
    spans::kernel_span,
};

/// The memory of one replay in bytes: state and row of the coordinates drawn at once.
const BUDGET_BYTES: u64 = 8 << 20;

/// Returns the number of coordinates to draw at once, so that a replay never holds a second copy of a shard's state.
pub fn piece_len(spec: &GenerationSpec) -> u64 {
    let block = noise_kernel::BLOCK as u64;
    (BUDGET_BYTES / (4 * (spec.slots as u64 + 1)) / block).max(1) * block
}

/// Replays rows in order without starting over for each.
#[derive(Default)]
pub struct Replay {
    generator: Option<RowGenerator>,
}

impl Replay {
    /// Returns one row of a range of at most [`piece_len`] coordinates.
    pub async fn row(
        &mut self,
        spec: &GenerationSpec,
        limits: &Arc<Limits>,
        row: u64,
        range: CoordinateRange,
    ) -> Result<Vec<f32>, ServiceError> {
        let reusable = self.generator.take().filter(|g| g.next_row() <= row && g.range() == range.as_range());
        let generator = match reusable {
            Some(generator) => generator,
            None => fresh(spec, range).map_err(ServiceError::internal)?,
        };
        metrics::counter!(ROWS_REPLAYED).increment(row + 1 - generator.next_row());
        let checked = limits.clone();
        let made = limits.pool.run(move || {
            let rows = row + 1 - generator.next_row();
            let _within = kernel_span("replayed", rows, range.len()).entered();
            draw(generator, row, range.len() as usize, &checked.row_check)
        });
        let (generator, values) = made.await.map_err(ServiceError::internal)??;
        self.generator = Some(generator);
        Ok(values)
    }
}

/// Returns a generator that draws past normals again, block by block on each thread, and does not keep them.
fn fresh(spec: &GenerationSpec, range: CoordinateRange) -> Result<RowGenerator, KernelError> {
    spec.generator(range.as_range())?.redrawing()
}

fn draw(
    mut generator: RowGenerator,
    row: u64,
    len: usize,
    row_check: &RowCheck,
) -> Result<(RowGenerator, Vec<f32>), ServiceError> {
    let mut values = vec![0f32; len];
    let between = row - generator.next_row();
    generator.skip(between).map_err(ServiceError::internal)?;
    row_check.generate(&mut generator, &mut [&mut values])?;
    Ok((generator, values))
}
