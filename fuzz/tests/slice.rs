//! Tests a slice of `make fuzz`: all seeds, all stored inputs, and a few thousand mutations of them.

use std::path::Path;

use fuzz::{engine, targets};

#[test]
fn no_decoder_fails_on_a_slice_of_inputs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in targets::all() {
        let runs = target.slice;
        let found =
            engine::run(&target, engine::kept(&corpus, &target), None, 1, |done| done < runs).expect("a run");
        println!("{}: {} runs, {} answers", target.name, found.runs, found.answers);
        if let Some((text, input)) = found.fault {
            panic!(
                "{}: {text}\non {}",
                target.name,
                String::from_utf8_lossy(&input[..input.len().min(2_000)])
            );
        }
        assert!(found.answers > 1, "{}: every input has the same outcome", target.name);
    }
}

#[test]
fn a_planted_fault_is_found() {
    let broken = fuzz::Target {
        name: "broken",
        seeds: || vec![b"length 4".to_vec()],
        run: |bytes| {
            assert!(!bytes.contains(&0xff), "a byte that is all ones");
            String::new()
        },
        slice: 0,
    };
    let found = engine::run(&broken, vec![], None, 1, |done| done < 10_000).expect("a run");
    assert!(found.fault.is_some_and(|(text, input)| text.contains("all ones") && input.contains(&0xff)));
}

#[test]
fn outcomes_leave_out_numbers_and_quotations() {
    let of = |text: &str| fuzz::words(text);
    assert_eq!(of("unknown field `größe`, expected one of `a`, `b`"), "unknown field expected one");
    assert_eq!(of("row 17 of \"job\" is beyond 2048 rows"), "row beyond rows");
    assert_eq!(of("an `open end"), "");
}
