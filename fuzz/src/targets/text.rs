//! Text from people and other programs: plans, events, names, amounts, traces.

use node::{
    config::units::{parse_bytes, parse_duration},
    telemetry::trace_context::TraceContext,
};
use plan::Plan;
use proto::JobId;

use crate::{Target, outcome, words};

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "plan", seeds: plan_seeds, run: plan, slice: 1_500 },
        Target { name: "event", seeds: event_seeds, run: event, slice: 3_000 },
        Target { name: "batch-scheme", seeds: scheme_seeds, run: scheme, slice: 3_000 },
        Target { name: "word", seeds: word_seeds, run: word, slice: 5_000 },
    ]
}

pub(super) fn plan_seeds() -> Vec<Vec<u8>> {
    let head = "format = 1\nstream_version = 3\niterations = 9\nnoise_multiplier = 1.5\nclip_norm = 0.5\n\
                chacha_rounds = 20\n[participation]\nmin_sep = 3\nmax_participations = 3\n[mechanism]\n";
    let mechanisms = [
        "name = \"identity\"\n",
        "name = \"blt\"\ntheta = [0.9, 0.5]\nomega = [0.1, 0.2]\n",
        "name = \"tree\"\nrestarts = [4]\ncompletion = true\n",
        "name = \"band-toeplitz\"\ncoefficients = [1.0, 0.5]\ncolumn_normalised = false\n",
        "name = \"band-inverse\"\ncoefficients = [1.0, -0.4]\n",
        "name = \"lambda-cgd\"\nlambda = 0.7\n",
        "name = \"band-sqrt\"\nbands = 3\n",
    ];
    mechanisms.iter().map(|mechanism| format!("{head}{mechanism}").into_bytes()).collect()
}

/// An accepted plan is the same after being written and read.
fn plan(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    match Plan::from_toml_str(text) {
        Ok(plan) => {
            let written = plan.to_toml_string().expect("a plan has a text");
            let again = Plan::from_toml_str(&written).expect("its own text is a plan");
            assert_eq!(again.digest(), plan.digest(), "another plan after it was written and read");
            assert_eq!(again.canonical_form(), plan.canonical_form());
            assert!(plan.scale().is_finite() && plan.iterations() > 0);
            format!("ok {}", plan.mechanism().name())
        }
        Err(error) => words(error),
    }
}

fn event_seeds() -> Vec<Vec<u8>> {
    let gaussian = accounting::Event::SelfComposed {
        event: Box::new(accounting::Event::Composed { events: vec![] }),
        count: 3,
    };
    vec![serde_json::to_vec(&gaussian).expect("an event")]
}

fn event(bytes: &[u8]) -> String {
    match serde_json::from_slice::<accounting::Event>(bytes) {
        Ok(event) => {
            let text = serde_json::to_string(&event).expect("an event");
            let again: accounting::Event = serde_json::from_str(&text).expect("its own text is an event");
            assert_eq!(serde_json::to_string(&again).ok(), Some(text));
            "ok".into()
        }
        Err(error) => words(error),
    }
}

fn scheme_seeds() -> Vec<Vec<u8>> {
    let event = "{\"kind\":\"user-level\",\"sampling_probability\":0.01,\"group_size\":3,\"count\":9}";
    vec![event.as_bytes().to_vec()]
}

fn scheme(bytes: &[u8]) -> String {
    let sampling = serde_json::from_slice::<batches::SamplingLaw>(bytes);
    let event = serde_json::from_slice::<batches::SamplingEvent>(bytes);
    format!("{} {}", outcome(sampling), outcome(event))
}

fn word_seeds() -> Vec<Vec<u8>> {
    ["10GiB", "250ms", "1.5h", "job-1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "1024"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

fn word(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    let name = JobId::new(text).map(|job| {
        let text = job.to_string();
        assert!(
            !text.contains('/') && !text.starts_with('.') && text.len() <= 64,
            "{text:?} could leave a folder"
        );
    });
    let trace = TraceContext::parse(text);
    if let Some(trace) = trace {
        assert!(TraceContext::parse(&trace.traceparent()) == Some(trace), "another trace");
    }
    format!(
        "{} {} {} {}",
        outcome(parse_bytes(text)),
        outcome(parse_duration(text)),
        name.is_ok(),
        trace.is_some()
    )
}
