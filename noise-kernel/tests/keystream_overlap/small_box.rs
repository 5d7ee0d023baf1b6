//! All pairs of draws in a box that holds the ends of every range and the borders between.

use super::{Draw, Tuple};
use std::collections::HashMap;

const ROWS: [u64; 11] =
    [0, 1, 2, 511, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 49, (1 << 50) - 1, 1 << 50, (1 << 60) - 1];

/// Whole blocks at both ends, and what is around the border of every power of two.
fn indexes() -> Vec<u64> {
    let mut indexes: Vec<u64> = (0..1_100).chain(u64::MAX - 1_100..=u64::MAX).collect();
    for border in (9..64).map(|bit| 1u64 << bit) {
        indexes.extend(border - 3..border + 3);
        indexes.extend(border - 19..border - 13);
        indexes.extend(border + 13..border + 19);
    }
    indexes.extend(((1 << 45) - 1_100)..(1 << 45) + 1_100);
    indexes.sort();
    indexes.dedup();
    indexes
}

/// Job keys and nonces a bit apart, branches as far apart as can be, plans a bit apart.
fn branches() -> Vec<Tuple> {
    let mut tuples = Vec::new();
    for flipped in [0, 1] {
        for last in [0, 1, 2] {
            for branch in [0, 1, 1 << 32, u64::MAX] {
                for digest in [0, 1] {
                    let mut secret = [7; 32];
                    let mut plan = [9; 32];
                    secret[31] ^= flipped;
                    plan[0] ^= digest;
                    let mut job_nonce = [5; 32];
                    job_nonce[31] = last;
                    let first =
                        Tuple { secret, job_nonce, digest: plan, dimension: 1_300, branch, row: 0, index: 0 };
                    tuples.push(first);
                }
            }
        }
    }
    tuples
}

#[test]
fn no_two_draws_of_a_small_box_share_a_word() {
    let indexes = indexes();
    let branches = branches();
    let mut streams = HashMap::new();
    let mut draws = 0;
    for tuple in branches.iter() {
        let stream = tuple.stream();
        for row in ROWS {
            let of_row: Vec<Draw> = indexes.iter().map(|&index| Draw::of(&stream, row, index)).collect();
            draws += of_row.len();
            // Draws of different keys or streams share nothing: what is left are those of one.
            let [first, ..] = of_row[..] else { panic!("no index") };
            let before = streams.insert((first.key, first.stream), (tuple.clone(), row));
            assert_eq!(before, None, "{tuple:?} row {row} has that stream too");
            assert!(of_row.iter().all(|draw| (draw.key, draw.stream) == (first.key, first.stream)));
            words_are_shared_by_mates_alone(&indexes, &of_row);
        }
    }
    println!("{draws} draws of {} streams", streams.len());
    assert_eq!(streams.len(), branches.len() * ROWS.len());
}

fn words_are_shared_by_mates_alone(indexes: &[u64], draws: &[Draw]) {
    let numbered = indexes.iter().zip(draws);
    let mut words: Vec<(u128, u64, &Draw)> =
        numbered.flat_map(|(&index, draw)| draw.words.map(|word| (word, index, draw))).collect();
    words.sort_by_key(|(word, index, _)| (*word, *index));
    for sharing in words.chunk_by(|one, two| one.0 == two.0) {
        match *sharing {
            [_] => {}
            [(_, one, left), (_, two, right)] => {
                assert_eq!(one ^ 16, two, "two draws share a word");
                assert_eq!(left.words, right.words);
                assert_ne!(left.is_sine, right.is_sine);
            }
            _ => panic!("more than two draws share a word: {sharing:?}"),
        }
    }
}
