//! Progress on standard error, shown on a terminal only.

use std::ops::Deref;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two redraws of a spinner.
const TICK: Duration = Duration::from_millis(200);

/// A bar or a spinner that disappears when dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows how many of `total` units are done.
    pub fn bar(total: u64, unit: &'static str) -> Self {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} {elapsed}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(total).with_style(style).with_message(unit))
    }

    /// Shows that a computation or a call of unknown length is running.
    pub fn spinner(message: impl Into<String>) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let spinner = ProgressBar::new_spinner().with_style(style).with_message(message.into());
        spinner.enable_steady_tick(TICK);
        Self(spinner)
    }
}

impl Deref for Progress {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.0
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
