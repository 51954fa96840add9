use crate::sys;
use std::os::raw::c_void;

/// A bfloat16 number, stored as its 16 bits: the upper half of an `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct BFloat16(
    /// Sign, 8 bits of exponent, 7 bits of fraction.
    pub u16,
);

impl From<BFloat16> for f32 {
    /// Exact.
    fn from(x: BFloat16) -> f32 {
        f32::from_bits(u32::from(x.0) << 16)
    }
}

/// An IEEE 754 half-precision number, stored as its 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Float16(
    /// Sign, 5 bits of exponent, 10 bits of fraction.
    pub u16,
);

mod sealed {
    pub trait Sealed {}
}

/// The element types of parameters: `f32`, `f64`, [`BFloat16`], [`Float16`], and the integers `i32`, `u32`, `i64`, `u64`.
/// Integers support only the rule "add_delta", which adds gradients and wraps around.
pub trait Element: sealed::Sealed + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// The value of `enum gradstep_dtype`.
    const DTYPE: i32;
    /// The element type of averages and of most slots of the state.
    type State: Element;
}

/// The integer types of row indices.
pub trait RowId: Element {}

/// A slice of elements of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Values<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    BF16(&'a [BFloat16]),
    F16(&'a [Float16]),
    I32(&'a [i32]),
    U32(&'a [u32]),
    I64(&'a [i64]),
    U64(&'a [u64]),
}

macro_rules! elements {
    ($($type:ty, $state:ty, $dtype:ident, $variant:ident;)*) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: i32 = sys::$dtype;
            type State = $state;
        })*

        /// The name of a dtype in configurations: "float32".
        pub(crate) fn name_of_dtype(dtype: i32) -> String {
            match dtype {
                $(sys::$dtype => stringify!($dtype)["GRADSTEP_".len()..].to_lowercase(),)*
                _ => "unknown".into(),
            }
        }

        impl<'a> Values<'a> {
            /// Returns the slice, or `None` if the elements are not of type `T`.
            pub fn as_slice<T: Element>(self) -> Option<&'a [T]> {
                match self {
                    // T is the type of the variant: dtypes are equal for equal types alone.
                    $(Values::$variant(s) if T::DTYPE == sys::$dtype => Some(unsafe { slice(s.as_ptr().cast(), s.len()) }),)*
                    _ => None,
                }
            }

            /// `count` elements of a dtype at `data`; None if the dtype is unknown.
            ///
            /// # Safety
            /// The elements must be aligned, and valid for the lifetime 'a.
            pub(crate) unsafe fn at(dtype: i32, data: *const c_void, count: usize) -> Option<Self> {
                match dtype {
                    $(sys::$dtype => Some(Values::$variant(slice(data.cast(), count))),)*
                    _ => None,
                }
            }
        }
    };
}
elements! {
    f32, f32, GRADSTEP_FLOAT32, F32;
    f64, f64, GRADSTEP_FLOAT64, F64;
    BFloat16, f32, GRADSTEP_BFLOAT16, BF16;
    Float16, f32, GRADSTEP_FLOAT16, F16;
    i32, i32, GRADSTEP_INT32, I32;
    u32, u32, GRADSTEP_UINT32, U32;
    i64, i64, GRADSTEP_INT64, I64;
    u64, u64, GRADSTEP_UINT64, U64;
}

impl RowId for i32 {}
impl RowId for u32 {}
impl RowId for i64 {}
impl RowId for u64 {}

/// A slice whose address can be null if it is empty.
///
/// # Safety
/// If count is not 0, the conditions of std::slice::from_raw_parts.
pub(crate) unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, count)
}

/// The name of the type without its module: `f32`, `BFloat16`.
pub(crate) fn name_of_element<T: Element>() -> &'static str {
    let name = std::any::type_name::<T>();
    name.rsplit("::").next().unwrap_or(name)
}

/// The bytes of an element of a dtype; 0 for an unknown dtype.
pub(crate) fn size_of_dtype(dtype: i32) -> usize {
    match dtype {
        sys::GRADSTEP_BFLOAT16 | sys::GRADSTEP_FLOAT16 => 2,
        sys::GRADSTEP_FLOAT32 | sys::GRADSTEP_INT32 | sys::GRADSTEP_UINT32 => 4,
        sys::GRADSTEP_FLOAT64 | sys::GRADSTEP_INT64 | sys::GRADSTEP_UINT64 => 8,
        _ => 0,
    }
}
