//! Adaptive clipping and secure aggregation: their effect on the noise multiplier and the clip norm.

use crate::error::{AccountingError, Result, positive};

/// Returns the noise multiplier z_Δ = (z⁻² − (2σ_b)⁻²)^{−1/2} of the sum with which a round that also releases the
/// **sum of clipped bits**, under noise of standard deviation σ_b, costs as much as noise multiplier z.
///
/// The bits must be sent as b − ½ ∈ {−½, ½}. Sent as {0, 1} they have sensitivity 1 under zeroing out, and need twice
/// the noise.
///
/// # Errors
/// [`AccountingError::Invalid`] unless z > 0 and σ_b > z/2.
pub fn adaptive_noise_multiplier(noise_multiplier: f64, bit_noise: f64) -> Result<f64> {
    let z = positive("noise multiplier", noise_multiplier)?;
    positive("bit noise", bit_noise)?;
    if bit_noise <= z / 2.0 {
        let allowed = "above half the noise multiplier";
        return Err(AccountingError::Invalid { what: "bit noise", value: bit_noise, allowed });
    }
    // z·(1 − (z/2σ_b)²)^{−1/2}, without squares that leave f64.
    let share = z / (2.0 * bit_noise);
    Ok(z / ((1.0 - share) * (1.0 + share)).sqrt())
}

/// Returns the clip norm to account with where clients round to a grid of step 1/s before secure aggregation, by the
/// conditional rounding of α = e^{−1/2}: √(C² + m/(4s²) + C/s + √m/(2s²)).
///
/// `padded_dimension` m is the dimension after padding to a power of two for the Hadamard rotation. The bound needs the
/// retry loop of the rounding, and the ℓ∞ clip before it.
///
/// # Errors
/// [`AccountingError::Invalid`] unless C, s > 0 are finite and m is a power of two.
pub fn inflated_clip_norm(clip_norm: f64, scale: f64, padded_dimension: u64) -> Result<f64> {
    let c = positive("clip norm", clip_norm)?;
    let s = positive("scale", scale)?;
    if !padded_dimension.is_power_of_two() {
        let what = "padded dimension";
        let allowed = "a power of two";
        return Err(AccountingError::Invalid { what, value: padded_dimension as f64, allowed });
    }
    let m = padded_dimension as f64;
    let squared = c * c + m / (4.0 * s * s) + c / s + m.sqrt() / (2.0 * s * s);
    positive("inflated clip norm", squared.sqrt())
}
