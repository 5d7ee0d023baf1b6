//! The arithmetic that the guarantee holds in.

use super::{Block, number, power};
use crate::grid_facts::GridFacts;
use crate::statement::Statement;

pub(super) fn blocks(statement: &Statement) -> Vec<Block> {
    let Some(grid) = &statement.grid else {
        return vec![Block::point(
            "Floating-point noise",
            "Rows are floating-point noise and are added in floating point, which the account above does not describe: it \
             is that of real numbers. The guarantee does not hold against precision attacks, by someone who knows \
             candidate sums and sees noised ones bit for bit (SECURITY.md).",
        )];
    };
    vec![
        Block::point("Grid", on_the_grid(grid)),
        Block::point("Rounding of sums", rounding(grid)),
        Block::point("Summing error", summing_error(grid)),
        Block::point("Guarantee in this arithmetic", guarantee(grid)),
        Block::point("Failures", failures(grid, statement)),
    ]
}

fn on_the_grid(grid: &GridFacts) -> String {
    format!(
        "Noise and sums are integers times 2^{}; the noise's deviation is {} of these steps. Figures are for the clip norm \
         ζ′ = {} and the noise multiplier {} beside it.",
        grid.step, grid.deviation, grid.clip_norm_accounted, grid.noise_multiplier_accounted
    )
}

fn rounding(grid: &GridFacts) -> String {
    let name = grid.rounding;
    let bound = match name {
        "nearest" => "each integer moves by at most one step more than what it was rounded from",
        "dithered" => {
            "a number that is uniform, fresh in every coordinate and round, and unknown until the round is over is added \
             before rounding down"
        }
        _ => {
            "each contribution is clipped, rounded and its integer norm checked before it is summed, in integers"
        }
    };
    format!("{name}: {bound}. ζ′ has room for it. The job must round so, and add integers.")
}

fn summing_error(grid: &GridFacts) -> String {
    if grid.rounding == "contributions" {
        return "0: sums of integers are exact.".to_owned();
    }
    format!(
        "κ = {}: what clipping and summing in floating point add to a contribution's norm, relative to the clip norm. Nothing \
         here can see how a job sums: the job vouches for it.",
        grid.summing_error
    )
}

fn guarantee(grid: &GridFacts) -> String {
    if grid.exact {
        return "What is released is exact post-processing of the stated Gaussian mechanism (theorem 1 of docs/grid.md), bit \
                for bit."
            .to_owned();
    }
    format!(
        "What is released is close to the stated Gaussian mechanism (theorem 2 of docs/grid.md): the feedback of a BLT, in \
         binary64, is off by at most η = {} steps in each coordinate and row, for which {} is added to the sensitivity.",
        number(grid.feedback_error),
        number(grid.sensitivity_added)
    )
}

fn failures(grid: &GridFacts, statement: &Statement) -> String {
    let is_of_sweep = statement.job.as_ref().is_some_and(|job| job.sweep.is_some());
    let of_sweep = if is_of_sweep {
        " The account of the sweep that this job is a run of has room for as many times these as there are runs on average."
    } else {
        ""
    };
    format!(
        "A row leaves 32 bits with a probability of at most {}, a buffer its bound with {}, dither its bound with {}; δ has \
         room for each, times 1 + e^ε.{of_sweep}",
        power(grid.range_failure),
        power(grid.buffer_failure),
        power(grid.rounding_failure)
    )
}
