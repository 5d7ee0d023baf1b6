//! What identifies the noise of a job's branch, beside key and plan.

use std::{fmt, str::FromStr};

use crate::{Lineage, Nonce, Result, ServiceError, pb};

/// The job's nonce and the lineage of one of its branches. With the job's key, its plan and the dimension it decides
/// every bit of every row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NoiseId {
    /// The job's nonce.
    pub job_nonce: Nonce,
    /// The branches whose Z the rows have.
    pub lineage: Lineage,
}

impl NoiseId {
    /// Returns the noise of a job that never rewound.
    pub fn of_job(job_nonce: Nonce) -> Self {
        Self { job_nonce, lineage: Lineage::of_job(job_nonce) }
    }
}

/// `NONCE/0..120=0:NONCE,120..=1:NONCE`; of a job that never rewound the nonce alone.
impl fmt::Display for NoiseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job_nonce, lineage } = self;
        if *self == Self::of_job(*job_nonce) {
            return write!(f, "{job_nonce}");
        }
        write!(f, "{job_nonce}/{lineage}")
    }
}

impl FromStr for NoiseId {
    type Err = ServiceError;
    fn from_str(text: &str) -> Result<Self> {
        let allowed = "a noise id as `rustle job show` prints it: the job's nonce of 64 hex digits, and for a job that \
                       rewound a slash and its lineage";
        let refused = |_| ServiceError::invalid("noise_id", format!("{text:?}"), allowed);
        let Some((nonce, lineage)) = text.split_once('/') else {
            return text.parse().map(Self::of_job).map_err(refused);
        };
        let job_nonce = nonce.parse().map_err(refused)?;
        let lineage: Lineage = lineage.parse()?;
        let first = lineage.segments()[0];
        if first.branch == 0 && first.nonce != job_nonce {
            let allowed = format!("{job_nonce}, the job's own");
            return Err(ServiceError::invalid("nonce of branch 0", first.nonce, allowed));
        }
        Ok(Self { job_nonce, lineage })
    }
}

impl TryFrom<&pb::Job> for NoiseId {
    type Error = ServiceError;
    fn try_from(job: &pb::Job) -> Result<Self> {
        let job_nonce = Nonce::from_slice("job_nonce", &job.job_nonce)?;
        Ok(Self { job_nonce, lineage: job.lineage.clone().try_into()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values_say_the_same() {
        let nonce = |byte| Nonce::from_bytes([byte; 32]);
        let plain = NoiseId::of_job(nonce(1));
        assert_eq!(plain.to_string(), nonce(1).to_string());
        let lineage = plain.lineage.rewound(5, 1, nonce(2));
        let rewound = NoiseId { lineage, ..plain.clone() };
        // Rewound to row 0, branch 0 is gone from the lineage, and the job's nonce is not.
        let from_0 = NoiseId { lineage: plain.lineage.rewound(0, 1, nonce(2)), ..plain.clone() };
        for id in [plain, rewound, from_0] {
            assert_eq!(id.to_string().parse::<NoiseId>().unwrap(), id);
        }
        let [first, second] = [nonce(1), nonce(2)];
        let other = format!("{first}/0..=0:{second}");
        for bad in ["", "00", "/", &format!("{first}/"), &format!("{first}/0..=0"), &other] {
            assert!(bad.parse::<NoiseId>().is_err(), "{bad}");
        }
    }
}
