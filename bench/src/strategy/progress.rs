//! How far a long run has come: a bar on a terminal, a line a setting elsewhere.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    lines: bool,
}

impl Progress {
    pub fn new(settings: usize) -> Self {
        let bar = ProgressBar::new(settings as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        Self { bar, lines: !stderr().is_terminal() }
    }

    /// `work`, with the setting it is about shown.
    pub fn over<T>(&self, setting: &impl ToString, work: impl FnOnce() -> T) -> T {
        self.begin(setting.to_string());
        let result = work();
        self.bar.inc(1);
        result
    }

    fn begin(&self, setting: String) {
        if self.lines {
            let done = self.bar.position() + 1;
            let all = self.bar.length().unwrap_or_default();
            eprintln!("{done}/{all} {setting}");
        }
        self.bar.set_message(setting);
        self.bar.tick();
    }

    /// Updates the clock.
    pub fn tick(&self) {
        self.bar.tick();
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
