//! Tests that a collector receives one trace from a job's fetch to the worker's kernel, and every entry of the ledger: a
//! real OTLP service in this process, and real processes that send to it.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::collections::BTreeSet;
use std::process::Command;

use node::process::runtime::Runtime;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use proto::{Commitment, JobId};
use tests::{
    KEY, TestCluster,
    collector::{Collector, Sent},
    flags, job, plans, program, start_with,
};

/// The attributes that spans may have. None may hold a secret.
const ALLOWED: [&str; 9] =
    ["job", "branch", "first_row", "rows", "coordinates", "how", "row", "shard", "otel.kind"];

fn traced(url: String) -> TestCluster {
    start_with(1, move |options| {
        options.coordinator_flags.extend(flags(&["--otlp", &url]));
        options.worker_flags.extend(flags(&["--otlp", &url]));
        // Milliseconds from a span's end until it is sent.
        options.environment.push(("OTEL_BSP_SCHEDULE_DELAY".into(), "50".into()));
    })
}

/// The command that a person would give.
fn fetch_row(cluster: &TestCluster, job: &JobId, url: &str, row: u64) {
    let out = cluster.dir.path().join(format!("row-{row}.npy"));
    let arguments = ["fetch", "--coordinator", &cluster.cluster.url(), "--job", job.as_str()];
    let commitment = format!("step {row}");
    let steps = format!("{row}..{}", row + 1);
    let rows = ["--commitment", &commitment, "--steps", &steps, "--range", "0..512", "--otlp", url, "--out"];
    let output = Command::new(program()).args(arguments).args(rows).arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn one_trace_leads_from_the_fetch_to_the_kernel() {
    let runtime = Runtime::new().unwrap();
    let (collector, address) = Collector::start(&runtime);
    let url = format!("http://{address}");
    let cluster = traced(url.clone());
    let job = job("traced");
    cluster.create(&job, &plans().swap_remove(3), 2048, 1).unwrap();
    // Row 0 has left the worker's window then: who asks for it again has the kernel draw it again.
    cluster.fetch(&job, 0..6, 0..2048).unwrap();
    fetch_row(&cluster, &job, &url, 0);

    let named = |spans: &[Sent], service: &str, name: &str, parent: &[u8], trace: &[u8]| {
        let is_it = |sent: &&Sent| {
            let Span { name: own, parent_span_id, trace_id, .. } = &sent.span;
            sent.service == service && own == name && parent_span_id == parent && trace_id == trace
        };
        spans.iter().find(is_it).map(|sent| sent.span.clone())
    };
    cluster.wait_until("the collector has fetch, binding, slice, row and kernel below each other", || {
        let spans = collector.spans();
        let is_fetch = |sent: &&Sent| sent.service == "rustle-fetch" && sent.span.name == "fetch";
        let Some(Sent { span: fetch, .. }) = spans.iter().find(is_fetch) else { return false };
        assert!(fetch.parent_span_id.is_empty(), "the fetch began the trace");
        let below =
            |service, name, parent: &Span| named(&spans, service, name, &parent.span_id, &fetch.trace_id);
        let bound = below("rustle-coordinator", "/rustle.v1.Noise/Bind", fetch);
        let slice = below("rustle-worker", "/rustle.v1.Shards/FetchSlice", fetch);
        let row = slice.as_ref().and_then(|slice| below("rustle-worker", "row", slice));
        let kernel = row.as_ref().and_then(|row| below("rustle-worker", "kernel", row));
        bound.is_some() && kernel.is_some_and(|kernel| is_within(&kernel, slice.as_ref().unwrap(), fetch))
    });

    // Row 5 is in the window still.
    fetch_row(&cluster, &job, &url, 5);
    cluster.wait_until("the collector has both rows, and how they came", || {
        let spans = collector.spans();
        let by_command = spans.iter().filter(|sent| sent.service == "rustle-fetch");
        let traces: BTreeSet<_> = by_command.map(|sent| &sent.span.trace_id).collect();
        let in_them = spans.iter().filter(|sent| traces.contains(&sent.span.trace_id));
        let mut rows: Vec<_> = in_them.filter_map(|sent| how_it_came(&sent.span)).collect();
        rows.sort();
        rows == [("0", "replayed"), ("5", "ahead")].map(|(row, how)| (row.to_owned(), how.to_owned()))
    });
    assert_nothing_secret(&collector);
}

/// Returns the row of a row's span, and how it was generated: ahead or replayed.
fn how_it_came(span: &Span) -> Option<(String, String)> {
    let said = |key: &str| {
        let attribute = span.attributes.iter().find(|attribute| attribute.key == key);
        match attribute.and_then(|attribute| attribute.value.clone()?.value) {
            Some(Value::IntValue(number)) => number.to_string(),
            Some(Value::StringValue(text)) => text,
            other => panic!("a row's span says of {key} {other:?}"),
        }
    };
    (span.name == "row").then(|| (said("row"), said("how")))
}

/// Returns whether the spans are nested, by the clock that they share.
fn is_within(kernel: &Span, slice: &Span, fetch: &Span) -> bool {
    fetch.start_time_unix_nano <= slice.start_time_unix_nano
        && slice.start_time_unix_nano <= kernel.start_time_unix_nano
        && kernel.end_time_unix_nano <= fetch.end_time_unix_nano
}

fn assert_nothing_secret(collector: &Collector) {
    let spans = collector.spans();
    let keys: BTreeSet<_> =
        spans.iter().flat_map(|sent| &sent.span.attributes).map(|attribute| attribute.key.as_str()).collect();
    let unknown: Vec<_> = keys.iter().filter(|key| !ALLOWED.contains(key)).collect();
    assert!(unknown.is_empty(), "spans say {unknown:?}; allowed: {ALLOWED:?}");
    assert!(spans.iter().all(|sent| sent.span.events.is_empty()), "log lines are sent with the spans");
    // Heartbeats belong to no trace of a job's.
    assert!(spans.iter().all(|sent| !sent.span.name.ends_with("Heartbeat")));
    let bytes = collector.bytes();
    let commitment = Commitment::of_text("step 0").to_bytes();
    for secret in [&KEY[..8], &commitment[1..9]] {
        let hexadecimal = hex::encode(secret);
        for form in [secret, hexadecimal.as_bytes()] {
            assert!(!bytes.windows(form.len()).any(|window| window == form), "a secret is sent: {form:?}");
        }
    }
}

#[test]
fn a_collector_that_is_not_there_keeps_nobody_waiting() {
    let url = "http://127.0.0.1:1";
    let cluster = traced(url.to_owned());
    let job = job("untraced");
    cluster.create(&job, &plans().swap_remove(3), 2048, 1).unwrap();
    cluster.fetch(&job, 0..2, 0..2048).unwrap();
    fetch_row(&cluster, &job, url, 0);
}

/// The collector is there after the first entries: they wait for it, and are in the status until it takes them.
#[test]
fn a_collector_gets_every_entry_of_the_ledger_once_it_is_there() {
    let address = tests::ports::free_address();
    let url = format!("http://{address}");
    let flag = flags(&["--audit-otlp", &url]);
    let cluster = start_with(1, move |options| options.coordinator_flags.extend(flag.clone()));
    let job = job("audited");
    cluster.create(&job, &plans().swap_remove(3), 2048, 1).unwrap();
    cluster.fetch(&job, 0..3, 0..512).unwrap();
    let problems = || {
        let output = Command::new(program())
            .args(["status", "--format", "json", "--coordinator", &cluster.cluster.url()])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    cluster.wait_until("the status names the collector", || {
        let text = problems();
        text.contains("audit_log") && text.contains(&url)
    });

    let runtime = Runtime::new().unwrap();
    let (collector, _) = Collector::start_at(&runtime, address.parse().unwrap());
    let chain_of = |text: &str| {
        let line: serde_json::Value = serde_json::from_str(text).unwrap();
        (line["chain"].as_str().unwrap().to_owned(), line["index"].as_u64().unwrap())
    };
    cluster.wait_until("entries came", || {
        let records = collector.records();
        assert!(records.iter().all(|(event, _)| event == "rustle.ledger.entry"), "{records:?}");
        // An attempt that failed halfway may have brought some of them before.
        let own: BTreeSet<_> = records.iter().map(|(_, text)| chain_of(text)).collect();
        let bound = records.iter().any(|(_, text)| text.contains(r#""kind":"bound""#));
        own.contains(&("audited".to_owned(), 0)) && own.contains(&("audited".to_owned(), 1)) && bound
    });
    cluster.wait_until("the problem is gone", || !problems().contains("audit_log"));
}
