use crate::error::{call, BoxError};
use crate::{sys, Code, Error};
use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::thread::{current, ThreadId};

/// Calls of C that call functions of the program: each thread that is in such a call, and why a function failed in it.
#[derive(Default)]
pub(crate) struct Callbacks(Mutex<Vec<(ThreadId, Option<Cause>)>>);

enum Cause {
    Error(BoxError),
    Panic(Box<dyn Any + Send>),
}

impl Callbacks {
    /// Runs a function of the program that C calls. Returns 0, or 1 if it failed.
    pub(crate) fn run<E: Into<BoxError>>(&self, f: impl FnOnce() -> Result<(), E>) -> i32 {
        // A panic must not reach C. It goes on when C has returned.
        let cause = match catch_unwind(AssertUnwindSafe(|| f().map_err(Into::into))) {
            Ok(Ok(())) => return 0,
            Ok(Err(error)) => Cause::Error(error),
            Err(panic) => Cause::Panic(panic),
        };
        let thread = current().id();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, first)) = all.iter_mut().find(|one| one.0 == thread) {
            first.get_or_insert(cause); // what follows the first failure can be its effect
        }
        1
    }

    /// Runs a call of C that can call functions of the program. If one fails, its error is the source of this call's error, and
    /// its panic goes on.
    pub(crate) fn call(&self, f: impl FnOnce(*mut sys::gradstep_error) -> sys::gradstep_status) -> Result<(), Error> {
        let thread = current().id();
        {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.iter().any(|one| one.0 == thread) {
                let sentence = "worker: is called by a function of its transport; expected the call after it";
                return Err(Error::new(Code::BadSequence, sentence.into()));
            }
            all.push((thread, None));
        }
        let done = call(f);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.iter().position(|one| one.0 == thread);
        let cause = own.and_then(|index| all.swap_remove(index).1);
        drop(all);
        match cause {
            Some(Cause::Panic(panic)) => resume_unwind(panic),
            Some(Cause::Error(error)) => done.map_err(|failed| failed.caused_by(error)),
            None => done,
        }
    }
}
