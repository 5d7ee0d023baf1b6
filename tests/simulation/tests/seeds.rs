//! A slice of `make simulate`. The full figure comes from there.

#[test]
fn fifty_seeds_hold_every_promise_and_repeat_themselves() {
    let figures = simulation::simulate(0..50, 2, 1, false).unwrap();
    println!("{figures}");
    assert!(figures.violations.is_empty(), "{:?}", figures.violations);
    assert!(figures.unrepeatable.is_empty(), "went another way the second time: {:?}", figures.unrepeatable);
    assert!(figures.repeated > 0);
    for kind in ["kill", "power cut", "partition", "one-way partition", "hold", "disk full", "reshard"] {
        assert!(figures.faults.contains_key(kind), "no {kind}: {:?}", figures.faults);
    }
}
