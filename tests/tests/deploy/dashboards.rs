//! The dashboards as Grafana reads them: their shape here, their queries against a real Prometheus in `watched`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::read;

/// One query of one panel, ready for Prometheus.
#[derive(Clone, Debug)]
pub struct Query {
    pub panel: String,
    pub expression: String,
}

pub const DASHBOARDS: [&str; 2] = ["overview", "worker"];

fn load(name: &str) -> Value {
    serde_json::from_str(&read(&format!("deploy/grafana/dashboards/{name}.json"))).unwrap()
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    let all = dashboard["panels"].as_array().unwrap().iter();
    all.filter(|panel| panel["type"] != "row").collect()
}

/// Every query of a dashboard, with Grafana's variables filled in.
pub fn queries(name: &str, worker: &str, interval: &str) -> Vec<Query> {
    let dashboard = load(name);
    let of_panel = |panel: &Value| -> Vec<Query> {
        let targets = panel["targets"].as_array().unwrap().iter();
        let filled = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
        let filled = filled.map(|text| text.replace("$__rate_interval", interval).replace("$worker", worker));
        let title = format!("{name}: {}", panel["title"].as_str().unwrap());
        filled.map(|expression| Query { panel: title.clone(), expression }).collect()
    };
    let queries: Vec<_> = panels(&dashboard).into_iter().flat_map(of_panel).collect();
    assert!(queries.iter().all(|query| !query.expression.contains('$')), "a variable is left: {queries:?}");
    queries
}

#[test]
fn dashboards_are_whole() {
    let mut uids = BTreeSet::new();
    for name in DASHBOARDS {
        let dashboard = load(name);
        assert!(uids.insert(dashboard["uid"].as_str().unwrap().to_owned()));
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        assert!(variables.iter().any(|variable| variable["type"] == "datasource"));
        let mut ids = BTreeSet::new();
        let mut places = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: another panel has its id");
            let place = &panel["gridPos"];
            let x = place["x"].as_u64().unwrap();
            let y = place["y"].as_u64().unwrap();
            let w = place["w"].as_u64().unwrap();
            assert!(x + w <= 24 && places.insert((y, x)), "{title}: beyond the grid, or on another panel");
        }
        for panel in panels(&dashboard) {
            let title = panel["title"].as_str().unwrap();
            assert!(!panel["description"].as_str().unwrap().is_empty(), "{title} says nothing of itself");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
            assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title} asks nothing");
        }
    }
}
