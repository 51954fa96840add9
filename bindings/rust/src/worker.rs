use crate::callbacks::Callbacks;
use crate::error::made;
use crate::files::c_string;
use crate::parameter::sealed::Handle as _;
use crate::transport::{rank_in_c, Host};
use crate::{sys, Borrowed, Element, Error, Parameter, RowId, Transport};
use std::ffi::CString;
use std::fmt;
use std::ops::Deref;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// The options of a [`Worker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// The number of servers, as "num_servers" of the servers; 1 by default.
    pub num_servers: usize,
    /// The maximal number of pushes that a server has not applied yet: the next push waits; > 0, 16 by default.
    pub max_in_flight: usize,
    /// The maximal number of pushes to a server that no checkpoint contains yet: the next push waits; > 0, 1024 by default.
    pub max_kept: usize,
    /// Whether checksums also cover the weights; false by default.
    pub check_elements: bool,
    /// The number of the job, as "job" of the servers; 0 by default.
    pub job: u32,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            num_servers: 1,
            max_in_flight: 16,
            max_kept: 1024,
            check_elements: false,
            job: 0,
        }
    }
}

/// The facts that [`Worker::describe`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// The number of workers of the job.
    pub workers: usize,
    /// The number of pushes and barriers so far. For a new worker, it is the number that all servers have saved.
    pub position: u64,
    /// The position up to which all servers have applied the pushes of this worker.
    pub applied: u64,
    /// The position up to which the checkpoints of all servers contain the pushes of this worker.
    pub durable: u64,
    /// Whether a server knows that this worker has stopped. Then only `stop` can be called.
    pub stopped: bool,
}

/// A worker of a job with parameter servers: it pulls weights from [`Server`](crate::Server)s and pushes gradients.
///
/// ```no_run
/// # use gradstep::{Transport, Worker, WorkerOptions};
/// # fn train(transport: impl Transport) -> Result<(), gradstep::Error> {
/// let worker = Worker::new(transport, &WorkerOptions::default())?;
/// let (keys, mut wide, mut deep) = ([17u64, 4], [0.0f32; 2], [0.0f32; 8]);
/// for _ in 0..100 {
///     worker.pull_rows("wide", &keys, &mut wide)?;
///     worker.pull("deep", &mut deep)?;
///     worker.push_rows("wide", &keys, &[0.5f32, -0.5])?;
///     worker.push("deep", &[0.5f32; 8])?;
/// }
/// worker.stop()
/// # }
/// ```
///
/// A worker is `Send` if its transport is, and not `Sync`. For several threads use a [`SharedWorker`].
pub struct Worker<T: Transport> {
    c: NonNull<sys::gradstep_worker>,
    host: Arc<Host<T>>, // the library has its address
}

// A handle is not bound to a thread, but only one thread can use it at a time, so it is not Sync. The host has no other owner.
unsafe impl<T: Transport + Send> Send for Worker<T> {}

impl<T: Transport> Drop for Worker<T> {
    fn drop(&mut self) {
        unsafe { sys::gradstep_worker_release(self.c.as_ptr()) }
    }
}

impl<T: Transport> fmt::Debug for Worker<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Worker").field("info", &self.describe()).finish()
    }
}

impl<T: Transport> Worker<T> {
    /// Connects to all servers, and waits for them.
    ///
    /// If a server does not answer within twice the timeout of the transport, or the transport fails, the code of the error is
    /// `Code::RankFailed`. If the servers and the options do not match, it is `Code::BadValue`.
    pub fn new(transport: T, options: &WorkerOptions) -> Result<Self, Error> {
        Self::create(transport, options, false)
    }

    fn create(transport: T, options: &WorkerOptions, is_concurrent: bool) -> Result<Self, Error> {
        let host = Arc::new(Host {
            transport,
            callbacks: Arc::default(),
        });
        let options = sys::gradstep_worker_options {
            struct_size: std::mem::size_of::<sys::gradstep_worker_options>() as u32,
            num_servers: rank_in_c(options.num_servers),
            max_in_flight: options.max_in_flight as u64,
            max_kept: options.max_kept as u64,
            check_elements: options.check_elements.into(),
            job: options.job,
        };
        let (over, mut out) = (host.to_c(is_concurrent), null_mut());
        host.callbacks
            .call(|said| unsafe { sys::gradstep_worker_create(&over, &options, &mut out, said) })?;
        Ok(Worker {
            c: made(out, "Worker")?,
            host,
        })
    }

    /// Returns the transport.
    pub fn transport(&self) -> &T {
        &self.host.transport
    }

    fn callbacks(&self) -> &Callbacks {
        &self.host.callbacks
    }

    /// Runs a call of C with the name of a tensor.
    fn call(
        &self,
        name: &str,
        f: impl FnOnce(*mut sys::gradstep_worker, &CString, *mut sys::gradstep_error) -> sys::gradstep_status,
    ) -> Result<(), Error> {
        let name = c_string(name, "name")?;
        self.callbacks().call(|said| f(self.c.as_ptr(), &name, said))
    }

    /// Returns the number of workers, the position of this worker, and what the servers know of it.
    pub fn describe(&self) -> Result<WorkerInfo, Error> {
        let mut info = sys::gradstep_worker_info {
            struct_size: std::mem::size_of::<sys::gradstep_worker_info>() as u32,
            stopped: 0,
            workers: 0,
            position: 0,
            applied: 0,
            durable: 0,
        };
        self.callbacks()
            .call(|said| unsafe { sys::gradstep_worker_describe(self.c.as_ptr(), &mut info, said) })?;
        Ok(WorkerInfo {
            workers: info.workers as usize,
            position: info.position,
            applied: info.applied,
            durable: info.durable,
            stopped: info.stopped != 0,
        })
    }

    /// Returns the number of elements of a dense parameter.
    pub fn size(&self, name: &str) -> Result<usize, Error> {
        let mut count = 0;
        self.call(name, |c, name, said| unsafe {
            sys::gradstep_worker_size(c, name.as_ptr(), &mut count, said)
        })?;
        Ok(count as usize)
    }

    /// Copies a dense parameter to `out`, which has `size(name)` elements of its type.
    pub fn pull<E: Element>(&self, name: &str, out: &mut [E]) -> Result<(), Error> {
        let (to, count) = (out.as_mut_ptr().cast(), out.len() as u64);
        self.call(name, |c, name, said| unsafe {
            sys::gradstep_worker_pull(c, name.as_ptr(), E::DTYPE, to, count, said)
        })
    }

    /// Copies the rows of `ids` to `out`, in this order. `out` has `ids.len() * width` elements of the type of the table.
    pub fn pull_rows<E: Element, I: RowId>(&self, name: &str, ids: &[I], out: &mut [E]) -> Result<(), Error> {
        let (to, count) = (out.as_mut_ptr().cast(), out.len() as u64);
        self.call(name, |c, name, said| unsafe {
            let (names, id_count) = (ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_worker_pull_rows(c, name.as_ptr(), names, I::DTYPE, id_count, E::DTYPE, to, count, said)
        })
    }

    /// Sends the gradient of a dense parameter, and returns before its step. It waits only if `max_in_flight` earlier pushes are
    /// not applied.
    ///
    /// You must pull a tensor before you push to it, or the code of the error is `Code::BadSequence`. If a server rejects a push,
    /// later calls fail.
    pub fn push<E: Element>(&self, name: &str, gradient: &[E]) -> Result<(), Error> {
        let (data, count) = (gradient.as_ptr().cast(), gradient.len() as u64);
        self.call(name, |c, name, said| unsafe {
            sys::gradstep_worker_push(c, name.as_ptr(), E::DTYPE, data, count, said)
        })
    }

    /// Sends the gradients of the rows of `ids`, row by row, as `push`. The gradients of a duplicate id follow "duplicates" of the
    /// table.
    pub fn push_rows<E: Element, I: RowId>(&self, name: &str, ids: &[I], gradients: &[E]) -> Result<(), Error> {
        let (data, count) = (gradients.as_ptr().cast(), gradients.len() as u64);
        self.call(name, |c, name, said| unsafe {
            let (names, id_count) = (ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_worker_push_rows(c, name.as_ptr(), names, I::DTYPE, id_count, E::DTYPE, data, count, said)
        })
    }

    /// Waits until every worker that has not stopped has called it equally often, and all their earlier pushes are applied. Only
    /// one thread can be in this call.
    pub fn barrier(&self) -> Result<(), Error> {
        self.callbacks()
            .call(|said| unsafe { sys::gradstep_worker_barrier(self.c.as_ptr(), said) })
    }

    /// Sets a smaller position before the first push: where the interrupted step began. Servers ignore pushes that they have
    /// applied.
    pub fn go_on_from(&self, position: u64) -> Result<(), Error> {
        self.callbacks()
            .call(|said| unsafe { sys::gradstep_worker_go_on_from(self.c.as_ptr(), position, said) })
    }

    /// Waits until all pushes are applied and saved, and all workers have called it. It is the last call: dropping a worker does
    /// not stop it.
    pub fn stop(&self) -> Result<(), Error> {
        self.callbacks()
            .call(|said| unsafe { sys::gradstep_worker_stop(self.c.as_ptr(), said) })
    }
}

/// A [`Worker`] that any number of threads can call at once, because its transport is `Sync`.
///
/// It dereferences to a `Worker`, so it has the same methods.
pub struct SharedWorker<T: Transport + Sync> {
    worker: Worker<T>,
}

// With `concurrent` the library allows every function at once, and the functions of the transport are called by several threads.
unsafe impl<T: Transport + Sync> Sync for SharedWorker<T> {}

impl<T: Transport + Sync> SharedWorker<T> {
    /// Connects to all servers, as [`Worker::new`].
    pub fn new(transport: T, options: &WorkerOptions) -> Result<Self, Error> {
        Worker::create(transport, options, true).map(|worker| SharedWorker { worker })
    }
}

impl<T: Transport + Sync> Deref for SharedWorker<T> {
    type Target = Worker<T>;

    fn deref(&self) -> &Worker<T> {
        &self.worker
    }
}

impl<T: Transport + Sync> fmt::Debug for SharedWorker<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("SharedWorker").field("info", &self.describe()).finish()
    }
}

/// Geo-SGD: a worker trains a parameter of its own, and exchanges changes with the servers of a job in mode "geo".
///
/// ```no_run
/// # use gradstep::{Geo, Parameter, StepOptions, Transport, Worker};
/// # fn train(worker: &Worker<impl Transport>, config: &str, gradient: &[f32]) -> Result<(), gradstep::Error> {
/// let mut geo = Geo::new(worker, "deep", Parameter::new(config, &[0.0f32; 8])?)?;
/// for step in 1..=1000 {
///     geo.parameter().update(gradient, &StepOptions::default())?;
///     if step % 20 == 0 {
///         geo.exchange()?;
///     }
/// }
/// worker.stop()
/// # }
/// ```
pub struct Geo<'a, T: Transport, E: Element> {
    c: KeptGeo, // released before the parameter
    worker: &'a Worker<T>,
    parameter: Parameter<E>,
}

struct KeptGeo(NonNull<sys::gradstep_geo>);

impl Drop for KeptGeo {
    fn drop(&mut self) {
        unsafe { sys::gradstep_geo_release(self.0.as_ptr()) }
    }
}

impl<T: Transport, E: Element> fmt::Debug for Geo<'_, T, E> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Geo").field("parameter", &self.parameter).finish()
    }
}

impl<'a, T: Transport, E: Element> Geo<'a, T, E> {
    /// Sets the parameter to the servers' weights of `name`, and takes it over.
    ///
    /// The parameter has a floating-point type and no master copy. The servers' rule must be "add_delta" at a rate of 1.
    pub fn new(worker: &'a Worker<T>, name: &str, parameter: Parameter<E>) -> Result<Self, Error> {
        let mut out = null_mut();
        worker.call(name, |c, name, said| unsafe {
            sys::gradstep_geo_create(c, name.as_ptr(), parameter.handle(), &mut out, said)
        })?;
        Ok(Geo {
            c: KeptGeo(made(out, "Geo")?),
            worker,
            parameter,
        })
    }

    /// Returns the parameter, to take steps and to read it.
    pub fn parameter(&mut self) -> Parameter<E, Borrowed<'_>> {
        self.parameter.lend()
    }

    /// Sends the change since the last exchange, divided by the number of workers, and takes over what the other workers have
    /// sent. Call it every k steps of the parameter, and at the end.
    pub fn exchange(&mut self) -> Result<(), Error> {
        self.worker
            .callbacks()
            .call(|said| unsafe { sys::gradstep_geo_exchange(self.c.0.as_ptr(), said) })
    }

    /// Ends the exchange, and returns the parameter.
    pub fn into_parameter(self) -> Parameter<E> {
        self.parameter
    }
}
