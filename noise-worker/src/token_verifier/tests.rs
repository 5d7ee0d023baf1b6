use proto::{Commitment, CoordinatorKey, JobId, Nonce, Validity};

use super::*;

const RANGE: CoordinateRange = CoordinateRange { start: 512, end: 1024 };
const ROWS: RowRange = RowRange { start: 7, end: 8 };
const NONCE: Nonce = Nonce::from_bytes([5; 32]);

fn key() -> CoordinatorKey {
    CoordinatorKey::new(&[1; 32])
}

fn verifier(coordinator_ms: u64) -> TokenVerifier {
    TokenVerifier {
        key: key().public(),
        epoch: 3,
        coordinator_ms,
        requested_at: Instant::now(),
        known: Arc::default(),
    }
}

fn token(key: &CoordinatorKey, of: GrantedBranch<'_>, validity: Validity) -> ReleaseToken {
    key.release(of, ROWS, vec![Commitment::of_text("c")], validity).token(ROWS).unwrap()
}

#[test]
fn tokens_end_with_their_epoch_and_their_time() {
    let job = JobId::new("j").unwrap();
    let of = GrantedBranch { job: &job, nonce: &NONCE, branch: 0 };
    let verifier = verifier(1_000_000);
    let check = |key: &CoordinatorKey, epoch, until_ms| {
        let validity = Validity { epoch, until_ms, extent: None };
        verifier.check(of, ROWS, RANGE, &token(key, of, validity))
    };
    // Twice, the second time by what is remembered.
    assert_eq!((check(&key(), 3, 9_000_000), check(&key(), 3, 9_000_000)), (Ok(()), Ok(())));
    for _ in 0..2 {
        let expired = check(&key(), 3, 1_000_000).unwrap_err();
        assert!(expired.kind() == "token_expired" && expired.retry_safe(), "{expired}");
    }
    assert_eq!(check(&key(), 2, 9_000_000), Err(ServiceError::StaleEpoch { presented: 2, current: 3 }));
    let other = CoordinatorKey::new(&[2; 32]);
    assert_eq!(check(&other, 3, 9_000_000).unwrap_err().kind(), "not_bound");
}

#[test]
fn what_was_found_good_is_good_for_that_key_and_text_alone() {
    let job = JobId::new("j").unwrap();
    let of = GrantedBranch { job: &job, nonce: &NONCE, branch: 0 };
    let verifier = verifier(0);
    let validity = Validity { epoch: 3, until_ms: 9_000_000, extent: None };
    let good = token(&key(), of, validity);
    assert_eq!(verifier.check(of, ROWS, RANGE, &good), Ok(()));
    let next = TokenVerifier { key: CoordinatorKey::new(&[2; 32]).public(), ..verifier.clone() };
    assert_eq!(next.check(of, ROWS, RANGE, &good).unwrap_err().kind(), "not_bound");
    let other = GrantedBranch { branch: 1, ..of };
    assert_eq!(verifier.check(other, ROWS, RANGE, &good).unwrap_err().kind(), "not_bound");
    let mut forged = good.clone();
    forged.grant.validity.until_ms += 1;
    assert_eq!(verifier.check(of, ROWS, RANGE, &forged).unwrap_err().kind(), "not_bound");
}

#[test]
fn a_token_of_an_extent_is_good_for_that_much_of_a_row() {
    let job = JobId::new("j").unwrap();
    let of = GrantedBranch { job: &job, nonce: &NONCE, branch: 0 };
    let verifier = verifier(0);
    let token = token(&key(), of, Validity { epoch: 3, until_ms: 9_000_000, extent: Some(RANGE) });
    let check = |start, end| verifier.check(of, ROWS, CoordinateRange { start, end }, &token);
    assert_eq!((check(512, 1024), check(600, 601)), (Ok(()), Ok(())));
    for (start, end) in [(511, 1024), (512, 1025), (0, 512), (1024, 1025)] {
        let asked = CoordinateRange { start, end };
        assert_eq!(check(start, end), Err(ServiceError::RangeNotAllowed { asked, allowed: vec![RANGE] }));
    }
}
