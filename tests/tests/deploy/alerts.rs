//! Rules and alerts by promtool, and that every alert leads to a page that is there.

use super::{path, read, run};

fn file(name: &str) -> String {
    path(&format!("deploy/prometheus/{name}")).display().to_string()
}

#[test]
fn promtool_has_nothing_to_say() {
    run("promtool", &["check", "config", &file("prometheus.yml")]);
    run("promtool", &["check", "rules", "--lint-fatal", &file("rules.yml"), &file("alerts.yml")]);
    run("promtool", &["test", "rules", &file("alerts_test.yml")]);
}

fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(key)).map(str::trim).collect()
}

#[test]
fn every_alert_has_its_tests_and_its_page() {
    let alerts = read("deploy/prometheus/alerts.yml");
    let tests = read("deploy/prometheus/alerts_test.yml");
    let names = values(&alerts, "- alert:");
    assert!(names.len() > 10, "{names:?}");
    for name in &names {
        for verdict in ["fires", "is silent"] {
            assert!(tests.contains(&format!("- name: {name} {verdict}\n")), "no test that {name} {verdict}");
        }
    }
    let links = values(&alerts, "runbook_url:");
    assert_eq!(links.len(), names.len());
    for (name, link) in names.iter().zip(links) {
        let (page, anchor) = link.split_once('#').unwrap();
        assert_eq!(anchor, name.to_lowercase());
        // A heading's anchor is its words in lower case.
        let heading = format!("### {name}\n");
        assert!(read(page).contains(&heading), "{page} has no heading {name}");
    }
}
