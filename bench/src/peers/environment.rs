//! A Python environment of the bench's own, with the pinned libraries that can be installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::Library;

const REQUIREMENTS: &str = include_str!("../../peers/requirements.txt");

pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Makes the environment where there is none yet.
    pub fn prepare(folder: Option<PathBuf>, python: &Path) -> anyhow::Result<Self> {
        let target = || std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        let environment = Self { folder: folder.unwrap_or_else(|| target().join("peers")) };
        let folder = &environment.folder;
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        if !environment.python().exists() {
            let mut make = Command::new(python);
            make.args(["-m", "venv"]).arg(folder.join("venv"));
            let made = run(&mut make)
                .with_context(|| format!("make a Python environment with {}", python.display()));
            if made.is_err() {
                // Half an environment would look like a whole one the next time.
                let _ = fs::remove_dir_all(folder.join("venv"));
            }
            made?;
        }
        fs::write(environment.requirements(), REQUIREMENTS).context("write the requirements")?;
        Ok(environment)
    }

    /// Installs `library` as pinned, unless that was done before. Error: what pip said last.
    pub fn install(&self, library: Library) -> anyhow::Result<()> {
        self.install_package(library.name(), &[])
    }

    /// Installs a package as pinned, with more words for pip, unless that was done before.
    pub fn install_package(&self, name: &str, words: &[&str]) -> anyhow::Result<()> {
        let stamp = self.folder.join(format!("{name}.installed"));
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == REQUIREMENTS) {
            return Ok(());
        }
        eprintln!("installing {name}");
        let mut pip = Command::new(self.python());
        pip.args("-m pip install --quiet --disable-pip-version-check --only-binary :all:".split(' '));
        pip.arg("--constraint").arg(self.requirements()).args(words).arg(name);
        run(&mut pip).with_context(|| format!("install {name}"))?;
        fs::write(stamp, REQUIREMENTS).context("write down what is installed")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn python(&self) -> PathBuf {
        self.folder.join("venv/bin/python")
    }

    fn requirements(&self) -> PathBuf {
        self.folder.join("requirements.txt")
    }
}

/// Error: the last lines of what it wrote to standard error.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("start {}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}: {}", output.status, last_lines(&said));
    Ok(())
}

/// The last three lines that say something, as one.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        assert_eq!(last_lines("a\nb\n\nc\n  d\n"), "b; c; d");
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn every_library_is_pinned() {
        for library in [Library::JaxPrivacy, Library::Numpy, Library::Torch] {
            let pinned = format!("{}==", library.name());
            assert!(REQUIREMENTS.lines().any(|line| line.starts_with(&pinned)), "{pinned}");
        }
        assert!(REQUIREMENTS.contains("jax-privacy==2.0.0"));
    }

    #[test]
    fn a_python_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error =
            Environment::prepare(Some(folder.path().into()), Path::new("no-such-python")).err().unwrap();
        assert!(format!("{error:#}").contains("no-such-python"), "{error:#}");
    }
}
