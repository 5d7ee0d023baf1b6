//! The main job in one command: private training on the handwritten digits with noise from a real cluster.

mod digits;
mod mechanisms;
mod model;
mod run;
mod training;

pub use run::{DemoOptions, DemoReport, MechanismReport, run};
