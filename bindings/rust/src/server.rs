use crate::callbacks::Callbacks;
use crate::element::slice;
use crate::error::{call, made, write_message, BoxError};
use crate::files::{c_string, path_in_c};
use crate::table::RowKind;
use crate::transport::{rank_in_c, Host};
use crate::{sys, Borrowed, Element, Error, KeyedTable, Numbered, Parameter, Table, Transport};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::path::Path;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// A parameter server: it stores tables and dense parameters, and updates them by the gradients that [`Worker`](crate::Worker)s
/// push (docs/how_to/parameter_servers.md).
///
/// The configuration is a JSON string with the tensors by name, the mode ("synchronous", "asynchronous", "geo") and the options of
/// servers. A tensor has the keys of an optimizer, "type", and one of "parameter", "table" and "keyed_table"
/// (docs/how_to/rust.md#servers-and-workers). All servers of a job get the same string, and each keeps its part.
///
/// ```
/// # use gradstep::Server;
/// # fn main() -> Result<(), gradstep::Error> {
/// let config = r#"{"mode": "asynchronous", "num_servers": 1, "tensors": {
///     "wide": {"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1}, "keyed_table": {"width": 1}},
///     "deep": {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}, "parameter": {"size": 8}}}}"#;
/// let mut server = Server::new(config, 0, 3)?; // rank 0 of 3 ranks: one server, two workers
/// server.after_every(10_000, |server| server.keyed_table::<f32>("wide")?.evict_to(1_000_000).map(|_| ()))?;
/// server.parameter::<f32>("deep")?.set_values(&[0.5; 8])?;
/// // server.run(&transport)?;
/// # Ok(())
/// # }
/// ```
///
/// Each push is applied exactly once, also after a restart of a server or a worker. A server is `Send` and not `Sync`.
pub struct Server {
    c: NonNull<sys::gradstep_server>,
    callbacks: Arc<Callbacks>,
    tasks: Vec<KeptTask>, // kept alive, because the library calls them
}

// A handle is not bound to a thread, but only one thread can use it at a time, so it is not Sync. Tasks are Send.
unsafe impl Send for Server {}

impl Drop for Server {
    fn drop(&mut self) {
        unsafe { sys::gradstep_server_release(self.c.as_ptr()) }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Server").field("info", &self.describe()).finish()
    }
}

/// The facts that [`Server::describe`] returns.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The number of parameters and tables on this server, including shards.
    pub tensors: usize,
    /// The number of pushes that were applied since this server started.
    pub pushes: u64,
    /// The average number of steps of a parameter between the pull and the push of a worker.
    pub staleness: f64,
    /// Whether every worker has stopped.
    pub finished: bool,
}

/// A message to send, which [`Server::begin`] and [`Server::handle`] return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The rank of the receiver.
    pub to: usize,
    /// The bytes, in the memory of the server.
    pub bytes: &'a [u8],
}

/// The server of a task, which has the methods of a [`Server`] that can be called between two messages.
pub struct ServerView<'a> {
    c: NonNull<sys::gradstep_server>,
    of: PhantomData<&'a mut Server>,
}

impl fmt::Debug for ServerView<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ServerView").field("info", &self.describe()).finish()
    }
}

type Run = Box<dyn FnMut(&mut ServerView<'_>) -> Result<(), BoxError> + Send>;

/// A function of the program that C calls.
struct Task {
    run: Run,
    callbacks: Arc<Callbacks>,
}

/// The owner of a task whose address the library has. A `Box` may not be moved while there are other pointers to it.
struct KeptTask(NonNull<Task>);

impl Drop for KeptTask {
    fn drop(&mut self) {
        drop(unsafe { Box::from_raw(self.0.as_ptr()) })
    }
}

unsafe extern "C" fn run_task(
    host: *mut c_void,
    server: *mut sys::gradstep_server,
    reason: *mut sys::gradstep_error,
) -> i32 {
    let task = &mut *host.cast::<Task>();
    let mut view = match NonNull::new(server) {
        Some(c) => ServerView { c, of: PhantomData },
        None => return 1,
    };
    let run = &mut task.run;
    let reason = &mut (*reason).message; // the other ranks get it
    write_message(reason, "a panic");
    task.callbacks.run(|| {
        run(&mut view).map_err(|failed| {
            write_message(reason, &failed.to_string());
            failed
        })
    })
}

impl Server {
    /// Makes the server with this rank in a job of `ranks` servers and workers.
    ///
    /// If the configuration or a rank is invalid, the code of the error is `Code::BadConfig` or `Code::NotCompiled`.
    pub fn new(config: &str, rank: usize, ranks: usize) -> Result<Self, Error> {
        let (rank, ranks, mut out) = (rank_in_c(rank), rank_in_c(ranks), null_mut());
        call(|said| unsafe {
            sys::gradstep_server_create(config.as_ptr().cast(), config.len(), rank, ranks, &mut out, said)
        })?;
        Ok(Server {
            c: made(out, "Server")?,
            callbacks: Arc::default(),
            tasks: Vec::new(),
        })
    }

    /// Serves until every worker has stopped.
    ///
    /// If a worker is silent for the timeout of the transport, or the transport fails, the code of the error is
    /// `Code::RankFailed`. If a task fails, its error is the `source`. The other ranks are told why the server fails.
    pub fn run<T: Transport + ?Sized>(&mut self, transport: &T) -> Result<(), Error> {
        let host = Host {
            transport,
            callbacks: self.callbacks.clone(),
        };
        let over = host.to_c(false);
        self.callbacks
            .call(|said| unsafe { sys::gradstep_server_run(self.c.as_ptr(), &over, said) })
    }

    /// Returns the first messages of the server, for your own loop instead of `run`. Send them, and then the messages that `handle`
    /// returns.
    ///
    /// Unlike `run`, your loop does not detect silent workers.
    pub fn begin(&mut self) -> Result<Vec<Message<'_>>, Error> {
        let mut count = 0;
        call(|said| unsafe { sys::gradstep_server_begin(self.c.as_ptr(), &mut count, said) })?;
        self.messages(count)
    }

    /// Handles a message of rank `from`, and returns the messages to send. An invalid message changes nothing: its sender gets an
    /// error message. The error is one of a checkpoint or of a task.
    pub fn handle(&mut self, from: usize, bytes: &[u8]) -> Result<Vec<Message<'_>>, Error> {
        let (from, data, size, mut count) = (rank_in_c(from), bytes.as_ptr().cast(), bytes.len() as u64, 0);
        self.callbacks
            .call(|said| unsafe { sys::gradstep_server_handle(self.c.as_ptr(), from, data, size, &mut count, said) })?;
        self.messages(count)
    }

    /// The library keeps the messages until the next call that needs `&mut self`.
    fn messages(&self, count: u64) -> Result<Vec<Message<'_>>, Error> {
        let mut of_c = sys::gradstep_message {
            struct_size: std::mem::size_of::<sys::gradstep_message>() as u32,
            to: 0,
            bytes: null_mut(),
            size: 0,
        };
        (0..count)
            .map(|index| {
                call(|said| unsafe { sys::gradstep_server_message(self.c.as_ptr(), index, &mut of_c, said) })?;
                Ok(Message {
                    to: of_c.to as usize,
                    bytes: unsafe { slice(of_c.bytes.cast(), of_c.size as usize) },
                })
            })
            .collect()
    }

    /// Calls `task` after every so many pushes, in `handle` and `run`: to evict rows, to send changes to replicas, or to log.
    ///
    /// Rows that workers have pulled and not pushed since are not evicted. If the task returns an error, the run ends with an
    /// error of code `Code::BadValue`, whose `source` is the task's error. If it panics, the run ends, and the panic goes on.
    pub fn after_every<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &mut self,
        pushes: u64,
        mut task: impl FnMut(&mut ServerView<'_>) -> Result<(), E> + Send + 'static,
    ) -> Result<(), Error> {
        let task = Box::new(Task {
            run: Box::new(move |server| task(server).map_err(Into::into)),
            callbacks: self.callbacks.clone(),
        });
        let task = KeptTask(NonNull::from(Box::leak(task)));
        let host = task.0.as_ptr().cast();
        call(|said| unsafe { sys::gradstep_server_after_every(self.c.as_ptr(), pushes, Some(run_task), host, said) })?;
        self.tasks.push(task);
        Ok(())
    }

    /// Continues from the file if it exists, and then writes it after every `every` pushes (0: never for their number), and when all
    /// workers have stopped. Each server needs its own file. Call it before the first message.
    pub fn checkpoint(&mut self, path: impl AsRef<Path>, every: u64) -> Result<(), Error> {
        let path = path_in_c(path.as_ref())?;
        call(|said| unsafe { sys::gradstep_server_checkpoint(self.c.as_ptr(), path.as_ptr(), every, said) })
    }

    /// Writes everything, with the positions of the workers, to a safetensors file.
    pub fn save_file(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.view().save_file(path)
    }

    /// Loads a file of `save_file` or `checkpoint`. If a tensor does not fit the file, the tensors before it have been loaded.
    pub fn load_file(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path_in_c(path.as_ref())?;
        call(|said| unsafe { sys::gradstep_server_load_file(self.c.as_ptr(), path.as_ptr(), said) })
    }

    /// Lets workers start again after all have stopped, to continue from a final checkpoint.
    pub fn reopen(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_server_reopen(self.c.as_ptr(), said) })
    }

    /// Returns the numbers of tensors and pushes, the staleness, and whether every worker has stopped.
    pub fn describe(&self) -> Result<ServerInfo, Error> {
        let view = ServerView {
            c: self.c,
            of: PhantomData,
        };
        view.describe()
    }

    /// Returns a table of this server, to read it, or to set rows before the first worker connects.
    ///
    /// If the server has no table of this name, the code of the error is `Code::BadValue`. If its rows have another type or keys,
    /// it is `Code::BadConfig`.
    pub fn table<T: Element>(&mut self, name: &str) -> Result<Table<T, Numbered, Borrowed<'_>>, Error> {
        self.view().into_table(name)
    }

    /// Returns a keyed table of this server, to read it, or to send its changes to replicas. Evict rows in tasks only: elsewhere
    /// the rows that workers have pulled are not protected. The errors are as for `table`.
    pub fn keyed_table<T: Element>(&mut self, name: &str) -> Result<KeyedTable<T, Borrowed<'_>>, Error> {
        self.view().into_table(name)
    }

    /// Returns a dense parameter of this server, or this server's shard of it, to read it, or to set its values before the first
    /// worker connects. The errors are as for `table`.
    pub fn parameter<T: Element>(&mut self, name: &str) -> Result<Parameter<T, Borrowed<'_>>, Error> {
        self.view().into_parameter(name)
    }

    /// Returns the number of the first element of this server's shard of a dense parameter; 0 for a whole parameter.
    pub fn first_element(&self, name: &str) -> Result<usize, Error> {
        parameter_of(self.c, name).map(|(_, first)| first)
    }

    fn view(&mut self) -> ServerView<'_> {
        ServerView {
            c: self.c,
            of: PhantomData,
        }
    }
}

impl<'a> ServerView<'a> {
    /// Returns the facts of the server, as [`Server::describe`].
    pub fn describe(&self) -> Result<ServerInfo, Error> {
        let mut info = sys::gradstep_server_info {
            struct_size: std::mem::size_of::<sys::gradstep_server_info>() as u32,
            finished: 0,
            tensors: 0,
            pushes: 0,
            staleness: 0.0,
        };
        call(|said| unsafe { sys::gradstep_server_describe(self.c.as_ptr(), &mut info, said) })?;
        Ok(ServerInfo {
            tensors: info.tensors as usize,
            pushes: info.pushes,
            staleness: info.staleness,
            finished: info.finished != 0,
        })
    }

    /// Returns a table, as [`Server::table`].
    pub fn table<T: Element>(&mut self, name: &str) -> Result<Table<T, Numbered, Borrowed<'_>>, Error> {
        self.view().into_table(name)
    }

    /// Returns a keyed table, as [`Server::keyed_table`], to evict rows, too.
    pub fn keyed_table<T: Element>(&mut self, name: &str) -> Result<KeyedTable<T, Borrowed<'_>>, Error> {
        self.view().into_table(name)
    }

    /// Returns a dense parameter, as [`Server::parameter`].
    pub fn parameter<T: Element>(&mut self, name: &str) -> Result<Parameter<T, Borrowed<'_>>, Error> {
        self.view().into_parameter(name)
    }

    /// Writes everything to a file, as [`Server::save_file`].
    pub fn save_file(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path_in_c(path.as_ref())?;
        call(|said| unsafe { sys::gradstep_server_save_file(self.c.as_ptr(), path.as_ptr(), said) })
    }

    fn view(&mut self) -> ServerView<'_> {
        ServerView {
            c: self.c,
            of: PhantomData,
        }
    }

    fn into_table<T: Element, K: RowKind>(self, name: &str) -> Result<Table<T, K, Borrowed<'a>>, Error> {
        let (name, mut out) = (c_string(name, "name")?, null_mut());
        call(|said| unsafe { sys::gradstep_server_table(self.c.as_ptr(), name.as_ptr(), &mut out, said) })?;
        Table::borrowed(made(out, K::TYPE)?)
    }

    fn into_parameter<T: Element>(self, name: &str) -> Result<Parameter<T, Borrowed<'a>>, Error> {
        Parameter::borrowed(parameter_of(self.c, name)?.0)
    }
}

/// A dense parameter of a server, and the number of its first element.
fn parameter_of(
    server: NonNull<sys::gradstep_server>,
    name: &str,
) -> Result<(NonNull<sys::gradstep_parameter>, usize), Error> {
    let (name, mut out, mut first) = (c_string(name, "name")?, null_mut(), 0);
    call(|said| unsafe { sys::gradstep_server_parameter(server.as_ptr(), name.as_ptr(), &mut out, &mut first, said) })?;
    Ok((made(out, "Parameter")?, first as usize))
}
