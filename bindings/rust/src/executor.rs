use crate::error::{call, made};
use crate::{sys, Error};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs parameters and updaters on your own threads, instead of the `threads` of their configurations.
///
/// ```
/// # use gradstep::{Executor, Parameter, StepOptions};
/// # fn main() -> Result<(), gradstep::Error> {
/// let two = Executor::new(2, |work| {
///     std::thread::scope(|scope| {
///         scope.spawn(|| work.run());
///         work.run();
///     })
/// })?;
/// # let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.5}}"#;
/// let mut weights = Parameter::new(config, &vec![1.0f32; 100_000])?;
/// weights.set_executor(Some(&two))?;
/// weights.update(&vec![1.0; 100_000], &StepOptions::default())?;
/// assert!(weights.values()?.iter().all(|w| *w == 0.5));
/// # Ok(())
/// # }
/// ```
///
/// A clone uses the same threads.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

type Run = Box<dyn Fn(&Work<'_>) + Send + Sync>;

struct Shared {
    concurrency: u64,
    c: Mutex<NonNull<sys::gradstep_executor>>, // only one thread can use a handle at a time
    _run: Box<Run>,                            // the library has its address
}

// The handle is not bound to a thread, and several threads can call the function.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

impl fmt::Debug for Executor {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Executor")
            .field("concurrency", &self.0.concurrency)
            .finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let c = self.c.get_mut().unwrap_or_else(PoisonError::into_inner);
        unsafe { sys::gradstep_executor_release(c.as_ptr()) }
    }
}

/// The work of one update, which consists of parts. One thread runs each part.
#[derive(Debug)]
pub struct Work<'a> {
    parts: u64,
    next: AtomicU64,
    work: unsafe extern "C" fn(*mut c_void, u64),
    task: *mut c_void,
    of: PhantomData<&'a ()>,
}

// Any thread can run a part.
unsafe impl Send for Work<'_> {}
unsafe impl Sync for Work<'_> {}

impl Work<'_> {
    /// Returns the number of parts.
    pub fn parts(&self) -> u64 {
        self.parts
    }

    /// Runs parts that no thread has started, until there are none left. Other threads can still run their parts when it returns.
    pub fn run(&self) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            unsafe { (self.work)(self.task, part) }
        }
    }
}

unsafe extern "C" fn run_on_host(host: *mut c_void, parts: u64, work: sys::gradstep_work, task: *mut c_void) {
    let (run, work) = match work {
        Some(work) => (&*host.cast::<Run>(), work),
        None => return,
    };
    let work = Work {
        parts,
        next: AtomicU64::new(0),
        work,
        task,
        of: PhantomData,
    };
    // A panic must not reach C. The panic hook has already reported it.
    let _ = catch_unwind(AssertUnwindSafe(|| run(&work)));
    work.run(); // the parts that the function left
}

impl Executor {
    /// Makes an executor. `concurrency` is the number of parts that run at the same time.
    ///
    /// `run` must let several threads call [`Work::run`], and return when their calls have ended. The calling thread runs the
    /// parts that are left. If several threads update at the same time, they also call `run` at the same time.
    pub fn new(concurrency: u64, run: impl Fn(&Work<'_>) + Send + Sync + 'static) -> Result<Self, Error> {
        let run: Box<Run> = Box::new(Box::new(run));
        let host: *const Run = &*run;
        let mut out = null_mut();
        call(|said| unsafe {
            let host = host as *mut c_void;
            sys::gradstep_executor_from_callback(concurrency, Some(run_on_host), host, &mut out, said)
        })?;
        Ok(Executor(Arc::new(Shared {
            concurrency,
            c: Mutex::new(made(out, "Executor")?),
            _run: run,
        })))
    }

    /// Calls `f` with the handle; null for `None`.
    pub(crate) fn with_handle<R>(this: Option<&Self>, f: impl FnOnce(*mut sys::gradstep_executor) -> R) -> R {
        match this {
            Some(executor) => f(executor.0.c.lock().unwrap_or_else(PoisonError::into_inner).as_ptr()),
            None => f(null_mut()),
        }
    }
}
