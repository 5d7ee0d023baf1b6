//! Invariant N-3 under MPI: the bytes of the oracle, as over gRPC, whatever the number of ranks.

use tests::{job, plans, sha256, start};

use crate::launch::{Job, mpirun};

const DIMENSION: u64 = 3_700;

#[test]
fn any_number_of_ranks_gives_the_oracles_bytes_as_grpc_does() {
    let plan = &plans()[3];
    let name = job("default");
    let cluster = start(2);
    cluster.create(&name, plan, DIMENSION, 3).unwrap();
    let over_grpc = sha256(&cluster.fetch(&name, 0..40, 0..DIMENSION).unwrap());
    assert_eq!(over_grpc, sha256(&cluster.expected(&name, plan, 0..40, 0..DIMENSION)));
    for ranks in [1, 2, 4, 7] {
        let job = Job::new(plan, DIMENSION);
        let ended = mpirun(&[job.noise(ranks, "--sha256")]);
        let answer = ended.answer();
        assert_eq!(answer["sha256"], sha256(&job.expected(plan, 0..40, 0..DIMENSION)), "{ranks} ranks");
        // Each ledger has noise of its own, under the same key.
        assert_ne!(answer["sha256"], over_grpc, "{ranks} ranks");
        assert_eq!((&answer["rows"], &answer["ranks"]), (&40.into(), &ranks.into()));
    }
}

#[test]
fn every_mechanism_gives_the_oracles_bytes() {
    for plan in plans() {
        let job = Job::new(&plan, 1_300);
        let got = mpirun(&[job.noise(2, "--sha256 --checkpoint-url none")]).sha256();
        assert_eq!(got, sha256(&job.expected(&plan, 0..40, 0..1_300)), "{}", plan.mechanism().name());
    }
}

#[test]
fn a_file_holds_the_rows_and_the_key_may_come_from_the_first_rank() {
    let plan = &plans()[6];
    let job = Job::new(plan, DIMENSION);
    let out = job.path("x.npy");
    let key = job.path("job.key");
    let plan_file = job.path("plan.toml");
    let ledger = job.path("ledger.redb");
    let shared = format!("--plan {plan_file} --ledger {ledger} --broadcast-key --steps 3..9");
    let first = job.bare_noise(1, &format!("{shared} --key-file {key} --out {out}"));
    let others = job.bare_noise(2, &shared);
    let answer = mpirun(&[first, others]).answer();
    let rows = job.expected(plan, 3..9, 0..DIMENSION);
    assert_eq!(answer["sha256"], sha256(&rows));
    let bytes = std::fs::read(&out).unwrap();
    let header = String::from_utf8_lossy(&bytes[10..128]);
    assert!(header.contains("'shape': (6, 3700)"), "{header}");
    let values: Vec<u8> = rows.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(bytes[128..], values);
}
