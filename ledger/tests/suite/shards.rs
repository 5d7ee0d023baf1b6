//! Epochs: a worker that was replaced can never look current again.

use std::collections::HashMap;

use ledger::{LedgerError, ShardRecord};
use proptest::prelude::*;
use proto::{CoordinateRange, WorkerId};

use crate::{Place, id, job, range, two_shards};

fn worker(number: u8) -> Option<WorkerId> {
    Some(WorkerId::new(format!("w{number}")).unwrap())
}

#[test]
fn a_changed_shard_gets_the_next_epoch_and_others_keep_theirs() {
    let place = Place::new();
    let ledger = place.with_job();
    let shards = ledger.set_owners(&id("j"), &[(1, worker(1))]).unwrap();
    assert_eq!((shards[0].epoch, shards[1].epoch), (0, 1));
    assert_eq!((&shards[0].owner, &shards[1].owner), (&None, &worker(1)));
    // The same worker anew: its old lease must not fit.
    let shards = ledger.set_owners(&id("j"), &[(1, worker(1)), (0, worker(2))]).unwrap();
    assert_eq!((shards[0].epoch, shards[1].epoch), (1, 2));

    let unknown = ledger.set_owners(&id("j"), &[(0, None), (7, worker(1))]).unwrap_err();
    assert!(matches!(unknown, LedgerError::NotFound { what: "shard", .. }), "{unknown}");
    assert!(ledger.set_owners(&id("j"), &[(0, None), (0, worker(1))]).is_err());
    assert_eq!(ledger.shards(&id("j")).unwrap(), shards, "a refused change changes nothing");
}

#[test]
fn shards_that_do_not_cover_the_job_are_refused() {
    let place = Place::new();
    let ledger = place.with_job();
    let before = ledger.shards(&id("j")).unwrap();
    for ranges in [
        vec![],
        vec![range(0, 1024)],
        vec![range(0, 1024), range(1025, 2000)],
        vec![range(0, 1024), range(1000, 2000)],
        vec![range(0, 2001)],
        vec![range(1024, 2000), range(0, 1024)],
        vec![range(0, 1024), CoordinateRange { start: 1024, end: 1024 }, range(1024, 2000)],
    ] {
        let refused = ledger.replace_shards(&id("j"), &ranges);
        assert!(matches!(refused, Err(LedgerError::Invalid { .. })), "{ranges:?}");
    }
    assert_eq!(ledger.shards(&id("j")).unwrap(), before);
    assert!(ledger.create_job(&job("k"), &two_shards()[..1]).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Own(Vec<(u32, u8)>),
    Replace(Vec<u64>),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::btree_map(0..3u32, 0..3u8, 1..3).prop_map(|m| Step::Own(m.into_iter().collect())),
        2 => prop::collection::btree_set(1..2000u64, 0..4).prop_map(|cuts| Step::Replace(cuts.into_iter().collect())),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]
    #[test]
    fn epochs_never_fall(steps in prop::collection::vec(step(), 1..30)) {
        let place = Place::new();
        let mut ledger = place.with_job();
        let mut before = ledger.shards(&id("j")).unwrap();
        // The last epoch under which each coordinate was held, looked at in one place of every cut that can be made.
        let mut seen = HashMap::<u64, u64>::new();
        for step in steps {
            let after = match step {
                Step::Reopen => {
                    drop(ledger);
                    ledger = place.open();
                    let after = ledger.shards(&id("j")).unwrap();
                    prop_assert_eq!(&after, &before);
                    after
                }
                Step::Own(changes) => {
                    let changes: Vec<_> = changes.into_iter().map(|(shard, w)| (shard, worker(w))).collect();
                    if changes.iter().any(|(shard, _)| *shard as usize >= before.len()) {
                        prop_assert!(ledger.set_owners(&id("j"), &changes).is_err());
                        continue;
                    }
                    let after = ledger.set_owners(&id("j"), &changes).unwrap();
                    for (shard, owner) in &changes {
                        let old = &before[*shard as usize];
                        let new = &after[*shard as usize];
                        prop_assert!(new.epoch > old.epoch && new.owner == *owner);
                    }
                    after
                }
                Step::Replace(cuts) => {
                    let edges: Vec<u64> = [vec![0], cuts, vec![2000]].concat();
                    let ranges: Vec<_> = edges.windows(2).map(|edge| range(edge[0], edge[1])).collect();
                    let after = ledger.replace_shards(&id("j"), &ranges).unwrap();
                    let highest = before.iter().map(|shard| shard.epoch).max().unwrap();
                    prop_assert!(after.iter().all(|shard| shard.epoch > highest && shard.owner.is_none()));
                    let record = ledger.job(&id("j")).unwrap().unwrap();
                    prop_assert_eq!(record.shards as usize, after.len());
                    after
                }
            };
            prop_assert_eq!(&ledger.shards(&id("j")).unwrap(), &after);
            for coordinate in (0..2000).step_by(97) {
                let epoch = epoch_at(&after, coordinate);
                prop_assert!(seen.insert(coordinate, epoch).is_none_or(|old| old <= epoch));
            }
            before = after;
        }
    }
}

fn epoch_at(shards: &[ShardRecord], coordinate: u64) -> u64 {
    shards.iter().find(|shard| shard.range.as_range().contains(&coordinate)).unwrap().epoch
}
