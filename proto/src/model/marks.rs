//! What workers keep on their own disks of the rows that they released.

use crate::{Commitment, JobId, Nonce, Result, ServiceError, pb};

/// A job as its ledger created it. A job of the same name in another ledger, or created anew, is another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobIdentity {
    /// The id of the ledger.
    pub ledger: Nonce,
    /// The nonce of the job.
    pub nonce: Nonce,
    /// The name of the job.
    pub job: JobId,
}

/// The end of the released rows of one branch of a job, as a worker has it on its own disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMark {
    /// The job.
    pub job: JobId,
    /// The nonce of the job.
    pub nonce: Nonce,
    /// A branch: the highest seen, or one of which rows were released.
    pub branch: u64,
    /// One more than the highest row released of the branch's own Z; 0 for none.
    pub next_row: u64,
    /// The commitment of that highest row; `None` for none.
    pub commitment: Option<Commitment>,
}

impl TryFrom<pb::JobMark> for JobMark {
    type Error = ServiceError;
    fn try_from(mark: pb::JobMark) -> Result<Self> {
        let commitment = match mark.next_row {
            0 => None,
            _ => Some(Commitment::try_from(mark.commitment.as_slice())?),
        };
        Ok(Self {
            job: JobId::new(mark.job)?,
            nonce: Nonce::from_slice("job_nonce", &mark.job_nonce)?,
            branch: mark.branch,
            next_row: mark.next_row,
            commitment,
        })
    }
}

impl From<JobMark> for pb::JobMark {
    fn from(mark: JobMark) -> Self {
        Self {
            job: mark.job.into(),
            branch: mark.branch,
            next_row: mark.next_row,
            job_nonce: mark.nonce.as_bytes().to_vec(),
            commitment: mark.commitment.map(|it| it.to_bytes().to_vec()).unwrap_or_default(),
        }
    }
}

/// What a worker reports of its record: what it knows of one ledger, and of no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerRecord {
    /// The id of the ledger; `None` where the worker does not know one yet.
    pub ledger: Option<Nonce>,
    /// The highest epoch of a coordinator on that ledger that the worker has seen; 0 for none.
    pub highest_epoch: u64,
    /// The marks that the coordinator has not received yet, as many as one message holds.
    pub marks: Vec<JobMark>,
}

impl WorkerRecord {
    /// Reads what a message says. An empty `ledger_id` names no ledger.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] for an id of another number of bytes than 0 and 32, and for a mark that is none.
    pub fn read(ledger_id: &[u8], highest_epoch: u64, marks: Vec<pb::JobMark>) -> Result<Self> {
        let ledger =
            (!ledger_id.is_empty()).then(|| Nonce::from_slice("ledger_id", ledger_id)).transpose()?;
        let marks = marks.into_iter().map(JobMark::try_from).collect::<Result<_>>()?;
        Ok(Self { ledger, highest_epoch, marks })
    }

    /// Returns the ledger's id as messages carry it: empty for none.
    pub fn ledger_id(&self) -> Vec<u8> {
        self.ledger.map(|ledger| ledger.as_bytes().to_vec()).unwrap_or_default()
    }
}
