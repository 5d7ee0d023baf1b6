//! The targets, one file for each family of decoders.

mod access;
mod etcd;
mod files;
mod http2;
mod lending;
mod messages;
mod mpi;
mod record;
mod requests;
mod self_test;
mod text;
mod wire;

pub use self_test::self_test;

use crate::Target;

pub fn all() -> Vec<Target> {
    [
        access::targets(),
        messages::targets(),
        requests::targets(),
        wire::targets(),
        http2::targets(),
        files::targets(),
        etcd::targets(),
        lending::targets(),
        mpi::targets(),
        record::targets(),
        text::targets(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
