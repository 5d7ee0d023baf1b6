//! The fields of a plan.

use crate::canonical::Canonical;
use crate::{Grid, Layout, Mechanism, Participation};

/// The version of plan.toml that this build reads and writes.
pub const FORMAT: u32 = 1;

/// The version of the noise stream that this build makes; `docs/noise-stream.md` specifies its bits.
pub const STREAM_VERSION: u32 = 3;

/// The fields of a plan, not yet checked.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSpec {
    /// Rounds of the stream cipher: 20 or 12.
    pub chacha_rounds: u32,
    /// n, the number of rows: row n and beyond are refused.
    pub iterations: u64,
    /// σ ≥ 0, in units of the clip norm.
    pub noise_multiplier: f64,
    /// ζ > 0, in the gradient's own units.
    pub clip_norm: f64,
    /// The rounds one user may take part in; `min_sep` counts j − i ≥ b.
    pub participation: Participation,
    /// The matrix C.
    pub mechanism: Mechanism,
    /// The flattened parameter vector; `None` where the plan doesn't fix it.
    pub layout: Option<Layout>,
    /// The grid of integers that the noise is exact on; `None` for rows of `f32`.
    pub grid: Option<Grid>,
}

impl PlanSpec {
    /// Everything that decides a bit of noise or of its account: all fields but the layout, of which on a grid the dimension
    /// counts.
    pub(crate) fn canonical(&self) -> Canonical {
        let mut canonical = Canonical::new("rustle plan 1");
        canonical.integer("format", FORMAT.into());
        canonical.integer("stream_version", STREAM_VERSION.into());
        canonical.integer("chacha_rounds", self.chacha_rounds.into());
        canonical.integer("iterations", self.iterations);
        canonical.number("noise_multiplier", self.noise_multiplier);
        canonical.number("clip_norm", self.clip_norm);
        canonical.integer("participation.min_sep", self.participation.min_sep);
        canonical.integer("participation.max_participations", self.participation.max_participations);
        if let Some(grid) = &self.grid {
            canonical.signed("grid.step", grid.step.into());
            canonical.name("grid.rounding", grid.rounding.name());
            canonical.number("grid.summing_error", grid.summing_error);
            // The account on a grid depends on the dimension, though not on the parameters it is made of.
            canonical.integer("grid.dimension", self.layout.as_ref().map_or(0, Layout::dimension));
        }
        mechanism(&mut canonical, &self.mechanism);
        canonical
    }
}

fn mechanism(canonical: &mut Canonical, mechanism: &Mechanism) {
    canonical.name("mechanism.name", mechanism.name());
    match mechanism {
        Mechanism::Identity => {}
        Mechanism::Tree { restarts, completion } => {
            canonical.integers("mechanism.restarts", restarts);
            canonical.truth("mechanism.completion", *completion);
        }
        Mechanism::Blt { theta, omega } => {
            canonical.numbers("mechanism.theta", theta);
            canonical.numbers("mechanism.omega", omega);
        }
        Mechanism::BandToeplitz { coefficients, column_normalised } => {
            canonical.numbers("mechanism.coefficients", coefficients);
            canonical.truth("mechanism.column_normalised", *column_normalised);
        }
        Mechanism::BandMf { columns } => canonical.number_rows("mechanism.columns", columns),
        Mechanism::BandSqrt { bands } | Mechanism::BandInverseSqrt { bands } => {
            canonical.integer("mechanism.bands", *bands);
        }
        Mechanism::BandInverse { coefficients } => canonical.numbers("mechanism.coefficients", coefficients),
        Mechanism::LambdaCgd { lambda } => canonical.number("mechanism.lambda", *lambda),
        Mechanism::Dense { matrix } => canonical.number_rows("mechanism.matrix", matrix),
        Mechanism::Scaled { base, column_scales, rounds_per_scale } => {
            self::mechanism(canonical, base);
            canonical.numbers("mechanism.column_scales", column_scales);
            canonical.integer("mechanism.rounds_per_scale", *rounds_per_scale);
        }
    }
}
