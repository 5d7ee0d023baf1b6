use std::sync::Arc;

use noise_kernel::{BranchKey, Generator, Rounds, Stream};
use plan::{Mechanism, Participation, PlanSpec};

use super::*;

fn plan(mechanism: Mechanism) -> Plan {
    Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: 60,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation: Participation { min_sep: 1, max_participations: 1 },
        mechanism,
        layout: None,
        grid: None,
    })
    .unwrap()
}

fn setting(dimension: u64, workers: u32) -> Setting {
    Setting {
        dimension,
        workers,
        rows_per_second: 2.0,
        ahead_rows: 8,
        ahead_bytes: 1 << 30,
        history_bytes: 1 << 28,
        snapshot_bytes: 4 << 30,
        store_bandwidth: 1e9,
        coordinates_per_second: Some(1e6),
    }
}

#[test]
fn the_kernel_agrees() {
    let bands = |p: u32| (0..p).map(|i| 0.5f64.powi(i as i32)).collect::<Vec<_>>();
    for mechanism in [
        Mechanism::Identity,
        Mechanism::Tree { restarts: vec![], completion: false },
        Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.1, 0.2] },
        Mechanism::BandToeplitz { coefficients: bands(40), column_normalised: false },
        Mechanism::BandInverse { coefficients: vec![1.0, -0.4, -0.1] },
    ] {
        let plan = plan(mechanism);
        let stream = Stream::new(&BranchKey::from_array([0; 32]), Rounds::Twenty);
        let generator =
            Generator::new(stream, Arc::new(plan.coefficients().unwrap()), 60, 1.0, 0..1024).unwrap();
        let sizing = Sizing::new(&plan, Setting { ahead_rows: 1000, ..setting(1024, 1) }).unwrap();
        let name = plan.mechanism().name();
        assert_eq!(sizing.value("state_bytes"), Some(generator.state_bytes() as f64), "{name}");
        let at_once = generator.suggested_rows_at_once() as f64;
        assert_eq!(sizing.value("rows_at_once"), Some(at_once), "{name}");
    }
}

#[test]
fn figures_follow_their_formulas() {
    let plan = plan(Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.1, 0.2] });
    let sizing = Sizing::new(&plan, setting(4 << 20, 4)).unwrap();
    let m = f64::from(1 << 20);
    for (name, value) in [
        ("shard_coordinates", m),
        ("state_bytes", 8.0 * m),
        ("rows_bytes", 4.0 * m * 14.0),
        ("snapshot_bytes", 8.0 * m + 4.0 * m * 10.0),
        ("memory_per_worker", 1.1 * 112.0 * m + f64::from(64 << 20) + 100.0 * 60.0),
        ("memory_traffic_per_row", 8.0 * 2.0 * m / 4.0 + 8.0 * m),
        ("network_per_worker", 8.0 * m),
        ("network_of_job", 32.0 * m),
        ("checkpoint_bytes", 4.0 * m * (8.0 + 40.0) + 4096.0),
        ("replay_seconds_at_most", 60.0 * m / 1e6),
    ] {
        assert_eq!(sizing.value(name), Some(value), "{name}");
    }
    assert_eq!(sizing.kubernetes()["limits"]["memory"], "188Mi");
    let patch = sizing.kubernetes_patch(4);
    assert_eq!(patch["spec"]["replicas"], 4);
    // 60 rows at one coordinate a microsecond: 63 s of replay after a minute.
    let container = &patch["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["startupProbe"]["failureThreshold"], 13);
    assert_eq!(container["resources"], sizing.kubernetes());
    assert!(Sizing::new(&plan, setting(512, 4)).unwrap_err().to_string().contains("512"));
}

#[test]
fn a_state_that_is_too_large_to_copy_is_no_part_of_a_snapshot() {
    let plan = plan(Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.1, 0.2] });
    let snapshot = |snapshot_bytes| {
        Sizing::new(&plan, Setting { snapshot_bytes, ..setting(1024, 1) }).unwrap().value("snapshot_bytes")
    };
    let rows = 4.0 * 1024.0 * 10.0;
    assert_eq!([snapshot(8192), snapshot(8191)], [Some(8192.0 + rows), Some(rows)]);
}

#[test]
fn past_normals_count_where_they_may_be_kept() {
    let plan = plan(Mechanism::BandInverse { coefficients: vec![1.0, -0.4, -0.1] });
    let history = |history_bytes| {
        Sizing::new(&plan, Setting { history_bytes, ..setting(1024, 1) }).unwrap().value("history_bytes")
    };
    assert_eq!([history(8192), history(8191)], [Some(8192.0), Some(0.0)]);
}
