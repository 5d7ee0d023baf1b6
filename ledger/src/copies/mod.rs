//! Copies of a ledger, and old copies in its place. A copy has the nonces of the original, and would make its noise again
//! for other gradients; so each taking up is noted in the ledger and in an anchor outside of it, and where the two
//! disagree the ledger binds nothing.

mod anchor;
mod file_identity;
mod guard;
mod take_up;

pub use guard::Guard;
pub use take_up::AnchorPlace;
