//! The page as a function of a status.

use serde_json::{Value, json};

use super::*;

fn shard(number: u64, is_served: bool) -> Value {
    json!({
        "shard": number, "start": number * 512, "end": (number + 1) * 512, "epoch": 1, "owner": format!("worker-{}", number % 40),
        "ready": is_served, "reason": (!is_served).then_some("worker-7 is gone <now>"), "next_row": 40, "state_bytes": 2048,
        "ahead_bytes": 1024, "row_seconds": 0.002, "stalled_seconds": 0.5,
    })
}

fn job(name: &str, shards: Vec<Value>) -> Value {
    let served = shards.iter().filter(|shard| shard["ready"] == true).count();
    json!({
        "job": name, "state": "running", "mechanism": "blt", "dimension": 1000, "iterations": 2000, "branch": 2,
        "rewinds": [{ "branch": 2, "from_row": 500 }], "rows_bound": 100, "next_row": 600, "delta": 1e-6, "epsilon": 3.451,
        "epsilon_planned": 7.597, "rows_per_second": 2.0, "bindings_refused": 3,
        "last_refused": { "kind": "already_bound", "at": "2026-11-26T18:40:11Z" }, "privacy": { "rho_spent": 0.1, "rho_planned": 0.4 },
        "newest_checkpoint": { "next_row": 590 }, "shards": shards.len(), "shards_served": served, "shard_list": shards,
    })
}

fn status(jobs: Vec<Value>) -> Value {
    json!({
        "healthy": false, "version": "0.1.0", "coordinator_epoch": 3, "checkpoints_on": true, "time": "2026-11-26T18:43:00Z",
        "problems": [
            {
                "severity": "critical", "kind": "shards_not_served", "job": "b", "what": "job b: 1 of 2 shards are not served",
                "since": "2026-11-26T18:40:11Z", "next_step": "start worker-7 again",
            },
            { "severity": "warning", "kind": "disk_fills", "job": null, "what": "the disk fills", "since": null, "next_step": "room" },
        ],
        "data_sets": [{
            "data_set": "clinic", "delta": 1e-6, "epsilon_budget": 4.0, "epsilon_spent": 3.7, "epsilon_reserved": 0.2,
            "epsilon_left": 0.119, "blocks": { "count": 12, "used_up": 1, "fullest": "nov", "used": 0.9991 },
        }],
        "workers": [{
            "worker": "worker-1", "endpoint": "http://127.0.0.1:40101", "shards": 1, "last_heard_ms": 431, "draining": false,
            "avoided": true, "bytes_per_second": 4e9, "memory_bytes": 0,
        }],
        "absent_workers": [{
            "worker": "worker-7", "cause": "lease_ended", "since": "2026-11-26T18:40:11Z", "reason": "worker-7 is gone: no heartbeat",
        }],
        "jobs": jobs,
    })
}

#[test]
fn one_look_tells_what_is_wrong_where_jobs_stand_and_what_they_cost() {
    let page = content(&status(vec![
        job("a", vec![shard(0, true)]),
        job("b", vec![shard(0, true), shard(1, false)]),
    ]));
    for part in [
        "not healthy, 2 problems",
        "1 shard not served",
        "→",
        "start worker-7 again",
        "as of 2026-11-26 18:43:00 UTC",
        // Jobs: served, rewound, ε against the plan, time left, waits and refused bindings.
        "1 of 2 not served",
        "600 of 2\u{2009}000 <span class=\"quiet\">rewound to 500</span>",
        "x1=\"25.00%\"",
        "3.46 of 7.60",
        "width=\"45.43%\"",
        "11 min 40 s",
        "0.5",
        "3 <span class=\"quiet\">last: already bound, 2026-11-26 18:40:11 UTC</span>",
        "Rewound 2 times: branch 2 begins at row 500.",
        // The data set: near its end, and never more left than there is.
        "3.70 spent, 0.200 reserved, of 4.00",
        "gauge warn",
        ">0.11<",
        "clinic <span class=\"warn\">12 blocks, 1 used up; the fullest, nov, at 100 %</span>",
        // Workers.
        "makes no rows",
        "gone</span> <span class=\"quiet\">no heartbeat</span>",
        "worker-7 is gone &lt;now&gt;",
    ] {
        let shown = page.contains(part) || STYLE.contains(part);
        assert!(shown, "{part}:\n{page}");
    }
    assert!(!page.contains("<now>") && !page.contains("<script"));
}

#[test]
fn thousands_of_shards_are_a_strip_a_summary_and_a_folded_table_that_begins_with_what_is_wrong() {
    let shards: Vec<_> = (0..5000).map(|number| shard(number, number != 4321)).collect();
    let page = content(&status(vec![job("large", shards)]));
    let strip = page.split_once("class=\"strip\"").unwrap().1.split_once("</svg>").unwrap().0;
    assert_eq!((strip.matches("class=\"good\"").count(), strip.matches("class=\"bad\"").count()), (63, 1));
    assert!(
        page.contains("4\u{2009}999 of 5\u{2009}000")
            && page.contains("<details id=\"shards-large\"><summary>"),
        "{page}"
    );
    let table = page.split_once("Each shard").unwrap().1;
    let first = table.split_once("<tbody>\n<tr>").unwrap().1;
    assert!(first.starts_with("<td data-name=\"shard\"><div>4\u{2009}321</div>"), "{}", &first[..200]);
    assert!(page.contains("4\u{2009}800 lines more"));
    assert!(page.len() < 200_000, "{} bytes", page.len());
}

#[test]
fn a_few_warnings_are_amber_and_nothing_wrong_is_green() {
    let mut status = status(vec![job("a", vec![shard(0, true)])]);
    status["healthy"] = json!(true);
    status["problems"] = json!([status["problems"][1]]);
    assert!(content(&status).contains("<span class=\"badge warn\">healthy, 1 warning</span>"));
    status["problems"] = json!([]);
    let page = content(&status);
    assert!(
        page.contains("<span class=\"badge good\">healthy</span>") && !page.contains("class=\"problems\""),
        "{page}"
    );
    assert!(page.contains("<span class=\"badge good\">running</span>"), "{page}");
}

#[test]
fn an_epsilon_that_is_not_known_is_not_shown() {
    let mut unknown = job("a", vec![shard(0, true)]);
    unknown["epsilon"] = Value::Null;
    let mut shown = status(vec![unknown.clone()]);
    shown["data_sets"] = json!([]);
    let page = content(&shown);
    assert!(page.contains("– of 7.60") && !page.contains("aria-label=\"ε"), "{page}");
    unknown["privacy"] = json!({ "unstated": "the ledger is an older copy" });
    assert!(content(&status(vec![unknown])).contains("not stated: the ledger is an older copy"));
}

#[test]
fn the_document_works_without_its_script_and_says_when_the_coordinator_is_gone() {
    let document = document("<h1>x</h1>");
    for part in
        ["<noscript><meta http-equiv=\"refresh\"", "<p id=\"stale\" hidden>", "<main>\n<h1>x</h1></main>"]
    {
        assert!(document.contains(part), "{part}");
    }
    assert_eq!(document.matches(SCRIPT).count(), 1);
    assert!(!SCRIPT.contains("</"), "the script would end early");
}
