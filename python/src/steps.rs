//! The steps that a session may request: one after another, each coordinate once.
//!
//! The ledger guards what may be released. It cannot see that one row's noise is requested twice under a commitment
//! that the session itself declared; this module refuses that.

use proto::{Commitment, CoordinateRange};
use sha2::{Digest, Sha256};

use crate::error::{Refused, Result};

/// The position of a session.
#[derive(Debug)]
pub struct Steps {
    next: u64,
    /// Whether the job had rows before this session, so that the session must resume first.
    must_resume: bool,
    /// The newest step that was requested in part or whole.
    current: Option<Current>,
    /// Enters declared commitments, so that no other process can repeat them.
    nonce: [u8; 32],
}

#[derive(Debug)]
struct Current {
    commitment: Commitment,
    given: Vec<CoordinateRange>,
}

impl Steps {
    pub fn new(next: u64, nonce: [u8; 32]) -> Self {
        Self { next, must_resume: next > 0, current: None, nonce }
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn nonce(&self) -> [u8; 32] {
        self.nonce
    }

    /// Continues at `next`, with the declared commitments that `nonce` yields.
    pub fn continue_at(&mut self, next: u64, nonce: [u8; 32]) {
        *self = Self { next, must_resume: false, current: None, nonce };
    }

    /// Returns the commitment for a part of a step. `given` is the caller's own; under it every repetition is safe, since
    /// the ledger refuses another.
    ///
    /// # Errors
    /// A step that is skipped or repeated, and any step before the session has resumed.
    pub fn admit(&self, step: u64, range: CoordinateRange, given: Option<Commitment>) -> Result<Commitment> {
        let refused = |text: String| Err(Refused::Here("step", text));
        if self.must_resume {
            let next = self.next;
            return Err(Refused::Here(
                "not_resumed",
                format!(
                    "the job has released rows up to step {next} before this session; call resume(cursor) with the \
                     cursor of your training checkpoint, or restart() to begin again with fresh noise (which costs \
                     privacy: see the report)"
                ),
            ));
        }
        if step > self.next {
            return refused(format!("step is {step}; the next one is {}: steps can't be skipped", self.next));
        }
        let declared = self.declared(step);
        if step == self.next {
            return Ok(given.unwrap_or(declared));
        }
        let current = self.current.as_ref().filter(|_| step + 1 == self.next);
        match (given, current) {
            (Some(given), _) => Ok(given),
            (None, Some(current)) if current.commitment == declared => {
                match current.given.iter().find(|done| done.intersection(&range).is_some()) {
                    None => Ok(declared),
                    Some(done) => refused(format!(
                        "coordinates {done} of step {step} were requested already: a step's noise is for one gradient; \
                         the next step is {}",
                        self.next
                    )),
                }
            }
            (None, _) => refused(format!(
                "step {step} was requested already; the next one is {}. To request it again, pass the commitment that it \
                 was bound to",
                self.next
            )),
        }
    }

    /// Records that a part of a step was delivered.
    pub fn record(&mut self, step: u64, range: CoordinateRange, commitment: Commitment) {
        if step == self.next {
            self.next += 1;
            self.current = Some(Current { commitment, given: vec![range] });
        } else if step + 1 == self.next
            && let Some(current) = &mut self.current
        {
            current.given.push(range);
        }
    }

    /// Returns the commitment of a step whose caller passes none. The step may lie after the next one.
    pub fn declared(&self, step: u64) -> Commitment {
        let digest = Sha256::new()
            .chain_update(b"rustle python session v1")
            .chain_update(self.nonce)
            .chain_update(step.to_le_bytes())
            .finalize();
        Commitment::declared(digest.into())
    }
}

/// Draws the nonce of a session.
pub fn nonce() -> Result<[u8; 32]> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce)
        .map_err(|error| Refused::Here("internal", format!("the system's randomness: {error}")))?;
    Ok(nonce)
}
