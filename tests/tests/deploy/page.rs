//! The status page in a real browser.

use std::process::{Child, Command};

use tempfile::TempDir;
use tests::get;

use super::load::Load;

/// The Python program that looks at the page.
struct Looker(Child);

impl Looker {
    fn start(url: &str, pictures: &std::path::Path) -> Self {
        let script = super::path("tests/docs/status_page.py");
        let started = Command::new("python3").arg(script).arg(url).arg(pictures).spawn();
        Self(started.expect("python3 runs"))
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// The page follows its job without a new document, runs no script but its own, loads itself again without scripts, and fits a
/// phone: `tests/docs/status_page.py` looks at it while the job runs.
#[test]
fn the_page_shows_the_job_while_it_goes_on() {
    let mut load = Load::start();
    let (coordinator, _) = load.addresses();
    let dir = TempDir::new().unwrap();
    let mut looker = Looker::start(&format!("http://{coordinator}/"), dir.path());
    let ended = loop {
        load.work();
        std::thread::sleep(std::time::Duration::from_millis(40));
        if let Some(ended) = looker.0.try_wait().unwrap() {
            break ended;
        }
    };
    assert!(ended.success(), "{ended}");
    let page = get(&coordinator, "/");
    for words in [
        "all shards served",
        "Job watched",
        "rows a second",
        "ε spent",
        "worker-0",
        "worker-1",
        "already bound",
        "blt",
    ] {
        assert!(page.contains(words), "no {words:?} on the page:\n{page}");
    }
    assert!(!page.contains(&hex::encode(tests::KEY)), "{page}");
    let picture = std::fs::read(dir.path().join("status-page-1280-light.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() < 400_000, "{} bytes", picture.len());
    if std::env::var_os("RUSTLE_WRITE_DOCS").is_some() {
        std::fs::write(super::path("docs/images/status-page.png"), picture).unwrap();
    }
}
