//! Longer plans: their matrices begin with the shorter ones, bit for bit as they run, and what can't go on is refused.

use super::spec;
use crate::{Layout, Mechanism, Participation, Plan, PlanSpec, grid};

fn continuing() -> Vec<Mechanism> {
    vec![
        Mechanism::Identity,
        Mechanism::Blt { theta: vec![0.99, 0.5], omega: vec![0.125, 0.25] },
        Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5, 0.25], column_normalised: false },
        Mechanism::Scaled {
            base: Box::new(Mechanism::BandToeplitz {
                coefficients: vec![1.0, 0.5, 0.25],
                column_normalised: false,
            }),
            column_scales: vec![1.0, 0.75],
            rounds_per_scale: 7,
        },
        Mechanism::BandSqrt { bands: 7 },
        Mechanism::BandInverse { coefficients: vec![1.0, -0.5, -0.1] },
        Mechanism::BandInverseSqrt { bands: 6 },
        Mechanism::LambdaCgd { lambda: 0.7 },
    ]
}

#[test]
fn a_longer_matrix_begins_with_the_shorter_one() {
    for mechanism in continuing() {
        let plan = Plan::new(spec(20, mechanism.clone())).unwrap();
        let longer = plan.extended(53, None).unwrap();
        // The last of the shorter matrix's rows, and what the longer one has there.
        let row = |strategy: strategy::Strategy, n: u64| strategy.c_row(n, 19).unwrap();
        let short = row(plan.running_strategy().unwrap(), 20);
        let long = row(longer.running_strategy().unwrap(), 53);
        assert_eq!(short, long, "{mechanism:?}");
        assert_eq!(row(plan.strategy(), 20), row(longer.strategy(), 53));
        assert_ne!(plan.digest(), longer.digest());
        assert_eq!(PlanSpec { iterations: 20, ..longer.spec().clone() }, *plan.spec());
        let before = plan.accounted_sensitivity().unwrap().value;
        let all = Participation { min_sep: 3, max_participations: 18 };
        assert!(plan.extended(53, Some(18)).unwrap().accounted_sensitivity().unwrap().value > before);
        let whole = Plan::new(PlanSpec {
            participation: Participation { min_sep: 3, max_participations: 7 },
            ..spec(20, mechanism)
        });
        assert_eq!(whole.unwrap().extended(53, None).unwrap().participation(), all);
    }
}

#[test]
fn what_depends_on_the_number_of_rounds_is_refused_by_name() {
    let refused = [
        (Mechanism::Tree { restarts: vec![], completion: false }, "tree"),
        (
            Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5], column_normalised: true },
            "band-toeplitz with column_normalised",
        ),
        (Mechanism::BandMf { columns: vec![vec![1.0]; 6] }, "band-mf"),
    ];
    for (mechanism, name) in refused {
        let plan = Plan::new(spec(6, mechanism)).unwrap();
        let error = plan.extended(12, None).unwrap_err().to_string();
        assert!(error.contains(&format!("is {name}; allowed: identity")), "{error}");
    }
    let base = Box::new(Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5], column_normalised: false });
    let scaled = Mechanism::Scaled { base, column_scales: vec![1.0, 0.5], rounds_per_scale: 9 };
    let scaled = PlanSpec { layout: Layout::dimension_only(1000).ok(), ..spec(6, scaled) };
    let chosen = grid::choose(&scaled, None, Some(0.0)).unwrap();
    let plan = Plan::new(PlanSpec { grid: Some(chosen), ..scaled }).unwrap();
    let error = plan.extended(12, None).unwrap_err().to_string();
    assert!(error.contains("`mechanism.column_scales` is given for a plan on a grid"), "{error}");
    let plan = Plan::new(spec(20, Mechanism::Identity)).unwrap();
    let error = plan.extended(20, None).unwrap_err().to_string();
    assert!(error.contains("`iterations` is 20; allowed: more than 20"), "{error}");
    let error = plan.extended(30, Some(1)).unwrap_err().to_string();
    assert!(error.contains("`participation.max_participations` is 1; allowed: at least 2"), "{error}");
}
