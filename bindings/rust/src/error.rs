use crate::sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_char;
use std::ptr::NonNull;
use std::sync::Arc;

/// An error of a function of the program.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The kind of an [`Error`]. `docs/reference/errors.md` lists the cause and cure of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// A required pointer was null. This crate never passes one.
    NullArgument,
    /// The handle has been released, or is of another kind.
    BadHandle,
    /// Invalid JSON, an unknown key, or a number out of range: the message contains the path.
    BadConfig,
    /// The library does not contain this combination: the message contains the closest ones.
    NotCompiled,
    /// A dtype that the rule does not support.
    UnsupportedType,
    /// A wrong count.
    BadSize,
    /// Misaligned, or overlapping another buffer.
    BadBuffer,
    /// A number or an id out of range, or the state of another object.
    BadValue,
    /// A gradient contains NaN or infinity, and `on_nonfinite` is "raise".
    NotFinite,
    /// A call in the wrong order.
    BadSequence,
    /// The system did not provide memory.
    OutOfMemory,
    /// The system could not read or write a file.
    Io,
    /// The system did not start the threads.
    ExecutorFailed,
    /// A bug: please report it.
    Internal,
    /// Another rank does not answer, or the transport failed.
    RankFailed,
}

impl fmt::Display for Code {
    /// Writes the name, such as `BadConfig`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&format!("{self:?}"))
    }
}

/// The error type of every function of this crate: a code and a message.
///
/// If a [`Transport`](crate::Transport) or a task of a server fails, `source` returns its error, and the message contains its text.
/// Two errors are equal if their code, message and `io_kind` are equal.
#[derive(Clone, Debug)]
pub struct Error {
    code: Code,
    message: String,
    io_kind: Option<std::io::ErrorKind>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(code: Code, message: String) -> Self {
        Error {
            code,
            message,
            io_kind: None,
            source: None,
        }
    }
    /// This error with the error of a function of the program for which C returned it.
    pub(crate) fn caused_by(mut self, source: BoxError) -> Self {
        self.message = self
            .message
            .replace("returned 1; expected 0", &source.to_string());
        self.source = Some(source.into());
        self
    }
    /// Returns the kind of the error.
    pub fn code(&self) -> Code {
        self.code
    }
    /// Returns why the system could not read or write a file ([`Code::Io`]), such as `NotFound`; `None` for other errors.
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        self.io_kind
    }
    /// Returns the message, which contains the value and what is allowed.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.message, self.io_kind) == (other.code, &other.message, other.io_kind)
    }
}
impl Eq for Error {}

/// Writes a text to the message of an error of C, as much of it as there is room for, and a 0.
pub(crate) fn write_message(to: &mut [c_char], text: &str) {
    let most = (0..to.len())
        .rev()
        .find(|&end| text.is_char_boundary(end.min(text.len())))
        .unwrap_or(0);
    let bytes = text.bytes().take(most).take_while(|&byte| byte != 0).chain([0]);
    to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte as c_char);
}

/// Runs a call of the C library, and converts its status and message to an `Error`.
pub(crate) fn call(f: impl FnOnce(*mut sys::gradstep_error) -> sys::gradstep_status) -> Result<(), Error> {
    let mut said = sys::gradstep_error {
        struct_size: std::mem::size_of::<sys::gradstep_error>() as u32,
        code: 0,
        message: [0; 240],
        system_code: 0,
    };
    let code = match f(&mut said) {
        sys::GRADSTEP_OK => return Ok(()),
        sys::GRADSTEP_NULL_ARGUMENT => Code::NullArgument,
        sys::GRADSTEP_BAD_HANDLE => Code::BadHandle,
        sys::GRADSTEP_BAD_CONFIG => Code::BadConfig,
        sys::GRADSTEP_NOT_COMPILED => Code::NotCompiled,
        sys::GRADSTEP_UNSUPPORTED_TYPE => Code::UnsupportedType,
        sys::GRADSTEP_BAD_SIZE => Code::BadSize,
        sys::GRADSTEP_BAD_BUFFER => Code::BadBuffer,
        sys::GRADSTEP_BAD_VALUE => Code::BadValue,
        sys::GRADSTEP_NOT_FINITE => Code::NotFinite,
        sys::GRADSTEP_BAD_SEQUENCE => Code::BadSequence,
        sys::GRADSTEP_OUT_OF_MEMORY => Code::OutOfMemory,
        sys::GRADSTEP_IO_ERROR => Code::Io,
        sys::GRADSTEP_EXECUTOR_FAILED => Code::ExecutorFailed,
        sys::GRADSTEP_RANK_FAILED => Code::RankFailed,
        _ => Code::Internal,
    };
    // The message ends with 0 within its 240 bytes.
    let message = unsafe { CStr::from_ptr(said.message.as_ptr()) };
    let mut error = Error::new(code, message.to_string_lossy().into_owned());
    if said.system_code != 0 {
        error.io_kind = Some(std::io::Error::from_raw_os_error(said.system_code).kind());
    }
    Err(error)
}

/// The handle that a create function of the library wrote to `out`.
pub(crate) fn made<Handle>(out: *mut Handle, what: &str) -> Result<NonNull<Handle>, Error> {
    NonNull::new(out).ok_or_else(|| {
        let sentence = format!("{what}: the library made none, and no error; expected one of them");
        Error::new(Code::Internal, sentence)
    })
}
