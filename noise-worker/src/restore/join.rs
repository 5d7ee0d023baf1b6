//! Joins pieces of checkpoints to a shard.

use noise_kernel::RowGenerator;
use proto::{CoordinateRange, Result, ServiceError};

use crate::{
    generation_spec::GenerationSpec,
    shard::row::{Row, Window},
};

/// A part of the shard, as one stored object has it.
pub struct Piece {
    pub range: CoordinateRange,
    pub generator: RowGenerator,
    /// Ends at the row that the generator makes next.
    pub window: Window,
}

impl Piece {
    /// Generates up to `next_row`, and keeps the rows from `start` on. Returns how many of them were generated: those before
    /// `start` are passed over without memory of their own.
    pub fn catch_up(&mut self, start: u64, next_row: u64) -> Result<u64> {
        self.window.forget_below(start);
        let behind = start.saturating_sub(self.generator.next_row());
        self.generator.skip(behind).map_err(ServiceError::internal)?;
        let made = next_row - self.generator.next_row();
        for _ in 0..made {
            let mut row = vec![0f32; self.range.len() as usize];
            self.generator.generate(&mut [&mut row]).map_err(ServiceError::internal)?;
            self.window.push(Row::new(row));
        }
        Ok(made)
    }
}

/// Joins pieces in order. Those at different rows are brought to the same one; rows that not all of them have are dropped,
/// and replayed on request.
pub fn join(
    mut pieces: Vec<Piece>,
    range: CoordinateRange,
    spec: &GenerationSpec,
) -> Result<(RowGenerator, Window)> {
    if pieces.len() == 1
        && let Some(Piece { generator, window, .. }) = pieces.pop()
    {
        return Ok((generator, window));
    }
    let next_row = pieces.iter().map(|piece| piece.generator.next_row()).max().unwrap_or(0);
    let start = pieces.iter().map(|piece| piece.window.start()).max().unwrap_or(next_row);
    for piece in &mut pieces {
        piece.catch_up(start, next_row)?;
    }
    let mut rows = Vec::new();
    for row in start..next_row {
        let parts = pieces.iter().filter_map(|piece| piece.window.get(row));
        rows.push(Row::new(parts.flat_map(|part| part.values()).copied().collect()));
        pieces.iter_mut().for_each(|piece| piece.window.forget_below(row + 1));
    }
    let state = pieces.iter().map(|piece| piece.generator.state()).collect::<Result<Vec<_>, _>>();
    let state = state.map_err(ServiceError::internal)?;
    let state: Vec<&[f32]> = state.iter().map(|words| &words[..]).collect();
    let generator = spec.restore(range.as_range(), next_row, &state).map_err(ServiceError::internal)?;
    Ok((generator, Window::new(start, rows)))
}
