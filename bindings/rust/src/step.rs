use crate::sys;

/// The options of a single step.
///
/// ```
/// let clipped = gradstep::StepOptions { gradient_scale: 0.25, samples: 32, ..Default::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions {
    /// Multiplies every gradient as it is read; any finite number, 1 by default.
    pub gradient_scale: f64,
    /// Multiplies the learning rate; finite and >= 0, 1 by default.
    pub rate_scale: f64,
    /// Replaces the schedule's learning rate in this step; finite and >= 0. `None`: use the schedule.
    pub rate: Option<f64>,
    /// The number of samples in this step, which is added to the clock; >= 0, 0 by default.
    pub samples: i64,
    /// Sets the clock's epoch, from this step on; >= 0. `None`: unchanged.
    pub epoch: Option<i64>,
    /// The loss whose gradient the step gets, without loss scaling. The rules polyak_sgd, momo and momo_adam need it; others
    /// ignore it. Finite.
    pub loss: Option<f64>,
}

impl Default for StepOptions {
    fn default() -> Self {
        StepOptions {
            gradient_scale: 1.0,
            rate_scale: 1.0,
            rate: None,
            samples: 0,
            epoch: None,
            loss: None,
        }
    }
}

impl StepOptions {
    pub(crate) fn to_c(self, zero_gradient: bool) -> sys::gradstep_step_options {
        let bit = |is_given: bool, bit: i32| if is_given { bit as u32 } else { 0 };
        sys::gradstep_step_options {
            struct_size: std::mem::size_of::<sys::gradstep_step_options>() as u32,
            reserved: 0,
            gradient_scale: self.gradient_scale,
            rate_scale: self.rate_scale,
            rate: self.rate.unwrap_or(f64::NAN),
            samples: self.samples,
            epoch: self.epoch.unwrap_or(-1),
            zero_gradient: zero_gradient.into(),
            reserved_too: 0,
            given: bit(self.rate.is_some(), sys::GRADSTEP_GIVEN_RATE)
                | bit(self.epoch.is_some(), sys::GRADSTEP_GIVEN_EPOCH)
                | bit(self.loss.is_some(), sys::GRADSTEP_GIVEN_LOSS),
            reserved_last: 0,
            loss: self.loss.unwrap_or(f64::NAN),
        }
    }
}

/// The options of `ascend`, the first half of a step of sharpness-aware minimization (SAM).
///
/// ```
/// let far = gradstep::SamOptions { rho: 0.1, ..Default::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamOptions {
    /// The length of the move; finite and >= 0, 0.05 by default.
    pub rho: f64,
    /// Whether to move by ASAM: a^2 g in place of the gradient g, and the norm of a g, where a is abs(w) + `eta`.
    pub adaptive: bool,
    /// Is added to abs(w) by ASAM; finite and >= 0, 0.01 by default.
    pub eta: f64,
    /// Keeps a gradient of zeros from a division by 0; finite and >= 0, 1e-12 by default.
    pub epsilon: f64,
}

impl Default for SamOptions {
    fn default() -> Self {
        SamOptions {
            rho: 0.05,
            adaptive: false,
            eta: 0.01,
            epsilon: 1e-12,
        }
    }
}

impl SamOptions {
    pub(crate) fn to_c(self) -> sys::gradstep_sam_options {
        sys::gradstep_sam_options {
            struct_size: std::mem::size_of::<sys::gradstep_sam_options>() as u32,
            adaptive: self.adaptive.into(),
            rho: self.rho,
            eta: self.eta,
            epsilon: self.epsilon,
        }
    }
}

/// The options of one tensor of a step, for `Step::apply_all_with`.
///
/// ```
/// let of_a_bias = gradstep::TensorOptions { decay: 0.0, ..Default::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorOptions {
    /// Multiplies the learning rate of the step; finite and >= 0, 1 by default.
    pub rate_scale: f64,
    /// Multiplies the decay of the regularizer; finite and >= 0, 1 by default. 0: no decay; clipping stays.
    pub decay: f64,
    /// The number of this tensor's step, from 1, such as a lower one of a tensor that joined later. `None`: the clock's.
    pub step: Option<i64>,
}

impl Default for TensorOptions {
    fn default() -> Self {
        TensorOptions {
            rate_scale: 1.0,
            decay: 1.0,
            step: None,
        }
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clock {
    /// The number of steps so far.
    pub step: i64,
    /// The number of samples so far: the sum of the option `samples` of all steps.
    pub samples: i64,
    /// The epoch that the option `epoch` has set.
    pub epoch: i64,
    /// What the rule keeps of all steps, such as the running weight of a schedule-free rule; zeros for most rules. To
    /// resume, pass the clock on as it is.
    pub state: [f64; 4],
}

impl Clock {
    pub(crate) fn to_c(self) -> sys::gradstep_clock {
        let struct_size = std::mem::size_of::<sys::gradstep_clock>() as u32;
        sys::gradstep_clock {
            struct_size,
            reserved: 0,
            step: self.step,
            samples: self.samples,
            epoch: self.epoch,
            state: self.state,
        }
    }
    pub(crate) fn from_c(c: &sys::gradstep_clock) -> Self {
        Clock {
            step: c.step,
            samples: c.samples,
            epoch: c.epoch,
            state: c.state,
        }
    }
}
