//! Texts that fit the columns of a table.

use crate::output;

/// Breaks a text between words, so that its lines fit 80 columns behind an indent that the first one has already; unchanged
/// after [`set_wide`](output::set_wide). A longer word, such as a path, stays whole.
pub fn wrapped(text: &str, indent: usize) -> String {
    if output::is_wide() {
        return text.to_owned();
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().filter(|line| {
            line.is_empty()
                || indent + line.chars().count() + 1 + word.chars().count() <= usize::from(output::WIDTH)
        });
        match last {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_behind_their_indent_and_keep_every_word() {
        let text = format!("{} {} end", "word ".repeat(40).trim_end(), "w".repeat(100));
        let broken = wrapped(&text, 9);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&broken), words(&text));
        for (index, line) in broken.lines().enumerate().filter(|(_, line)| !line.contains("www")) {
            let columns = line.chars().count() + if index == 0 { 9 } else { 0 };
            assert!(
                columns <= usize::from(output::WIDTH)
                    && (index == 0 || line.starts_with("         w") || line.ends_with("end")),
                "{line}"
            );
        }
    }
}
