//! Tests how the processes check certificates and tokens: which connections they accept, what a change of the files does,
//! and what a token's job and ranges allow. Run it with `cargo nextest run --release -p tests -E 'binary(credentials)'`;
//! who may call which RPC is tested in `../rights`.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

mod certificates;
mod flags;
mod principals;
mod ranges;
mod tls;
mod token_files;
mod tokens;
mod two_persons;
