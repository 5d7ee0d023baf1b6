//! How many canaries an audit takes.

use super::claim::{Claim, Method};
use super::{one_run, populations};
use crate::error::{Result, invalid};

/// Returns the fewest canaries with which a method can refute a claim, each of them recognised; a real attack needs more.
///
/// For [`Method::OneRun`] that is with a guess about every canary; for the others half of them are included.
///
/// # Errors
/// [`AccountingError::Invalid`](crate::AccountingError::Invalid) for a claim outside its range, or a δ so large that no
/// number of canaries refutes it.
pub fn canaries_needed(claim: Claim, method: Method) -> Result<u64> {
    claim.check(method)?;
    let found = match method {
        Method::OneRun => one_run::needed(claim, claim.alpha()),
        Method::ClopperPearson | Method::Gaussian => populations::needed(claim, method),
    };
    found.ok_or_else(|| {
        invalid(
            "delta",
            claim.delta,
            "smaller: at this epsilon and confidence no number of canaries is enough",
        )
    })
}
