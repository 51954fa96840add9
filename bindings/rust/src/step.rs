use crate::sys;

/// Options for a single step.
///
/// ```
/// let clipped = gradstep::StepOptions { gradient_scale: 0.25, samples: 32, ..Default::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions {
    /// Multiplies every gradient as it is read; finite.
    pub gradient_scale: f64,
    /// Multiplies the learning rate; finite, not negative.
    pub rate_scale: f64,
    /// The learning rate of this step, finite and not negative; `None`: what the schedule says.
    pub rate: Option<f64>,
    /// That this step has seen: the clock advances by it; not negative.
    pub samples: i64,
    /// The clock's epoch from this step on, not negative; `None`: it stays.
    pub epoch: Option<i64>,
}

impl Default for StepOptions {
    fn default() -> Self {
        StepOptions {
            gradient_scale: 1.0,
            rate_scale: 1.0,
            rate: None,
            samples: 0,
            epoch: None,
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
                | bit(self.epoch.is_some(), sys::GRADSTEP_GIVEN_EPOCH),
            reserved_last: 0,
        }
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Steps so far.
    pub step: i64,
    /// Samples so far.
    pub samples: i64,
    /// The epoch that the steps have named.
    pub epoch: i64,
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
        }
    }
    pub(crate) fn from_c(c: &sys::gradstep_clock) -> Self {
        Clock {
            step: c.step,
            samples: c.samples,
            epoch: c.epoch,
        }
    }
}
