//! One process-wide tokio runtime, and how a call of C waits on it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, PANIC, Result};

/// Lance decodes nested columns recursively; the default 2 MiB of tokio is not ours to rely on.
const STACK_BYTES: usize = 8 << 20;

static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

pub fn handle() -> Result<&'static Handle> {
    RUNTIME
        .get_or_init(|| {
            Builder::new_multi_thread()
                // Never one worker: a task that computes must not stall the task that reads.
                .worker_threads(cores().max(2))
                .thread_stack_size(STACK_BYTES)
                .thread_name("lance-ffi")
                .enable_all()
                .build()
                .map_err(|e| e.to_string())
        })
        .as_ref()
        .map(Runtime::handle)
        .map_err(|e| Error::internal(format!("cannot start the native runtime: {e}")))
}

fn panic_error(payload: Box<dyn Any + Send>) -> Error {
    let text = payload
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    Error::new(PANIC, format!("the native core panicked: {text}"))
}

/// Turns a panic of `f` into an error; nothing may unwind into C.
pub fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| Err(panic_error(payload)))
}

pub fn joined<T>(result: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    match result {
        Ok(result) => result,
        Err(e) if e.is_panic() => Err(panic_error(e.into_panic())),
        Err(_) => Err(Error::cancelled()),
    }
}

/// Does `work` on parts of at least `least` items, on all cores at once where there are several, and gives the results in
/// the order of the items.
pub async fn in_parts<T, R, W>(items: &[T], least: usize, work: impl Fn(Vec<T>) -> W) -> Result<Vec<R>>
where
    T: Clone,
    R: Send + 'static,
    W: Future<Output = Result<R>> + Send + 'static,
{
    let parts = (items.len() / least).clamp(1, cores());
    if parts == 1 {
        return Ok(vec![work(items.to_vec()).await?]);
    }
    let mut tasks = JoinSet::new();
    for (at, part) in items.chunks(items.len().div_ceil(parts)).enumerate() {
        let work = work(part.to_vec());
        tasks.spawn(async move { Ok((at, work.await?)) });
    }
    let mut done = Vec::with_capacity(parts);
    while let Some(part) = tasks.join_next().await {
        done.push(joined(part)?);
    }
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Runs `work` on the runtime's own (deep) stacks and waits. On cancellation the work is aborted, and the call
/// returns only once it has been dropped, so nothing of the caller's is in use afterwards.
pub fn wait<T: Send + 'static>(
    cancel: Option<&CancellationToken>,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let runtime = handle()?;
    let Some(cancel) = cancel else {
        let task = runtime.spawn(work);
        return runtime.block_on(async { joined(task.await) });
    };
    if cancel.is_cancelled() {
        return Err(Error::cancelled());
    }
    let mut task = runtime.spawn(work);
    runtime.block_on(async {
        tokio::select! {
            done = &mut task => joined(done),
            _ = cancel.cancelled() => {
                task.abort();
                let _ = task.await;
                Err(Error::cancelled())
            }
        }
    })
}

/// Runs `work` on the calling thread: for short warm searches, where handing over to another thread would cost more
/// than the work. `work` watches `cancel` itself.
pub fn wait_here<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    handle()?.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_panic_is_an_error() {
        let error = guarded::<()>(|| panic!("boom {}", 1)).unwrap_err();
        assert_eq!(error.code, PANIC);
        assert!(error.message.contains("boom 1"));
        let error = wait::<()>(None, async { panic!("in a task") }).unwrap_err();
        assert_eq!(error.code, PANIC);
    }

    #[test]
    fn cancelling_drops_the_work_before_the_call_returns() {
        struct Dropped(std::sync::Arc<std::sync::atomic::AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let guard = Dropped(flag.clone());
        let token = CancellationToken::new();
        let trigger = token.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            trigger.cancel();
        });
        let result = wait::<()>(Some(&token), async move {
            let _guard = guard;
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(())
        });
        assert_eq!(result.unwrap_err().code, crate::error::CANCELLED);
        assert!(flag.load(std::sync::atomic::Ordering::SeqCst));
    }
}
