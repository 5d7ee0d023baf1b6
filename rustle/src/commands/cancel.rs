//! Ctrl-C ends a search with the best it has found; a second one ends the process.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether Ctrl-C was pressed since.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    pressed: Arc<AtomicBool>,
}

impl Cancel {
    /// Listens from now on. Where no listener can be started Ctrl-C ends the process, as it does by itself.
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

    /// `Break` once Ctrl-C was pressed.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.pressed.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
