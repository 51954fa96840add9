use crate::sys;
use std::ffi::CStr;
use std::fmt;

/// What kind of error an [`Error`] is. The comments of `gradstep.h` say what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// A pointer was null; this crate passes none that must not be.
    NullArgument,
    /// No handle of this kind.
    BadHandle,
    /// No JSON, an unknown key, a number out of range: the message names its place.
    BadConfig,
    /// A combination that is not in the library: the message names what is.
    NotCompiled,
    /// An element that the rule does not work on.
    UnsupportedType,
    /// A count that differs from what it has to be.
    BadSize,
    /// Misaligned, or overlapping another buffer.
    BadBuffer,
    /// A number or an id out of its range, a state of something else.
    BadValue,
    /// A gradient, where `on_nonfinite` is "raise".
    NotFinite,
    /// A call that cannot follow the one before.
    BadSequence,
    /// There is no memory.
    OutOfMemory,
    /// The system did not read or write a file.
    Io,
    /// The system gives no threads.
    ExecutorFailed,
    /// What should not be: please report it.
    Internal,
}

impl fmt::Display for Code {
    /// The name, such as `BadConfig`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&format!("{self:?}"))
    }
}

/// Every error of this crate: a code, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    message: String,
    io_kind: Option<std::io::ErrorKind>,
}

impl Error {
    pub(crate) fn new(code: Code, message: String) -> Self {
        Error {
            code,
            message,
            io_kind: None,
        }
    }
    /// What kind of error it is.
    pub fn code(&self) -> Code {
        self.code
    }
    /// Why the system did not read or write a file ([`Code::Io`]), such as `NotFound`; None for other errors.
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        self.io_kind
    }
    /// The sentence, which names the value and what is allowed.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&self.message)
    }
}

impl std::error::Error for Error {}

/// Runs one call, which says into the error that it is given what went wrong.
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
