//! The most that a mechanism could do on this machine.

use std::collections::BTreeSet;

use plan::Mechanism;

use crate::cases::Case;

/// Coordinates a second: no more than the kernel draws in cache, and no more than memory lets through.
/// `traffic`: bytes read and written a second.
pub fn roofline(identity_in_cache: f64, traffic: f64, bytes_per_coordinate: f64) -> f64 {
    identity_in_cache.min(traffic / bytes_per_coordinate)
}

/// Bytes that have to move between memory and processor for each coordinate of each row, at the least, where
/// `rows` are made at once: the row itself, and state once in and once out of the processor.
pub fn bytes_per_coordinate(case: &Case, rows: usize) -> f64 {
    4.0 + state(&case.mechanism, rows) / rows as f64
}

fn state(mechanism: &Mechanism, rows: usize) -> f64 {
    match mechanism {
        Mechanism::Blt { theta, .. } => 8.0 * theta.len() as f64,
        Mechanism::BandToeplitz { coefficients, .. } => banded(coefficients.len(), rows),
        Mechanism::BandSqrt { bands } => banded(*bands as usize, rows),
        Mechanism::BandMf { columns } => banded(columns.first().map_or(1, Vec::len), rows),
        Mechanism::Tree { .. } => tree(rows),
        // Past normals can be drawn again.
        Mechanism::Identity
        | Mechanism::BandInverse { .. }
        | Mechanism::BandInverseSqrt { .. }
        | Mechanism::LambdaCgd { .. }
        | Mechanism::Dense { .. } => 0.0,
        Mechanism::Scaled { base, .. } => state(base, rows),
    }
}

/// All rows looked back at are read, and those that later rows look back at are written.
fn banded(bands: usize, rows: usize) -> f64 {
    let back = bands - 1;
    4.0 * (back + rows.min(back)) as f64
}

/// The mean over many calls of the levels that a call reads before it writes them, and of those it writes. A
/// row whose number ends in k ones reads levels 0 to k − 1 and writes level k.
fn tree(rows: usize) -> f64 {
    const CALLS: u64 = 1024;
    let mut moved = 0;
    for call in 0..CALLS {
        let mut read = BTreeSet::new();
        let mut written = BTreeSet::new();
        let first = call * rows as u64;
        for row in first..first + rows as u64 {
            let level = row.trailing_ones();
            read.extend((0..level).filter(|level| !written.contains(level)));
            written.insert(level);
        }
        moved += read.len() + written.len();
    }
    4.0 * moved as f64 / CALLS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str, rows: usize) -> f64 {
        bytes_per_coordinate(&name.parse().unwrap(), rows)
    }

    #[test]
    fn the_lower_limit_holds() {
        assert_eq!(roofline(5.0, 100.0, 4.0), 5.0);
        assert_eq!(roofline(50.0, 100.0, 4.0), 25.0);
    }

    #[test]
    fn bytes_by_hand() {
        assert_eq!(bytes("identity", 1), 4.0);
        assert_eq!(bytes("lambda-cgd", 8), 4.0);
        assert_eq!(bytes("blt-4", 1), 4.0 + 32.0);
        assert_eq!(bytes("blt-4", 8), 4.0 + 4.0);
        // 7 rows back and itself; at eight, 7 back and 7 kept for 8 rows.
        assert_eq!(bytes("band-toeplitz-8", 1), 4.0 + 28.0 + 4.0);
        assert_eq!(bytes("band-toeplitz-8", 8), 4.0 + 56.0 / 8.0);
        assert_eq!(bytes("band-toeplitz-1", 1), 4.0);
    }

    #[test]
    fn a_tree_moves_two_levels_a_row() {
        // One written, and 1/2 + 1/4 + … read.
        assert!((bytes("tree", 1) - 12.0).abs() < 0.1, "{}", bytes("tree", 1));
        // Rows 2m and 2m + 1 write level 0 and one above it, and read none but what lies above level 0.
        assert!((bytes("tree", 2) - (4.0 + 4.0 * 3.0 / 2.0)).abs() < 0.1, "{}", bytes("tree", 2));
    }
}
