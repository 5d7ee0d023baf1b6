//! Looks at release tokens: whose they are, whether they are good, and whether their time has passed.

use proto::{JobId, ReleaseKey, ReleaseToken, Result, ServiceError};
use tokio::time::Instant;

/// What one answer of the coordinator says of its tokens.
#[derive(Clone, Debug)]
pub struct Clerk {
    pub key: ReleaseKey,
    pub epoch: u64,
    /// The coordinator's clock when it answered.
    pub said_ms: u64,
    /// When it was asked. It answered later, so that its clock is never ahead of what is reckoned from here: a token
    /// may seem to end early by the time that the answer took, and never late.
    pub asked: Instant,
}

impl Clerk {
    /// The coordinator's clock now, by this process's monotonic clock alone: nobody's wall clock comes into it.
    fn coordinator_ms(&self) -> u64 {
        let since = u64::try_from(self.asked.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.said_ms.saturating_add(since)
    }

    pub fn check(&self, job: &JobId, branch: u64, row: u64, token: &ReleaseToken) -> Result<()> {
        let (presented, current) = (token.validity.epoch, self.epoch);
        if presented < current {
            return Err(ServiceError::StaleEpoch { presented, current });
        }
        self.key.verify(job, branch, row, token)?;
        if self.coordinator_ms() >= token.validity.until_ms {
            return Err(ServiceError::TokenExpired { job: job.to_string(), row });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proto::{Commitment, Validity};

    use super::*;

    #[test]
    fn tokens_end_with_their_epoch_and_their_time() {
        let key = ReleaseKey::new([1; 32]);
        let job = JobId::new("j").unwrap();
        let clerk = Clerk { key: key.clone(), epoch: 3, said_ms: 1_000_000, asked: Instant::now() };
        let check = |epoch, until_ms| {
            let validity = Validity { epoch, until_ms };
            clerk.check(&job, 0, 7, &key.sign(&job, 0, 7, Commitment::of_text("c"), validity))
        };
        assert_eq!(check(3, 9_000_000), Ok(()));
        let expired = check(3, 1_000_000).unwrap_err();
        assert!(expired.kind() == "token_expired" && expired.retry_safe(), "{expired}");
        assert_eq!(check(2, 9_000_000), Err(ServiceError::StaleEpoch { presented: 2, current: 3 }));
        let validity = Validity { epoch: 3, until_ms: 9_000_000 };
        let other = ReleaseKey::new([2; 32]).sign(&job, 0, 7, Commitment::of_text("c"), validity);
        assert_eq!(clerk.check(&job, 0, 7, &other).unwrap_err().kind(), "not_bound");
    }
}
