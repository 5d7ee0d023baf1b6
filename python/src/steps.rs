//! The steps that a session may request: one after another, each coordinate once.
//!
//! The ledger guards what may be released. It cannot see that one row's noise is requested twice under a commitment
//! that was declared; this module and [`crate::sums`] refuse that.

use proto::{Commitment, CommitmentKind, CoordinateRange};
use sha2::{Digest, Sha256};

use crate::error::{Refused, Result};
use crate::secret::Secret;
use crate::sums::{Purpose, Sums};

/// A request of training code for values of one step.
pub struct StepRequest<'a> {
    pub step: u64,
    /// The first coordinate.
    pub start: u64,
    /// The number of coordinates.
    pub length: usize,
    /// The bytes of the caller's own commitment.
    pub commitment: Option<&'a [u8]>,
    pub purpose: Purpose,
}

/// The position of a session.
pub struct Steps {
    next: u64,
    /// Whether the job had rows before this session, so that the session must resume first.
    must_resume: bool,
    /// The newest step that was requested in part or whole.
    current: Option<Current>,
    /// Enters declared commitments, so that no other process can repeat them.
    nonce: [u8; 32],
    /// The key of exact commitments.
    secret: Secret,
    sums: Sums,
}

struct Current {
    commitment: Commitment,
    given: Vec<CoordinateRange>,
}

impl Steps {
    pub fn new(next: u64, nonce: [u8; 32], secret: Secret) -> Self {
        Self { next, must_resume: next > 0, current: None, nonce, secret, sums: Sums::default() }
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns what enters the commitments: nonce and secret.
    pub fn shared(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        let (nonce, secret) = bytes.split_at_mut(32);
        nonce.copy_from_slice(&self.nonce);
        secret.copy_from_slice(&self.secret.to_bytes());
        bytes
    }

    /// Continues at `next`, with the declared commitments that `nonce` yields. `is_fresh`: rows from there on have other
    /// noise than before.
    pub fn continue_at(&mut self, next: u64, nonce: [u8; 32], is_fresh: bool) {
        if is_fresh {
            self.sums.forget_from(next);
        }
        self.next = next;
        self.nonce = nonce;
        self.must_resume = false;
        self.current = None;
    }

    /// Takes the key of exact commitments over, from a cursor or another rank.
    pub fn set_secret(&mut self, secret: Secret) {
        self.secret = secret;
    }

    /// Returns the commitment for a part of a step. `given` is the caller's own, under which a step may be requested
    /// again: the ledger refuses another commitment, and [`Sums`] another sum where the commitment is none to the sum.
    ///
    /// # Errors
    /// A step that is skipped or repeated, a sum that the noise of the step is not for, and any step before the session
    /// has resumed.
    pub fn admit(
        &self,
        step: u64,
        range: CoordinateRange,
        given: Option<Commitment>,
        purpose: Purpose,
    ) -> Result<Commitment> {
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
        if given.is_some_and(|given| given.kind == CommitmentKind::Declared) {
            self.sums.check(step, self.next, range, purpose)?;
        }
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
    pub fn record(&mut self, step: u64, range: CoordinateRange, commitment: Commitment, purpose: Purpose) {
        self.sums.record(step, self.next, range, purpose);
        if step == self.next {
            self.next += 1;
            self.current = Some(Current { commitment, given: vec![range] });
        } else if step + 1 == self.next
            && let Some(current) = &mut self.current
        {
            current.given.push(range);
        }
    }

    /// Records that noise which was delivered goes to a sum, once.
    pub fn note_used(&mut self, step: u64, range: CoordinateRange) {
        self.sums.record(step, self.next, range, Purpose::SumOnce);
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
