//! Compiles the `.proto` files in pure Rust: a build needs no protoc.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 5] = [
    "rustle/v1/common.proto",
    "rustle/v1/jobs.proto",
    "rustle/v1/noise.proto",
    "rustle/v1/workers.proto",
    "rustle/v1/budgets.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".rustle.v1.Chunk").compile_fds(descriptors)?;
    Ok(())
}
