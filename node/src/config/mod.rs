//! Settings in layers, the units they are written in, and secrets from files, descriptors and commands.

mod setting_error;
mod setting_file;

pub mod secrets;
pub mod settings;
pub mod units;
