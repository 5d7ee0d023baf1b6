//! The flags that say what a plan's rows are: integers on a grid, unless floats are requested.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plan::grid::NormType;
use plan::{Grid, Layout, Plan, PlanSpec, Rounding, grid};

use crate::flag_of_field::of_flag;
use crate::output::bad_use;
use crate::streams;

const FLOATS: &str = "warning: the plan's rows are floating-point numbers (--float): its account is that of real ones, and does \
                      not hold against precision attacks (docs/grid.md)";

/// What a plan on a grid lacks, and the ways out.
const NO_SUMMING_ERROR: &str = "nothing says what your clipping and summing add to a norm, which the account of rows on a grid \
                                depends on; allowed: --batch-size B, the records added in float32, or --summing-error K, or \
                                --rounding contributions, or --float for floating-point rows, whose account does not hold \
                                against precision attacks (docs/grid.md)";
const NO_DIMENSION: &str = "--dimension is missing; allowed: 1 or more, which the account of rows on a grid depends on, or \
                            --float for floating-point rows, whose account does not hold against precision attacks \
                            (docs/grid.md)";

fn rounding_parser() -> impl TypedValueParser<Value = Rounding> {
    let rounding = |name: String| Rounding::from_name(&name).ok_or("not the name of a rounding");
    PossibleValuesParser::new(Rounding::NAMES).try_map(rounding)
}

fn norm_parser() -> impl TypedValueParser<Value = NormType> {
    let norm = |name: String| NormType::from_name(&name).ok_or("not the name of a type");
    PossibleValuesParser::new(NormType::NAMES).try_map(norm)
}

/// Whether rows are integers on a grid, and how sums come to it.
#[derive(Clone, Debug, Default, Args)]
pub struct GridArgs {
    /// What is the case without --float, for scripts that say so
    #[arg(long, hide = true)]
    grid: bool,
    /// Make rows of floating-point numbers, which do not hold against precision attacks [default: int32 on a grid, where the
    /// guarantee holds bit for bit; it needs --dimension and --batch-size, --summing-error or --rounding contributions]
    #[arg(long, conflicts_with_all = ["grid", "rounding", "summing_error", "batch_size", "norm_dtype"])]
    float: bool,
    /// Rounding of the job's sums to the grid [default: nearest where it costs next to nothing, else dithered]
    #[arg(long, value_name = "ROUNDING", value_parser = rounding_parser())]
    rounding: Option<Rounding>,
    /// What the job's clipping and summing in floating point add to a contribution's norm, relative to the clip norm, such as
    /// 1.3e-4 for float32 sums of 32 records whose norms are accumulated in float64; you vouch for it [default: computed
    /// from --batch-size]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    summing_error: Option<f64>,
    /// Maximum number of clipped gradients that are added in float32 before their sum is rounded to the grid: of a batch, or of a
    /// micro-batch where integers are then added. --summing-error is computed from it and --dimension
    #[arg(long, value_name = "B", conflicts_with = "summing_error")]
    batch_size: Option<u64>,
    /// Type that squares are added in for a gradient's norm, with --batch-size: float64 costs far less, and is what
    /// rustle.torch.clipped_sum, rustle.keras and the Opacus engine add them in; float32 is for clipping of your own
    /// [default: float32]
    #[arg(long, value_name = "TYPE", value_parser = norm_parser(), requires = "batch_size")]
    norm_dtype: Option<NormType>,
}

/// What a grid is chosen from.
#[derive(Clone, Copy, Debug)]
pub struct GridChoice {
    pub rounding: Option<Rounding>,
    pub summing_error: Option<f64>,
}

impl GridArgs {
    /// Returns true where the plan is to be on a grid.
    pub fn is_on_grid(&self) -> bool {
        !self.float
    }

    /// Says what floating-point rows do not keep, of a plan that has them.
    pub fn note_floats(&self, plan: &Plan) {
        if plan.on_grid().is_none() {
            streams::note(FLOATS);
        }
    }

    /// Returns what the grid of a plan of so many coordinates is chosen from; `None` for rows of floating-point numbers. Error:
    /// what a grid needs is missing (bad use).
    pub fn choice(&self, dimension: Option<u64>) -> anyhow::Result<Option<GridChoice>> {
        if self.float {
            return Ok(None);
        }
        let dimension = dimension.ok_or_else(|| bad_use(NO_DIMENSION))?;
        let is_exact = self.rounding == Some(Rounding::Contributions);
        if let (true, Some(records)) = (is_exact, self.batch_size) {
            let text = format!(
                "--batch-size is {records}; allowed with --rounding contributions: none, as its sums are exact"
            );
            return Err(bad_use(text));
        }
        let norms = self.norm_dtype.unwrap_or(NormType::Float32);
        let computed = self.batch_size.map(|records| grid::summing_error(records, dimension, norms));
        let summing_error = self.summing_error.or(computed.transpose().map_err(of_flag)?);
        if summing_error.is_none() && !is_exact {
            return Err(bad_use(NO_SUMMING_ERROR));
        }
        Ok(Some(GridChoice { rounding: self.rounding, summing_error }))
    }

    /// Chooses the grid of a plan; `None` for rows of floating-point numbers. Error: fields that no grid has (bad use).
    pub fn choose(&self, spec: &PlanSpec) -> anyhow::Result<Option<Grid>> {
        let Some(choice) = self.choice(spec.layout.as_ref().map(Layout::dimension))? else { return Ok(None) };
        if spec.noise_multiplier == 0.0 {
            return Err(bad_use("--noise-multiplier is 0; allowed: above 0 for rows on a grid, or --float"));
        }
        grid::choose(spec, choice.rounding, choice.summing_error).map(Some).map_err(of_flag)
    }
}
