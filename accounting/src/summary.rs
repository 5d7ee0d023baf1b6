//! Other figures of a privacy profile: the power of the best attack, a single μ, and groups of records.

use crate::error::{AccountingError, Result, probability};
use crate::gaussian;
use crate::pld::{ACCURACY, Profile};

/// Accuracy of ε inside a search, which evaluates it dozens of times.
const SEARCH_ACCURACY: f64 = 1e-3;

/// Returns an upper bound of the true positive rate of any test between neighbours whose false positive rate is `fpr`.
///
/// # Errors
/// [`AccountingError::Invalid`] unless 0 < fpr < 1.
pub fn true_positive_rate(profile: &Profile, fpr: f64) -> Result<f64> {
    probability("false positive rate", fpr)?;
    let remove = profile.remove.true_positive_rate(fpr, ACCURACY)?;
    Ok(remove.max(profile.add.true_positive_rate(fpr, ACCURACY)?))
}

/// Returns μ of the Gaussian mechanism that has the same ε at `delta`. At another δ the profile may cost more or less
/// than that mechanism.
///
/// # Errors
/// Those of [`Profile::epsilon`], and [`AccountingError::OutOfReach`] where ε = 0 already.
pub fn gaussian_mu(profile: &Profile, delta: f64) -> Result<f64> {
    gaussian::largest_mu(profile.epsilon(delta)?, delta)
}

/// Returns the largest [`gaussian_mu`] over several δ: at each of them the profile costs no more than the Gaussian
/// mechanism of this μ. It bounds nothing at other δ.
///
/// # Errors
/// Those of [`gaussian_mu`].
pub fn gaussian_mu_over(profile: &Profile, deltas: &[f64]) -> Result<f64> {
    deltas.iter().try_fold(0.0, |most: f64, delta| Ok(most.max(gaussian_mu(profile, *delta)?)))
}

/// Returns an ε for groups of k records that follows from one record's profile alone: the least kε with
/// δ(ε)·(e^{kε} − 1)/(e^ε − 1) ≤ `delta`. It serves for comparison; [`crate::user_level`] is far tighter.
///
/// # Errors
/// [`AccountingError::Invalid`] unless k ≥ 1 and 0 < δ < 1; [`AccountingError::OutOfReach`] where no ε up to
/// 10⁴ will do.
pub fn group_epsilon(profile: &Profile, group_size: u64, delta: f64) -> Result<f64> {
    let goal = probability("delta", delta)?.ln();
    if group_size == 0 {
        return Err(AccountingError::Invalid { what: "group size", value: 0.0, allowed: "1 or more" });
    }
    if group_size == 1 {
        return profile.epsilon(delta);
    }
    let k = group_size as f64;
    let holds = |epsilon: f64| -> Result<bool> {
        let one = profile.remove.delta(epsilon, SEARCH_ACCURACY)?.value;
        let one = one.max(profile.add.delta(epsilon, SEARCH_ACCURACY)?.value);
        // ln (e^{kε} − 1)/(e^ε − 1), without e^{kε}.
        let growth = (k - 1.0) * epsilon + (-(-k * epsilon).exp()).ln_1p() - (-(-epsilon).exp()).ln_1p();
        Ok(one.ln() + growth <= goal)
    };
    let mut low = 0.0;
    let mut high = profile.epsilon(delta)?.max(1e-3);
    while !holds(high)? {
        (low, high) = (high, high * 2.0);
        if high > 1e4 {
            let setting =
                format!("groups of {group_size} at delta = {delta}: tried up to {high} for one record");
            return Err(AccountingError::OutOfReach { what: "epsilon", setting });
        }
    }
    while high - low > SEARCH_ACCURACY * high {
        let middle = f64::midpoint(low, high);
        if holds(middle)? { high = middle } else { low = middle }
    }
    Ok(k * high)
}
