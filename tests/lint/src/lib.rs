//! The rules of CONTRIBUTING.md that a parser can check: habits of code, circles of imports inside a crate, and the
//! lengths of files. The
//! crate holds nothing but tests, and depends on none of ours, so that `make lint` has its answer in seconds.
#![cfg(test)]

mod circles;
mod habits;
mod lengths;
mod modules;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns every Rust file that git knows, relative to the repository's root, with its syntax tree.
fn sources() -> Vec<(PathBuf, syn::File)> {
    let root = root();
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(&root)
        .output()
        .expect("git lists the files");
    let names = String::from_utf8(listed.stdout).expect("names are text");
    let files = names.lines().map(PathBuf::from).filter(|name| root.join(name).exists());
    files.map(|name| (name.clone(), parse(&root.join(&name)))).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_owned()
}

fn parse(path: &Path) -> syn::File {
    let text = std::fs::read_to_string(path).expect("a readable file");
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn cargo_run_starts_the_command_line() {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let rustle = metadata.packages.iter().find(|package| package.name.as_str() == "rustle");
    let default = rustle.and_then(|package| package.default_run.as_deref());
    assert_eq!(default, Some("rustle"), "README's first command names no binary");
}
