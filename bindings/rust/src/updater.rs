use crate::element::{name_of_element, size_of_dtype};
use crate::error::{call, made};
use crate::parameter::{name_of, new_slot, ShownConfig};
use crate::text::{read_text, with_numbers};
use crate::{sys, Clock, Code, Element, Error, Executor, StepOptions, TensorOptions, Values};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{null, null_mut, NonNull};

/// An optimizer that updates values and [`State`] in your own memory.
///
/// ```
/// # use gradstep::{StepOptions, Updater};
/// # fn main() -> Result<(), gradstep::Error> {
/// let config = r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.25}}"#;
/// let mut optimizer = Updater::<f32>::new(config)?;
/// let (mut values, gradient) = (vec![1.0, 2.0, 3.0], vec![1.0, -1.0, 1.0]);
/// let mut state = optimizer.initialize(&values)?;
/// let step = optimizer.next_step(&StepOptions::default())?; // for all tensors of the model
/// step.apply(&mut values, &gradient, &mut state)?;
/// # Ok(())
/// # }
/// ```
///
/// There is no `Clone`. Only one thread can use an updater at a time (`Send`, not `Sync`), but several threads can use a
/// [`Step`] of it.
pub struct Updater<T: Element> {
    c: NonNull<sys::gradstep_updater>,
    slots: Vec<SlotOf>,
    executor: Option<Executor>, // kept alive, because the library calls it
    of: PhantomData<T>,
}

// A handle is not bound to a thread, but only one thread can use it at a time, so it is not Sync.
unsafe impl<T: Element> Send for Updater<T> {}

impl<T: Element> fmt::Debug for Updater<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Updater")
            .field("element", &format_args!("{}", name_of_element::<T>()))
            .field("config", &ShownConfig(self.config()))
            .finish()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SlotOf {
    name: String,
    dtype: i32,
    count: u64, // 0: one per element of the tensor
}

/// The optimizer state of one tensor, which [`Updater::initialize`] makes.
///
/// To resume from a file of your own, save values, slots and clock. Then initialize a state and copy the slots into it:
///
/// ```
/// # use gradstep::{Clock, StepOptions, Updater};
/// # fn main() -> Result<(), gradstep::Error> {
/// # let config = r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.25}}"#;
/// # let mut trained = Updater::<f32>::new(config)?;
/// # let (mut values, gradient) = (vec![1.0, 2.0, 3.0], vec![1.0, -1.0, 1.0]);
/// # let mut state = trained.initialize(&values)?;
/// # trained.next_step(&StepOptions::default())?.apply(&mut values, &gradient, &mut state)?;
/// let m: Vec<f32> = state.slot("m").unwrap().as_slice().unwrap().to_vec();
/// let v: Vec<f32> = state.slot("v").unwrap().as_slice().unwrap().to_vec();
/// let clock = trained.clock()?;
///
/// let mut optimizer = Updater::<f32>::new(config)?; // in the next run
/// optimizer.seek(clock)?;
/// let mut resumed = optimizer.initialize(&values)?;
/// resumed.slot_mut::<f32>("m").unwrap().copy_from_slice(&m);
/// resumed.slot_mut::<f32>("v").unwrap().copy_from_slice(&v);
/// # assert_eq!(state, resumed);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    count: usize,
    slots: Vec<SlotOf>,
    data: Vec<Vec<u64>>, // u64, so that every element is aligned
}

impl State {
    /// Returns a slot by its name, such as "m", "v" or "master"; `None` if there is none.
    pub fn slot(&self, name: &str) -> Option<Values<'_>> {
        let index = self.slots.iter().position(|slot| slot.name == name)?;
        let slot = &self.slots[index];
        unsafe { Values::at(slot.dtype, self.data[index].as_ptr().cast(), slot.len(self.count)) }
    }
    /// Returns the elements of a slot, to write to; `None` if there is no slot of this name, or if its elements are not of type
    /// `S` (most are `f32`; [`State::slot`] says the type).
    pub fn slot_mut<S: Element>(&mut self, name: &str) -> Option<&mut [S]> {
        let index = self
            .slots
            .iter()
            .position(|slot| slot.name == name && slot.dtype == S::DTYPE)?;
        let len = self.slots[index].len(self.count);
        // The memory has room for `len` elements of this dtype, is aligned to 8 bytes, and is borrowed mutably with `self`.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data[index].as_mut_ptr().cast(), len) })
    }
    /// Returns the names of the slots, in the order of the rule.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| slot.name.as_str())
    }
    fn pointers(&mut self) -> Vec<*mut c_void> {
        self.data.iter_mut().map(|slot| slot.as_mut_ptr().cast()).collect()
    }
}

impl SlotOf {
    fn len(&self, count: usize) -> usize {
        if self.count == 0 {
            count
        } else {
            self.count as usize
        }
    }
}

impl<T: Element> Drop for Updater<T> {
    fn drop(&mut self) {
        unsafe { sys::gradstep_updater_release(self.c.as_ptr()) }
    }
}

impl<T: Element> Updater<T> {
    /// Makes an updater for values and gradients of type `T`.
    ///
    /// `config` is the JSON of the optimizer (docs/how_to/configuration.md). If it is invalid, the code of the error is
    /// `Code::BadConfig` or `Code::NotCompiled`.
    pub fn new(config: &str) -> Result<Self, Error> {
        let mut out = null_mut();
        call(|said| unsafe {
            sys::gradstep_updater_create(config.as_ptr().cast(), config.len(), T::DTYPE, &mut out, said)
        })?;
        let c = made(out, "Updater")?;
        let mut updater = Updater {
            c,
            slots: Vec::new(),
            executor: None,
            of: PhantomData,
        };
        let mut count = 0;
        call(|said| unsafe { sys::gradstep_updater_slot_count(c.as_ptr(), &mut count, said) })?;
        for index in 0..count {
            let mut info = new_slot();
            call(|said| unsafe { sys::gradstep_updater_slot(c.as_ptr(), index, &mut info, said) })?;
            if size_of_dtype(info.dtype) == 0 {
                return Err(Error::new(
                    Code::Internal,
                    format!(
                        "slot {}: has an unknown dtype; expected one of this version",
                        name_of(&info)
                    ),
                ));
            }
            updater.slots.push(SlotOf {
                name: name_of(&info),
                dtype: info.dtype,
                count: info.count,
            });
        }
        Ok(updater)
    }

    /// Returns the initial state of a tensor. `values` are the initial values of the tensor. Averages account for the steps of the
    /// clock so far.
    pub fn initialize(&self, values: &[T]) -> Result<State, Error> {
        let words = |slot: &SlotOf| (slot.len(values.len()) * size_of_dtype(slot.dtype) + 7) / 8;
        let data = self.slots.iter().map(|slot| vec![0u64; words(slot)]).collect();
        let mut state = State {
            count: values.len(),
            slots: self.slots.clone(),
            data,
        };
        let slots = state.pointers();
        call(|said| unsafe {
            let count = values.len() as u64;
            sys::gradstep_updater_initialize(self.c.as_ptr(), values.as_ptr().cast(), slots.as_ptr(), count, said)
        })?;
        Ok(state)
    }

    /// Adapts the state of a tensor after your program has set its values, for example from a file. Training goes on from the new
    /// values: state that contains weights follows them, and a master copy becomes them. Moments and the clock do not change.
    /// A state of another tensor is an error.
    pub fn weights_set(&self, values: &[T], state: &mut State) -> Result<(), Error> {
        self.check(values.len(), state)?;
        let slots = state.pointers();
        call(|said| unsafe {
            let count = values.len() as u64;
            sys::gradstep_updater_weights_set(self.c.as_ptr(), values.as_ptr().cast(), slots.as_ptr(), count, 0, said)
        })
    }

    // Returns an error unless the state is one of a tensor of n elements.
    fn check(&self, n: usize, state: &State) -> Result<(), Error> {
        if state.count != n || state.slots != self.slots {
            let slots: Vec<&str> = state.names().collect();
            return Err(Error::new(
                Code::BadSize,
                format!(
                    "state: is of a tensor of {} elements with slots {slots:?}; expected the state of this tensor of {n}",
                    state.count
                ),
            ));
        }
        Ok(())
    }

    /// Prepares the next step and advances the clock. Then call [`Step::apply`] for every tensor of the model.
    pub fn next_step(&mut self, options: &StepOptions) -> Result<Step<'_, T>, Error> {
        let options = options.to_c(false);
        call(|said| unsafe { sys::gradstep_updater_next_step(self.c.as_ptr(), &options, said) })?;
        Ok(Step { updater: self })
    }

    /// Uses your own threads from the next step on, instead of the `threads` of the configuration. `None`: uses `threads` again.
    pub fn set_executor(&mut self, executor: Option<&Executor>) -> Result<(), Error> {
        Executor::with_handle(executor, |handle| {
            call(|said| unsafe { sys::gradstep_updater_set_executor(self.c.as_ptr(), handle, said) })
        })?;
        self.executor = executor.cloned();
        Ok(())
    }

    /// Returns the progress of the run: steps, samples and epoch.
    pub fn clock(&self) -> Result<Clock, Error> {
        let mut now = Clock::default().to_c();
        call(|said| unsafe { sys::gradstep_updater_clock(self.c.as_ptr(), &mut now, said) })?;
        Ok(Clock::from_c(&now))
    }

    /// Sets the clock to the progress of a run.
    pub fn seek(&mut self, to: Clock) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_updater_seek(self.c.as_ptr(), &to.to_c(), said) })
    }

    /// Changes hyperparameters from the next step on, and keeps the clock. Each number has a path in the configuration, as in
    /// error messages. All numbers are checked before any is changed (`Code::BadConfig`).
    ///
    /// ```
    /// # fn main() -> Result<(), gradstep::Error> {
    /// # let config = r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}"#;
    /// # let mut it = gradstep::Updater::<f32>::new(config)?;
    /// it.set_numbers(&[("rule.beta1", 0.85), ("schedule.rate", 0.05)])?;
    /// assert!(it.config()?.contains("0.85"));
    /// assert!(it.set_numbers(&[("rule.beta2", 0.5), ("rule.beta1", 1.5)]).is_err());
    /// assert!(it.set_numbers(&[("rule.beta1\0", 0.5)]).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_numbers(&mut self, numbers: &[(&str, f64)]) -> Result<(), Error> {
        with_numbers(numbers, |paths, values, n, said| unsafe {
            sys::gradstep_updater_set_numbers(self.c.as_ptr(), paths, values, n, said)
        })
    }

    /// Returns the complete configuration, with every default filled in.
    pub fn config(&self) -> Result<String, Error> {
        read_text(|buffer, bytes, written, said| unsafe {
            sys::gradstep_updater_config(self.c.as_ptr(), buffer, bytes, written, said)
        })
    }
}

/// A step that [`Updater::next_step`] prepared. Several threads can apply it to different tensors at the same time.
#[derive(Debug)]
pub struct Step<'a, T: Element> {
    updater: &'a Updater<T>,
}

// The library allows several threads to apply one step. While a `Step` borrows the updater, no other function can be called.
unsafe impl<T: Element> Send for Step<'_, T> {}
unsafe impl<T: Element> Sync for Step<'_, T> {}

/// One of the tensors that [`Step::apply_all`] updates.
#[derive(Debug)]
pub struct Tensor<'a, T: Element> {
    /// The values, which are updated.
    pub values: &'a mut [T],
    /// The gradient, with as many elements as `values`.
    pub gradient: &'a [T],
    /// The state of the tensor, which `initialize` made.
    pub state: &'a mut State,
}

impl<T: Element> Step<'_, T> {
    /// Applies the step to one tensor. `gradient` has as many elements as `values`, and `initialize` made `state`.
    pub fn apply(&self, values: &mut [T], gradient: &[T], state: &mut State) -> Result<(), Error> {
        self.check(values, gradient, state)?;
        let slots = state.pointers();
        call(|said| unsafe {
            let (c, count) = (self.updater.c.as_ptr(), values.len() as u64);
            sys::gradstep_updater_apply(
                c,
                values.as_mut_ptr().cast(),
                gradient.as_ptr().cast(),
                slots.as_ptr(),
                count,
                said,
            )
        })
    }

    /// Applies the step to several tensors in one call, which splits them over threads together. For random
    /// numbers, the tensors of a step are counted over all calls: if several threads apply a step, their order decides. All
    /// tensors are checked before any is written. The clip "clip_global_norm" of the configuration limits
    /// the norm of all gradients of the call.
    pub fn apply_all(&self, tensors: &mut [Tensor<'_, T>]) -> Result<(), Error> {
        self.apply_all_with(tensors, &vec![TensorOptions::default(); tensors.len()])
    }

    /// The same with options of each tensor: `options[k]` is for `tensors[k]`.
    ///
    /// ```
    /// # use gradstep::{StepOptions, Tensor, TensorOptions, Updater};
    /// # fn main() -> Result<(), gradstep::Error> {
    /// let config = r#"{"rule": {"name": "adam"}, "regularizer": {"name": "decoupled", "rate": 0.1},
    ///     "schedule": {"name": "constant", "rate": 0.001}, "clip": {"name": "clip_global_norm", "limit": 1.0}}"#;
    /// let mut adam_w = Updater::<f32>::new(config)?;
    /// let (mut weights, mut bias) = (vec![1.0; 6], vec![1.0; 2]);
    /// let (mut of_weights, mut of_bias) = (adam_w.initialize(&weights)?, adam_w.initialize(&bias)?);
    /// let no_decay = TensorOptions { decay: 0.0, ..Default::default() };
    /// adam_w.next_step(&StepOptions::default())?.apply_all_with(
    ///     &mut [
    ///         Tensor { values: &mut weights, gradient: &[1.0; 6], state: &mut of_weights },
    ///         Tensor { values: &mut bias, gradient: &[1.0; 2], state: &mut of_bias },
    ///     ],
    ///     &[TensorOptions::default(), no_decay],
    /// )?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply_all_with(&self, tensors: &mut [Tensor<'_, T>], options: &[TensorOptions]) -> Result<(), Error> {
        if options.len() != tensors.len() {
            return Err(Error::new(
                Code::BadSize,
                format!(
                    "options: has {} elements; expected {}, as there are tensors",
                    options.len(),
                    tensors.len()
                ),
            ));
        }
        for (k, each) in options.iter().enumerate() {
            if each.step == Some(0) {
                return Err(Error::new(
                    Code::BadValue,
                    format!("tensor {k}: step: 0 is out of range; expected >= 1, or None"),
                ));
            }
        }
        for each in tensors.iter() {
            self.check(each.values, each.gradient, each.state)?;
        }
        let slots: Vec<Vec<*mut c_void>> = tensors.iter_mut().map(|each| each.state.pointers()).collect();
        let of_each: Vec<_> = slots.iter().map(|each| each.as_ptr()).collect();
        let values: Vec<*mut c_void> = tensors.iter_mut().map(|each| each.values.as_mut_ptr().cast()).collect();
        let gradients: Vec<*const c_void> = tensors.iter().map(|each| each.gradient.as_ptr().cast()).collect();
        let counts: Vec<u64> = tensors.iter().map(|each| each.values.len() as u64).collect();
        let rate_scales: Vec<f64> = options.iter().map(|each| each.rate_scale).collect();
        let decays: Vec<f64> = options.iter().map(|each| each.decay).collect();
        let steps: Vec<i64> = options.iter().map(|each| each.step.unwrap_or(0)).collect();
        let given = sys::gradstep_tensor_options {
            struct_size: std::mem::size_of::<sys::gradstep_tensor_options>() as u32,
            reserved: 0,
            rate_scales: rate_scales.as_ptr(),
            decays: decays.as_ptr(),
            steps: steps.as_ptr(),
            ids: null(),
        };
        call(|said| unsafe {
            let (c, n) = (self.updater.c.as_ptr(), counts.len() as u64);
            let (values, gradients, counts) = (values.as_ptr(), gradients.as_ptr(), counts.as_ptr());
            sys::gradstep_updater_apply_with(c, values, gradients, of_each.as_ptr(), counts, null(), n, &given, said)
        })
    }

    fn check(&self, values: &[T], gradient: &[T], state: &State) -> Result<(), Error> {
        let n = values.len();
        if gradient.len() != n {
            return Err(Error::new(
                Code::BadSize,
                format!(
                    "gradient: has {} elements; expected {n}, as the tensor has",
                    gradient.len()
                ),
            ));
        }
        self.updater.check(n, state)
    }
}
