//! ρ and ε of the published production runs.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::{account, tree, zcdp};
use strategy::{Blt, Participation, Strategy, Tree};

const DELTA: f64 = 1e-10;

fn blt(name: &str) -> Strategy {
    let (theta, omega) = match name {
        "b100" => (
            [0.989739971007307, 0.7352001759538236, 0.16776199983448145, 0.1677619998016191],
            [0.20502892852480875, 0.23357939425278557, 0.03479503245420878, 0.03479509876050538],
        ),
        "b400" => (
            [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778],
            [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734],
        ),
        _ => (
            [0.9999999999983397, 0.9973412136664378, 0.9584629472313878, 0.6581796870749317],
            [0.008657392263671862, 0.05890891298180163, 0.14548176930698697, 0.2770117005326523],
        ),
    };
    Strategy::Blt(Blt::new(theta.to_vec(), omega.to_vec()).unwrap())
}

#[test]
fn production_blts() {
    // McMahan, Xu, Zhang (2024), Table 4; min_sep is the printed MinS + 1. (strategy, σ, n, min_sep, k, ρ, ε).
    let rows = [
        ("b400", 7.379, 1280, 301, 4, 0.15337137, 3.45647),
        ("b400", 7.379, 2350, 448, 5, 0.19488609, 3.92921),
        ("b1000", 8.681, 2000, 2002, 1, 0.02227583, 1.24998),
        ("b1000", 16.1, 2000, 1182, 2, 0.01393957, 0.97891),
        ("b100", 3.12, 430, 93, 4, 1.10766517, 10.18769),
        ("b100", 5.5, 320, 50, 6, 0.74898627, 8.18441),
    ];
    for (name, sigma, n, gap, most, rho, epsilon) in rows {
        let rule = Participation::new(gap, most).unwrap();
        let report = account(&blt(name), n, rule, sigma, DELTA).unwrap();
        assert!(report.exact);
        assert!((report.rho - rho).abs() < 6e-9, "{name} {n}: rho {}", report.rho);
        assert!((report.epsilon - epsilon).abs() < 6e-6, "{name} {n}: epsilon {}", report.epsilon);
    }
}

#[test]
fn tree_epsilons_from_the_printed_rho() {
    let rows =
        [(0.25, 4.4922), (0.32, 5.1335), (0.61, 7.3050), (0.89, 9.0103), (0.99, 9.5641), (1.86, 13.6883)];
    for (rho, epsilon) in rows {
        let got = zcdp::gaussian_epsilon(rho, DELTA).unwrap();
        assert!((got - epsilon).abs() < 6e-5, "{rho}: {got}");
    }
}

#[test]
fn tree_epsilons_from_the_exact_rho() {
    // (rounds, MinS as printed, participations, 98·ρ, ε of the unrounded ρ).
    let rows = [
        (1360, 622, 2, 24.0, 4.4426),
        (870, 327, 3, 31.0, 5.1015),
        (1300, 290, 4, 60.0, 7.3199),
        (1280, 180, 5, 87.0, 8.9976),
        (430, 54, 7, 97.0, 9.5630),
        (530, 54, 8, 182.0, 13.6762),
    ];
    for (n, printed, most, square, epsilon) in rows {
        let rule = Participation::new(printed + 1, most).unwrap();
        let report = tree::account(&Tree::default(), n, rule, 7.0, DELTA).unwrap();
        assert!((report.rho * 98.0 - square).abs() < 1e-9, "{n}: {}", report.rho * 98.0);
        assert!((report.epsilon - epsilon).abs() < 6e-5, "{n}: {}", report.epsilon);
    }
}
