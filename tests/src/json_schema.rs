//! The part of JSON Schema 2020-12 that docs/schemas uses. A keyword beyond it is an error, so that no rule goes unchecked.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Words that explain and check nothing.
const WORDS: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// Returns the violations of a value against the schema of that name in docs/schemas; none if it conforms.
pub fn violations(name: &str, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let whole = read(name);
    check(name, &whole, &whole, value, "$", &mut found);
    found
}

/// Returns the names of all schemas.
pub fn names() -> Vec<String> {
    let files = fs::read_dir(folder()).expect("docs/schemas");
    let names =
        files.filter_map(|file| file.ok()?.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas")
}

fn read(name: &str) -> Value {
    let file = folder().join(format!("{name}.json"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn check(name: &str, whole: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let rules = schema.as_object().unwrap_or_else(|| panic!("{name}: a schema is an object"));
    for (keyword, rule) in rules.iter().filter(|(keyword, _)| !WORDS.contains(&keyword.as_str())) {
        match keyword.as_str() {
            "$ref" => follow(name, whole, rule.as_str().expect("a reference"), value, at, found),
            "type" if !is_of_type(rule, value) => found.push(format!("{at} is {value}; allowed: {rule}")),
            "enum" if !rule.as_array().expect("values").contains(value) => {
                found.push(format!("{at} is {value}; allowed: {rule}"));
            }
            "minimum" if value.as_f64().is_some_and(|value| value < rule.as_f64().expect("a number")) => {
                found.push(format!("{at} is {value}; allowed: {rule} or more"));
            }
            "required" => missing(rule, value, at, found),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(name, whole, rule, item, &format!("{at}[{index}]"), found);
                }
            }
            "properties" => {
                for (field, value) in value.as_object().into_iter().flatten() {
                    if let Some(rule) = rule.get(field) {
                        check(name, whole, rule, value, &format!("{at}.{field}"), found);
                    }
                }
            }
            "additionalProperties" => unknown(rules, value, at, found),
            "type" | "enum" | "minimum" => {}
            other => panic!("{name}: the keyword {other} is not checked here"),
        }
    }
}

fn follow(name: &str, whole: &Value, to: &str, value: &Value, at: &str, found: &mut Vec<String>) {
    let (file, pointer) = to.split_once('#').unwrap_or((to, ""));
    let other = file.strip_suffix(".json").map(|name| (name, read(name)));
    let (name, whole) = other.as_ref().map_or((name, whole), |(name, whole)| (name, whole));
    let schema = whole.pointer(pointer).unwrap_or_else(|| panic!("{name}: {to} leads nowhere"));
    check(name, whole, schema, value, at, found);
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    };
    match rule {
        Value::Array(names) => names.iter().any(|name| is(name.as_str().expect("a type"))),
        name => is(name.as_str().expect("a type")),
    }
}

fn missing(rule: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(fields) = value.as_object() else { return };
    let names = rule.as_array().expect("names").iter().filter_map(Value::as_str);
    found.extend(
        names.filter(|name| !fields.contains_key(*name)).map(|name| format!("{at}.{name} is missing")),
    );
}

fn unknown(rules: &Map<String, Value>, value: &Value, at: &str, found: &mut Vec<String>) {
    assert_eq!(rules["additionalProperties"], false, "nothing else is checked here");
    let known = |name: &str| rules.get("properties").is_some_and(|known| known.get(name).is_some());
    let fields = value.as_object().into_iter().flatten().map(|(name, _)| name);
    found.extend(fields.filter(|name| !known(name)).map(|name| format!("{at}.{name} is in no schema")));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_conform_is_named() {
        assert_eq!(violations("worker-list", &json!({ "workers": [], "absent_workers": [] })), [""; 0]);
        let absent = json!({ "worker": 7, "cause": "asleep", "reason": "", "since": "", "more": 1 });
        let mut found = violations("worker-list", &json!({ "absent_workers": [absent] }));
        found.sort();
        let cause = r#"$.absent_workers[0].cause is "asleep"; allowed: ["lease_ended","left","refused"]"#;
        assert_eq!(
            found,
            [
                cause,
                "$.absent_workers[0].more is in no schema",
                "$.absent_workers[0].worker is 7; allowed: \"string\"",
                "$.workers is missing"
            ]
        );
    }
}
