//! Values in the form that people read, safe to stand in HTML.

use node::config::units::show_bytes;
use serde_json::Value;

/// Escapes text for HTML, inside elements and quoted attributes.
pub fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Returns a value of the status, escaped; a dash for null.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => escape_html(text),
        Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), count),
        other => escape_html(&other.to_string()),
    }
}

/// Returns a number with thin spaces between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// Returns a number of bytes of the status, readable; a dash for null.
pub fn bytes_cell(value: &Value) -> String {
    value.as_u64().map_or_else(|| "–".to_owned(), show_bytes)
}

/// Returns a moment, of RFC 3339 in UTC, as text that can break; escaped.
pub fn moment(rfc3339: &str) -> String {
    let readable = rfc3339.strip_suffix('Z').filter(|rest| rest.contains('T'));
    readable
        .map_or_else(|| escape_html(rfc3339), |rest| format!("{} UTC", escape_html(&rest.replace('T', " "))))
}

/// Returns a time with its unit; a dash where it is not known.
pub fn in_seconds(seconds: Option<f64>) -> String {
    match seconds {
        None => "–".to_owned(),
        Some(0.0) => "0 s".to_owned(),
        Some(short) if short < 1.0 => format!("{:.1} ms", short * 1000.0),
        Some(seconds) => format!("{seconds:.1} s"),
    }
}

/// Returns a rate of the status, readable; a dash for null.
pub fn rate(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |rate| format!("{rate:.1}"))
}

/// Returns three significant digits, rounded up: a privacy figure must not look smaller than it is.
pub fn rounded_up(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let scale = 10f64.powf(2.0 - value.abs().log10().floor());
    let digits = scale.log10().max(0.0) as usize;
    format!("{:.digits$}", (value * scale).ceil() / scale)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_escapes_its_element() {
        assert_eq!(cell(&json!("<b a=\"'&'\">")), "&lt;b a=&quot;&#39;&amp;&#39;&quot;&gt;");
        assert_eq!(cell(&Value::Null), "–");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(cell(&json!(1234567)), "1\u{2009}234\u{2009}567");
        assert_eq!([0, 7, 1000].map(count).join(" "), "0 7 1\u{2009}000");
        assert_eq!(
            [0_u64, 1023, 1536, 10 << 30].map(|n| bytes_cell(&json!(n))).join(", "),
            "0 B, 1023 B, 1.50 KiB, 10.0 GiB"
        );
    }

    #[test]
    fn times_are_readable() {
        assert_eq!(moment("2026-11-26T18:40:11Z"), "2026-11-26 18:40:11 UTC");
        assert_eq!(moment("<T>"), "&lt;T&gt;");
        assert_eq!(
            [None, Some(0.0), Some(0.0123), Some(4.25)].map(in_seconds),
            ["–", "0 s", "12.3 ms", "4.2 s"]
        );
        assert_eq!([rate(&json!(2.04)), rate(&Value::Null)], ["2.0", "–"]);
    }

    #[test]
    fn privacy_is_rounded_up() {
        for (value, text) in
            [(1.2341, "1.24"), (0.01231, "0.0124"), (12.31, "12.4"), (1234.2, "1240"), (0.0, "0")]
        {
            assert_eq!(rounded_up(value), text);
        }
    }
}
