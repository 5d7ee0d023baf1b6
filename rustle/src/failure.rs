//! How an error is printed: as a line of text, or as one JSON object, both with the kind that the same error has in Python.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicBool, Ordering};

use ledger::LedgerError;
use proto::ServiceError;
use serde_json::{Map, Value, json};

use crate::plain_words;

/// Bad use of the command line, exit status 2. Every other error is a failure, exit status 1.
#[derive(Debug)]
pub struct BadUse(pub String);

impl Display for BadUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUse {}

/// Returns an error in the arguments, as opposed to a failure.
pub fn bad_use(message: impl Display) -> anyhow::Error {
    BadUse(message.to_string()).into()
}

/// An error that has a kind, in words of the command line.
#[derive(Debug)]
pub struct Typed {
    text: String,
    kind: String,
    retry_safe: bool,
    fields: Map<String, Value>,
}

impl Typed {
    /// Rewords the error of a service, whose own words are not printed.
    pub fn reworded(error: &ServiceError, text: String) -> Self {
        let kind = error.kind().to_owned();
        Self { text, kind, retry_safe: error.retry_safe(), fields: fields(error) }
    }

    /// Makes an error of a problem in a coordinator's status, which no retry mends.
    pub fn of_problem(problem: &Value) -> Self {
        let word = |name: &str| problem[name].as_str().unwrap_or("-").to_owned();
        let text = format!("{}; next: {}", word("what"), word("next_step"));
        Self { text, kind: word("kind"), retry_safe: false, fields: Map::new() }
    }
}

impl Display for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Typed {}

/// Kind of an error in the arguments that no service has typed.
const BAD_USE: &str = "invalid_argument";

/// Kind of every other error that no service has typed, such as a file that can't be read.
const FAILED: &str = "failed";

/// Whether `--format json` was given.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Lets the errors of this process be JSON.
pub fn set_json(is_json: bool) {
    IS_JSON.store(is_json, Ordering::Relaxed);
}

/// Returns the error as it is printed: `error: `, its kind where a service or the ledger has typed it, and the message; or JSON
/// after [`set_json`].
pub fn printed(error: &anyhow::Error) -> String {
    let typed = typed(error);
    let whole = without_repeats(error);
    let message = if typed.is_some() { plain_words::of_service(&whole) } else { plain_words::of(&whole) };
    let message = plain_words::without_controls(&message);
    if IS_JSON.load(Ordering::Relaxed) {
        return object(error, typed, &message).to_string();
    }
    match typed {
        Some(Typed { kind, .. }) => format!("error: {kind}: {message}"),
        None => format!("error: {message}"),
    }
}

/// Returns an error in the arguments as JSON.
pub fn bad_use_as_json(message: &str) -> String {
    json!({ "error": { "kind": BAD_USE, "message": message, "retry_safe": false, "fields": {} } }).to_string()
}

fn object(error: &anyhow::Error, typed: Option<Typed>, message: &str) -> Value {
    let untyped = if error.is::<BadUse>() { BAD_USE } else { FAILED };
    let typed = typed.unwrap_or_else(|| Typed {
        text: String::new(),
        kind: untyped.to_owned(),
        retry_safe: false,
        fields: Map::new(),
    });
    let Typed { kind, retry_safe, fields, .. } = typed;
    json!({ "error": { "kind": kind, "message": message, "retry_safe": retry_safe, "fields": fields } })
}

/// Returns the numbers and names of the error.
fn fields(error: &ServiceError) -> Map<String, Value> {
    match serde_json::to_value(error) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("kind");
            fields
        }
        _ => Map::new(),
    }
}

/// Returns the kind and the fields of the service's or the ledger's error that is the cause.
fn typed(error: &anyhow::Error) -> Option<Typed> {
    let of = |error: &ServiceError| Typed::reworded(error, String::new());
    error.chain().find_map(|cause| {
        let reworded = cause.downcast_ref::<Typed>().map(|Typed { kind, retry_safe, fields, .. }| Typed {
            text: String::new(),
            kind: kind.clone(),
            retry_safe: *retry_safe,
            fields: fields.clone(),
        });
        let of_ledger = || cause.downcast_ref::<LedgerError>().map(|error| of(&error.clone().into()));
        reworded.or_else(|| cause.downcast_ref::<ServiceError>().map(of)).or_else(of_ledger)
    })
}

/// Returns the error with its causes. One that an earlier text quotes already is left out.
pub fn without_repeats(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(cause.trim_end()) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> ServiceError {
        ServiceError::RowBeyondIterations { row: 60, iterations: 50 }
    }

    #[test]
    fn an_error_has_its_kind_as_text_and_as_json() {
        let error = anyhow::Error::from(refused()).context("row 60 is too high");
        let text = printed(&error);
        assert!(text.starts_with("error: row_beyond_iterations: row 60 is too high: "), "{text}");
        let json = object(&error, typed(&error), "too high");
        let fields = json!({ "row": 60, "iterations": 50 });
        assert_eq!(json["error"]["fields"], fields);
        assert_eq!(json["error"]["kind"], "row_beyond_iterations");

        let safe = anyhow::Error::from(ServiceError::Draining);
        assert_eq!(object(&safe, typed(&safe), "")["error"]["retry_safe"], true);
        let of_ledger =
            LedgerError::JobState { job: "j".into(), state: "finished".into(), allowed: "-".into() };
        let of_status = json!({ "kind": "ledger_copied", "what": "a copy", "next_step": "adopt it" });
        let text = printed(&Typed::of_problem(&of_status).into());
        assert_eq!(text, "error: ledger_copied: a copy; next: adopt it");
        assert!(printed(&of_ledger.into()).starts_with("error: job_state: job j is finished"));
    }

    #[test]
    fn an_error_of_the_command_itself_has_a_kind_in_json_alone() {
        for (error, kind) in [(bad_use("--steps is 0"), BAD_USE), (anyhow::anyhow!("no room"), FAILED)] {
            assert_eq!(printed(&error), format!("error: {error}"));
            assert_eq!(object(&error, None, "x")["error"]["kind"], kind);
        }
        let parsed: Value = serde_json::from_str(&bad_use_as_json("a \"b\"")).unwrap();
        assert_eq!(
            (&parsed["error"]["kind"], &parsed["error"]["message"]),
            (&json!(BAD_USE), &json!("a \"b\""))
        );
    }
}
