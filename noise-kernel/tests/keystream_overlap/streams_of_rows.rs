//! The streams of the rows of trees and of rewound jobs.

use super::nonce;
use crate::tree::steps;
use crate::{JobKey, NoiseContext, Rounds, Stream, stream_count};
use plan::{Coefficients, Tree, TreeSegment};

/// Streams that a row draws anew.
fn own_streams(tree: &Tree, row: u64) -> Vec<u64> {
    let step = steps(tree, row, 1)[0];
    step.leaves().flat_map(|leaf| step.nodes(leaf)).collect()
}

fn tree(segments: &[(u64, u64)]) -> (Tree, u64) {
    let mut start = 0;
    let place = |&(rows, virtual_steps): &(u64, u64)| {
        start += rows;
        TreeSegment { start: start - rows, rows, virtual_steps }
    };
    (Tree { segments: segments.iter().map(place).collect() }, start)
}

/// Every tree of up to 9 rows, left as it is or completed to the next power of two or the one after.
fn shapes() -> Vec<(u64, u64)> {
    let completed = |rows: u64| {
        let whole = rows.next_power_of_two();
        [0, whole - rows, 2 * whole - rows].map(|virtual_steps| (rows, virtual_steps))
    };
    let mut shapes: Vec<_> = (1..=9).flat_map(completed).collect();
    shapes.dedup();
    shapes
}

fn each_stream_is_one_rows_own(segments: &[(u64, u64)]) {
    let (tree, rows) = tree(segments);
    let of_rows: Vec<Vec<u64>> = (0..rows).map(|row| own_streams(&tree, row)).collect();
    for (row, own) in of_rows.iter().enumerate() {
        assert_eq!(own[0], tree.first_stream(row as u64), "{segments:?} row {row}");
    }
    let count = stream_count(&Coefficients::Tree(tree), rows);
    assert!(of_rows.into_iter().flatten().eq(0..count), "{segments:?}");
}

#[test]
fn every_node_of_small_trees_is_one_rows_own() {
    let shapes = shapes();
    for &one in &shapes {
        each_stream_is_one_rows_own(&[one]);
        for &two in &shapes {
            each_stream_is_one_rows_own(&[one, two]);
            for &three in &shapes {
                each_stream_is_one_rows_own(&[one, two, three]);
            }
        }
    }
    println!("{} shapes, alone and two and three after one another", shapes.len());
}

#[test]
fn rows_of_the_largest_trees_have_streams_of_their_own() {
    let half = 1 << 59;
    let (tree, rows) = tree(&[(half, 0), (5, 3), (half - 5, 0)]);
    let count = stream_count(&Coefficients::Tree(tree.clone()), rows);
    let mut near: Vec<u64> = (0..60).flat_map(|bit| [(1 << bit) - 1, 1 << bit]).collect();
    near.extend((0..20).flat_map(|i| [i, half - 10 + i, rows - 1 - i]));
    near.sort();
    near.dedup();
    near.retain(|row| *row < rows);
    let of_rows: Vec<Vec<u64>> = near.iter().map(|&row| own_streams(&tree, row)).collect();
    assert!(of_rows.concat().is_sorted_by(|one, two| one < two));
    for (row, own) in near.iter().zip(&of_rows) {
        assert_eq!(own[0], tree.first_stream(*row), "row {row}");
        assert!(own.iter().all(|stream| *stream < count));
    }
}

/// Lineages of 8 rows and up to 4 pairs.
fn lineages() -> Vec<Vec<(u64, u64)>> {
    let mut all: Vec<Vec<(u64, u64)>> = vec![];
    for later in 0u64..1 << 7 {
        if later.count_ones() < 4 {
            let rows = (1..8).filter(|row| later >> (row - 1) & 1 == 1);
            let firsts = std::iter::once(0).chain(rows);
            all.push(firsts.enumerate().map(|(at, row)| (row, 3 * at as u64)).collect());
        }
    }
    all
}

fn context() -> NoiseContext {
    NoiseContext { job_nonce: nonce(0), plan_digest: [1; 32], dimension: 1_300, layout_digest: [2; 32] }
}

/// Whatever the lineage, a row's streams have the key of the one branch whose Z the row has, and no other's.
#[test]
fn streams_of_a_rewound_job_have_the_keys_of_their_rows() {
    let job = JobKey::from_bytes(&[3; 32]).unwrap();
    let words = |branch: u64| {
        let key = job.branch(&context(), &nonce(branch));
        *Stream::new(&key, Rounds::Twenty).address(0, 0).key
    };
    let (tree, rows) = tree(&[(3, 1), (5, 0)]);
    let mechanisms = [Coefficients::Identity, Coefficients::Tree(tree)];
    let lineages = lineages();
    for lineage in &lineages {
        let nonces: Vec<_> = lineage.iter().map(|(row, branch)| (*row, nonce(*branch))).collect();
        let keys = job.row_keys(&context(), &nonces).unwrap();
        for mechanism in &mechanisms {
            let stream = Stream::of_rows(&keys, mechanism, Rounds::Twenty);
            for row in 0..rows {
                let owner = lineage.iter().rfind(|(first, _)| *first <= row).unwrap().1;
                let own = match mechanism {
                    Coefficients::Tree(tree) => own_streams(tree, row),
                    _ => vec![row],
                };
                for node in own {
                    let place = stream.address(node, 0);
                    assert_eq!((*place.key, place.stream), (words(owner), node), "{lineage:?} row {row}");
                }
            }
        }
    }
    println!("{} lineages", lineages.len());
}
