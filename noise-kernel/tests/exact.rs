//! The fast path produces the oracle's bits, however rows, ranges, threads and restarts are cut.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, Choices, all_rows, bits, branch_key, cases, stream};
use noise_kernel::{BLOCK, Backend, Generator, History, Oracle, Rounds, Row, Stream, stream_count};
use plan::Coefficients;
use rayon::ThreadPoolBuilder;
use std::ops::Range;

const SCALE: f32 = 1.375;
/// Five blocks, the first and last in part.
const WINDOW: Range<u64> = 300..2_100;
const PART: Range<u64> = 300..900;

fn oracle(case: &Case) -> Oracle {
    let coefficients = case.coefficients.clone();
    Oracle::new(branch_key(), Rounds::Twenty, coefficients, case.iterations, SCALE).unwrap()
}

fn columns(rows: &[Vec<f32>], window: &Range<u64>, range: &Range<u64>) -> Vec<Vec<u32>> {
    let part = (range.start - window.start) as usize..(range.end - window.start) as usize;
    bits(&rows.iter().map(|row| row[part.clone()].to_vec()).collect::<Vec<_>>())
}

#[test]
fn every_mechanism_range_and_pattern_gives_the_oracles_bits() {
    let pools = [1, 2, 3].map(|n| ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let mut choices = Choices(1);
    for case in cases() {
        let expected = oracle(&case).rows(0..case.iterations, WINDOW).unwrap();
        for pattern in [1, 2, 3, 7, 16, 0] {
            let start = WINDOW.start + choices.below(WINDOW.end - WINDOW.start);
            let end = start + 1 + choices.below(WINDOW.end - start);
            let range = if pattern == 16 { WINDOW } else { start..end };
            let mut generator = case.generator(stream(), SCALE, range.clone());
            let pool = &pools[choices.below(3) as usize];
            let mut at_once = || if pattern == 0 { 1 + choices.below(20) as usize } else { pattern };
            let rows = pool.install(|| all_rows(&mut generator, &mut at_once));
            let equal = bits(&rows) == columns(&expected, &WINDOW, &range);
            assert!(equal, "{}, range {range:?}, {pattern} rows at once", case.name);
        }
    }
}

#[test]
fn every_backend_gives_the_same_bits() {
    println!("backends: {:?}", Backend::available());
    for case in cases() {
        let expected = oracle(&case).rows(0..case.iterations, WINDOW).unwrap();
        for backend in Backend::available() {
            let mut generator = case.generator(stream().with_backend(backend).unwrap(), SCALE, WINDOW);
            // 16, 8, 4, 2 and 1 rows share a pass.
            let rows = all_rows(&mut generator, || 31);
            assert!(bits(&rows) == bits(&expected), "{} on {backend:?}", case.name);
        }
    }
}

/// Rows of such a length leave the kernel past the caches.
#[test]
fn long_rows_have_the_bits_of_short_ones() {
    const LONG: Range<u64> = 301..1_500_338;
    let width = (LONG.end - LONG.start) as usize;
    for case in [Case::new("identity", 3, Coefficients::Identity), Case::new("blt 2", 3, common::blt(2))] {
        for backend in Backend::available() {
            let stream = || stream().with_backend(backend).unwrap();
            // Neither the rows nor the cuts begin at cache lines.
            let mut rows = vec![vec![f32::NAN; width + 5]; 3];
            let mut out: Vec<&mut [f32]> = rows.iter_mut().map(|row| &mut row[5..]).collect();
            case.generator(stream(), SCALE, LONG).generate(&mut out).unwrap();
            let rows: Vec<Vec<f32>> = rows.into_iter().map(|row| row[5..].to_vec()).collect();
            for start in LONG.step_by(99_991) {
                let part = start..LONG.end.min(start + 99_991);
                let short = all_rows(&mut case.generator(stream(), SCALE, part.clone()), || 3);
                assert!(columns(&rows, &LONG, &part) == bits(&short), "{} on {backend}, {part:?}", case.name);
            }
        }
    }
}

#[test]
fn a_restored_or_skipped_generator_goes_on_with_the_same_bits() {
    let mut choices = Choices(2);
    for case in cases() {
        let expected = bits(&all_rows(&mut case.generator(stream(), SCALE, PART), || 16));
        for _ in 0..2 {
            let row = choices.below(case.iterations + 1);
            let mut stepped = case.generator(stream(), SCALE, PART);
            let mut skipped = case.generator(stream(), SCALE, PART);
            skipped.skip(row).unwrap();
            for _ in 0..row {
                stepped.generate(&mut [&mut [f32::NAN; 600][..]]).unwrap();
            }
            assert_eq!(skipped.next_row(), row);
            let states = [stepped.state(), skipped.state()].map(|state| bits(&[state.to_vec()]));
            assert!(states[0] == states[1], "{}: state is canonical", case.name);
            let coefficients = case.coefficients.clone();
            let state = stepped.state().to_vec();
            let mut restored =
                Generator::restore(stream(), coefficients, case.iterations, SCALE, PART, row, &[&state])
                    .unwrap();
            let rest = &expected[row as usize..];
            assert!(bits(&all_rows(&mut restored, || 5)) == rest, "{} restored at {row}", case.name);
            assert!(bits(&all_rows(&mut skipped, || 7)) == rest, "{} skipped to {row}", case.name);
        }
    }
}

#[test]
fn states_of_ranges_that_meet_join_as_slices() {
    for case in cases() {
        let cut = 2 * BLOCK as u64;
        let mut whole = case.generator(stream(), SCALE, WINDOW);
        let mut left = case.generator(stream(), SCALE, WINDOW.start..cut);
        let mut right = case.generator(stream(), SCALE, cut..WINDOW.end);
        let rows = case.iterations / 2;
        for generator in [&mut whole, &mut left, &mut right] {
            generator.skip(rows).unwrap();
        }
        assert_eq!(whole.block_state_len(), whole.slots() * BLOCK);
        assert_eq!(whole.state_bytes(), 5 * whole.block_state_len() * 4);
        let joined = [left.state(), right.state()].concat();
        assert!(whole.state() == joined, "{}", case.name);
    }
}

#[test]
fn far_coordinates_and_both_rounds() {
    // Block counters and stream numbers past 2³².
    let far = (1u64 << 45) + 77..(1 << 45) + 1_300;
    for rounds in [Rounds::Twenty, Rounds::Twelve] {
        let case = Case::new("far", 1 << 50, plan::Coefficients::Identity);
        let coefficients = case.coefficients.clone();
        let oracle = Oracle::new(branch_key(), rounds, coefficients, case.iterations, 1.0).unwrap();
        for number in [0, 5, 1 << 33, (1 << 50) - 1] {
            let expected = oracle.iid(number..number + 1, far.clone()).unwrap();
            for backend in Backend::available() {
                let stream = Stream::new(&branch_key(), rounds).with_backend(backend).unwrap();
                let mut normals = vec![f32::NAN; 1_223];
                stream.iid(number, far.clone(), &mut normals).unwrap();
                assert!(bits(&[normals]) == bits(&expected), "stream {number}, {rounds:?} on {backend:?}");
            }
        }
    }
}

#[test]
fn iid_has_every_node_of_a_tree() {
    let (n, coefficients) = common::tree(&[(5, 3), (6, 0)]);
    let case = Case::new("tree", n, coefficients);
    let nodes = stream_count(&case.coefficients, n);
    assert_eq!(nodes, (2 * 8 - 1) + (2 * 6 - 2));
    assert_eq!(oracle(&case).iid(0..nodes, 0..10).unwrap().len(), 25);
    assert!(oracle(&case).iid(0..nodes + 1, 0..10).is_err());
}

#[test]
fn state_lies_where_the_specification_says() {
    let range = 512..1_024;
    let (n, coefficients) = common::tree(&[(5, 3), (6, 0)]);
    let mut tree = Case::new("tree", n, coefficients).generator(stream(), SCALE, range.clone());
    assert_eq!(tree.slots(), 3);
    for (row, kept) in [(0, 0), (1, 1), (4, 3), (5, 0), (6, 1), (11, 0)] {
        tree.skip(row - tree.next_row()).unwrap();
        let written = tree.state().chunks(BLOCK).filter(|slot| slot.iter().any(|v| v.to_bits() != 0)).count();
        assert_eq!(written, kept, "before row {row}");
    }
    // Without an output scale, a banded row is its slot of the ring.
    let mut banded = Case::new("banded", 30, common::banded(6, 0)).generator(stream(), 1.0, range);
    for row in 0..30 {
        let mut served = [f32::NAN; BLOCK];
        banded.generate(&mut [&mut served[..]]).unwrap();
        for (quarter, served) in served.chunks(128).enumerate() {
            assert!(banded.state()[(quarter * 5 + row % 5) * 128..][..128] == *served, "row {row}");
        }
    }
}

#[test]
fn past_normals_kept_or_drawn_again_give_the_same_bits() {
    let kept = |history, case: &Case| case.generator(stream(), SCALE, PART).with_history(history).unwrap();
    for (name, n, coefficients) in [
        ("inverse 2", 70, common::inverse(2)),
        ("inverse 90", 100, common::inverse(90)),
        ("dense", 75, common::dense(75)),
    ] {
        let case = Case::new(name, n, coefficients);
        let mut choices = common::Choices(5);
        let mut at_once = || 1 + choices.below(20) as usize;
        let drawn = all_rows(&mut kept(History::Redraw, &case), &mut at_once);
        assert_eq!(kept(History::Redraw, &case).history_bytes(), 0);
        let mut keeping = kept(History::Keep, &case);
        assert!(keeping.history_bytes() > 0 && keeping.state().is_empty());
        assert!(bits(&all_rows(&mut keeping, &mut at_once)) == bits(&drawn), "{name}");
        // Normals that were skipped or lost in a restart are drawn again.
        let mut skipped = kept(History::Keep, &case);
        skipped.generate(&mut [&mut vec![0.0; drawn[0].len()][..]]).unwrap();
        skipped.skip(32).unwrap();
        assert!(bits(&all_rows(&mut skipped, &mut at_once)) == bits(&drawn[33..]), "{name}");
        // Too little memory allowed: nothing is kept.
        let little = kept(History::Auto { limit_bytes: 100 }, &case);
        assert_eq!(little.history_bytes(), 0);
    }
}

#[test]
fn buffers_of_every_kind_hold_the_same_row() {
    for case in common::cases() {
        let rows = all_rows(&mut case.generator(stream(), SCALE, PART), || 4);
        let mut generator = case.generator(stream(), SCALE, PART);
        let gradient: Vec<f32> = (0..rows[0].len()).map(|i| (i as f32).sin()).collect();
        for row in &rows {
            let next = generator.next_row();
            let state = generator.state().to_vec();
            let mut sum = gradient.clone();
            generator.generate_rows(vec![Row::Add(&mut sum)]).unwrap();
            let expected: Vec<f32> = gradient.iter().zip(row).map(|(g, row)| g + row).collect();
            assert!(bits(&[sum]) == bits(&[expected]), "{} row {next}", case.name);

            let coefficients = case.coefficients.clone();
            let mut again =
                Generator::restore(stream(), coefficients, case.iterations, SCALE, PART, next, &[&state])
                    .unwrap();
            let mut short = vec![0u16; row.len()];
            again.generate_rows(vec![Row::Bf16(&mut short)]).unwrap();
            assert!(short.iter().zip(row).all(|(&short, &row)| nearest_bf16(row) == short), "{}", case.name);
        }
    }
}

/// By trying both neighbours.
fn nearest_bf16(value: f32) -> u16 {
    let below = (value.to_bits() >> 16) as u16;
    let error = |bits: u16| (f64::from(f32::from_bits(u32::from(bits) << 16)) - f64::from(value)).abs();
    match error(below).total_cmp(&error(below + 1)) {
        std::cmp::Ordering::Less => below,
        std::cmp::Ordering::Greater => below + 1,
        std::cmp::Ordering::Equal => below + (below & 1),
    }
}
