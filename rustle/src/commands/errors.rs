//! Errors of libraries as the command line reports them: bad use (exit status 2) or failure (exit status 1).

use accounting::AccountingError;

use crate::output::bad_use;

/// Reports numbers outside their range and questions without an answer as bad use, all else as a failure.
pub fn from_accounting(error: AccountingError) -> anyhow::Error {
    match error {
        AccountingError::Invalid { .. }
        | AccountingError::Unsupported { .. }
        | AccountingError::InvalidRelease { .. }
        | AccountingError::Strategy(_) => bad_use(error),
        other => other.into(),
    }
}
