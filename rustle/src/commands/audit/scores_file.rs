//! Files of scores and of whether the canary was included.

use std::fs;
use std::path::Path;

use accounting::audit::Scores;
use anyhow::Context;

use crate::commands::errors::from_accounting;
use crate::npy::NpyReader;
use crate::output::bad_use;

/// Reads lines of text, or an .npy file by its ending.
pub fn read(path: &Path) -> anyhow::Result<Scores> {
    let is_npy = path.extension().is_some_and(|ending| ending == "npy");
    let pairs = if is_npy { of_npy(path)? } else { of_text(path)? };
    let (scores, included) = pairs.into_iter().unzip();
    Scores::new(scores, included).map_err(from_accounting)
}

fn of_npy(path: &Path) -> anyhow::Result<Vec<(f64, bool)>> {
    let mut file = NpyReader::<f32>::open(path)?;
    if file.coordinates != 2 {
        let shown = path.display();
        let columns = file.coordinates;
        return Err(bad_use(format!("{shown} has {columns} columns; allowed: 2, the score and 1 or 0")));
    }
    let mut pair = [0.0f32; 2];
    (0..file.rows)
        .map(|row| {
            file.read(&mut pair)?;
            let included = label(&pair[1].to_string());
            let included = included.ok_or_else(|| not_a_label(path, row, &pair[1].to_string()))?;
            Ok((number(path, row, pair[0].into())?, included))
        })
        .collect()
}

fn of_text(path: &Path) -> anyhow::Result<Vec<(f64, bool)>> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let lines = (0..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .filter(|(row, line)| *row > 0 || !is_header(line))
        .map(|(row, line)| {
            let (score, word) = line.rsplit_once(',').unwrap_or((line, ""));
            let score = score.trim();
            let score = score.parse::<f64>().map_err(|error| {
                bad_use(format!("{}, line {}: {score:?}: {error}", path.display(), row + 1))
            })?;
            Ok((number(path, row, score)?, label(word.trim()).ok_or_else(|| not_a_label(path, row, word))?))
        })
        .collect()
}

/// Returns whether a first line has names instead of a score and a label.
fn is_header(line: &str) -> bool {
    line.rsplit_once(',')
        .is_some_and(|(score, word)| score.trim().parse::<f64>().is_err() && label(word.trim()).is_none())
}

fn label(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "in" | "1" | "true" => Some(true),
        "out" | "0" | "false" => Some(false),
        _ => None,
    }
}

/// Refuses NaN, which orders with no score.
fn number(path: &Path, row: u64, score: f64) -> anyhow::Result<f64> {
    if score.is_nan() {
        let line = row + 1;
        return Err(bad_use(format!(
            "{}, line {line}: score is NaN; allowed: any number; infinite ones too",
            path.display()
        )));
    }
    Ok(score)
}

fn not_a_label(path: &Path, row: u64, word: &str) -> anyhow::Error {
    let shown = path.display();
    bad_use(format!("{shown}, line {}: label {word:?}; allowed: in, out, 1, 0, true, false", row + 1))
}
