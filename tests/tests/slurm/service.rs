//! service.sbatch: coordinator and workers over gRPC with TLS, beside a program that fetches; requeued with more workers.

use std::{fs, process::Command};

use plan::Mechanism;
use tests::{program, small_plan};

use crate::{cluster::Slurm, run::Run};

const DIMENSION: u64 = 3_700;

/// Writes rows to a file each, from the first that is missing, until a signal or a limit stops it.
const FETCH: &str = r#"
trap 'stop=1' USR1 TERM
mkdir -p "$RUSTLE_RUN/fetched"
row=$(ls "$RUSTLE_RUN/fetched" | wc -l)
until [ -n "$stop" ] || [ -e "$RUSTLE_RUN/enough" ]; do
    "$RUSTLE_PROGRAM" fetch --steps "$row..$((row + 1))" --range "0..$RUSTLE_DIMENSION" --commitment "step $row" \
        --out "$RUSTLE_RUN/row.npy" >/dev/null || exit 1
    mv "$RUSTLE_RUN/row.npy" "$RUSTLE_RUN/fetched/$row.npy"
    row=$((row + 1))
done"#;

fn fetched(run: &Run) -> usize {
    fs::read_dir(run.path("fetched")).map_or(0, Iterator::count)
}

#[test]
fn rows_over_grpc_are_the_oracles_through_a_requeue_with_more_workers() {
    let Some(slurm) = Slurm::start() else { return };
    let plan = small_plan(Mechanism::BandSqrt { bands: 9 }, 1 << 20);
    let run = Run::new(&plan, DIMENSION);
    let certs = run.path("certs").display().to_string();
    let made = Command::new(program())
        .args(["certs", "new", "--out", &certs, "--workers", "3", "--job", "default"])
        .output();
    assert!(made.as_ref().is_ok_and(|made| made.status.success()), "{made:?}");
    let words = ["bash", "-c", FETCH].map(str::to_owned);
    let first = slurm.submit("--ntasks=1 : --ntasks=2", "service.sbatch", &run.variables(&[]), &words);
    first.wait_for("rows are fetched", || fetched(&run) >= 3);
    first.warn();
    first.starts_again(1, &[(1, "NumTasks=3 NumCPUs=3")]);
    let before = fetched(&run);
    first.wait_for("rows are fetched again", || fetched(&run) >= before + 3);
    fs::write(run.path("enough"), "").unwrap();
    first.ends("COMPLETED");
    assert!(first.output().contains("shard=2 "), "{}", first.output());

    let rows = run.expected(&plan, 0..fetched(&run) as u64);
    for (row, values) in rows.iter().enumerate() {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let file = fs::read(run.path(&format!("fetched/{row}.npy"))).unwrap();
        assert!(file.ends_with(&bytes), "row {row}");
    }
}
