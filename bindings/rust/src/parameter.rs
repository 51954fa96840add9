use crate::element::{name_of_dtype, name_of_element, slice};
use crate::error::{call, made};
use crate::ownership::{Borrowed, Owned, Ownership};
use crate::text::{read_state, read_text, with_numbers};
use crate::{sys, BFloat16, Clock, Code, Element, Error, Executor, RowId, SamOptions, StepOptions, Values};
use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{null, null_mut, NonNull};

/// A parameter whose values, optimizer state and clock the library owns.
///
/// There is no `Clone`; use `save` and `load` to copy the state. Methods that read take `&self`, but they can apply pending
/// steps of inactive rows, which writes to the parameter. Therefore a parameter is `Send` and not `Sync`.
///
/// `O` is [`Owned`], or [`Borrowed`] for a parameter of a server or of a `Geo`, which has no `append`, `keep`, `permute` and
/// `set_executor`.
pub struct Parameter<T: Element, O: Ownership = Owned> {
    c: Handle,
    width: usize,
    rows: usize,
    has_rows: bool,                       // else rows is 1, and width the number of elements
    executor: Option<Executor>,           // kept alive, because the library calls it
    bfloat16_copy: Option<Vec<BFloat16>>, // which the library writes; dropped after the handle
    of: PhantomData<(T, O)>,
}

// A handle is not bound to a thread, but only one thread can use it at a time, so it is not Sync.
//
// Slices of the values and the state borrow `&self`, so other readers can run while the slices exist. That is sound: `values`
// and `slots` apply all pending steps first, so no reader writes anything until a call with `&mut self`.
unsafe impl<T: Element, O: Ownership> Send for Parameter<T, O> {}

impl<T: Element, O: Ownership> fmt::Debug for Parameter<T, O> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Parameter")
            .field("element", &format_args!("{}", name_of_element::<T>()))
            .field("rows", &self.rows)
            .field("width", &self.width)
            .field("config", &ShownConfig(self.config()))
            .finish()
    }
}

/// Writes a configuration as it is, without the quotes and escapes of a string.
pub(crate) struct ShownConfig(pub(crate) Result<String, Error>);

impl fmt::Debug for ShownConfig {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(config) => to.write_str(config),
            Err(error) => write!(to, "<{error}>"),
        }
    }
}

/// Without the lifetime of a `Borrowed`, so that a parameter that is lent can be dropped after what it is lent by.
struct Handle {
    c: NonNull<sys::gradstep_parameter>,
    is_owned: bool,
}

impl Handle {
    fn as_ptr(&self) -> *mut sys::gradstep_parameter {
        self.c.as_ptr()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_owned {
            unsafe { sys::gradstep_parameter_release(self.c.as_ptr()) }
        }
    }
}

/// One array of an optimizer's state, such as "m", "v" or "master".
#[derive(Clone, Debug, PartialEq)]
pub struct Slot<'a> {
    /// The name of the slot.
    pub name: String,
    /// One value for each element of the parameter, or one value for all elements.
    pub values: Values<'a>,
}

impl<T: Element> Parameter<T> {
    /// Makes a parameter with a copy of the initial values.
    ///
    /// `config` is the JSON of the optimizer (docs/how_to/configuration.md). If it is invalid, the code of the error is
    /// `Code::BadConfig` or `Code::NotCompiled`.
    pub fn new(config: &str, initial: &[T]) -> Result<Self, Error> {
        Self::create(config, 1, initial.len(), initial.as_ptr())
    }

    /// Makes a parameter whose rows you can update by index, such as an embedding table. `initial` contains rows * width
    /// values, row by row, which are copied.
    pub fn from_rows(config: &str, rows: usize, width: usize, initial: &[T]) -> Result<Self, Error> {
        if rows.checked_mul(width) != Some(initial.len()) {
            let sentence = format!(
                "initial: has {} values; expected those of {rows} rows of width {width}",
                initial.len()
            );
            return Err(Error::new(Code::BadSize, sentence));
        }
        Self::table(config, rows, width, initial.as_ptr())
    }

    /// Makes a parameter of rows x width zeros. You can update its rows by index.
    pub fn zeros(config: &str, rows: usize, width: usize) -> Result<Self, Error> {
        Self::table(config, rows, width, null())
    }

    // `create` makes a vector of a single row. A table without rows gets it as its first one.
    fn table(config: &str, rows: usize, width: usize, initial: *const T) -> Result<Self, Error> {
        if rows != 1 || width == 0 {
            return Self::create(config, rows, width, initial);
        }
        let vector = Self::create(config, rows, width, initial)?;
        let mut out = Self::create(config, 0, width, null())?;
        out.append(vector.values()?)?;
        Ok(out)
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
        Ok(Parameter {
            c: Handle {
                c: made(out, "Parameter")?,
                is_owned: true,
            },
            rows,
            width,
            has_rows: rows != 1,
            executor: None,
            bfloat16_copy: None,
            of: PhantomData,
        })
    }

    /// Uses your own threads from the next update on, instead of the `threads` of the configuration. `None`: uses `threads`
    /// again.
    pub fn set_executor(&mut self, executor: Option<&Executor>) -> Result<(), Error> {
        Executor::with_handle(executor, |handle| {
            call(|said| unsafe { sys::gradstep_parameter_set_executor(self.c.as_ptr(), handle, said) })
        })?;
        self.executor = executor.cloned();
        Ok(())
    }

    /// Adds rows with these values behind the others, while training goes on.
    ///
    /// `from_rows` and `zeros` define the rows; after `new`, `set_shape` does, or else each element is a row. Values, state and
    /// averages follow their rows in `append`, `keep`, `permute` and `reset` (docs/how_to/growing_parameters.md), after pending
    /// steps. The state of a new row begins anew. If they return an error, nothing has changed.
    ///
    /// ```
    /// # fn main() -> Result<(), gradstep::Error> {
    /// # let config = r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}"#;
    /// let mut points = gradstep::Parameter::from_rows(config, 2, 3, &[0.0f32; 6])?;
    /// points.append(&[1.0, 2.0, 3.0])?;
    /// points.keep(&[true, false, true])?;
    /// points.permute(&[1i64, 0])?;
    /// points.reset(&[0i64])?;
    /// assert_eq!((points.rows(), points.values()?), (2, &[1.0, 2.0, 3.0, 0.0, 0.0, 0.0][..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(&mut self, values: &[T]) -> Result<(), Error> {
        let (data, count) = (values.as_ptr().cast(), values.len() as u64);
        call(|said| unsafe { sys::gradstep_parameter_append(self.c.as_ptr(), data, count, said) })?;
        self.follow_rows(self.rows)
    }

    /// Keeps the rows whose element of the mask is true, in their order, and removes the others. See `append`.
    pub fn keep(&mut self, mask: &[bool]) -> Result<(), Error> {
        let rows = mask.len() as u64; // a bool is a byte that is 0 or 1
        call(|said| unsafe { sys::gradstep_parameter_keep(self.c.as_ptr(), mask.as_ptr().cast(), rows, said) })?;
        self.follow_rows(mask.iter().filter(|keeps| **keeps).count())
    }

    /// Puts the rows in another order: row i becomes what was row `order[i]`. See `append`.
    pub fn permute<I: RowId>(&mut self, order: &[I]) -> Result<(), Error> {
        let (data, rows) = (order.as_ptr().cast(), order.len() as u64);
        call(|said| unsafe { sys::gradstep_parameter_permute(self.c.as_ptr(), data, I::DTYPE, rows, said) })
    }

    // Rows and width after a change of rows; `rows_of_nothing` is the number of rows of width 0.
    fn follow_rows(&mut self, rows_of_nothing: usize) -> Result<(), Error> {
        let count = self.values()?.len();
        if !self.has_rows {
            self.width = count;
        } else {
            self.rows = count.checked_div(self.width).unwrap_or(rows_of_nothing);
        }
        Ok(())
    }

    /// This parameter for functions that may step and set it, and must not replace it.
    pub(crate) fn lend(&mut self) -> Parameter<T, Borrowed<'_>> {
        Parameter {
            c: Handle {
                c: self.c.c,
                is_owned: false,
            },
            width: self.width,
            rows: self.rows,
            has_rows: self.has_rows,
            executor: None,
            bfloat16_copy: None,
            of: PhantomData,
        }
    }
}

impl Parameter<f32> {
    /// Begins to keep a copy of the values in bfloat16, for example for the forward pass. Every step writes it in the same pass.
    ///
    /// The parameter owns the memory, and `bfloat16_copy` reads it. The call writes the present values. Call it again after
    /// `set_values`, a load, `apply_average` or `restore`, which do not write the copy. While there is a copy, the rows cannot
    /// move (`append`, `keep`, `permute`), and there is no `ascend`. With "dgc_momentum", or between `ascend` and `descend`, it
    /// returns an error, and nothing changes.
    ///
    /// ```
    /// # fn main() -> Result<(), gradstep::Error> {
    /// # let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}}"#;
    /// let mut weights = gradstep::Parameter::new(config, &[1.0f32, 0.5])?;
    /// weights.keep_bfloat16_copy()?;
    /// weights.update(&[2.0, 0.0], &Default::default())?;
    /// assert_eq!(weights.bfloat16_copy()?, [gradstep::BFloat16(0xbf80), gradstep::BFloat16(0x3f00)]); // -1 and 0.5
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_bfloat16_copy(&mut self) -> Result<(), Error> {
        let (c, n) = (self.c.as_ptr(), self.len());
        let write = |memory: &mut Vec<BFloat16>| {
            let (data, count) = (memory.as_mut_ptr().cast(), memory.len() as u64);
            call(|said| unsafe { sys::gradstep_parameter_set_bfloat16_copy(c, data, count, said) })
        };
        match &mut self.bfloat16_copy {
            Some(memory) if memory.len() == n => write(memory), // after an error, the library still writes to it
            _ => {
                let mut memory = vec![BFloat16::default(); n];
                write(&mut memory)?;
                self.bfloat16_copy = Some(memory);
                Ok(())
            }
        }
    }

    /// Returns the copy in bfloat16, row by row, without a copy of the memory. All pending steps are applied first. It is empty
    /// without `keep_bfloat16_copy`.
    pub fn bfloat16_copy(&self) -> Result<&[BFloat16], Error> {
        self.values()?; // so that no other reader applies pending steps while the copy is borrowed
        Ok(self.bfloat16_copy.as_deref().unwrap_or_default())
    }

    /// Ends the copy in bfloat16, and frees its memory.
    pub fn end_bfloat16_copy(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_set_bfloat16_copy(self.c.as_ptr(), null_mut(), 0, said) })?;
        self.bfloat16_copy = None;
        Ok(())
    }
}

impl<'a, T: Element> Parameter<T, Borrowed<'a>> {
    /// The parameter of a handle that the library keeps for 'a, during which nothing else uses it.
    pub(crate) fn borrowed(c: NonNull<sys::gradstep_parameter>) -> Result<Self, Error> {
        let mut dtype = 0;
        call(|said| unsafe { sys::gradstep_parameter_dtype(c.as_ptr(), &mut dtype, said) })?;
        if dtype != T::DTYPE {
            let (given, name) = (name_of_dtype(dtype), name_of_dtype(T::DTYPE));
            let element = name_of_element::<T>();
            let sentence = format!("type: {given} is not the type of a Parameter<{element}>; expected {name}");
            return Err(Error::new(Code::BadConfig, sentence));
        }
        let mut parameter = Parameter {
            c: Handle { c, is_owned: false },
            width: 0,
            rows: 1,
            has_rows: false,
            executor: None,
            bfloat16_copy: None,
            of: PhantomData,
        };
        parameter.width = parameter.values()?.len();
        Ok(parameter)
    }
}

impl<T: Element, O: Ownership> Parameter<T, O> {
    /// Returns the number of rows; 1 after `new`.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Returns the number of elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }
    /// Returns the number of elements: rows * width.
    pub fn len(&self) -> usize {
        self.rows * self.width
    }
    /// Returns whether the parameter has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes one step of all elements. `gradient` contains `len()` elements.
    ///
    /// If it contains NaN or infinity and `on_nonfinite` is "raise", the code of the error is `Code::NotFinite`.
    pub fn update(&mut self, gradient: &[T], options: &StepOptions) -> Result<(), Error> {
        let (data, count, options) = (gradient.as_ptr().cast(), gradient.len() as u64, options.to_c(false));
        call(|said| unsafe { sys::gradstep_parameter_update(self.c.as_ptr(), data, count, &options, said) })
    }

    /// Takes one step of all elements, and sets every gradient to zero after reading it.
    pub fn update_and_zero(&mut self, gradient: &mut [T], options: &StepOptions) -> Result<(), Error> {
        let (data, count, options) = (gradient.as_mut_ptr(), gradient.len() as u64, options.to_c(true));
        call(|said| unsafe { sys::gradstep_parameter_update(self.c.as_ptr(), data.cast(), count, &options, said) })
    }

    /// Moves the values along the gradient: the first half of a step of sharpness-aware minimization. [`ascend_all`] takes the
    /// norm of several gradients together.
    ///
    /// It returns the norm of the gradient. Compute the second gradient at the values that it left, for `descend`; `restore` gives
    /// up the step. Until then, other steps, loads and saves return an error of code `Code::BadSequence`. `None`: the gradient
    /// contains NaN or infinity and on_nonfinite is "skip"; nothing has moved, and the step is over.
    ///
    /// ```
    /// # fn gradient_at(_: &[f32]) -> Vec<f32> { vec![1.0, 2.0] }
    /// # fn main() -> Result<(), gradstep::Error> {
    /// # let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}}"#;
    /// # let mut weights = gradstep::Parameter::new(config, &[1.0f32, 0.5])?;
    /// use gradstep::{SamOptions, StepOptions};
    /// weights.ascend(&gradient_at(weights.values()?), &SamOptions { rho: 0.1, ..Default::default() })?;
    /// weights.descend(&gradient_at(weights.values()?), &StepOptions::default())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ascend(&mut self, gradient: &[T], options: &SamOptions) -> Result<Option<f64>, Error> {
        ascend_all([self.with(gradient)], options)
    }

    /// Brings back the values before `ascend`, bit for bit, and takes the step: the second half. If the gradient is rejected,
    /// nothing changes, and you can call it again.
    pub fn descend(&mut self, gradient: &[T], options: &StepOptions) -> Result<(), Error> {
        descend_all([self.with(gradient)], options)
    }

    /// Takes one step of the rows in `ids`. `gradients` contains `ids.len() * width` elements, row by row. The gradients of a
    /// duplicate id are added.
    ///
    /// Other rows do not change, unless the configuration has "catch_up": "exact" or "replay": then they get pending steps,
    /// which are applied when you update or read the row, or call `flush`. If an id is out of range, the code of the error is
    /// `Code::BadValue`.
    pub fn update_rows<I: RowId>(&mut self, ids: &[I], gradients: &[T], options: &StepOptions) -> Result<(), Error> {
        let (data, count, options) = (gradients.as_ptr().cast(), gradients.len() as u64, options.to_c(false));
        call(|said| unsafe {
            let (c, names, id_count) = (self.c.as_ptr(), ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_parameter_update_rows(c, names, I::DTYPE, id_count, data, count, &options, said)
        })
    }

    /// Adds a gradient to the state and returns the message for all trainers: the first phase of a step of "dgc_momentum".
    ///
    /// `apply` is the second phase, which updates the values. With several trainers, call both in every step: `update` returns
    /// an error of code `Code::BadSequence`, or in a dense step uses this trainer's gradient only, so that the trainers
    /// diverge. The guide is docs/how_to/compressed_gradients.md.
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

    /// Updates the values with the mean of all trainers' messages: the second phase of a step of "dgc_momentum".
    ///
    /// `messages` are the results of `compress` of all trainers, in the order of their ranks, including this trainer's own. If
    /// they are not the messages of this step, it returns an error, nothing changes, and you can call it again.
    pub fn apply<M: AsRef<[u8]>>(&mut self, messages: &[M]) -> Result<(), Error> {
        let at: Vec<_> = messages.iter().map(|each| each.as_ref().as_ptr().cast()).collect();
        let bytes: Vec<_> = messages.iter().map(|each| each.as_ref().len() as u64).collect();
        let n = messages.len() as u64;
        call(|said| unsafe {
            sys::gradstep_parameter_apply_messages(self.c.as_ptr(), at.as_ptr(), bytes.as_ptr(), n, said)
        })
    }

    /// Returns this parameter with its gradient, for [`update_all`].
    pub fn with<'a>(&'a mut self, gradient: &'a [T]) -> Update<'a> {
        Update {
            parameter: self.c.as_ptr(),
            data: gradient.as_ptr().cast(),
            count: gradient.len() as u64,
            of: PhantomData,
        }
    }

    /// Returns the values in the library's memory, row by row, without a copy. All pending steps are applied first.
    pub fn values(&self) -> Result<&[T], Error> {
        let (mut data, mut count) = (null(), 0);
        call(|said| unsafe { sys::gradstep_parameter_values(self.c.as_ptr(), &mut data, &mut count, said) })?;
        Ok(unsafe { slice(data.cast(), count as usize) })
    }

    /// Sets all values, row by row: `len()` elements. Pending steps are applied first. State that contains weights follows the
    /// new values, such as a master copy. Moments and the clock do not change.
    pub fn set_values(&mut self, values: &[T]) -> Result<(), Error> {
        let (data, count) = (values.as_ptr().cast(), values.len() as u64);
        call(|said| unsafe { sys::gradstep_parameter_set_values(self.c.as_ptr(), data, count, said) })
    }

    /// Lets the state of the rows in `ids` begin anew. The values stay. See `append`.
    pub fn reset<I: RowId>(&mut self, ids: &[I]) -> Result<(), Error> {
        let (data, count) = (ids.as_ptr().cast(), ids.len() as u64);
        call(|said| unsafe { sys::gradstep_parameter_reset(self.c.as_ptr(), data, I::DTYPE, count, said) })
    }

    /// Copies the rows in `ids` to `out`, in this order, with all pending steps applied. `out` has `ids.len() * width` elements.
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

    /// Returns a copy of one row, with all pending steps applied. If `id` is out of range, the code of the error is
    /// `Code::BadValue`.
    pub fn row<I: RowId>(&self, id: I) -> Result<Vec<T>, Error> {
        let mut out = vec![T::default(); self.width];
        self.rows_into(&[id], &mut out)?;
        Ok(out)
    }

    /// Applies the pending steps of all rows. With "catch_up": "touch_only", the default, there are none.
    pub fn flush(&self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_flush(self.c.as_ptr(), said) })
    }

    /// Returns the optimizer's state in the library's memory, in the order of the rule, then the average and the master copy.
    /// All pending steps are applied first.
    pub fn slots(&self) -> Result<Vec<Slot<'_>>, Error> {
        self.values()?; // so that no other reader applies pending steps while the slots are borrowed
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
                        format!(
                            "slot {}: has an unknown dtype; expected one of this version",
                            name_of(&info)
                        ),
                    )),
                }
            })
            .collect()
    }

    /// Sets the shape of the values for files and saved states. The product of the extents must be `len()`.
    ///
    /// Files contain the shape, and loading a file with another shape is an error. By default the shape is rows x width for rows
    /// of several elements. Otherwise it is unknown, and only the number of elements must match.
    pub fn set_shape(&mut self, extents: &[usize]) -> Result<(), Error> {
        let extents: Vec<u64> = extents.iter().map(|extent| *extent as u64).collect();
        let dimensions = extents.len() as u64;
        call(|said| unsafe { sys::gradstep_parameter_set_shape(self.c.as_ptr(), extents.as_ptr(), dimensions, said) })
    }

    /// Returns the progress of the run: steps, samples and epoch.
    pub fn clock(&self) -> Result<Clock, Error> {
        let mut now = Clock::default().to_c();
        call(|said| unsafe { sys::gradstep_parameter_clock(self.c.as_ptr(), &mut now, said) })?;
        Ok(Clock::from_c(&now))
    }

    /// Sets the clock to the progress of a run. Values and state do not change. With "catch_up": "exact" or "replay", the code
    /// of the error is `Code::BadSequence`; use `load` instead.
    pub fn seek(&mut self, to: Clock) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_seek(self.c.as_ptr(), &to.to_c(), said) })
    }

    /// Changes hyperparameters from the next step on, and keeps values, state and clock. Each number has a path in the
    /// configuration, as in error messages.
    ///
    /// All numbers are checked before any is changed (`Code::BadConfig`); those that must be the same in all steps, such as initial
    /// values, do not change. If inactive rows have a history of steps ("catch_up": "exact" or "replay"), the code of the error is
    /// `Code::BadSequence`.
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

    /// Returns the complete configuration, with every default filled in.
    pub fn config(&self) -> Result<String, Error> {
        read_text(|buffer, bytes, written, said| unsafe {
            sys::gradstep_parameter_config(self.c.as_ptr(), buffer, bytes, written, said)
        })
    }

    /// Returns a copy of the average that the key "average" sets, or that a schedule-free rule evaluates.
    pub fn average(&self) -> Result<Vec<T::State>, Error> {
        let mut out = vec![T::State::default(); self.len()];
        let count = out.len() as u64;
        call(|said| unsafe { sys::gradstep_parameter_average(self.c.as_ptr(), out.as_mut_ptr().cast(), count, said) })?;
        Ok(out)
    }

    /// Replaces the values by the average, until `restore`. Steps return an error of code `Code::BadSequence` until then.
    pub fn apply_average(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_apply_average(self.c.as_ptr(), said) })
    }

    /// Brings back the trained values, bit for bit, after `apply_average`, or after `ascend` without a step.
    pub fn restore(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_parameter_restore(self.c.as_ptr(), said) })
    }

    /// Serializes values, state and clock, with a checksum, so that a run can resume bit for bit. It does not include the
    /// configuration.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        let c = self.c.as_ptr();
        read_state(
            |bytes, said| unsafe { sys::gradstep_parameter_state_bytes(c, bytes, said) },
            |data, bytes, written, said| unsafe { sys::gradstep_parameter_save(c, data, bytes, written, said) },
        )
    }

    /// Restores values, state and clock from the bytes of `save`. The parameter must have the same shape, element type and
    /// rule. If the bytes do not match or are damaged, it returns an error and nothing changes.
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

/// A parameter and its gradient, which [`Parameter::with`] makes for [`update_all`].
#[derive(Debug)]
pub struct Update<'a> {
    parameter: *mut sys::gradstep_parameter,
    data: *const c_void,
    count: u64,
    of: PhantomData<(&'a mut (), &'a [u8])>,
}

// Send, because the parameter and the slice that it borrows are Send.
unsafe impl Send for Update<'_> {}

/// Takes one step of each of several parameters in one call. Their element types and optimizers can differ.
///
/// The call splits the work over the threads of the parameter with the most threads. All parameters are checked before any is
/// written. Parameters that draw random numbers get different ids, which they keep.
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
    let options = options.to_c(false);
    with_parts(updates, |parameters, data, counts, n, said| unsafe {
        sys::gradstep_parameters_update(parameters, data, counts, n, &options, said)
    })
}

/// Moves the values of several parameters along their gradients, as [`Parameter::ascend`]: the first half of a step of
/// sharpness-aware minimization, by the norm of all gradients together.
///
/// All parameters are checked before any is moved. `None`: a gradient contains NaN or infinity and its parameter skips such
/// steps; no parameter has moved.
///
/// ```
/// # use gradstep::{ascend_all, descend_all, Parameter, SamOptions, StepOptions};
/// # fn main() -> Result<(), gradstep::Error> {
/// # let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.5}}"#;
/// let mut wide = Parameter::new(config, &[0.0f32; 2])?;
/// let mut deep = Parameter::new(config, &[0.0f64; 1])?;
/// let norm = ascend_all([wide.with(&[2.0, 0.0]), deep.with(&[1.5])], &SamOptions { rho: 5.0, ..Default::default() })?;
/// assert_eq!((norm, wide.values()?), (Some(2.5), &[4.0, 0.0][..]));
/// descend_all([wide.with(&[1.0, 0.0]), deep.with(&[1.0])], &StepOptions::default())?;
/// assert_eq!((wide.values()?, deep.values()?), (&[-0.5, 0.0][..], &[-0.5][..]));
/// # Ok(())
/// # }
/// ```
pub fn ascend_all<'a>(
    updates: impl IntoIterator<Item = Update<'a>>,
    options: &SamOptions,
) -> Result<Option<f64>, Error> {
    let (options, mut norm) = (options.to_c(), 0.0);
    with_parts(updates, |parameters, data, counts, n, said| unsafe {
        sys::gradstep_parameters_ascend(parameters, data, counts, n, &options, &mut norm, said)
    })?;
    Ok(Some(norm).filter(|norm| !norm.is_nan()))
}

/// Brings back the values before `ascend_all`, bit for bit, and takes one step of each of these parameters: the second half.
///
/// A parameter whose gradient is skipped gets its values back, too. If a gradient is rejected, nothing changes, and you can call
/// it again.
pub fn descend_all<'a>(updates: impl IntoIterator<Item = Update<'a>>, options: &StepOptions) -> Result<(), Error> {
    let options = options.to_c(false);
    with_parts(updates, |parameters, data, counts, n, said| unsafe {
        sys::gradstep_parameters_descend(parameters, data, counts, n, &options, said)
    })
}

// Calls f with the handles, gradients and counts of the parameters, and their number.
fn with_parts<'a>(
    updates: impl IntoIterator<Item = Update<'a>>,
    f: impl FnOnce(
        *const *mut sys::gradstep_parameter,
        *const *const c_void,
        *const u64,
        u64,
        *mut sys::gradstep_error,
    ) -> sys::gradstep_status,
) -> Result<(), Error> {
    let updates = updates.into_iter();
    let n = updates.size_hint().0;
    let (mut parameters, mut data, mut counts) = (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
    for each in updates {
        parameters.push(each.parameter);
        data.push(each.data);
        counts.push(each.count);
    }
    let n = counts.len() as u64;
    call(|said| f(parameters.as_ptr(), data.as_ptr(), counts.as_ptr(), n, said))
}

/// A [`Parameter`] of any element type.
pub trait AnyParameter: sealed::Handle {}

pub(crate) mod sealed {
    pub trait Handle {
        fn handle(&self) -> *mut crate::sys::gradstep_parameter;
    }
}

impl<T: Element, O: Ownership> AnyParameter for Parameter<T, O> {}
impl<T: Element, O: Ownership> sealed::Handle for Parameter<T, O> {
    fn handle(&self) -> *mut sys::gradstep_parameter {
        self.c.as_ptr()
    }
}
