//! What `rustle plan resources` says against what workers take.

use serde_json::Value;
use tests::{get, program};

use super::load::{DIMENSION, Load, WORKERS, plan};
use super::run;

fn metric(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn workers_take_what_the_calculator_says() {
    let mut load = Load::start();
    (0..20).for_each(|_| load.work());
    let file = load.cluster.dir.path().join("plan.toml");
    std::fs::write(&file, plan().to_toml_string().unwrap()).unwrap();
    let dimension = DIMENSION.to_string();
    let workers = WORKERS.to_string();
    let file = file.display().to_string();
    let args = [
        "plan",
        "resources",
        "--format",
        "json",
        "--plan",
        &file,
        "--dimension",
        &dimension,
        "--workers",
        &workers,
    ];
    let said: Value = serde_json::from_str(&run(&program().display().to_string(), &args)).unwrap();
    let said = |name: &str| said[name].as_f64().unwrap_or_else(|| panic!("no {name} in {said}"));
    let most = |name: &str| {
        let of = |worker: usize| {
            let base = load.cluster.cluster.worker(worker).unwrap().metrics().to_owned();
            metric(&get(&base, "/metrics"), name)
        };
        (0..WORKERS).map(of).fold(0.0, f64::max)
    };
    // State is counted for coordinates, and stored for whole blocks.
    let state = most("rustle_worker_state_bytes");
    assert!(
        state <= said("state_bytes") && state > 0.9 * said("state_bytes"),
        "{state} of {}",
        said("state_bytes")
    );
    let rows = most("rustle_worker_ahead_bytes");
    assert!(rows <= said("rows_bytes"), "{rows} of {}", said("rows_bytes"));
    let resident = most("rustle_process_resident_memory_bytes");
    assert!(resident <= said("memory_per_worker"), "{resident} of {}", said("memory_per_worker"));
    let checkpoint = load.checkpoint_bytes() as f64;
    assert!(checkpoint <= said("checkpoint_bytes"), "{checkpoint} of {}", said("checkpoint_bytes"));
    assert!(checkpoint > 0.5 * said("checkpoint_bytes"), "{checkpoint} of {}", said("checkpoint_bytes"));
}
