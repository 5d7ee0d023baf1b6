//! The canonical form that digests are taken of: text that follows from the plan's meaning alone.
//!
//! UTF-8. First a title line, then one line `key=value` for each field, sorted by key (bytewise), every line
//! ended by one `\n`. Values:
//!
//! * integer: decimal, no leading zeros, `-` in front below zero and no sign elsewhere;
//! * truth: `true` or `false`;
//! * name: the mechanism's name as it is;
//! * number: the 64 bits of the IEEE 754 double as 16 lower-case hexadecimal digits, the sign bit first;
//! * string: its UTF-8 bytes as lower-case hexadecimal digits, in front of them `x`;
//! * list: `[`, the elements with `,` between them, `]`; a list of rows is a list of such lists.
//!
//! Defaults are written out, so that a plan without `chacha_rounds` equals one with `chacha_rounds = 20`.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

pub(crate) struct Canonical {
    title: &'static str,
    fields: BTreeMap<&'static str, String>,
}

impl Canonical {
    pub(crate) fn new(title: &'static str) -> Self {
        Self { title, fields: BTreeMap::new() }
    }

    pub(crate) fn name(&mut self, key: &'static str, value: &str) {
        self.fields.insert(key, value.to_owned());
    }

    pub(crate) fn truth(&mut self, key: &'static str, value: bool) {
        self.fields.insert(key, value.to_string());
    }

    pub(crate) fn integer(&mut self, key: &'static str, value: u64) {
        self.fields.insert(key, value.to_string());
    }

    pub(crate) fn signed(&mut self, key: &'static str, value: i64) {
        self.fields.insert(key, value.to_string());
    }

    pub(crate) fn number(&mut self, key: &'static str, value: f64) {
        self.fields.insert(key, bits(value));
    }

    pub(crate) fn integers(&mut self, key: &'static str, values: &[u64]) {
        self.fields.insert(key, list(values.iter().map(u64::to_string)));
    }

    pub(crate) fn numbers(&mut self, key: &'static str, values: &[f64]) {
        self.fields.insert(key, list(values.iter().copied().map(bits)));
    }

    pub(crate) fn number_rows(&mut self, key: &'static str, rows: &[Vec<f64>]) {
        self.fields.insert(key, list(rows.iter().map(|row| list(row.iter().copied().map(bits)))));
    }

    pub(crate) fn integer_rows<'a>(&mut self, key: &'static str, rows: impl Iterator<Item = &'a [u64]>) {
        self.fields.insert(key, list(rows.map(|row| list(row.iter().map(u64::to_string)))));
    }

    pub(crate) fn strings<'a>(&mut self, key: &'static str, values: impl Iterator<Item = &'a str>) {
        self.fields.insert(key, list(values.map(|value| format!("x{}", hex::encode(value)))));
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for (key, value) in &self.fields {
            text.push_str(key);
            text.push('=');
            text.push_str(value);
            text.push('\n');
        }
        text
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.text()).into()
    }
}

fn bits(value: f64) -> String {
    format!("{:016x}", value.to_bits())
}

fn list(elements: impl Iterator<Item = String>) -> String {
    format!("[{}]", elements.collect::<Vec<_>>().join(","))
}
