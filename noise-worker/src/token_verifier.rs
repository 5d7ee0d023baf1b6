//! Verifies release tokens: their signature, their epoch, their time and their extent.

use proto::{CoordinateRange, JobId, ReleaseKey, ReleaseToken, Result, ServiceError};
use tokio::time::Instant;

/// Verifies tokens by the key, epoch and clock of a heartbeat's response.
#[derive(Clone, Debug)]
pub struct TokenVerifier {
    pub key: ReleaseKey,
    pub epoch: u64,
    /// The coordinator's clock in milliseconds when it answered.
    pub coordinator_ms: u64,
    /// When the request was sent. The answer is later, so that the time reckoned from here is never behind: a token may seem to
    /// end early by the time that the answer took, and never late.
    pub requested_at: Instant,
}

impl TokenVerifier {
    /// Returns the coordinator's clock now, advanced by this process's monotonic clock: no wall clock is involved.
    fn now_ms(&self) -> u64 {
        let since = u64::try_from(self.requested_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.coordinator_ms.saturating_add(since)
    }

    /// Checks that the token is valid for these coordinates of the row.
    pub fn check(
        &self,
        job: &JobId,
        branch: u64,
        row: u64,
        range: CoordinateRange,
        token: &ReleaseToken,
    ) -> Result<()> {
        let presented = token.validity.epoch;
        let current = self.epoch;
        if presented < current {
            return Err(ServiceError::StaleEpoch { presented, current });
        }
        self.key.verify(job, branch, row, token)?;
        if self.now_ms() >= token.validity.until_ms {
            return Err(ServiceError::TokenExpired { job: job.to_string(), row });
        }
        if let Some(extent) = token.validity.extent
            && !extent.contains(&range)
        {
            return Err(ServiceError::RangeNotAllowed { asked: range, allowed: vec![extent] });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proto::{Commitment, Validity};

    use super::*;

    const RANGE: CoordinateRange = CoordinateRange { start: 512, end: 1024 };

    #[test]
    fn tokens_end_with_their_epoch_and_their_time() {
        let key = ReleaseKey::new([1; 32]);
        let job = JobId::new("j").unwrap();
        let verifier = TokenVerifier {
            key: key.clone(),
            epoch: 3,
            coordinator_ms: 1_000_000,
            requested_at: Instant::now(),
        };
        let check = |epoch, until_ms| {
            let validity = Validity { epoch, until_ms, extent: None };
            verifier.check(&job, 0, 7, RANGE, &key.sign(&job, 0, 7, Commitment::of_text("c"), validity))
        };
        assert_eq!(check(3, 9_000_000), Ok(()));
        let expired = check(3, 1_000_000).unwrap_err();
        assert!(expired.kind() == "token_expired" && expired.retry_safe(), "{expired}");
        assert_eq!(check(2, 9_000_000), Err(ServiceError::StaleEpoch { presented: 2, current: 3 }));
        let validity = Validity { epoch: 3, until_ms: 9_000_000, extent: None };
        let other = ReleaseKey::new([2; 32]).sign(&job, 0, 7, Commitment::of_text("c"), validity);
        assert_eq!(verifier.check(&job, 0, 7, RANGE, &other).unwrap_err().kind(), "not_bound");
    }

    #[test]
    fn a_token_of_an_extent_is_good_for_that_much_of_a_row() {
        let key = ReleaseKey::new([1; 32]);
        let job = JobId::new("j").unwrap();
        let verifier =
            TokenVerifier { key: key.clone(), epoch: 3, coordinator_ms: 0, requested_at: Instant::now() };
        let validity = Validity { epoch: 3, until_ms: 9_000_000, extent: Some(RANGE) };
        let token = key.sign(&job, 0, 7, Commitment::of_text("c"), validity);
        let check = |start, end| verifier.check(&job, 0, 7, CoordinateRange { start, end }, &token);
        assert_eq!((check(512, 1024), check(600, 601)), (Ok(()), Ok(())));
        for (start, end) in [(511, 1024), (512, 1025), (0, 512), (1024, 1025)] {
            let asked = CoordinateRange { start, end };
            assert_eq!(check(start, end), Err(ServiceError::RangeNotAllowed { asked, allowed: vec![RANGE] }));
        }
    }
}
