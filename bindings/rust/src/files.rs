use crate::error::call;
use crate::parameter::AnyParameter;
use crate::text::read_text;
use crate::{sys, Code, Error};
use std::ffi::CString;
use std::fmt;
use std::os::raw::c_char;
use std::path::Path;

/// Writes named parameters to a safetensors file: values, state and clocks, so that a run can resume bit for bit.
///
/// C++, Python and any other reader of the format can open the file. It replaces the previous one when it is complete and on the
/// disk. If the system cannot write it, the code is `Code::Io`.
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

/// Loads a file of [`save_file`] into parameters with exactly the same names, in any order, and the same shapes, element types
/// and rules.
///
/// If they differ, nothing changes. If the system fails to read in the middle of the data (`Code::Io`), a part has been loaded.
/// [`load_file_with`] can load a part of a file, or parameters with other names.
pub fn load_file(path: impl AsRef<Path>, parameters: &mut [(&str, &mut dyn AnyParameter)]) -> Result<(), Error> {
    let parameters = parameters.iter().map(|(name, parameter)| (*name, parameter.handle()));
    with_names(path.as_ref(), parameters, |handles, names, n, path, said| unsafe {
        sys::gradstep_parameters_load_file(handles, names, n, path, said)
    })
}

/// The options of [`load_file_with`]. With the default it works like [`load_file`].
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// Whether a parameter that is not in the file does not change; otherwise it is an error.
    pub keep_missing: bool,
    /// Whether a name in the file without a parameter is not loaded; otherwise it is an error.
    pub ignore_unexpected: bool,
    /// If the number of rows differs from the file: whether the rows that both have are loaded, with their state, and additional
    /// rows of the parameter do not change; otherwise it is an error.
    pub resize_rows: bool,
    /// Returns the name of the parameter for a name in the file; `None`: the same name.
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

impl LoadOptions<'_> {
    /// The name of the parameter for a name in the file.
    pub(crate) fn name_of(&self, in_file: &str) -> String {
        self.rename
            .map_or_else(|| in_file.to_string(), |rename| rename(in_file))
    }
}

/// The result of [`load_file_with`]. It contains each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Parameters that were loaded completely.
    pub loaded: Vec<String>,
    /// Parameters with another number of rows than the file.
    pub resized: Vec<String>,
    /// Parameters that are not in the file, and did not change.
    pub kept: Vec<String>,
    /// Names in the file without a parameter.
    pub ignored: Vec<String>,
}

impl LoadReport {
    pub(crate) fn add(&mut self, name: &str, outcome: i32) {
        match outcome {
            sys::GRADSTEP_KEPT => &mut self.kept,
            sys::GRADSTEP_RESIZED => &mut self.resized,
            _ => &mut self.loaded,
        }
        .push(name.to_string());
    }
}

/// Loads a file of [`save_file`] with options: a part of it, other names, or other numbers of rows. If it rejects the file,
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
    let mut outcomes = vec![0i32; parameters.len()];
    let mut ignored = vec![0u8; in_file.iter().map(|name| name.len() + 1).sum()];
    let mut written = 0;
    let handles = parameters.iter().map(|(name, parameter)| (*name, parameter.handle()));
    with_options(options, &in_file, |options| {
        with_names(path, handles, |handles, names, n, path, said| unsafe {
            let (outcomes, bytes) = (outcomes.as_mut_ptr(), ignored.len() as u64);
            let ignored = ignored.as_mut_ptr().cast();
            sys::gradstep_parameters_load_file_with(
                handles,
                names,
                n,
                path,
                options,
                outcomes,
                ignored,
                bytes,
                &mut written,
                said,
            )
        })
    })?;
    ignored.truncate(written as usize);
    let mut report = LoadReport {
        ignored: split_names(&String::from_utf8_lossy(&ignored)),
        ..LoadReport::default()
    };
    for ((name, _), outcome) in parameters.iter().zip(outcomes) {
        report.add(name, outcome);
    }
    Ok(report)
}

/// Returns the names of the parameters in a file, in the order of their bytes. It reads only the header of the file.
pub fn file_names(path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
    let path = path_in_c(path.as_ref())?;
    read_text(|buffer, bytes, written, said| unsafe {
        sys::gradstep_file_names(path.as_ptr(), buffer, bytes, written, said)
    })
    .map(|names| split_names(&names))
}

/// Calls `f` with the options in C, for a file with these names.
pub(crate) fn with_options(
    options: &LoadOptions<'_>,
    in_file: &[String],
    f: impl FnOnce(&sys::gradstep_load_options) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for name in in_file {
        let here = options.name_of(name);
        if here != *name {
            from.push(c_string(name, "a name in the file")?);
            to.push(c_string(&here, "a name from rename")?);
        }
    }
    let (from_in_c, to_in_c) = (pointers(&from), pointers(&to));
    let given = |is_set: bool, value: i32| if is_set { value } else { 0 };
    f(&sys::gradstep_load_options {
        struct_size: std::mem::size_of::<sys::gradstep_load_options>() as u32,
        missing: given(options.keep_missing, sys::GRADSTEP_MISSING_KEEP),
        unexpected: given(options.ignore_unexpected, sys::GRADSTEP_UNEXPECTED_IGNORE),
        rows: given(options.resize_rows, sys::GRADSTEP_ROWS_RESIZE),
        renamed_count: from.len() as u64,
        renamed_from: from_in_c.as_ptr(),
        renamed_to: to_in_c.as_ptr(),
    })
}

/// Splits names that each end with a byte 0.
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

pub(crate) fn path_in_c(path: &Path) -> Result<CString, Error> {
    match path.to_str() {
        Some(text) => c_string(text, "the path"),
        None => Err(Error::new(
            Code::BadValue,
            format!("the path: {path:?} is not UTF-8; expected UTF-8"),
        )),
    }
}

/// Rejects texts with a byte 0, where a C string would end.
pub(crate) fn c_string(text: &str, place: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| {
        let sentence = format!("{place}: {text:?} has a byte 0 in it; expected UTF-8 without one");
        Error::new(Code::BadValue, sentence)
    })
}
