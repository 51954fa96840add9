use crate::element::{name_of_element, slice};
use crate::error::call;
use crate::text::{read_text, with_numbers};
use crate::{sys, Clock, Code, Element, Error, Executor, RowId, StepOptions, Values};
use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{null, null_mut, NonNull};

/// One parameter: the library owns its values, the state of its optimizer and its clock.
///
/// There is no `Clone`: `save` and `load` copy the state. What reads takes `&self`. Rows that catch up do so when they are read, so
/// that a reader may write; therefore a parameter is `Send` and not `Sync`.
pub struct Parameter<T: Element> {
    c: NonNull<sys::gradstep_parameter>,
    width: usize,
    rows: usize,
    executor: Option<Executor>, // which the library calls
    of: PhantomData<T>,
}

// A handle belongs to no thread; it is used by one at a time, and so is no Sync.
//
// Slices of the values and the state borrow `&self`, and other readers may be called while they are there. That is sound, since `values` and
// `slots` bring all rows up to date first, and no reader writes anything then, until a call that takes `&mut self`.
unsafe impl<T: Element> Send for Parameter<T> {}

impl<T: Element> fmt::Debug for Parameter<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Parameter")
            .field("element", &format_args!("{}", name_of_element::<T>()))
            .field("rows", &self.rows)
            .field("width", &self.width)
            .field("config", &ShownConfig(self.config()))
            .finish()
    }
}

/// A configuration as it is, and not as a string of JSON in quotes.
pub(crate) struct ShownConfig(pub(crate) Result<String, Error>);

impl fmt::Debug for ShownConfig {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(config) => to.write_str(config),
            Err(error) => write!(to, "<{error}>"),
        }
    }
}

impl<T: Element> Drop for Parameter<T> {
    fn drop(&mut self) {
        unsafe { sys::gradstep_parameter_release(self.c.as_ptr()) }
    }
}

/// One piece of an optimizer's state: "m", "v", "master", ...
#[derive(Clone, Debug, PartialEq)]
pub struct Slot<'a> {
    /// As the library names it.
    pub name: String,
    /// As many values as the parameter has, or one for all elements.
    pub values: Values<'a>,
}

impl<T: Element> Parameter<T> {
    /// A parameter of `initial.len()` elements, which are copied.
    pub fn new(config: &str, initial: &[T]) -> Result<Self, Error> {
        Self::create(config, 1, initial.len(), initial.as_ptr())
    }

    /// A parameter of rows of a width, whose rows can be updated alone. `initial` has rows * width values, row by row, which are
    /// copied.
    pub fn from_rows(config: &str, rows: usize, width: usize, initial: &[T]) -> Result<Self, Error> {
        if rows.checked_mul(width) != Some(initial.len()) {
            let sentence = format!(
                "initial has {} values; {rows} rows of width {width} have another number",
                initial.len()
            );
            return Err(Error::new(Code::BadSize, sentence));
        }
        Self::create(config, rows, width, initial.as_ptr())
    }

    /// The same, with zeros.
    pub fn zeros(config: &str, rows: usize, width: usize) -> Result<Self, Error> {
        Self::create(config, rows, width, null())
    }

    fn create(config: &str, rows: usize, width: usize, initial: *const T) -> Result<Self, Error> {
        let mut out = null_mut();
        call(|said| unsafe {
            let (rows, width) = (rows as u64, width as u64);
            let text = config.as_ptr().cast();
            sys::gradstep_parameter_create(
                text,
                config.len(),
                T::DTYPE,
                initial.cast(),
                rows,
                width,
                &mut out,
                said,
            )
        })?;
        match NonNull::new(out) {
            Some(c) => Ok(Parameter {
                c,
                rows,
                width,
                executor: None,
                of: PhantomData,
            }),
            None => Err(Error::new(
                Code::Internal,
                "the library made no parameter, and no error".into(),
            )),
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// The elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.rows * self.width
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One step of all elements.
    pub fn update(&mut self, gradient: &[T], options: &StepOptions) -> Result<(), Error> {
        let (data, count, options) = (gradient.as_ptr().cast(), gradient.len() as u64, options.to_c(false));
        call(|said| unsafe { sys::gradstep_parameter_update(self.c.as_ptr(), data, count, &options, said) })
    }

    /// One step of all elements, which sets every gradient to zero as soon as it is read.
    pub fn update_and_zero(&mut self, gradient: &mut [T], options: &StepOptions) -> Result<(), Error> {
        let (data, count, options) = (gradient.as_mut_ptr(), gradient.len() as u64, options.to_c(true));
        call(|said| unsafe { sys::gradstep_parameter_update(self.c.as_ptr(), data.cast(), count, &options, said) })
    }

    /// One step of the rows that `ids` name; `gradients` has `ids.len() * width` elements, row by row. The gradients of a row that
    /// is named several times are added. The other rows stay as they are.
    pub fn update_rows<I: RowId>(&mut self, ids: &[I], gradients: &[T], options: &StepOptions) -> Result<(), Error> {
        let (data, count, options) = (gradients.as_ptr().cast(), gradients.len() as u64, options.to_c(false));
        call(|said| unsafe {
            let (c, names, id_count) = (self.c.as_ptr(), ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_parameter_update_rows(c, names, I::DTYPE, id_count, data, count, &options, said)
        })
    }

    /// The first half of a step of "dgc_momentum": the gradient enters the state, and what comes back goes to all trainers
    /// (docs/how_to/compressed_gradients.md). The values wait for `apply`. With several trainers every step has both halves: `update` takes this trainer's
    /// gradient alone.
    pub fn compress(&mut self, gradient: &[T], options: &StepOptions) -> Result<Vec<u8>, Error> {
        let (data, count, options) = (gradient.as_ptr().cast(), gradient.len() as u64, options.to_c(false));
        let (mut most, mut written) = (0, 0);
        call(|said| unsafe { sys::gradstep_parameter_message_bound(self.c.as_ptr(), &mut most, said) })?;
        let mut out = vec![0u8; most as usize];
        let buffer = out.as_mut_ptr().cast();
        call(|said| unsafe {
            sys::gradstep_parameter_compress(self.c.as_ptr(), data, count, &options, buffer, most, &mut written, said)
        })?;
        out.truncate(written as usize);
        Ok(out)
    }

    /// The second half: the mean of what all trainers have sent, this one too, in the order of their ranks, moves the values.
    /// Bytes that are no message of this step are refused, nothing has changed, and the right ones may come.
    pub fn apply<M: AsRef<[u8]>>(&mut self, messages: &[M]) -> Result<(), Error> {
        let at: Vec<_> = messages.iter().map(|each| each.as_ref().as_ptr().cast()).collect();
        let bytes: Vec<_> = messages.iter().map(|each| each.as_ref().len() as u64).collect();
        let n = messages.len() as u64;
        call(|said| unsafe {
            sys::gradstep_parameter_apply_messages(self.c.as_ptr(), at.as_ptr(), bytes.as_ptr(), n, said)
        })
    }

    /// Runs on these threads from the next update on, instead of the `threads` of the configuration; None: on those again.
    pub fn set_executor(&mut self, executor: Option<&Executor>) -> Result<(), Error> {
        Executor::with_handle(executor, |handle| {
            call(|said| unsafe { sys::gradstep_parameter_set_executor(self.c.as_ptr(), handle, said) })
        })?;
        self.executor = executor.cloned();
        Ok(())
    }

    /// This parameter and its gradient, for [`update_all`].
    pub fn with<'a>(&'a mut self, gradient: &'a [T]) -> Update<'a> {
        Update {
            parameter: self.c.as_ptr(),
            data: gradient.as_ptr().cast(),
            count: gradient.len() as u64,
            of: PhantomData,
        }
    }

    /// The values, row by row, in the library's memory. Rows that catch up have done so.
    pub fn values(&self) -> Result<&[T], Error> {
        let (mut data, mut count) = (null(), 0);
        call(|said| unsafe { sys::gradstep_parameter_values(self.c.as_ptr(), &mut data, &mut count, said) })?;
        Ok(unsafe { slice(data.cast(), count as usize) })
    }

    /// Sets all values, row by row. Rows catch up first. A master copy becomes the new values; the rest of the state and the clock stay
    /// as they are.
    pub fn set_values(&mut self, values: &[T]) -> Result<(), Error> {
        let (data, count) = (values.as_ptr().cast(), values.len() as u64);
        call(|said| unsafe { sys::gradstep_parameter_set_values(self.c.as_ptr(), data, count, said) })
    }

    /// Copies the rows that `ids` name to `out`, which has `ids.len() * width` elements, in the order of `ids`.
    pub fn rows_into<I: RowId>(&self, ids: &[I], out: &mut [T]) -> Result<(), Error> {
        call(|said| unsafe {
            let (c, names, id_count) = (self.c.as_ptr(), ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_parameter_rows(
                c,
                names,
                I::DTYPE,
                id_count,
                out.as_mut_ptr().cast(),
                out.len() as u64,
                said,
            )
        })
    }

    /// A copy of one row.
    pub fn row<I: RowId>(&self, id: I) -> Result<Vec<T>, Error> {
        let mut out = vec![T::default(); self.width];
        self.rows_into(&[id], &mut out)?;
        Ok(out)
    }

    /// Brings every row up to date. Under "touch_only", the default, every row always is.
    pub fn flush(&self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_flush(self.c.as_ptr(), said) })
    }

    /// The optimizer's state, in the order of the rule, then the average and the master copy, in the library's memory. Rows that
    /// catch up have done so.
    pub fn slots(&self) -> Result<Vec<Slot<'_>>, Error> {
        self.values()?; // or another reader would have rows catch up while the slots are borrowed
        let mut count = 0;
        call(|said| unsafe { sys::gradstep_parameter_slot_count(self.c.as_ptr(), &mut count, said) })?;
        (0..count)
            .map(|index| {
                let mut info = new_slot();
                let mut data = null();
                call(|said| unsafe {
                    sys::gradstep_parameter_slot(self.c.as_ptr(), index, &mut info, &mut data, said)
                })?;
                match unsafe { Values::at(info.dtype, data, info.count as usize) } {
                    Some(values) => Ok(Slot {
                        name: name_of(&info),
                        values,
                    }),
                    None => Err(Error::new(
                        Code::Internal,
                        format!("slot {} has no dtype that is known", name_of(&info)),
                    )),
                }
            })
            .collect()
    }

    /// Names the extents of the values, whose product is `len()`. Files carry it, and a file of another shape is refused. Without it
    /// the shape is rows x width if both are more than 1, and else unknown: then only the number of elements has to match.
    pub fn set_shape(&mut self, extents: &[usize]) -> Result<(), Error> {
        let extents: Vec<u64> = extents.iter().map(|extent| *extent as u64).collect();
        let dimensions = extents.len() as u64;
        call(|said| unsafe { sys::gradstep_parameter_set_shape(self.c.as_ptr(), extents.as_ptr(), dimensions, said) })
    }

    /// Where the run stands.
    pub fn clock(&self) -> Result<Clock, Error> {
        let mut now = Clock::default().to_c();
        call(|said| unsafe { sys::gradstep_parameter_clock(self.c.as_ptr(), &mut now, said) })?;
        Ok(Clock::from_c(&now))
    }

    /// Puts the clock to where a run stood.
    pub fn seek(&mut self, to: Clock) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_seek(self.c.as_ptr(), &to.to_c(), said) })
    }

    /// Changes numbers of the configuration from the next step on, by their paths as errors name them, and keeps the
    /// state. All are checked before any is changed.
    ///
    /// ```
    /// # fn main() -> Result<(), gradstep::Error> {
    /// # let config = r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}"#;
    /// # let mut it = gradstep::Parameter::<f32>::new(config, &[0.0; 4])?;
    /// it.set_numbers(&[("rule.beta1", 0.85), ("schedule.rate", 0.05)])?;
    /// assert!(it.config()?.contains("0.85"));
    /// assert!(it.set_numbers(&[("rule.beta2", 0.5), ("rule.beta1", 1.5)]).is_err());
    /// assert!(it.set_numbers(&[("rule.beta1\0", 0.5)]).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_numbers(&mut self, numbers: &[(&str, f64)]) -> Result<(), Error> {
        with_numbers(numbers, |paths, values, n, said| unsafe {
            sys::gradstep_parameter_set_numbers(self.c.as_ptr(), paths, values, n, said)
        })
    }

    /// The configuration, complete, with every default.
    pub fn config(&self) -> Result<String, Error> {
        read_text(|buffer, bytes, written, said| unsafe {
            sys::gradstep_parameter_config(self.c.as_ptr(), buffer, bytes, written, said)
        })
    }

    /// The average that "average" of the configuration keeps.
    pub fn average(&self) -> Result<Vec<T::State>, Error> {
        let mut out = vec![T::State::default(); self.len()];
        let count = out.len() as u64;
        call(|said| unsafe { sys::gradstep_parameter_average(self.c.as_ptr(), out.as_mut_ptr().cast(), count, said) })?;
        Ok(out)
    }

    /// Replaces the values by the average until you call `restore`. You cannot take a step in between.
    pub fn apply_average(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_apply_average(self.c.as_ptr(), said) })
    }

    /// Puts the trained values back after `apply_average`.
    pub fn restore(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_restore(self.c.as_ptr(), said) })
    }

    /// Returns values, state and clock with a checksum. A run that loads them continues bit for bit.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = 0;
        call(|said| unsafe { sys::gradstep_parameter_state_bytes(self.c.as_ptr(), &mut bytes, said) })?;
        let mut out = vec![0u8; bytes as usize];
        let data = out.as_mut_ptr().cast();
        call(|said| unsafe {
            sys::gradstep_parameter_save(self.c.as_ptr(), data, out.len() as u64, &mut bytes, said)
        })?;
        out.truncate(bytes as usize);
        Ok(out)
    }

    /// Takes what `save` gave of a parameter of the same size, element and rule.
    pub fn load(&mut self, state: &[u8]) -> Result<(), Error> {
        let (data, bytes) = (state.as_ptr().cast(), state.len() as u64);
        call(|said| unsafe { sys::gradstep_parameter_load(self.c.as_ptr(), data, bytes, said) })
    }
}

pub(crate) fn new_slot() -> sys::gradstep_slot {
    sys::gradstep_slot {
        struct_size: std::mem::size_of::<sys::gradstep_slot>() as u32,
        dtype: 0,
        name: [0; 32],
        count: 0,
    }
}

pub(crate) fn name_of(slot: &sys::gradstep_slot) -> String {
    unsafe { CStr::from_ptr(slot.name.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

/// A parameter and its gradient: [`Parameter::with`].
#[derive(Debug)]
pub struct Update<'a> {
    parameter: *mut sys::gradstep_parameter,
    data: *const c_void,
    count: u64,
    of: PhantomData<(&'a mut (), &'a [u8])>,
}

// As the parameter and the slice that it borrows.
unsafe impl Send for Update<'_> {}

/// One step of each of several parameters, whatever their elements and optimizers are, in one call and split over threads
/// together; the parameter with the most threads provides them. All are checked before any is written.
///
/// ```
/// # use gradstep::{update_all, Parameter, StepOptions};
/// # fn main() -> Result<(), gradstep::Error> {
/// let mut wide = Parameter::new(r#"{"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1}}"#, &[0.0f32; 8])?;
/// let mut deep = Parameter::new(r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.01}}"#, &[0.0f64; 4])?;
/// update_all([wide.with(&[1.0; 8]), deep.with(&[0.5; 4])], &StepOptions::default())?;
/// # Ok(())
/// # }
/// ```
pub fn update_all<'a>(updates: impl IntoIterator<Item = Update<'a>>, options: &StepOptions) -> Result<(), Error> {
    let updates = updates.into_iter();
    let n = updates.size_hint().0;
    let (mut parameters, mut data, mut counts) = (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
    for each in updates {
        parameters.push(each.parameter);
        data.push(each.data);
        counts.push(each.count);
    }
    let (n, options) = (counts.len() as u64, options.to_c(false));
    call(|said| unsafe {
        sys::gradstep_parameters_update(parameters.as_ptr(), data.as_ptr(), counts.as_ptr(), n, &options, said)
    })
}

/// A [`Parameter`] of any element.
pub trait AnyParameter: sealed::Handle {}

pub(crate) mod sealed {
    pub trait Handle {
        fn handle(&self) -> *mut crate::sys::gradstep_parameter;
    }
}

impl<T: Element> AnyParameter for Parameter<T> {}
impl<T: Element> sealed::Handle for Parameter<T> {
    fn handle(&self) -> *mut sys::gradstep_parameter {
        self.c.as_ptr()
    }
}
