//! Authentication and authorisation: who calls, and what they may call.
//!
//! A caller is known by its certificate, by a bearer token, or by both. The table of RPCs that a server is given
//! ([`proto::rpc`]) lists the roles that may call each. [`Authenticator`] checks the role before any handler runs, and
//! handlers check the job that the request names by [`Access`]. docs/security.md describes the whole.
//!
//! # Layout
//!
//! * [`Identity`] and [`Role`]: what a certificate names; [`Tokens`] and [`TokenEntry`]: the file of token digests;
//!   [`Bearer`]: a caller's own token.
//! * [`Grant`]: one role, of one job or of all; [`Caller`]: a caller and its grants.
//! * [`Authenticator`], [`Access`], [`Refusal`]: the two checks and their outcome.
//! * [`CallerName`]: who a task acts for, as records name it.

mod access;
mod acting;
mod authenticator;
mod bearer;
mod grant;
mod identity;
mod refusal;
mod token_entry;
mod tokens;

pub use access::Access;
pub use acting::{CallerName, caller, carry_caller};
pub use authenticator::{Authenticator, Caller};
pub use bearer::{Bearer, BearerError};
pub use grant::Grant;
pub use identity::{Identity, Role};
pub use proto::rpc::CallerRole;
pub use refusal::{ClientKey, Refusal};
pub use token_entry::TokenEntry;
pub use tokens::{TokenError, Tokens, digest_of};
