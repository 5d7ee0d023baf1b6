//! What the rows released so far cost in privacy.

use accounting::rewind::{ReleasedRows, charge_with};
use accounting::{Report, Sensitivity};
use plan::Plan;
use proto::{Result, ServiceError};

/// Figures are worked out at this many points of a run, and rounded up to the next.
const POINTS: u64 = 100;

/// Of a branch that stops after some row and of all that was released before it was opened, under zeroing out all participations of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub rho: f64,
    pub epsilon: f64,
    /// False where both are upper bounds.
    pub exact: bool,
}

/// Says what rows of one branch cost.
#[derive(Debug)]
pub struct Meter {
    plan: Plan,
    delta: f64,
    /// The branch that goes on.
    pub branch: u64,
    /// Sensitivity of what earlier branches released and the lineage of this one does not have; it rises no more.
    abandoned: f64,
    /// Where all rows of the plan are released on this branch.
    pub planned: Cost,
}

impl Meter {
    /// `released`: by all branches, the last of which goes on. `None` where the plan has no noise: there is no guarantee
    /// to state. Long plans take seconds.
    pub fn new(plan_toml: &str, delta: f64, released: &ReleasedRows) -> Result<Option<Self>> {
        let plan = Plan::from_toml_str(plan_toml).map_err(ServiceError::internal)?;
        if plan.accounted_noise_multiplier() == 0.0 {
            return Ok(None);
        }
        let of = |rows| plan.accounted_sensitivity_of(rows).map_err(anyhow::Error::from);
        let charge = charge_with(plan.iterations(), released, of).map_err(ServiceError::internal)?;
        let squares = charge.abandoned.iter().map(|stretch| stretch.sensitivity * stretch.sensitivity);
        let abandoned = squares.sum::<f64>().sqrt();
        let planned = cost(charge.total(), plan.accounted_noise_multiplier(), delta)?;
        let branch = released.branches.last().map_or(0, |last| last.branch);
        Ok(Some(Self { plan, delta, branch, abandoned, planned }))
    }

    /// Of rows 0..`rows` of the branch's lineage: C is lower triangular, so they are a mechanism by themselves, whose matrix is C's leading
    /// block. Where that can't be worked out within memory, the whole plan's figure stands for it. Long plans take
    /// seconds.
    pub fn after(&self, rows: u64) -> Cost {
        if rows == 0 && self.abandoned == 0.0 {
            return Cost { exact: true, ..Cost::default() };
        }
        match self.cost(rows) {
            Ok(cost) if cost.rho <= self.planned.rho => cost,
            _ => Cost { exact: rows == self.plan.iterations() && self.planned.exact, ..self.planned },
        }
    }

    fn cost(&self, rows: u64) -> Result<Cost> {
        let kept = match rows {
            0 => Sensitivity { value: 0.0, exact: true },
            _ => self.plan.accounted_sensitivity_of(0..rows).map_err(ServiceError::internal)?,
        };
        // Of different noise, so squares add up; that one contribution attains both at once is not said.
        let value = kept.value.hypot(self.abandoned);
        let exact = kept.exact && self.abandoned == 0.0;
        cost(Sensitivity { value, exact }, self.plan.accounted_noise_multiplier(), self.delta)
    }

    /// The point that stands for a job that goes on with `next_row`: never before it.
    pub fn point(&self, next_row: u64) -> u64 {
        let iterations = self.plan.iterations();
        next_row.next_multiple_of(iterations.div_ceil(POINTS)).min(iterations)
    }
}

fn cost(sensitivity: Sensitivity, noise_multiplier: f64, delta: f64) -> Result<Cost> {
    let report = Report::at_delta(sensitivity, noise_multiplier, delta).map_err(ServiceError::internal)?;
    Ok(Cost { rho: report.rho, epsilon: report.epsilon, exact: report.exact })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(noise_multiplier: f64) -> Option<Meter> {
        let text = format!(
            "format = 1\nstream_version = {}\niterations = 1000\nnoise_multiplier = {noise_multiplier:?}\n\
             clip_norm = 1.0\n[participation]\nmin_sep = 100\nmax_participations = 4\n\
             [mechanism]\nname = \"identity\"\n",
            plan::STREAM_VERSION
        );
        Meter::new(&text, 1e-6, &ReleasedRows::straight(0)).unwrap()
    }

    /// Without correlation k participations cost k/(2σ²): so many as fit in the rows released.
    #[test]
    fn each_participation_is_paid_when_its_rows_are() {
        let meter = meter(2.0).unwrap();
        for (rows, participations) in [(0, 0.0), (1, 1.0), (100, 1.0), (101, 2.0), (250, 3.0), (1000, 4.0)] {
            let rho = meter.after(rows).rho;
            assert!((rho - participations / 8.0).abs() < 1e-12, "{rows} rows: {rho}");
        }
        assert_eq!(meter.after(1000), meter.planned);
        assert!(meter.planned.exact && meter.planned.epsilon > 0.0);
    }

    #[test]
    fn points_are_never_before_the_row() {
        let meter = meter(1.0).unwrap();
        for (next_row, point) in
            [(0, 0), (1, 10), (10, 10), (11, 20), (999, 1000), (1000, 1000), (5000, 1000)]
        {
            assert_eq!(meter.point(next_row), point);
        }
    }

    #[test]
    fn without_noise_nothing_is_stated() {
        assert!(meter(0.0).is_none());
    }
}
