//! Random bytes for jitter, for names of processes and traces, and for the nonces of ledgers, jobs and branches:
//! nothing that must stay secret. A simulation draws these bytes from its seed, so keys never come from here.

use proto::Nonce;

use crate::process::simulation;

/// Fills `bytes` with random bytes; in a simulation, with those of its seed.
pub fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    if !simulation::is_on() {
        return getrandom::fill(bytes);
    }
    for chunk in bytes.chunks_mut(8) {
        let drawn = simulation::next().unwrap_or_default().to_le_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
    Ok(())
}

/// Draws the id of a new ledger, or the nonce of a new job or branch.
///
/// # Errors
/// The operating system gave no randomness.
pub fn nonce() -> Result<Nonce, getrandom::Error> {
    let mut bytes = [0; 32];
    fill(&mut bytes)?;
    Ok(Nonce::from_bytes(bytes))
}

/// Returns a number uniform in `[0, 1)`. A host without random bytes gets 1: the longest delay, where this is jitter.
pub fn fraction() -> f64 {
    let mut bytes = [0; 8];
    match fill(&mut bytes) {
        Ok(()) => (u64::from_le_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64,
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn() -> [u8; 21] {
        let mut bytes = [0; 21];
        fill(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn only_a_simulation_repeats_itself() {
        let seeded = |seed| {
            simulation::begin(seed);
            let bytes = (drawn(), drawn());
            simulation::end();
            bytes
        };
        assert_eq!(seeded(7), seeded(7));
        assert_ne!(seeded(7), seeded(8));
        assert_ne!(seeded(7).0, seeded(7).1);
        assert_ne!(drawn(), drawn());
    }

    #[test]
    fn fractions_are_below_one() {
        assert!((0..1000).map(|_| fraction()).all(|fraction| (0.0..1.0).contains(&fraction)));
    }
}
