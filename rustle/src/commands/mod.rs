//! The commands, one file each.

pub mod account;
pub mod batches;
pub mod calibrate;
pub mod certs;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod fetch;
pub mod job;
pub mod key;
pub mod ledger;
pub mod man;
pub mod noise;
pub mod plan;
pub mod report;
pub mod serve;
pub mod status;
pub mod token;
pub mod up;
pub mod verify;

mod b_min_sep;
mod balls_in_bins;
mod branch;
mod cancel;
mod conditional_flags;
mod confirm;
mod dimension;
mod errors;
mod harden;
mod monte_carlo;
mod online;
mod plan_file;
mod setting;
mod status_table;
mod worker_list;
