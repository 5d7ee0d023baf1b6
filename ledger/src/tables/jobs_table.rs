//! Reads and writes of the tables of jobs and plans.

use proto::JobId;
use redb::ReadableTable;

use crate::{JobRecord, LedgerError, error::Fail, store::recording::RecordingTable, tables};

/// Returns the job's record without its plan; `None` where there is no such job.
pub fn find(
    jobs: &impl ReadableTable<&'static str, &'static [u8]>,
    job: &JobId,
) -> Result<Option<JobRecord>, Fail> {
    jobs.get(job.as_str())?.map(|bytes| tables::decode(bytes.value())).transpose()
}

/// Returns the job's record without its plan. Error: there is no such job.
pub fn existing(
    jobs: &impl ReadableTable<&'static str, &'static [u8]>,
    job: &JobId,
) -> Result<JobRecord, Fail> {
    find(jobs, job)?.ok_or_else(|| LedgerError::NotFound { what: "job", name: job.to_string() }.into())
}

/// Writes the record without its plan, which never changes.
pub fn put(
    jobs: &mut RecordingTable<'_, &'static str, &'static [u8]>,
    record: &JobRecord,
) -> Result<(), Fail> {
    let without_plan = JobRecord { plan_toml: String::new(), ..record.clone() };
    jobs.insert(record.job.as_str(), tables::encode(&without_plan)?.as_slice())?;
    Ok(())
}

/// Returns the text of the job's plan.
pub fn plan_of(plans: &impl ReadableTable<&'static str, &'static str>, job: &JobId) -> Result<String, Fail> {
    let plan = plans.get(job.as_str())?.map(|text| text.value().to_owned());
    plan.ok_or_else(|| Fail::Record(format!("the plan of job {job} is missing")))
}
