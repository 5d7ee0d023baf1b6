//! A plan of more rounds, whose matrix begins with the matrix of the shorter one.

use crate::error::require;
use crate::{Mechanism, Participation, Plan, PlanError, PlanSpec};

/// The mechanisms of which every row is the same whatever n is.
const CONTINUE: &str = "identity, blt, band-toeplitz without column_normalised, band-sqrt, band-inverse, band-inverse-sqrt, \
                        lambda-cgd, whose rows don't depend on the number of rounds, and column_scales in floating point; plan \
                        another mechanism for all rounds from the start";

impl Plan {
    /// Returns the plan of `iterations` rounds that has the same fields otherwise: its C, of which this plan's C is the first rows and
    /// columns, its σ and ζ. A user takes part in at most `max_participations` of all rounds. Without it that number stays as it is;
    /// where this plan allows as many as fit at its min-sep, so does the longer one.
    ///
    /// A sensitivity of the longer plan is that of the whole run from its first round on. The digest is another, and so are the
    /// keys: a job that runs this plan can't go on with the longer one.
    ///
    /// # Errors
    /// [`PlanError::Field`] for a mechanism whose rows depend on n, for rounds that are no more than this plan's, and for fewer
    /// participations.
    pub fn extended(&self, iterations: u64, max_participations: Option<u64>) -> Result<Self, PlanError> {
        let spec = self.spec();
        // The last scale is that of all rounds to come.
        let mechanism = match &spec.mechanism {
            Mechanism::Scaled { base, .. } => &**base,
            other => other,
        };
        let continues = match mechanism {
            Mechanism::Identity
            | Mechanism::Blt { .. }
            | Mechanism::BandSqrt { .. }
            | Mechanism::BandInverse { .. }
            | Mechanism::BandInverseSqrt { .. }
            | Mechanism::LambdaCgd { .. } => true,
            Mechanism::BandToeplitz { column_normalised, .. } => !column_normalised,
            Mechanism::Tree { .. }
            | Mechanism::BandMf { .. }
            | Mechanism::Dense { .. }
            | Mechanism::Scaled { .. } => false,
        };
        let name = match mechanism {
            Mechanism::BandToeplitz { column_normalised: true, .. } => "band-toeplitz with column_normalised",
            other => other.name(),
        };
        require(continues, "mechanism.name", name, CONTINUE)?;
        // Scales to come may leave all rows fewer fraction bits on the grid, and so another matrix.
        let is_scaled_on_grid = matches!(spec.mechanism, Mechanism::Scaled { .. }) && spec.grid.is_some();
        require(!is_scaled_on_grid, "mechanism.column_scales", "given for a plan on a grid", CONTINUE)?;
        let before = self.iterations();
        require(
            iterations > before,
            "iterations",
            iterations,
            format!("more than {before}, to extend this plan"),
        )?;
        let Participation { min_sep, max_participations: least } = spec.participation;
        let all = |rounds: u64| rounds.div_ceil(min_sep.max(1));
        let most = max_participations.unwrap_or(if least >= all(before) { all(iterations) } else { least });
        let field = "participation.max_participations";
        require(most >= least, field, most, format!("at least {least}, which this plan allows"))?;
        let participation = Participation { min_sep, max_participations: most };
        Self::new(PlanSpec { iterations, participation, ..spec.clone() })
    }
}
