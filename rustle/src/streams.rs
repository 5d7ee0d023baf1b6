//! Standard output and standard error of a command, whose readers may leave at any time.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

/// Whether the reader of what this process writes has left, as `head` does once it has seen enough.
static READER_LEFT: AtomicBool = AtomicBool::new(false);

/// Returns whether a write of this process failed because its reader had left.
pub fn reader_left() -> bool {
    READER_LEFT.load(Ordering::Relaxed)
}

/// A pipe or standard output. It notes a reader that leaves, so that the command can end without a word.
#[derive(Debug)]
pub struct Stream<W>(pub W);

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(note_broken_pipe)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(note_broken_pipe)
    }
}

fn note_broken_pipe(error: &io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        READER_LEFT.store(true, Ordering::Relaxed);
    }
}

/// Returns standard output.
pub fn stdout() -> Stream<io::Stdout> {
    Stream(io::stdout())
}

/// Writes bytes to standard output. Error: it can't be written.
pub fn write(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = stdout();
    out.write_all(bytes).and_then(|()| out.flush()).context("write standard output")
}

/// Writes a line to standard output. Error: it can't be written.
pub fn line(text: impl Display) -> anyhow::Result<()> {
    write(format!("{text}\n").as_bytes())
}

/// Writes a line to standard error. One that can't be written is dropped: the exit status says what matters.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
