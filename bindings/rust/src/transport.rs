use crate::callbacks::Callbacks;
use crate::element::slice;
use crate::error::BoxError;
use crate::sys;
use std::os::raw::c_void;
use std::sync::Arc;
use std::time::Duration;

/// Moves the messages of servers and workers between the ranks of a job, over your network or between threads.
///
/// The first ranks of a job are servers, and the others are workers. Messages between two ranks must keep their order. A rank can
/// send messages to itself, as every worker does.
///
/// ```
/// use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
///
/// struct Channels {
///     rank: usize,
///     to: Vec<Sender<(usize, Vec<u8>)>>, // one for each rank
///     arrived: Receiver<(usize, Vec<u8>)>,
/// }
///
/// impl gradstep::Transport for Channels {
///     type Error = Box<dyn std::error::Error + Send + Sync>;
///
///     fn rank(&self) -> usize {
///         self.rank
///     }
///     fn ranks(&self) -> usize {
///         self.to.len()
///     }
///     fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Self::Error> {
///         Ok(self.to[to].send((self.rank, bytes.to_vec()))?)
///     }
///     fn receive(&self, wait: std::time::Duration) -> Result<Option<(usize, Vec<u8>)>, Self::Error> {
///         match self.arrived.recv_timeout(wait) {
///             Err(RecvTimeoutError::Timeout) => Ok(None),
///             got => Ok(Some(got?)),
///         }
///     }
/// }
/// ```
///
/// If `send` or `receive` fails, the call of the worker, or `Server::run`, returns an error of code `Code::RankFailed`, whose
/// `source` is your error. If one of them panics, the panic goes on in your program. They must not use the worker or the server
/// that calls them.
pub trait Transport {
    /// The error of `send` and `receive`.
    type Error: Into<Box<dyn std::error::Error + Send + Sync>>;

    /// Returns this rank, from 0.
    fn rank(&self) -> usize;
    /// Returns the number of servers and workers together.
    fn ranks(&self) -> usize;
    /// Returns how long to wait for another rank before calls fail with the code `Code::RankFailed`; > 0, a minute by default.
    fn timeout(&self) -> Duration {
        Duration::from_secs(60)
    }
    /// Queues a message to a rank, and returns without waiting for the receiver.
    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Waits for the next message of any rank, at most this long, and if `wait` is zero not at all. Returns the rank of its
    /// sender and its bytes, or `None` if no message has arrived.
    fn receive(&self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>, Self::Error>;
}

impl<T: Transport + ?Sized> Transport for &T {
    type Error = T::Error;

    fn rank(&self) -> usize {
        (**self).rank()
    }
    fn ranks(&self) -> usize {
        (**self).ranks()
    }
    fn timeout(&self) -> Duration {
        (**self).timeout()
    }
    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Self::Error> {
        (**self).send(to, bytes)
    }
    fn receive(&self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>, Self::Error> {
        (**self).receive(wait)
    }
}

/// A transport that C calls.
pub(crate) struct Host<T> {
    pub(crate) transport: T,
    pub(crate) callbacks: Arc<Callbacks>,
}

/// A rank, or a count of ranks, in C. The library rejects the largest number.
pub(crate) fn rank_in_c(rank: usize) -> i32 {
    i32::try_from(rank).unwrap_or(i32::MAX)
}

impl<T: Transport> Host<T> {
    /// Valid as long as this host stays where it is.
    pub(crate) fn to_c(&self, is_concurrent: bool) -> sys::gradstep_transport {
        // Rounded up, so that it is not 0. Twice 34 years do not overflow in the library.
        let timeout = (self.transport.timeout().as_nanos() + 999_999) / 1_000_000;
        sys::gradstep_transport {
            struct_size: std::mem::size_of::<sys::gradstep_transport>() as u32,
            rank: rank_in_c(self.transport.rank()),
            ranks: rank_in_c(self.transport.ranks()),
            concurrent: is_concurrent.into(),
            timeout_ms: timeout.min(1 << 40) as i64,
            send: Some(send::<T>),
            receive: Some(receive::<T>),
            host: self as *const Self as *mut c_void,
        }
    }
}

unsafe extern "C" fn send<T: Transport>(host: *mut c_void, to: i32, bytes: *const c_void, size: u64) -> i32 {
    let host = &*host.cast::<Host<T>>();
    let bytes = slice(bytes.cast(), size as usize);
    host.callbacks.run(|| host.transport.send(to as usize, bytes))
}

unsafe extern "C" fn receive<T: Transport>(
    host: *mut c_void,
    milliseconds: i64,
    inbox: *mut sys::gradstep_inbox,
) -> i32 {
    let host = &*host.cast::<Host<T>>();
    let wait = Duration::from_millis(milliseconds.max(0) as u64);
    host.callbacks.run(|| -> Result<(), BoxError> {
        if let Some((from, bytes)) = host.transport.receive(wait).map_err(Into::into)? {
            let to = sys::gradstep_inbox_allocate(inbox, rank_in_c(from), bytes.len() as u64);
            if to.is_null() {
                return Err("there is no memory for a message; expected more memory".into());
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
        }
        Ok(())
    })
}
