use crate::error::call;
use crate::{sys, Code, Error};
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};

/// Returns the version of the C library, such as "0.1.0".
pub fn version() -> &'static str {
    unsafe { CStr::from_ptr(sys::gradstep_version()) }
        .to_str()
        .unwrap_or("")
}

/// Returns the instruction set of updates: "sse2", "avx2" (with FMA) or "avx512".
///
/// It is the best that processor and system support, or the one in the environment variable GRADSTEP_SIMD. It is "" if the
/// variable names none that runs here: every constructor then returns an error that says so.
pub fn simd_level() -> &'static str {
    unsafe { CStr::from_ptr(sys::gradstep_simd_level()) }
        .to_str()
        .unwrap_or("")
}

/// Returns the complete configuration, as the library reads it, with every default filled in. If it is invalid, the code of the
/// error is `Code::BadConfig`.
pub fn canonical_config(config: &str) -> Result<String, Error> {
    read_text(|buffer, bytes, written, said| unsafe {
        sys::gradstep_config_canonical(config.as_ptr().cast(), config.len(), buffer, bytes, written, said)
    })
}

/// Converts numbers and their paths to C arrays, and calls `f` with them.
pub(crate) fn with_numbers(
    numbers: &[(&str, f64)],
    f: impl FnOnce(*const *const c_char, *const f64, u64, *mut sys::gradstep_error) -> sys::gradstep_status,
) -> Result<(), Error> {
    let paths = numbers
        .iter()
        .map(|(path, _)| {
            CString::new(*path).map_err(|_| {
                let says = format!("numbers: {path:?} has a byte 0 in it; expected a path like \"rule.beta1\"");
                Error::new(Code::BadConfig, says)
            })
        })
        .collect::<Result<Vec<CString>, Error>>()?;
    let at: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
    let values: Vec<f64> = numbers.iter().map(|(_, value)| *value).collect();
    call(|said| f(at.as_ptr(), values.as_ptr(), values.len() as u64, said))
}

/// Calls a function twice: for the length of its text, then for the text.
pub(crate) fn read_text(
    mut read: impl FnMut(*mut c_char, u64, *mut u64, *mut sys::gradstep_error) -> sys::gradstep_status,
) -> Result<String, Error> {
    let mut bytes = 0;
    call(|said| match read(std::ptr::null_mut(), 0, &mut bytes, said) {
        sys::GRADSTEP_BAD_SIZE => sys::GRADSTEP_OK,
        status => status,
    })?;
    // The number of rows in the text of a shared table can become longer in between.
    let mut buffer = vec![0u8; bytes as usize + 24];
    call(|said| read(buffer.as_mut_ptr().cast(), buffer.len() as u64, &mut bytes, said))?;
    buffer.truncate(bytes as usize);
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

/// Calls a function for the size of a state, then one that writes the state.
///
/// The state of a shared table can become larger in between. Then it tries again with more room, so that steps of other threads
/// cannot keep it waiting for ever.
pub(crate) fn read_state(
    size: impl Fn(*mut u64, *mut sys::gradstep_error) -> sys::gradstep_status,
    save: impl Fn(*mut c_void, u64, *mut u64, *mut sys::gradstep_error) -> sys::gradstep_status,
) -> Result<Vec<u8>, Error> {
    let (mut bytes, mut more) = (0, 0);
    loop {
        call(|said| size(&mut bytes, said))?;
        let mut out = vec![0u8; bytes as usize + more];
        match call(|said| save(out.as_mut_ptr().cast(), out.len() as u64, &mut bytes, said)) {
            Err(error) if error.code() == Code::BadSize => more = 2 * more + 4096,
            done => {
                out.truncate(bytes as usize);
                return done.map(|_| out);
            }
        }
    }
}
