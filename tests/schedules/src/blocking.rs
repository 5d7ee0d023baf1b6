//! In place of `node::process::blocking`: the work is a task of the scheduler's.

use shuttle::future::{self, JoinHandle};

pub fn run<T, F>(work: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    future::spawn(async move { work() })
}
