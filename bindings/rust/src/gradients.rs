use crate::error::call;
use crate::{sys, Element, Error};
use std::os::raw::c_void;
use std::ptr::null_mut;

/// Returns the Euclidean norm of all gradients together, as the clip "clip_global_norm" computes it. It is not finite if an
/// element is not.
///
/// ```
/// # fn main() -> Result<(), gradstep::Error> {
/// assert_eq!(gradstep::global_norm(&[&[3.0f32, 0.0][..], &[4.0][..]])?, 5.0);
/// # Ok(())
/// # }
/// ```
///
/// Integers are an error of code `Code::UnsupportedType`.
pub fn global_norm<T: Element>(gradients: &[&[T]]) -> Result<f64, Error> {
    let (at, counts, n) = parts_of(gradients);
    let mut norm = 0.0;
    call(|said| unsafe {
        sys::gradstep_global_norm(T::DTYPE, at.as_ptr(), counts.as_ptr(), n, null_mut(), &mut norm, said)
    })?;
    Ok(norm)
}

/// An element of a gradient that is NaN or infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonFinite {
    /// The index of the gradient.
    pub tensor: usize,
    /// The index of the element in this gradient.
    pub element: usize,
}

/// Finds the first NaN or infinity in gradients. `None`: all elements are finite. Integers are an error of code
/// `Code::UnsupportedType`.
pub fn first_nonfinite<T: Element>(gradients: &[&[T]]) -> Result<Option<NonFinite>, Error> {
    let (at, counts, n) = parts_of(gradients);
    let (mut tensor, mut element) = (0, 0);
    call(|said| unsafe {
        let (at, counts) = (at.as_ptr(), counts.as_ptr());
        sys::gradstep_first_nonfinite(T::DTYPE, at, counts, n, null_mut(), &mut tensor, &mut element, said)
    })?;
    Ok((tensor != n).then_some(NonFinite {
        tensor: tensor as usize,
        element: element as usize,
    }))
}

fn parts_of<T: Element>(gradients: &[&[T]]) -> (Vec<*const c_void>, Vec<u64>, u64) {
    let at = gradients.iter().map(|each| each.as_ptr().cast()).collect();
    let counts = gradients.iter().map(|each| each.len() as u64).collect();
    (at, counts, gradients.len() as u64)
}
