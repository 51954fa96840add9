use crate::element::{name_of_element, size_of_dtype};
use crate::error::call;
use crate::parameter::{name_of, new_slot, ShownConfig};
use crate::text::{read_text, with_numbers};
use crate::{sys, Clock, Code, Element, Error, Executor, StepOptions, Values};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};

/// Policies and a clock; values, gradients and [`State`] are memory of the caller's.
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
/// There is no `Clone`, and one thread at a time uses an updater (`Send`, not `Sync`); several may use a [`Step`] of it.
pub struct Updater<T: Element> {
    c: NonNull<sys::gradstep_updater>,
    slots: Vec<SlotOf>,
    executor: Option<Executor>, // which the library calls
    of: PhantomData<T>,
}

// A handle belongs to no thread; it is used by one at a time, and so is no Sync.
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
    count: u64, // 0: as many as the tensor
}

/// The state of one tensor, as an optimizer keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    count: usize,
    slots: Vec<SlotOf>,
    data: Vec<Vec<u64>>, // of words, so that every element is aligned
}

impl State {
    /// A slot by its name: "m", "v", "master", ...
    pub fn slot(&self, name: &str) -> Option<Values<'_>> {
        let index = self.slots.iter().position(|slot| slot.name == name)?;
        let slot = &self.slots[index];
        unsafe { Values::at(slot.dtype, self.data[index].as_ptr().cast(), slot.len(self.count)) }
    }
    /// The names of the slots, in the order of the rule.
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
    /// An updater of elements `T`.
    pub fn new(config: &str) -> Result<Self, Error> {
        let mut out = null_mut();
        call(|said| unsafe {
            sys::gradstep_updater_create(config.as_ptr().cast(), config.len(), T::DTYPE, &mut out, said)
        })?;
        let c = NonNull::new(out)
            .ok_or_else(|| Error::new(Code::Internal, "the library made no updater, and no error".into()))?;
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
                    format!("slot {} has no dtype that is known", name_of(&info)),
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

    /// The state of a tensor, as it is before its first step.
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

    /// Prepares a step, and moves the clock; then [`Step::apply`] it to every tensor of the model.
    pub fn next_step(&mut self, options: &StepOptions) -> Result<Step<'_, T>, Error> {
        let options = options.to_c(false);
        call(|said| unsafe { sys::gradstep_updater_next_step(self.c.as_ptr(), &options, said) })?;
        Ok(Step { updater: self })
    }

    /// Runs on these threads from the next step on, instead of the `threads` of the configuration; None: on those again.
    pub fn set_executor(&mut self, executor: Option<&Executor>) -> Result<(), Error> {
        Executor::with_handle(executor, |handle| {
            call(|said| unsafe { sys::gradstep_updater_set_executor(self.c.as_ptr(), handle, said) })
        })?;
        self.executor = executor.cloned();
        Ok(())
    }

    /// Where the run stands.
    pub fn clock(&self) -> Result<Clock, Error> {
        let mut now = Clock::default().to_c();
        call(|said| unsafe { sys::gradstep_updater_clock(self.c.as_ptr(), &mut now, said) })?;
        Ok(Clock::from_c(&now))
    }

    /// Puts the clock to where a run stood.
    pub fn seek(&mut self, to: Clock) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_updater_seek(self.c.as_ptr(), &to.to_c(), said) })
    }

    /// Changes numbers of the configuration from the next step on, by their paths as errors name them, and keeps the
    /// state. All are checked before any is changed.
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

    /// The configuration, complete, with every default.
    pub fn config(&self) -> Result<String, Error> {
        read_text(|buffer, bytes, written, said| unsafe {
            sys::gradstep_updater_config(self.c.as_ptr(), buffer, bytes, written, said)
        })
    }
}

/// A step that is prepared. Several threads may apply it, to different tensors.
#[derive(Debug)]
pub struct Step<'a, T: Element> {
    updater: &'a Updater<T>,
}

// `apply` of one step is what the library allows to several threads, and while a step is there nothing else is called.
unsafe impl<T: Element> Send for Step<'_, T> {}
unsafe impl<T: Element> Sync for Step<'_, T> {}

/// One tensor of several that [`Step::apply_all`] updates.
#[derive(Debug)]
pub struct Tensor<'a, T: Element> {
    /// The parameter.
    pub values: &'a mut [T],
    /// As many elements as `values`.
    pub gradient: &'a [T],
    /// That `initialize` made of the tensor.
    pub state: &'a mut State,
}

impl<T: Element> Step<'_, T> {
    /// Updates one tensor.
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

    /// Updates several tensors in one call, split over threads together. The k-th is tensor k of stochastic rounding. All are
    /// checked before any is written.
    pub fn apply_all(&self, tensors: &mut [Tensor<'_, T>]) -> Result<(), Error> {
        for each in tensors.iter() {
            self.check(each.values, each.gradient, each.state)?;
        }
        let slots: Vec<Vec<*mut c_void>> = tensors.iter_mut().map(|each| each.state.pointers()).collect();
        let of_each: Vec<_> = slots.iter().map(|each| each.as_ptr()).collect();
        let values: Vec<*mut c_void> = tensors.iter_mut().map(|each| each.values.as_mut_ptr().cast()).collect();
        let gradients: Vec<*const c_void> = tensors.iter().map(|each| each.gradient.as_ptr().cast()).collect();
        let counts: Vec<u64> = tensors.iter().map(|each| each.values.len() as u64).collect();
        call(|said| unsafe {
            let (c, n) = (self.updater.c.as_ptr(), counts.len() as u64);
            let (values, gradients) = (values.as_ptr(), gradients.as_ptr());
            sys::gradstep_updater_apply_many(c, values, gradients, of_each.as_ptr(), counts.as_ptr(), n, said)
        })
    }

    fn check(&self, values: &[T], gradient: &[T], state: &State) -> Result<(), Error> {
        let n = values.len();
        if gradient.len() != n {
            return Err(Error::new(
                Code::BadSize,
                format!("the gradient has {} elements; the tensor has {n}", gradient.len()),
            ));
        }
        if state.count != n || state.slots != self.updater.slots {
            let slots: Vec<&str> = state.names().collect();
            return Err(Error::new(
                Code::BadSize,
                format!(
                    "the state is of a tensor of {} elements with slots {slots:?}, not of this one of {n}",
                    state.count
                ),
            ));
        }
        Ok(())
    }
}
