//! Copies of a ledger, and old copies in its place. A copy has the nonces of the original, and would make its noise again
//! for other gradients; so each taking up is noted in the ledger and in an anchor outside of it, and where the two
//! disagree the ledger binds nothing.

mod anchor;
mod file_identity;
mod guard;
mod seen;
mod store_anchor;
mod store_lease;
mod take_up;

pub use anchor::anchor_of_earlier;
pub use guard::Guard;
pub use store_anchor::{Draws, StoreAnchor};
pub use store_lease::{AnchorTrouble, StoreLease};
pub use take_up::AnchorPlace;
