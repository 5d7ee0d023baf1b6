//! One file for each family of decoders.

mod access;
mod files;
mod lending;
mod messages;
mod record;
mod text;
mod wire;

use crate::Target;

pub fn all() -> Vec<Target> {
    [
        access::targets(),
        messages::targets(),
        wire::targets(),
        files::targets(),
        lending::targets(),
        record::targets(),
        text::targets(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
