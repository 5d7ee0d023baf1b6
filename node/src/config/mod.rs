//! Settings in layers, the units they are written in, secrets from files, descriptors and commands, and commitments that
//! commands draw.

mod setting_error;
mod setting_file;

pub mod kept_commitment;
pub mod secrets;
pub mod settings;
pub mod units;
