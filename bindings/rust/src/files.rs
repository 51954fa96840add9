use crate::error::call;
use crate::parameter::AnyParameter;
use crate::text::read_text;
use crate::{sys, Code, Error};
use std::ffi::CString;
use std::fmt;
use std::os::raw::c_char;
use std::path::Path;

/// Writes parameters under their names to a safetensors file, which C++, Python and any other reader of that format open. The
/// file is there once it is whole and on the disk; until then the one before is.
///
/// ```no_run
/// # use gradstep::{save_file, Parameter};
/// # fn save(wide: Parameter<f32>, deep: Parameter<f64>) -> Result<(), gradstep::Error> {
/// save_file("model.safetensors", &[("wide", &wide), ("deep", &deep)])
/// # }
/// ```
pub fn save_file(path: impl AsRef<Path>, parameters: &[(&str, &dyn AnyParameter)]) -> Result<(), Error> {
    let parameters = parameters.iter().map(|(name, parameter)| (*name, parameter.handle()));
    with_names(path.as_ref(), parameters, |handles, names, n, path, said| unsafe {
        sys::gradstep_parameters_save_file(handles, names, n, path, said)
    })
}

/// Reads what [`save_file`] wrote: exactly the names of the file, in any order, and parameters of the same sizes, elements and
/// rules. A run then goes on bit for bit. Where the system stops reading in the middle of the data (`Code::Io`), a part has
/// been loaded. [`load_file_with`] loads a part of a file, or under other names.
pub fn load_file(path: impl AsRef<Path>, parameters: &mut [(&str, &mut dyn AnyParameter)]) -> Result<(), Error> {
    let parameters = parameters.iter().map(|(name, parameter)| (*name, parameter.handle()));
    with_names(path.as_ref(), parameters, |handles, names, n, path, said| unsafe {
        sys::gradstep_parameters_load_file(handles, names, n, path, said)
    })
}

/// What [`load_file_with`] takes of a file. The default takes what [`load_file`] does.
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// A parameter that the file does not have stays as it is, in the place of an error.
    pub keep_missing: bool,
    /// What the file has besides is left out, in the place of an error.
    pub ignore_unexpected: bool,
    /// A parameter with another number of rows than the file takes the rows that both have, with their state, and keeps its further
    /// rows, in the place of an error.
    pub resize_rows: bool,
    /// Gives the parameter's name for a name in the file; `None`: the same name.
    pub rename: Option<&'a dyn Fn(&str) -> String>,
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("LoadOptions")
            .field("keep_missing", &self.keep_missing)
            .field("ignore_unexpected", &self.ignore_unexpected)
            .field("resize_rows", &self.resize_rows)
            .field("rename", &self.rename.map(|_| "a function"))
            .finish()
    }
}

/// What [`load_file_with`] has done, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Parameters that are as the file has them.
    pub loaded: Vec<String>,
    /// Parameters that have taken the rows that the file has as well.
    pub resized: Vec<String>,
    /// Parameters that the file does not have.
    pub kept: Vec<String>,
    /// Names in the file that no parameter has.
    pub ignored: Vec<String>,
}

/// Loads a part of what [`save_file`] wrote, or loads it under other names, and says what it has done. Where it refuses the file,
/// nothing changes.
///
/// ```no_run
/// # use gradstep::{load_file_with, LoadOptions, Parameter};
/// # fn load(mut wide: Parameter<f32>, mut head: Parameter<f32>) -> Result<(), gradstep::Error> {
/// let without_prefix = |name: &str| name.replacen("model.", "", 1);
/// let options = LoadOptions { keep_missing: true, rename: Some(&without_prefix), ..Default::default() };
/// let report = load_file_with("model.safetensors", &mut [("wide", &mut wide), ("head", &mut head)], &options)?;
/// println!("trained from the start: {:?}", report.kept);
/// # Ok(())
/// # }
/// ```
pub fn load_file_with(
    path: impl AsRef<Path>,
    parameters: &mut [(&str, &mut dyn AnyParameter)],
    options: &LoadOptions<'_>,
) -> Result<LoadReport, Error> {
    let path = path.as_ref();
    let in_file = file_names(path)?;
    let (mut from, mut to) = (Vec::new(), Vec::new());
    if let Some(rename) = options.rename {
        for name in &in_file {
            let here = rename(name);
            if here != *name {
                from.push(c_string(name, "a name in the file")?);
                to.push(c_string(&here, "a name from rename")?);
            }
        }
    }
    let (from_in_c, to_in_c) = (pointers(&from), pointers(&to));
    let c_options = sys::gradstep_load_options {
        struct_size: std::mem::size_of::<sys::gradstep_load_options>() as u32,
        missing: if options.keep_missing {
            sys::GRADSTEP_MISSING_KEEP
        } else {
            0
        },
        unexpected: if options.ignore_unexpected {
            sys::GRADSTEP_UNEXPECTED_IGNORE
        } else {
            0
        },
        rows: if options.resize_rows {
            sys::GRADSTEP_ROWS_RESIZE
        } else {
            0
        },
        renamed_count: from.len() as u64,
        renamed_from: from_in_c.as_ptr(),
        renamed_to: to_in_c.as_ptr(),
    };
    let mut outcomes = vec![0i32; parameters.len()];
    let mut ignored = vec![0u8; in_file.iter().map(|name| name.len() + 1).sum()];
    let mut written = 0;
    let handles = parameters.iter().map(|(name, parameter)| (*name, parameter.handle()));
    with_names(path, handles, |handles, names, n, path, said| unsafe {
        sys::gradstep_parameters_load_file_with(
            handles,
            names,
            n,
            path,
            &c_options,
            outcomes.as_mut_ptr(),
            ignored.as_mut_ptr().cast(),
            ignored.len() as u64,
            &mut written,
            said,
        )
    })?;
    ignored.truncate(written as usize);
    let mut report = LoadReport {
        ignored: split_names(&String::from_utf8_lossy(&ignored)),
        ..LoadReport::default()
    };
    for ((name, _), outcome) in parameters.iter().zip(outcomes) {
        match outcome {
            sys::GRADSTEP_KEPT => &mut report.kept,
            sys::GRADSTEP_RESIZED => &mut report.resized,
            _ => &mut report.loaded,
        }
        .push(name.to_string());
    }
    Ok(report)
}

/// The names of the parameters in a file, in the order of their bytes.
pub fn file_names(path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
    let path = path_in_c(path.as_ref())?;
    read_text(|buffer, bytes, written, said| unsafe {
        sys::gradstep_file_names(path.as_ptr(), buffer, bytes, written, said)
    })
    .map(|names| split_names(&names))
}

/// Names of which each is followed by a 0.
fn split_names(names: &str) -> Vec<String> {
    names.split_terminator('\0').map(str::to_string).collect()
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

fn with_names<'a>(
    path: &Path,
    parameters: impl Iterator<Item = (&'a str, *mut sys::gradstep_parameter)>,
    f: impl FnOnce(
        *const *mut sys::gradstep_parameter,
        *const *const c_char,
        u64,
        *const c_char,
        *mut sys::gradstep_error,
    ) -> sys::gradstep_status,
) -> Result<(), Error> {
    let path = path_in_c(path)?;
    let (mut names, mut handles) = (Vec::new(), Vec::new());
    for (name, handle) in parameters {
        names.push(c_string(name, "a name")?);
        handles.push(handle);
    }
    let pointers = pointers(&names);
    let n = names.len() as u64;
    call(|said| f(handles.as_ptr(), pointers.as_ptr(), n, path.as_ptr(), said))
}

fn path_in_c(path: &Path) -> Result<CString, Error> {
    match path.to_str() {
        Some(text) => c_string(text, "the path"),
        None => Err(Error::new(
            Code::BadValue,
            format!("the path: {path:?} is not UTF-8; expected UTF-8"),
        )),
    }
}

/// C would read the text up to its first byte 0.
fn c_string(text: &str, place: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| {
        let sentence = format!("{place}: {text:?} has a byte 0 in it; expected UTF-8 without one");
        Error::new(Code::BadValue, sentence)
    })
}
