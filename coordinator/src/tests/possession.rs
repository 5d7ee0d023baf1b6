//! Proofs that a worker has the key of a job.

use super::*;

struct Rogue<'a>(&'a Coordinator);

impl Rogue<'_> {
    fn beat(&self, leases: Vec<LeaseReport>, proofs: Vec<KeyProof>) -> Result<Vec<LeaseGrant>> {
        let heartbeat = Heartbeat { leases, proofs, ..Heartbeat::default() };
        self.0.heartbeat(&worker("a"), Incarnation([1; 16]), &heartbeat).map(|reply| reply.leases)
    }
}

/// It knows what every worker and every reader of the ledger knows, and what another worker proved before.
#[tokio::test(start_paused = true)]
async fn a_worker_that_only_names_the_key_is_passed_over() {
    let states = [ReportedState::Ready, ReportedState::Restoring];
    for (state, with) in states.into_iter().flat_map(|state| (0..3).map(move |with| (state, with))) {
        let folder = TempDir::new().unwrap();
        let coordinator = open(&folder);
        let rogue = Rogue(&coordinator);
        coordinator.register(registration("a", 1)).unwrap();
        coordinator.create_job(create(4096, 1)).await.unwrap();
        coordinator.reconcile().await.unwrap();
        let of_an_earlier_challenge = coordinator.proofs("a", 1);
        let echo = KeyProof { job: job(), signature: std::array::from_fn(|at| KEY[at % 32]) };
        let proofs = [vec![], of_an_earlier_challenge, vec![echo]][with].clone();
        coordinator.register(registration("a", 1)).unwrap();
        let grant = rogue.beat(vec![], vec![]).unwrap()[0].clone();
        while let Err(refused) = rogue.beat(vec![report(&grant, state)], proofs.clone()) {
            assert_eq!(refused.kind(), "must_register");
            coordinator.register(registration("a", 1)).unwrap();
        }
        assert_eq!(coordinator.endpoints(), [None]);
        coordinator.reconcile().await.unwrap();
        assert!(
            rogue.beat(vec![], vec![]).unwrap().is_empty(),
            "{state:?} with {with}: it was given the shard again"
        );
        coordinator.register(registration("b", 2)).unwrap();
        coordinator.reconcile().await.unwrap();
        assert_eq!(coordinator.make_ready("b", 2).len(), 1);
        assert_eq!(coordinator.endpoints(), [Some("http://b:1".to_owned())]);
    }
}

/// It was on its way while the worker registered again.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_of_an_earlier_registration_excludes_nobody() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.register(registration("a", 1)).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.reconcile().await.unwrap();
    for _ in 0..6 {
        let grants = coordinator.make_ready("a", 1);
        let proofs = coordinator.proofs("a", 1);
        coordinator.register(registration("a", 1)).unwrap();
        let late = grants.iter().map(|grant| report(grant, ReportedState::Ready)).collect();
        assert_eq!(Rogue(&coordinator).beat(late, proofs).unwrap_err().kind(), "must_register");
        coordinator.register(registration("a", 1)).unwrap();
        assert_eq!(coordinator.make_ready("a", 1).len(), 1);
        assert_eq!(coordinator.endpoints(), [Some("http://a:1".to_owned())]);
    }
}
