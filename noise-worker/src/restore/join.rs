//! Pieces of checkpoints, put together to a shard.

use noise_kernel::Generator;
use proto::{CoordinateRange, Result, ServiceError};

use crate::{
    recipe::Recipe,
    row::{Row, Window},
};

/// A part of the shard as one stored object had it.
pub struct Piece {
    pub range: CoordinateRange,
    pub generator: Generator,
    /// Ends where the generator goes on.
    pub window: Window,
}

impl Piece {
    /// Goes on to `next_row` and has the rows from `start` on then. Gives how many of them were made: those before pass
    /// without memory of their own, however many they are.
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

/// Pieces in their order that stand at different rows are brought to the same one; rows that not all of them have are let
/// go, and drawn again if they are asked for.
pub fn join(mut pieces: Vec<Piece>, range: CoordinateRange, recipe: &Recipe) -> Result<(Generator, Window)> {
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
    let state: Vec<&[f32]> = pieces.iter().map(|piece| piece.generator.state()).collect();
    let generator = recipe.restore(range.as_range(), next_row, &state).map_err(ServiceError::internal)?;
    Ok((generator, Window::new(start, rows)))
}
