//! The same whole numbers, however they are made.

use crate::cases::{all_rows, branch_key, cases};
use noise_kernel::grid::{GridGenerator, GridSnapshot};
use noise_kernel::{Backend, BranchKey, Rounds, RowKeys};

#[test]
fn every_family_is_the_oracles() {
    for case in cases() {
        let n = case.mechanism.iterations();
        let expected = case.oracle().rows(0..n, 509..515).unwrap();
        let made = all_rows(&mut case.generator(300..1_300), || 4);
        let window: Vec<Vec<i32>> = made.iter().map(|row| row[209..215].to_vec()).collect();
        assert_eq!(window, expected, "{}", case.name);
    }
}

#[test]
fn backends_ranges_and_rows_at_once_make_no_difference() {
    let mut dice = dice::Dice::new(3);
    for case in cases() {
        let whole = all_rows(&mut case.on(Backend::Portable, 0..2_100), || 1);
        for backend in Backend::available() {
            let start = dice.below(1_500);
            let end = start + 1 + dice.below(600);
            let mut generator = case.on(backend, start..end);
            let part = all_rows(&mut generator, || 1 + dice.below(20) as usize);
            for (row, (part, whole)) in part.iter().zip(&whole).enumerate() {
                assert!(
                    part[..] == whole[start as usize..end as usize],
                    "{}, row {row} on {backend}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn a_restored_or_skipped_generator_goes_on_with_the_same_rows() {
    let mut dice = dice::Dice::new(4);
    for case in cases() {
        let n = case.mechanism.iterations();
        let range = 100..700;
        let whole = all_rows(&mut case.generator(range.clone()), || 8);
        let stop = dice.below(n + 1);
        let mut first = case.generator(range.clone());
        first.skip(stop).unwrap();
        let saved = first.snapshot().unwrap();
        assert_eq!(saved.bytes.len(), 2 * 512 * case.mechanism.slots() * saved.element.bytes());
        let stream = crate::cases::stream();
        let mut second = GridGenerator::restore(stream, case.mechanism.clone(), range, &saved).unwrap();
        assert_eq!(second.next_row(), stop);
        let rest = all_rows(&mut second, || 3);
        assert!(rest[..] == whole[stop as usize..], "{} from row {stop}", case.name);
        assert!(all_rows(&mut first, || 5)[..] == whole[stop as usize..], "{} from row {stop}", case.name);
    }
}

#[test]
fn snapshots_of_ranges_that_meet_join_as_bytes() {
    for case in cases() {
        let saved = |range| {
            let mut generator = case.generator(range);
            generator.skip(case.mechanism.iterations() / 2).unwrap();
            generator.snapshot().unwrap()
        };
        let whole = saved(0..2_048);
        let joined = [saved(0..1_024).bytes, saved(1_024..2_048).bytes].concat();
        assert!(whole == GridSnapshot { bytes: joined, ..whole.clone() }, "{}", case.name);
    }
}

/// Rows before a rewind keep their numbers, whatever the family; those after have another key's normals.
#[test]
fn rows_of_a_lineage_are_the_oracles() {
    let keys = vec![(0, branch_key()), (3, BranchKey::from_array([9; 32]))];
    let keys = RowKeys::from_keys(keys).unwrap();
    for case in cases() {
        let n = case.mechanism.iterations().min(12);
        let stream = case.mechanism.stream(&keys, Rounds::Twelve);
        let mut generator = GridGenerator::new(stream, case.mechanism.clone(), 505..520).unwrap();
        let oracle =
            noise_kernel::grid::GridOracle::new(keys.clone(), Rounds::Twelve, case.mechanism.clone());
        let expected = oracle.rows(0..n, 511..513).unwrap();
        let made = all_rows(&mut generator, || 5);
        for (row, (made, expected)) in made.iter().zip(&expected).enumerate() {
            assert_eq!(made[6..8], expected[..], "{}, row {row}", case.name);
        }
    }
}

#[test]
fn far_coordinates_are_the_oracles() {
    let case = &cases()[0];
    let far = (1u64 << 54) * 512 - 3;
    let expected = case.oracle().rows(0..2, far..far + 6).unwrap();
    assert_eq!(all_rows(&mut case.generator(far..far + 6), || 2)[..2], expected[..]);
}
