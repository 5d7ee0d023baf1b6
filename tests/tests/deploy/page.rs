//! The status page in a real browser.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tests::get;

use super::load::Load;
use super::run;

/// The width of a phone, in CSS pixels.
const PHONE: u32 = 390;

fn chromium(dir: &Path, args: &[&str]) -> String {
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    // Without a sandbox: tests may run as root. The page is ours.
    let common = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        &profile,
    ];
    run("chromium", &[&common[..], args].concat())
}

/// Width that the page's content takes in a frame as wide as a phone.
fn width_on_a_phone(dir: &Path, page: &str) -> u32 {
    let still = page.replace("<meta http-equiv=\"refresh\" content=\"5\">", "");
    let source = still.replace('&', "&amp;").replace('"', "&quot;");
    let script =
        "const page = frame.contentDocument.documentElement; document.title = 'width ' + page.scrollWidth";
    let around = format!(
        "<!doctype html><title>none</title><iframe id=\"frame\" width=\"{PHONE}\" height=\"800\" style=\"border:0\" \
         onload=\"{script}\" srcdoc=\"{source}\"></iframe>"
    );
    let file = dir.join("around.html");
    std::fs::write(&file, around).unwrap();
    let dom = chromium(dir, &["--dump-dom", &format!("file://{}", file.display())]);
    let width = dom.split_once("<title>width ").unwrap_or_else(|| panic!("the frame never loaded: {dom}")).1;
    width.split_once('<').unwrap().0.parse().unwrap()
}

#[test]
fn the_page_shows_the_job_and_fits_a_phone() {
    let mut load = Load::start();
    let (coordinator, _) = load.addresses();
    let shown = || get(&coordinator, "/");
    // Slowly enough that it is seen on the way.
    for _ in 0..160 {
        load.work();
        std::thread::sleep(Duration::from_millis(40));
    }
    while !(shown().contains("<progress") && shown().contains("<meter")) {
        load.work();
    }
    let dir = TempDir::new().unwrap();
    let url = format!("http://{coordinator}/");
    let dom = chromium(dir.path(), &["--dump-dom", &url]);
    for words in [
        "all shards served",
        "Job watched",
        "rows a second",
        "ε spent",
        "worker-0",
        "worker-1",
        "<progress",
        "<meter",
        "blt",
    ] {
        assert!(dom.contains(words), "no {words:?} on the page:\n{dom}");
    }
    assert!(!dom.contains(&hex::encode(tests::KEY)) && !dom.contains("<script"), "{dom}");
    let width = width_on_a_phone(dir.path(), &shown());
    assert!(width <= PHONE, "{width} pixels wide on a phone of {PHONE}");

    let picture = std::env::var_os("RUSTLE_WRITE_DOCS").map(|_| super::path("docs/images/status-page.png"));
    let picture = picture.unwrap_or_else(|| dir.path().join("page.png"));
    std::fs::create_dir_all(picture.parent().unwrap()).unwrap();
    let shot = format!("--screenshot={}", picture.display());
    chromium(dir.path(), &["--window-size=900,1420", &shot, &url]);
    let png = std::fs::read(&picture).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() < 200_000, "{} bytes", png.len());
}
