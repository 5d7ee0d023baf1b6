//! Library errors as the command line reports them: bad use (exit status 2) or failure (exit status 1).

use accounting::AccountingError;

use crate::output::bad_use;

/// Converts an error: numbers outside their range and unsupported requests are bad use, all else is a failure.
pub fn from_accounting(error: AccountingError) -> anyhow::Error {
    match error {
        AccountingError::Invalid { .. }
        | AccountingError::Unsupported { .. }
        | AccountingError::TooFewCanaries { .. }
        | AccountingError::InvalidRelease { .. }
        | AccountingError::Strategy(_) => bad_use(error),
        other => other.into(),
    }
}
