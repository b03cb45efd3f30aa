//! Threads for work for which the workers have no time, so that a flood of it leaves the workers' other users alone. They have
//! a lower priority than the workers.

use crate::handshakes::lock;
use ringway_linux::sys;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Work of a thread.
pub(crate) trait Task: Send + Sync {
    fn run(&self);
}

/// Threads that run tasks in the order of their arrival.
pub(crate) struct HandshakeThreads {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Arc<dyn Task>>,
    is_ended: bool,
}

impl HandshakeThreads {
    pub(crate) fn start() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = Self { shared: Arc::default() };
        for number in 0..cores.div_ceil(2) {
            let shared = Arc::clone(&threads.shared);
            std::thread::Builder::new().name(format!("handshake-{number}")).spawn(move || {
                // Without the permission they compete with the workers.
                let _ = sys::set_nice(NICE);
                shared.run();
            })?;
        }
        Ok(threads)
    }

    pub(crate) fn submit(&self, task: Arc<dyn Task>) {
        lock(&self.shared.queue).tasks.push_back(task);
        self.shared.work.notify_one();
    }
}

impl Drop for HandshakeThreads {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_ended = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = lock(&self.queue);
        while !queue.is_ended {
            match queue.tasks.pop_front() {
                Some(task) => {
                    drop(queue);
                    task.run();
                    drop(task);
                    queue = lock(&self.queue);
                }
                None => queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Nice value of the threads: a ninth of the share of a worker.
const NICE: i8 = 10;
