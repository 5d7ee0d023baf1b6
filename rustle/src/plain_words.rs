//! Texts of the libraries that read numbers and files, in words that say what is allowed.
//!
//! A parser of the standard library or of JSON names neither the form that it expects nor the file. Its text is
//! replaced where an error is printed, so that no command can forget to.

use std::ops::Range;

/// A library's text, and what is printed in its place.
const UNCLEAR: [(&str, &str); 15] = [
    ("invalid digit found in string", WHOLE),
    ("cannot parse integer from empty string", WHOLE),
    ("number too large to fit in target type", "allowed: up to 18446744073709551615"),
    ("number too small to fit in target type", WHOLE),
    ("invalid float literal", NUMBER),
    ("cannot parse float from empty string", NUMBER),
    ("stream did not contain valid UTF-8", "not text (UTF-8); is it another file?"),
    ("failed to fill whole buffer", "it ends too early"),
    ("EOF while parsing a value at line 1 column 0", "it is empty; allowed: JSON"),
    ("EOF while parsing", "not JSON, or cut short: a missing end of"),
    ("expected ident at", "not JSON, at"),
    ("expected value at", "not JSON, at"),
    ("expected u64", "allowed: a whole number"),
    ("expected f64", "allowed: a number"),
    ("File exists (os error 17)", "it exists already; allowed: a new name"),
];

const WHOLE: &str = "allowed: a whole number from 0 on, such as 2000, 2_000 or 2e3";
pub const NUMBER: &str = "allowed: a number, such as 0.5 or 1e-6";

/// Longest line of a message, in characters: what a file quotes may have no end.
const LONGEST: usize = 480;

/// Characters of them from the end of the line.
const LAST: usize = 120;

/// What the commands begin with that messages name in backquotes.
const PROGRAMS: [&str; 2] = ["rustle ", "noise-worker "];

/// Longest command that is never cut, in bytes: two paths, as long as the system has them, and flags.
const LONGEST_COMMAND: usize = 10_000;

/// Longest line of a message that a service has worded, which quotes no file.
const LONGEST_OF_SERVICE: usize = 2000;

/// Returns the text with every unclear part replaced, and long lines cut.
pub fn of(text: &str) -> String {
    within(text, LONGEST)
}

/// The same of a service's error, of which more is kept: it says what was found, and where the proof is.
pub fn of_service(text: &str) -> String {
    within(text, LONGEST_OF_SERVICE)
}

fn within(text: &str, longest: usize) -> String {
    let text = UNCLEAR.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    without_draft(&text).split('\n').map(|line| cut(line, longest)).collect::<Vec<_>>().join("\n")
}

/// Removes the path of a temporary file, which no caller named, from an error of creating it.
fn without_draft(text: &str) -> String {
    let Some((before, path)) = text.split_once(" at path \"") else { return text.to_owned() };
    match path.split_once('"') {
        Some((path, after)) if path.contains("/.rustle-") => format!("{before}{after}"),
        _ => text.to_owned(),
    }
}

/// Leaves out the middle of a long line: what is allowed stands at its end. A command in backquotes stays whole: it is what to
/// do, and half of it is of no use.
fn cut(line: &str, longest: usize) -> String {
    let count = line.chars().count();
    if count <= longest {
        return line.to_owned();
    }
    let at = |chars: usize| line.char_indices().nth(chars).map_or(line.len(), |(at, _)| at);
    let mut kept = vec![0..at(longest - LAST), at(count - LAST)..line.len()];
    kept.extend(commands(line));
    kept.sort_by_key(|part| part.start);
    let mut parts: Vec<Range<usize>> = Vec::new();
    for part in kept {
        match parts.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => parts.push(part),
        }
    }
    parts.into_iter().map(|part| line[part].trim()).collect::<Vec<_>>().join(" … ")
}

/// Returns where the commands in backquotes are, with the quotes.
fn commands(line: &str) -> impl Iterator<Item = Range<usize>> {
    let is_command = |part: &Range<usize>| {
        let words = line[part.clone()].trim_matches('`');
        part.len() <= LONGEST_COMMAND && PROGRAMS.iter().any(|name| words.starts_with(name))
    };
    let quotes: Vec<usize> = line.match_indices('`').map(|(at, _)| at).collect();
    quotes.windows(2).map(|pair| pair[0]..pair[1] + 1).filter(is_command).collect::<Vec<_>>().into_iter()
}

/// Returns the text with control characters, apart from line feeds, written as escapes.
pub fn without_controls(text: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => c.to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The libraries' own errors, so that a change of their texts is noticed.
    #[test]
    fn every_unclear_text_is_one_that_a_library_prints() {
        let io = |bytes: &[u8], length: usize| {
            let mut reader = bytes;
            std::io::Read::read_exact(&mut reader, &mut vec![0; length]).unwrap_err().to_string()
        };
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_err().to_string();
        let toml = |text: &str| plan::Plan::from_toml_str(text).unwrap_err().to_string();
        let printed = [
            "x".parse::<u64>().unwrap_err().to_string(),
            "".parse::<u64>().unwrap_err().to_string(),
            "99999999999999999999".parse::<u64>().unwrap_err().to_string(),
            "-999".parse::<i8>().unwrap_err().to_string(),
            "x".parse::<f64>().unwrap_err().to_string(),
            "".parse::<f64>().unwrap_err().to_string(),
            std::io::read_to_string(&b"\xff"[..]).unwrap_err().to_string(),
            io(b"x", 2),
            json(""),
            json("{"),
            json("nulx"),
            json("x"),
            toml("iterations = 1.5"),
            toml("noise_multiplier = 'x'"),
            std::io::Error::from_raw_os_error(17).to_string(),
        ];
        for (text, (from, to)) in printed.iter().zip(UNCLEAR) {
            assert!(text.contains(from), "{text:?} is not {from:?}");
            assert!(of(text).contains(to), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_draft_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none");
        let error = tempfile::Builder::new().prefix(".rustle-key-").tempfile_in(&missing).unwrap_err();
        assert!(error.to_string().contains(".rustle-key-"), "{error}");
        assert_eq!(of(&format!("write x: {error}")), "write x: No such file or directory (os error 2)");
    }

    #[test]
    fn a_command_in_backquotes_is_never_cut() {
        let [before, after] = ["b".repeat(300), "a".repeat(300)];
        let command = format!("`rustle ledger adopt --file '/{}'`", "folder/".repeat(40));
        for text in [
            format!("{before}: {command}, {after}{after}"),
            format!("{before}{before}{before} {command} {after}{after}"),
            format!("{after}{after} or {command}, x"),
        ] {
            let printed = of(&text);
            assert!(printed.contains(&command) && printed.contains(" … "), "{printed}");
            assert!(printed.chars().count() <= LONGEST + command.len() + 10, "{printed}");
        }
        let proof = format!("{before}{after} {before}");
        assert_eq!(of_service(&proof), proof, "a proof is whole");
        assert!(of_service(&"x".repeat(9000)).chars().count() < 2100);
        // What a file has in backquotes is no command.
        let field = format!("{before} `{before}{after}` {after}");
        assert!(of(&field).chars().count() <= LONGEST + 3, "{field}");
    }

    #[test]
    fn long_lines_are_cut_and_controls_are_escaped() {
        assert_eq!(of(&"a".repeat(LONGEST)), "a".repeat(LONGEST));
        let expected = format!("x\n{} … {}", "ü".repeat(LONGEST - LAST), "ü".repeat(LAST));
        assert_eq!(of(&format!("x\n{}", "ü".repeat(500))), expected);
        assert_eq!(without_controls("a\u{1b}[1mü\nb"), "a\\u{1b}[1mü\nb");
    }
}
