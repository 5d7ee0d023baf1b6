//! The systemd units, as `systemd-analyze` judges them, and that their flags exist.

use tempfile::TempDir;
use tests::program;

use super::{read, run};

const UNITS: [&str; 2] = ["coordinator", "worker"];
/// Highest exposure by systemd's scale to 10, which calls up to 2 "safe or better".
const MOST_EXPOSURE: f64 = 2.0;

/// The unit as it stands, with the program under test in the place of the installed one.
fn unit(dir: &TempDir, name: &str) -> String {
    let text = read(&format!("deploy/systemd/rustle-{name}.service"));
    let program = program().display().to_string();
    let file = dir.path().join(format!("rustle-{name}.service"));
    std::fs::write(&file, text.replace("/usr/local/bin/rustle", &program)).unwrap();
    file.display().to_string()
}

#[test]
fn systemd_finds_nothing_wrong_and_little_exposed() {
    let dir = TempDir::new().unwrap();
    let files: Vec<_> = UNITS.iter().map(|name| unit(&dir, name)).collect();
    for file in &files {
        run("systemd-analyze", &["verify", "--recursive-errors=one", file]);
        let judged = run("systemd-analyze", &["security", "--offline=true", "--no-pager", file]);
        let level = judged.lines().find_map(|line| line.split_once("exposure level for")?.1.split_once(": "));
        let level = level.unwrap_or_else(|| panic!("no exposure level in {judged}")).1;
        let level: f64 = level.split(' ').next().unwrap().parse().unwrap();
        assert!(level <= MOST_EXPOSURE, "{file}: {level}\n{judged}");
    }
}

#[test]
fn every_flag_of_a_unit_exists() {
    for name in UNITS {
        let text = read(&format!("deploy/systemd/rustle-{name}.service"));
        let help = run(&program().display().to_string(), &[name, "--help"]);
        let command = text.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        let flags: Vec<_> = command.split_whitespace().filter(|word| word.starts_with("--")).collect();
        assert!(flags.len() > 2, "{flags:?}");
        for flag in flags {
            assert!(help.contains(&format!("{flag} <")), "rustle {name} has no {flag}");
        }
        // What each keeps on disk lies in the folder that systemd makes for it.
        assert!(command.contains(&format!(" %S/rustle-{name}")), "{command}");
        assert!(text.contains(&format!("\nStateDirectory=rustle-{name}\n")), "{text}");
    }
}
