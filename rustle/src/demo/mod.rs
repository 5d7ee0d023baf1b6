//! The demo: private training on handwritten digits with noise from a local cluster.

mod digits;
mod mechanisms;
mod model;
mod row;
mod run;
mod training;

pub use run::{DemoOptions, DemoReport, MechanismReport, run};
