//! One file for each word of the command line.

pub mod account;
pub mod calibrate;
pub mod completions;
pub mod key;
pub mod noise;
pub mod plan;
pub mod verify;

mod branch;
mod setting;
