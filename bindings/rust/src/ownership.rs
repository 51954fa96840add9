use std::fmt;
use std::marker::PhantomData;

pub(crate) mod sealed {
    pub trait Kept {
        const IS_OWNED: bool;
    }
}

/// Whether a table or a parameter is [`Owned`] or [`Borrowed`].
pub trait Ownership: sealed::Kept + fmt::Debug + Send {}

/// A table or a parameter that your program made, and that it releases.
#[derive(Debug)]
pub enum Owned {}

/// A table or a parameter of a [`Server`](crate::Server), or the parameter of a [`Geo`](crate::Geo), which cannot be used while
/// you hold it:
///
/// ```compile_fail,E0499
/// # fn serve(mut server: gradstep::Server, message: &[u8]) -> Result<(), gradstep::Error> {
/// let table = server.keyed_table::<f32>("wide")?;
/// server.handle(1, message)?; // cannot borrow `server` as mutable more than once at a time
/// table.row(7u64)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Borrowed<'a> {
    of: PhantomData<&'a mut ()>,
}

impl Ownership for Owned {}
impl sealed::Kept for Owned {
    const IS_OWNED: bool = true;
}
impl Ownership for Borrowed<'_> {}
impl sealed::Kept for Borrowed<'_> {
    const IS_OWNED: bool = false;
}
