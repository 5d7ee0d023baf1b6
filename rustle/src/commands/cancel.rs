//! Cancellation of a search: the first Ctrl-C ends it with the best result so far, the second ends the process.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Records whether Ctrl-C was pressed.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    pressed: Arc<AtomicBool>,
}

impl Cancel {
    /// Starts to listen for Ctrl-C. Where no listener can be started, Ctrl-C ends the process as usual.
    pub fn on_ctrl_c() -> Self {
        let cancel = Self::default();
        let pressed = cancel.pressed.clone();
        let listen = move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    if pressed.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                }
            });
        };
        // The thread ends with the process.
        drop(std::thread::Builder::new().name("ctrl-c".into()).spawn(listen));
        cancel
    }

    /// Returns `Break` once Ctrl-C was pressed.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.pressed.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
