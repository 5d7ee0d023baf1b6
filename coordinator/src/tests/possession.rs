//! Proofs that a worker has the key of a job.

use super::*;

/// It knows what every worker and every reader of the ledger knows.
#[tokio::test(start_paused = true)]
async fn a_worker_that_only_names_the_key_is_passed_over() {
    for state in [ReportedState::Ready, ReportedState::Restoring] {
        let folder = TempDir::new().unwrap();
        let coordinator = open(&folder);
        coordinator.register(registration("a", 1)).unwrap();
        coordinator.create_job(create(4096, 1)).await.unwrap();
        coordinator.reconcile().await.unwrap();
        let of_an_earlier_challenge = coordinator.proofs("a", 1);
        coordinator.register(registration("a", 1)).unwrap();
        let a = worker("a");
        let beat = |leases: Vec<LeaseReport>, proofs: Vec<KeyProof>| {
            let heartbeat = Heartbeat { leases, proofs, ..Heartbeat::default() };
            coordinator.heartbeat(&a, Incarnation([1; 16]), &heartbeat).unwrap().leases
        };
        let grant = beat(vec![], vec![])[0].clone();
        let echo = KeyProof { job: job(), signature: std::array::from_fn(|at| KEY[at % 32]) };
        let proofs = [of_an_earlier_challenge, vec![echo]].concat();
        for proofs in [vec![], proofs] {
            beat(vec![report(&grant, state)], proofs);
            assert_eq!(coordinator.endpoints(), [None]);
            coordinator.reconcile().await.unwrap();
            assert!(beat(vec![], vec![]).is_empty(), "it was given the shard again");
        }
        coordinator.register(registration("b", 2)).unwrap();
        coordinator.reconcile().await.unwrap();
        assert_eq!(coordinator.make_ready("b", 2).len(), 1);
        assert_eq!(coordinator.endpoints(), [Some("http://b:1".to_owned())]);
    }
}
