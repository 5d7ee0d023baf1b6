//! The cost in privacy of the rows released so far.

use accounting::rewind::{ReleasedRows, charge_with};
use accounting::{Report, Sensitivity};
use plan::Plan;
use proto::{Result, ServiceError};

/// The points of a run at which the cost is computed; between two of them the later one counts.
const POINTS: u64 = 100;

/// The cost of a branch up to some row, and of everything released before it was opened. Neighbours: all participations
/// of one user are zeroed out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrivacyCost {
    /// ρ of zCDP.
    pub rho: f64,
    /// ε at the meter's δ.
    pub epsilon: f64,
    /// Whether both are exact; otherwise they are upper bounds.
    pub exact: bool,
}

/// Computes the cost of rows of one branch.
#[derive(Debug)]
pub struct BranchMeter {
    plan: Plan,
    delta: f64,
    /// The job's current branch.
    pub branch: u64,
    /// The sensitivity of rows that earlier branches released and that are not in this one's lineage. It no longer
    /// changes.
    abandoned: f64,
    /// The cost if all rows of the plan are released on this branch.
    pub planned: PrivacyCost,
}

impl BranchMeter {
    /// Creates the meter of the last branch in `released`, which lists all branches. Returns `None` if the plan has no
    /// noise, for there is no guarantee to state. Long plans take seconds.
    pub fn new(plan_toml: &str, delta: f64, released: &ReleasedRows) -> Result<Option<Self>> {
        let plan = Plan::from_toml_str(plan_toml).map_err(ServiceError::internal)?;
        if plan.accounted_noise_multiplier() == 0.0 {
            return Ok(None);
        }
        let sensitivity = |rows| plan.accounted_sensitivity_of(rows).map_err(anyhow::Error::from);
        let charge = charge_with(plan.iterations(), released, sensitivity).map_err(ServiceError::internal)?;
        let squares = charge.abandoned.iter().map(|stretch| stretch.sensitivity * stretch.sensitivity);
        let abandoned = squares.sum::<f64>().sqrt();
        let planned = cost(charge.total(), &plan, delta)?;
        let branch = released.branches.last().map_or(0, |last| last.branch);
        Ok(Some(Self { plan, delta, branch, abandoned, planned }))
    }

    /// Returns the cost of rows 0..`rows` of the branch's lineage. C is lower triangular, so these rows are a mechanism
    /// by themselves, whose matrix is C's leading block. If that can't be computed within memory, the whole plan's cost
    /// stands for it. Long plans take seconds.
    pub fn after(&self, rows: u64) -> PrivacyCost {
        if rows == 0 && self.abandoned == 0.0 {
            return PrivacyCost { exact: true, ..PrivacyCost::default() };
        }
        match self.cost(rows) {
            Ok(cost) if cost.rho <= self.planned.rho => cost,
            _ => PrivacyCost { exact: rows == self.plan.iterations() && self.planned.exact, ..self.planned },
        }
    }

    fn cost(&self, rows: u64) -> Result<PrivacyCost> {
        let kept = match rows {
            0 => Sensitivity { value: 0.0, exact: true },
            _ => self.plan.accounted_sensitivity_of(0..rows).map_err(ServiceError::internal)?,
        };
        // The noise differs, so squares add up. One contribution need not attain both, so the sum is a bound.
        let value = kept.value.hypot(self.abandoned);
        let exact = kept.exact && self.abandoned == 0.0;
        cost(Sensitivity { value, exact }, &self.plan, self.delta)
    }

    /// Returns the point whose cost stands for a job at `next_row`: that row or a later one.
    pub fn point(&self, next_row: u64) -> u64 {
        let iterations = self.plan.iterations();
        next_row.next_multiple_of(iterations.div_ceil(POINTS)).min(iterations)
    }
}

fn cost(sensitivity: Sensitivity, plan: &Plan, delta: f64) -> Result<PrivacyCost> {
    let noise = plan.accounted_noise_multiplier();
    let report = Report::of_run(sensitivity, noise, plan.failure_probability(), delta);
    let report = report.map_err(ServiceError::internal)?;
    Ok(PrivacyCost { rho: report.rho, epsilon: report.epsilon, exact: report.exact })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(noise_multiplier: f64) -> Option<BranchMeter> {
        let text = format!(
            "format = 1\nstream_version = {}\niterations = 1000\nnoise_multiplier = {noise_multiplier:?}\n\
             clip_norm = 1.0\n[participation]\nmin_sep = 100\nmax_participations = 4\n\
             [mechanism]\nname = \"identity\"\n",
            plan::STREAM_VERSION
        );
        BranchMeter::new(&text, 1e-6, &ReleasedRows::straight(0)).unwrap()
    }

    /// Without correlation k participations cost k/(2σ²), for the number that fits in the rows released.
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
