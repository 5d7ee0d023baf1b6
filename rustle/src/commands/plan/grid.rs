//! The flags that put a plan's noise on a grid of integers.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plan::{Grid, PlanSpec, Rounding, grid};

use crate::flag_of_field::of_flag;
use crate::streams;

const FLOATS: &str = "note: the plan's rows are floating-point numbers: its account is that of real ones, and does not hold \
                      against precision attacks (docs/grid.md). With --dimension M and --summing-error K, what your clipping \
                      and summing add to a norm, they are integers on a grid, where it holds bit for bit; --float takes \
                      floating-point numbers without this note";

fn rounding_parser() -> impl TypedValueParser<Value = Rounding> {
    let rounding = |name: String| Rounding::from_name(&name).ok_or("not the name of a rounding");
    PossibleValuesParser::new(Rounding::NAMES).try_map(rounding)
}

/// Whether rows are integers on a grid, and how sums come to it.
#[derive(Clone, Debug, Default, Args)]
pub struct GridArgs {
    /// Put the noise on a grid of integers, where the guarantee holds bit for bit; needs --dimension and, but for
    /// contributions, --summing-error. its rows are int32, and whatever asks for floats is refused [default: where
    /// --summing-error or --rounding is given]
    #[arg(long)]
    grid: bool,
    /// Make rows of floating-point numbers, which do not hold against precision attacks [default: without --grid,
    /// --summing-error and --rounding, with a note]
    #[arg(long, conflicts_with_all = ["grid", "rounding", "summing_error"])]
    float: bool,
    /// Rounding of the job's sums to the grid [default: nearest where it costs next to nothing, else dithered]
    #[arg(long, value_name = "ROUNDING", value_parser = rounding_parser())]
    pub rounding: Option<Rounding>,
    /// What the job's clipping and summing in floating point add to a contribution's norm, relative to the clip norm, such as
    /// 1.2e-4 for float32 sums of 32 records; you vouch for it
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub summing_error: Option<f64>,
}

impl GridArgs {
    /// Returns true where the plan is to be on a grid.
    pub fn is_on_grid(&self) -> bool {
        self.grid || self.rounding.is_some() || self.summing_error.is_some()
    }

    /// Says what floating-point rows do not keep, unless --float is given.
    pub fn note_floats(&self) {
        if !self.is_on_grid() && !self.float {
            streams::note(FLOATS);
        }
    }

    /// Chooses the grid of a plan; `None` for rows of floating-point numbers. Error: fields that no grid has (bad use).
    pub fn choose(&self, spec: &PlanSpec) -> anyhow::Result<Option<Grid>> {
        if !self.is_on_grid() {
            return Ok(None);
        }
        grid::choose(spec, self.rounding, self.summing_error).map(Some).map_err(of_flag)
    }
}
