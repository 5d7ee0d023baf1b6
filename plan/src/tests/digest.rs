//! The canonical form is frozen: a change here orphans every job that has been bound to a digest.

use proptest::prelude::*;

use super::{BLT, spec};
use crate::{Layout, Mechanism, Parameter, Participation, Plan, PlanSpec};

/// Written by hand from the description in canonical.rs; the digest is `sha256sum` of it.
const BLT_CANONICAL: &str = "\
rustle plan 1
chacha_rounds=20
clip_norm=3ff0000000000000
format=1
iterations=2000
mechanism.name=blt
mechanism.omega=[3fc0000000000000,3fd0000000000000]
mechanism.theta=[3fefae147ae147ae,3fe0000000000000]
noise_multiplier=401d84189374bc6a
participation.max_participations=5
participation.min_sep=400
stream_version=3
";

const BLT_DIGEST: &str = "9d8d8b23491d6c14b24be8cffc863ca3670bd5e460203bf5b80d732d38e1c8e5";
const LAYOUT_DIGEST: &str = "c2279419c6b77d73c406a7ed7eda7188d45d0269320751ad6555ce95e7825ca4";

#[test]
fn the_digest_is_frozen() {
    let plan = Plan::from_toml_str(BLT).unwrap();
    assert_eq!(plan.canonical_form(), BLT_CANONICAL);
    assert_eq!(hex::encode(plan.digest()), BLT_DIGEST);
}

#[test]
fn the_layout_digest_is_frozen() {
    let layout = Layout::from_parameters(vec![
        Parameter { name: "w".into(), shape: vec![3, 4] },
        Parameter { name: "β".into(), shape: vec![] },
    ]);
    // printf 'rustle layout 1\ndimension=13\nnames=[x77,xceb2]\nshapes=[[3,4],[]]\n' | sha256sum
    assert_eq!(hex::encode(layout.unwrap().digest()), LAYOUT_DIGEST);
}

#[test]
fn order_whitespace_and_defaults_do_not_change_the_digest() {
    let other = "
        clip_norm=1
        noise_multiplier   = 7.379e0
        iterations = 2_000   # rows
        stream_version = 3
        format = 1
        layout.dimension = 77
        mechanism = { omega = [ 0.125,
            2.5e-1 ], theta = [0.990, 0.5], name = 'blt' }
        participation = { max_participations = 5, min_sep = 400 }
    ";
    assert_eq!(hex::encode(Plan::from_toml_str(other).unwrap().digest()), BLT_DIGEST);
}

#[test]
fn every_field_changes_the_digest() {
    let base = Plan::from_toml_str(BLT).unwrap();
    let changes: [fn(&mut PlanSpec); 7] = [
        |spec| spec.chacha_rounds = 12,
        |spec| spec.iterations += 1,
        |spec| spec.noise_multiplier = 7.379_000_000_000_001,
        |spec| spec.clip_norm = 2.0,
        |spec| spec.participation.min_sep = 399,
        |spec| spec.participation.max_participations = 4,
        |spec| spec.mechanism = Mechanism::Identity,
    ];
    for change in changes {
        let mut spec = base.spec().clone();
        change(&mut spec);
        assert_ne!(Plan::new(spec).unwrap().digest(), base.digest());
    }
}

fn mechanisms(n: u64) -> impl Strategy<Value = Mechanism> {
    let bands = 1..=n.min(9);
    let theta_omega = prop::collection::vec((1e-12..=1.0_f64, 1e-12..0.5_f64), 1..5);
    let column = (0.001..1e6_f64, prop::collection::vec(-1.0..1.0_f64, 0..n.min(6) as usize)).prop_map(
        |(first, rest)| std::iter::once(first).chain(rest.iter().map(|c| c * first)).collect::<Vec<_>>(),
    );
    // Small beside the diagonal, so that noise stays bounded.
    let row = |t: usize| {
        (1.0..2.0_f64, prop::collection::vec(0.0..0.1_f64, t))
            .prop_map(|(last, row)| [row, vec![last]].concat())
    };
    let rows = (0..n as usize).map(row).collect::<Vec<_>>();
    prop_oneof![
        Just(Mechanism::Identity),
        (prop::collection::btree_set(1..n, 0..4), any::<bool>()).prop_map(|(restarts, completion)| {
            Mechanism::Tree { restarts: restarts.into_iter().collect(), completion }
        }),
        (column.clone(), prop::collection::vec(0.1..1.0_f64, 1..5), 1..30_u64).prop_map(
            |(coefficients, mut column_scales, rounds_per_scale)| {
                column_scales.sort_by(|a, b| b.total_cmp(a));
                let base = Box::new(Mechanism::BandToeplitz { coefficients, column_normalised: false });
                Mechanism::Scaled { base, column_scales, rounds_per_scale }
            }
        ),
        theta_omega.prop_map(|pairs| {
            let (theta, omega) = pairs.into_iter().unzip();
            Mechanism::Blt { theta, omega }
        }),
        (column.clone(), any::<bool>()).prop_map(|(coefficients, column_normalised)| {
            Mechanism::BandToeplitz { coefficients, column_normalised }
        }),
        prop::collection::vec(1.0..2.0_f64, n as usize).prop_map(|diagonal| Mechanism::BandMf {
            columns: diagonal.into_iter().map(|c| vec![c]).collect()
        }),
        bands.clone().prop_map(|bands| Mechanism::BandSqrt { bands }),
        column.prop_map(|coefficients| Mechanism::BandInverse { coefficients }),
        bands.prop_map(|bands| Mechanism::BandInverseSqrt { bands }),
        (0.0..1.0_f64).prop_map(|lambda| Mechanism::LambdaCgd { lambda }),
        rows.prop_map(|matrix| Mechanism::Dense { matrix }),
    ]
}

fn specs() -> impl Strategy<Value = PlanSpec> {
    let layouts = prop_oneof![
        Just(None),
        (1..1_u64 << 40).prop_map(|dimension| Layout::dimension_only(dimension).ok()),
        prop::collection::btree_map("[a-zé.\"]{1,6}", prop::collection::vec(1..9_u64, 0..4), 1..4).prop_map(
            |named| {
                let parameters = named.into_iter().map(|(name, shape)| Parameter { name, shape }).collect();
                Layout::from_parameters(parameters).ok()
            }
        ),
    ];
    (2..20_u64).prop_flat_map(mechanisms_with_n).prop_flat_map(move |(n, mechanism)| {
        let numbers = (prop_oneof![Just(12), Just(20)], 1e-6..1e6_f64, 1e-6..1e6_f64, 1..50_u64, 1..9_u64);
        (numbers, layouts.clone()).prop_map(move |((rounds, sigma, clip, b, k), layout)| PlanSpec {
            chacha_rounds: rounds,
            noise_multiplier: sigma,
            clip_norm: clip,
            participation: Participation { min_sep: b, max_participations: k },
            layout,
            ..spec(n, mechanism.clone())
        })
    })
}

fn mechanisms_with_n(n: u64) -> impl Strategy<Value = (u64, Mechanism)> {
    (Just(n), mechanisms(n))
}

proptest! {
    #[test]
    fn a_plan_survives_its_file(spec in specs()) {
        let plan = Plan::new(spec).unwrap();
        let text = plan.to_toml_string().unwrap();
        let again = Plan::from_toml_str(&text).unwrap();
        prop_assert_eq!(&again, &plan);
        prop_assert_eq!(again.digest(), plan.digest());
        prop_assert_eq!(again.coefficients().unwrap(), plan.coefficients().unwrap());
    }

    #[test]
    fn the_layout_is_no_part_of_the_digest(spec in specs()) {
        let without = PlanSpec { layout: None, ..spec.clone() };
        prop_assert_eq!(Plan::new(spec).unwrap().digest(), Plan::new(without).unwrap().digest());
    }
}
