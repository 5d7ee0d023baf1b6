//! Binding against the plainest model there is, with the ledger closed and opened again on the way.

use std::collections::HashMap;

use ledger::LedgerError;
use proptest::prelude::*;
use proto::Commitment;

use crate::{ITERATIONS, Place, id, rows};

#[derive(Clone, Debug)]
enum Step {
    Bind { start: u64, commitments: Vec<u8> },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    // Few rows and few commitments, so that calls meet; some rows lie beyond the plan.
    let start = prop_oneof![9 => 0..12u64, 1 => ITERATIONS - 3..ITERATIONS + 2];
    let bind = (start, prop::collection::vec(0..3u8, 1..6));
    prop_oneof![
        12 => bind.prop_map(|(start, commitments)| Step::Bind { start, commitments }),
        1 => Just(Step::Reopen),
    ]
}

type Model = HashMap<u64, u8>;

fn bind_model(model: &mut Model, start: u64, commitments: &[u8]) -> Result<u64, ()> {
    let asked = || (start..).zip(commitments.iter().copied());
    if asked().any(|(row, c)| row >= ITERATIONS || model.get(&row).is_some_and(|bound| *bound != c)) {
        return Err(());
    }
    Ok(asked().filter(|(row, c)| model.insert(*row, *c).is_none()).count() as u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]
    #[test]
    fn bind_does_what_a_map_would(steps in prop::collection::vec(step(), 1..40)) {
        let place = Place::new();
        let mut ledger = place.with_job();
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Reopen => {
                    drop(ledger);
                    ledger = place.open();
                }
                Step::Bind { start, commitments } => {
                    let expected = bind_model(&mut model, start, &commitments);
                    let asked: Vec<_> = commitments.iter().map(|c| Commitment([*c; 32])).collect();
                    let got = ledger.bind(&id("j"), 0, rows(start, start + asked.len() as u64), &asked);
                    let refusal = |e: &LedgerError| {
                        matches!(e, LedgerError::AlreadyBound { .. } | LedgerError::RowBeyondIterations { .. })
                    };
                    prop_assert!(got.as_ref().err().is_none_or(refusal), "{:?}", got);
                    prop_assert_eq!(got.map(|bound| bound.newly).map_err(|_| ()), expected);
                }
            }
            let mut all: Vec<_> = model.iter().map(|(row, c)| (*row, Commitment([*c; 32]))).collect();
            all.sort_by_key(|(row, _)| *row);
            prop_assert_eq!(ledger.bindings(&id("j"), 0, 0..u64::MAX).unwrap(), all);
            let summary = ledger.binding_summary(&id("j"), 0).unwrap();
            prop_assert_eq!(summary.rows_bound, model.len() as u64);
            prop_assert_eq!(summary.next_row, model.keys().max().map_or(0, |row| row + 1));
        }
    }
}
