//! Checks of a mechanism's coefficients before a row is made with them.

use crate::KernelError;
use plan::{BandRows, Banded, Coefficients, Inverse, Tree};

/// Most rows and tree leaves: with them no row, node or state number can overflow.
const MOST_ROWS: u64 = 1 << 60;

/// Returns the number of i.i.d. streams the rows of a mechanism are made of: its rows, or for trees its nodes, which
/// number in order of completion.
pub fn stream_count(coefficients: &Coefficients, iterations: u64) -> u64 {
    let Coefficients::Tree(tree) = coefficients else { return iterations };
    tree.segments.iter().fold(0, |nodes: u64, segment| {
        let leaves = segment.rows.saturating_add(segment.virtual_steps);
        nodes.saturating_add(leaves.saturating_mul(2) - u64::from(leaves.count_ones()))
    })
}

/// Checks that a mechanism can have this many rows.
pub(crate) fn check_iterations(iterations: u64) -> Result<(), KernelError> {
    if (1..=MOST_ROWS).contains(&iterations) {
        return Ok(());
    }
    Err(wrong("the number of rows", iterations, format!("between 1 and {MOST_ROWS}")))
}

/// Checks that the coefficients fit each other and the number of rows. The error is the first one that does not fit.
pub(crate) fn check_coefficients(coefficients: &Coefficients, iterations: u64) -> Result<(), KernelError> {
    check_iterations(iterations)?;
    match coefficients {
        Coefficients::Identity => Ok(()),
        Coefficients::Blt { theta, omega, output_scale } => {
            if theta.is_empty() {
                return Err(wrong("the number of BLT buffers", 0, "at least 1"));
            }
            length("the number of BLT output weights", omega, theta.len() as u128)?;
            finite("a BLT decay", theta)?;
            finite("a BLT output weight", omega)?;
            check_output_scale(output_scale, iterations)
        }
        Coefficients::Banded(banded) => check_banded(banded, iterations),
        Coefficients::Inverse(inverse) => check_inverse(inverse, iterations),
        Coefficients::Tree(tree) => check_tree(tree, iterations),
    }
}

fn check_banded(banded: &Banded, iterations: u64) -> Result<(), KernelError> {
    if banded.bands == 0 {
        return Err(wrong("the number of bands", 0, "at least 1"));
    }
    let n = u128::from(iterations);
    let back = (banded.bands - 1) as u128;
    match &banded.rows {
        BandRows::Toeplitz { lags, inverse_diagonal } => {
            length("the number of lags", lags, back)?;
            finite("a lag", lags)?;
            finite("an inverse diagonal", &[*inverse_diagonal])?;
        }
        BandRows::PerRow { lags, inverse_diagonal } => {
            length("the number of lags of all rows", lags, n * back)?;
            length("the number of inverse diagonals", inverse_diagonal, n)?;
            finite("a lag", lags)?;
            finite("an inverse diagonal", inverse_diagonal)?;
        }
    }
    check_output_scale(&banded.output_scale, iterations)
}

fn check_output_scale(output_scale: &[f32], iterations: u64) -> Result<(), KernelError> {
    if !output_scale.is_empty() {
        length("the number of output scales", output_scale, u128::from(iterations))?;
    }
    finite("an output scale", output_scale)
}

fn check_inverse(inverse: &Inverse, iterations: u64) -> Result<(), KernelError> {
    let n = u128::from(iterations);
    match inverse {
        Inverse::Toeplitz { coefficients } if coefficients.is_empty() => {
            Err(wrong("the number of inverse coefficients", 0, "at least 1"))
        }
        Inverse::Toeplitz { coefficients } => {
            finite("an inverse coefficient", coefficients)?;
            diagonal("the diagonal of the inverse", coefficients.iter().copied().take(1))
        }
        Inverse::Dense { rows } => {
            length("the number of inverse coefficients", rows, n * (n + 1) / 2)?;
            finite("an inverse coefficient", rows)?;
            let on_diagonal = (0..rows.len()).scan(0, |at, row| Some(std::mem::replace(at, *at + row + 2)));
            diagonal("the diagonal of the inverse", on_diagonal.map_while(|at| rows.get(at).copied()))
        }
    }
}

pub(crate) fn check_tree(tree: &Tree, iterations: u64) -> Result<(), KernelError> {
    let mut next = 0;
    for segment in &tree.segments {
        if segment.start != next {
            return Err(wrong(
                "the start of a tree",
                segment.start,
                format!("{next}, where the last one ends"),
            ));
        }
        if segment.rows == 0 || segment.rows > iterations - next {
            let allowed = format!("between 1 and the {} rows left", iterations - next);
            return Err(wrong("the number of rows of a tree", segment.rows, allowed));
        }
        next += segment.rows;
        let leaves = u128::from(segment.rows) + u128::from(segment.virtual_steps);
        if leaves > u128::from(MOST_ROWS) || (segment.virtual_steps > 0 && !leaves.is_power_of_two()) {
            let allowed = format!("a power of two up to {MOST_ROWS}, or 0 virtual steps");
            return Err(wrong("the number of leaves of a completed tree", leaves, allowed));
        }
    }
    if next != iterations {
        return Err(wrong("the number of rows of all trees", next, iterations));
    }
    if stream_count(&Coefficients::Tree(tree.clone()), iterations) == u64::MAX {
        return Err(wrong("the number of tree nodes", "2^64 or more", "less than 2^64"));
    }
    Ok(())
}

/// Rows of state that a mechanism keeps for each coordinate. The coefficients have been checked.
pub(crate) fn slots(coefficients: &Coefficients, iterations: u64) -> usize {
    match coefficients {
        Coefficients::Identity | Coefficients::Inverse(_) => 0,
        Coefficients::Blt { theta, .. } => theta.len(),
        Coefficients::Banded(banded) => {
            // A row looks back at no more rows than there are before the last one.
            let most = usize::try_from(iterations - 1).unwrap_or(usize::MAX);
            (banded.bands - 1).min(most)
        }
        Coefficients::Tree(tree) => tree_levels(tree),
    }
}

/// Levels of a tree whose estimates are kept. One is read only by a later leaf of the same tree: the bits of the last
/// leaf's number.
pub(crate) fn tree_levels(tree: &Tree) -> usize {
    let leaves = tree.segments.iter().map(|s| s.rows + s.virtual_steps);
    leaves.map(|leaves| (u64::BITS - (leaves - 1).leading_zeros()) as usize).max().unwrap_or(0)
}

/// Checks that σζ is a positive finite number.
pub(crate) fn check_scale(scale: f32) -> Result<(), KernelError> {
    if scale.is_finite() && scale > 0.0 { Ok(()) } else { Err(KernelError::Scale { got: scale }) }
}

fn length(what: &'static str, values: &[f32], expected: u128) -> Result<(), KernelError> {
    if values.len() as u128 == expected { Ok(()) } else { Err(wrong(what, values.len(), expected)) }
}

/// Largest absolute value of a coefficient. Normals are at most 9.5, so that sums of products stay far from overflow:
/// rows are always finite, and their bits never depend on the treatment of an infinity.
const LARGEST: f32 = 1e24;
/// Smallest absolute value on the diagonal of an inverse. A normal is at least 2⁻⁶² in absolute value: its product with
/// this or more is not rounded to 0. So no row is 0, and the sign of a zero never depends on the rows made at once.
const SMALLEST_DIAGONAL: f32 = 1e-18;

fn finite(what: &'static str, values: &[f32]) -> Result<(), KernelError> {
    match values.iter().find(|v| v.is_nan() || v.abs() > LARGEST) {
        None => Ok(()),
        Some(bad) => Err(wrong(what, bad, format!("from −{LARGEST:e} to {LARGEST:e}"))),
    }
}

fn diagonal(what: &'static str, mut values: impl Iterator<Item = f32>) -> Result<(), KernelError> {
    match values.find(|v| v.is_nan() || v.abs() < SMALLEST_DIAGONAL) {
        None => Ok(()),
        Some(bad) => Err(wrong(what, bad, format!("at least {SMALLEST_DIAGONAL:e} in absolute value"))),
    }
}

pub(crate) fn wrong(what: &'static str, got: impl ToString, allowed: impl ToString) -> KernelError {
    KernelError::Coefficients { what, got: got.to_string(), allowed: allowed.to_string() }
}
