//! Who calls, and what they may call.
//!
//! A caller is known by its certificate, by a bearer token, or by both; [`table`] says what that lets it call.
//! [`Authenticator`] is asked before any handler runs, and handlers ask [`Admitted`] about the job that is named
//! inside the request. Docs: docs/security.md, whose table a test compares with ours.

mod admitted;
mod authenticator;
mod bearer;
mod grant;
mod identity;
pub mod table;
mod tokens;

pub use admitted::Admitted;
pub use authenticator::{Authenticator, Caller, ClientKey, Refusal};
pub use bearer::{Bearer, BearerError};
pub use grant::{Grant, GrantRole};
pub use identity::{Identity, Role};
pub use tokens::{TokenEntry, TokenError, Tokens, digest_of};
