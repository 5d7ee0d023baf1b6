//! What adaptive clipping and secure aggregation do to a noise multiplier and a clip norm.

use crate::error::{AccountingError, Result, positive};

/// z_Δ = (z⁻² − (2σ_b)⁻²)^{−1/2}: the noise multiplier that the sum must have so that, together with noise of
/// standard deviation σ_b on the **sum of clipped bits**, the round costs as much as noise multiplier z.
///
/// The bits must be sent as b − ½ ∈ {−½, ½}: as {0, 1} their sensitivity under zeroing out is 1 and twice the
/// noise is needed.
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

/// The clip norm to account with where clients round to a grid of step 1/s before secure aggregation, by the
/// conditional rounding of α = e^{−1/2}: √(C² + m/(4s²) + C/s + √m/(2s²)).
///
/// `padded_dimension` m is the dimension after padding to a power of two for the Hadamard rotation. It needs the
/// rounding's retry loop, and the ℓ∞ clip before it.
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
