use crate::element::{name_of_dtype, name_of_element, size_of_dtype};
use crate::error::{call, made};
use crate::files::{file_names, path_in_c, with_options};
use crate::ownership::{Borrowed, Owned, Ownership};
use crate::parameter::ShownConfig;
use crate::text::{read_state, read_text};
use crate::{sys, Clock, Code, Element, Error, Executor, LoadOptions, LoadReport, RowId, StepOptions};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::{null_mut, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

/// A table of rows, such as an embedding table. A step updates the rows in its batch.
///
/// The configuration is the JSON of an optimizer with the keys "type", for the type of the values, and "table"
/// (docs/how_to/rust.md#tables):
///
/// ```
/// # use gradstep::{StepOptions, Table};
/// # fn main() -> Result<(), gradstep::Error> {
/// let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.5}, "type": "float32",
///     "table": {"rows": 10, "width": 2, "duplicates": "mean"}}"#;
/// let mut words = Table::<f32>::new(config)?;
/// words.update(&[7i64, 7], &[1.0, 2.0, 3.0, 4.0], &StepOptions::default())?;
/// assert_eq!(words.row(7i64)?, [-1.0, -1.5]);
/// # Ok(())
/// # }
/// ```
///
/// Ids are `i32`, `i64` or `u64`. For `u32` the code of the error is `Code::BadValue`. There is no `Clone`; use `save` and `load`
/// to copy the state. A table is `Send` and not `Sync`. For several threads use a [`SharedTable`].
///
/// The parameter `K` is [`Numbered`], or [`Keyed`] for a `KeyedTable`. `O` is [`Owned`], or [`Borrowed`] for a table of a server,
/// which has no `grow`, `append`, `keep`, `permute` and `set_executor`.
pub struct Table<T: Element, K: RowKind = Numbered, O: Ownership = Owned> {
    handle: Arc<Handle>,
    width: usize,
    of: PhantomData<Cell<(T, K, O)>>, // not Sync: only one thread can use a table without "concurrent"
}

pub(crate) mod sealed {
    pub trait Rows {
        const IS_KEYED: bool;
        const KEY: &'static str; // of the table in configurations
        const TYPE: &'static str;
    }
}

/// Embedding bags of a call.
///
/// Bag b consists of `ids[offsets[b]..offsets[b + 1]]`, and the last bag ends with `ids`. The offsets ascend from 0, and a bag can
/// be empty.
///
/// ```
/// # use gradstep::{Bags, StepOptions, Table};
/// # fn main() -> Result<(), gradstep::Error> {
/// # let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "table": {"rows": 10, "width": 2}}"#;
/// # let mut words = Table::<f32>::new(config)?;
/// let bags = Bags::new(&[7i64, 8, 7], &[0, 2]).weights(&[1.0, 2.0, 0.5]);
/// words.update_bags(&bags, &[1.0, 1.0, 2.0, 2.0], &StepOptions::default())?;
/// let mut sums = [0.0; 4];
/// words.bags_into(&bags.mean(), &mut sums)?;
/// assert_eq!((words.row(7i64)?, sums), (vec![-2.0, -2.0], [-3.0, -3.0, -1.0, -1.0]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bags<'a, T: Element, I: RowId> {
    ids: &'a [I],
    offsets: &'a [I],
    weights: Option<&'a [T::State]>,
    mean: bool,
}

impl<'a, T: Element, I: RowId> Bags<'a, T, I> {
    /// Bags that pool the sum of their rows.
    pub fn new(ids: &'a [I], offsets: &'a [I]) -> Self {
        Bags {
            ids,
            offsets,
            weights: None,
            mean: false,
        }
    }

    /// The same with a weight for each id: `f64` for a table of `f64`, else `f32`. Tables of integers have no weights.
    pub fn weights(self, weights: &'a [T::State]) -> Self {
        Bags {
            weights: Some(weights),
            ..self
        }
    }

    /// The same with the mean of the rows: their sum is divided by the number of ids in the bag, without padding.
    pub fn mean(self) -> Self {
        Bags { mean: true, ..self }
    }

    fn to_c(self) -> Result<sys::gradstep_bag_options, Error> {
        let weights = match self.weights {
            Some(weights) if weights.len() != self.ids.len() => {
                let (given, wanted) = (weights.len(), self.ids.len());
                let sentence = format!("weights: has {given} elements; expected {wanted}, one for each id");
                return Err(Error::new(Code::BadSize, sentence));
            }
            Some(weights) => weights.as_ptr().cast(),
            None => std::ptr::null(),
        };
        Ok(sys::gradstep_bag_options {
            struct_size: std::mem::size_of::<sys::gradstep_bag_options>() as u32,
            mode: if self.mean {
                sys::GRADSTEP_BAG_MEAN
            } else {
                sys::GRADSTEP_BAG_SUM
            },
            weights,
        })
    }
}

/// What identifies a row of a table: [`Numbered`] or [`Keyed`].
pub trait RowKind: sealed::Rows + fmt::Debug + Send {}

/// Rows have numbers from 0: a [`Table`], the key "table" of the configuration.
#[derive(Debug)]
pub enum Numbered {}

/// Rows have 64-bit keys: a `KeyedTable`, the key "keyed_table" of the configuration.
#[derive(Debug)]
pub enum Keyed {}

impl RowKind for Numbered {}
impl sealed::Rows for Numbered {
    const IS_KEYED: bool = false;
    const KEY: &'static str = "table";
    const TYPE: &'static str = "Table";
}
impl RowKind for Keyed {}
impl sealed::Rows for Keyed {
    const IS_KEYED: bool = true;
    const KEY: &'static str = "keyed_table";
    const TYPE: &'static str = "KeyedTable";
}

struct Handle {
    c: NonNull<sys::gradstep_table>,
    is_owned: bool,
    executor: Mutex<Option<Executor>>, // kept alive, because the library calls it
}

// A handle is not bound to a thread. Several threads have the same one only if a `SharedTable` owns it: then the library
// allows every function at once, and the last owner releases the handle.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_owned {
            unsafe { sys::gradstep_table_release(self.c.as_ptr()) }
        }
    }
}

impl<T: Element, K: RowKind, O: Ownership> fmt::Debug for Table<T, K, O> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct(K::TYPE)
            .field("element", &format_args!("{}", name_of_element::<T>()))
            .field("config", &ShownConfig(self.config()))
            .finish()
    }
}

/// The facts that [`Table::describe`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// The number of rows.
    pub rows: usize,
    /// The number of elements of a row.
    pub width: usize,
    /// Whether several threads can call the table.
    pub concurrent: bool,
    /// The number of gradient rows that "on_nonfinite": "skip" left out so far.
    pub skipped: u64,
}

impl<T: Element, K: RowKind> Table<T, K> {
    /// Makes a table with the initial values that the key "initial" sets; 0 by default.
    ///
    /// If the configuration is invalid, the code of the error is `Code::BadConfig` or `Code::NotCompiled`: for example, if "type"
    /// is not the type `T`, if the rule updates no single rows, or if the configuration is one for the other kind of rows.
    pub fn new(config: &str) -> Result<Self, Error> {
        let mut out = null_mut();
        call(|said| unsafe { sys::gradstep_table_create(config.as_ptr().cast(), config.len(), &mut out, said) })?;
        Self::of_handle(made(out, K::TYPE)?)
    }

    /// Uses your own threads from the next update on, instead of the `threads` of the configuration. `None`: uses `threads`
    /// again. Updates of a [`SharedTable`] run on the threads that call.
    pub fn set_executor(&mut self, executor: Option<&Executor>) -> Result<(), Error> {
        let mut kept = self.handle.executor.lock().unwrap_or_else(PoisonError::into_inner);
        Executor::with_handle(executor, |handle| {
            call(|said| unsafe { sys::gradstep_table_set_executor(self.c(), handle, said) })
        })?;
        *kept = executor.cloned();
        Ok(())
    }
}

impl<'a, T: Element, K: RowKind> Table<T, K, Borrowed<'a>> {
    /// The table of a handle that the library keeps for 'a, during which nothing else uses it.
    pub(crate) fn borrowed(c: NonNull<sys::gradstep_table>) -> Result<Self, Error> {
        Self::of_handle(c)
    }
}

impl<T: Element, K: RowKind, O: Ownership> Table<T, K, O> {
    fn of_handle(c: NonNull<sys::gradstep_table>) -> Result<Self, Error> {
        let handle = Handle {
            c,
            is_owned: O::IS_OWNED,
            executor: Mutex::new(None),
        };
        let mut table = Table {
            handle: Arc::new(handle),
            width: 0,
            of: PhantomData,
        };
        let info = table.info()?;
        if (info.keyed != 0) != K::IS_KEYED {
            let kinds = ["numbers; expected a Table", "keys; expected a KeyedTable"];
            let sentence = format!("{}: its rows have {}", K::TYPE, kinds[usize::from(!K::IS_KEYED)]);
            return Err(Error::new(Code::BadConfig, sentence));
        }
        let same_size = size_of_dtype(info.state_dtype) == size_of_dtype(T::State::DTYPE); // the state of u64 is i64
        if info.dtype != T::DTYPE || !same_size {
            let (given, name) = (name_of_dtype(info.dtype), name_of_dtype(T::DTYPE));
            let element = name_of_element::<T>();
            let sentence = format!(
                "type: {given} is not the type of a {}<{element}>; expected {name}",
                K::TYPE
            );
            return Err(Error::new(Code::BadConfig, sentence));
        }
        table.width = info.width as usize;
        Ok(table)
    }

    pub(crate) fn c(&self) -> *mut sys::gradstep_table {
        self.handle.c.as_ptr()
    }

    fn info(&self) -> Result<sys::gradstep_table_info, Error> {
        let mut info = sys::gradstep_table_info {
            struct_size: std::mem::size_of::<sys::gradstep_table_info>() as u32,
            dtype: 0,
            state_dtype: 0,
            concurrent: 0,
            num_rows: 0,
            width: 0,
            skipped: 0,
            keyed: 0,
            reserved: 0,
        };
        call(|said| unsafe { sys::gradstep_table_describe(self.c(), &mut info, said) })?;
        Ok(info)
    }

    /// Returns the size of the table and other facts.
    pub fn describe(&self) -> Result<TableInfo, Error> {
        self.info().map(|info| TableInfo {
            rows: info.num_rows as usize,
            width: info.width as usize,
            concurrent: info.concurrent != 0,
            skipped: info.skipped,
        })
    }

    /// Returns the complete configuration, with every default filled in.
    pub fn config(&self) -> Result<String, Error> {
        read_text(|buffer, bytes, written, said| unsafe {
            sys::gradstep_table_config(self.c(), buffer, bytes, written, said)
        })
    }

    /// Takes one step of the rows in `ids`. `gradients` contains `ids.len() * width` elements, row by row.
    ///
    /// A row that appears several times gets the sum, the mean or the last of its gradients ("duplicates": "sum", "mean", "last"),
    /// or its id is an error ("unique"). Other rows do not change, unless the configuration has "catch_up": "exact" or "replay": then they get
    /// pending steps. If an id is out of range, the code of the error is `Code::BadValue`. A key gets its row when the table admits
    /// it; until then its gradients are dropped.
    pub fn update<I: RowId>(&mut self, ids: &[I], gradients: &[T], options: &StepOptions) -> Result<(), Error> {
        let (data, count, options) = (gradients.as_ptr().cast(), gradients.len() as u64, options.to_c(false));
        call(|said| unsafe {
            let (c, names, id_count) = (self.c(), ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_table_update(c, names, I::DTYPE, id_count, data, count, &options, said)
        })
    }

    /// The same for embedding bags: row b of `bag_rows` is the gradient of every id in bag b, times the weight of the id.
    pub fn update_bags<I: RowId>(
        &mut self,
        bags: &Bags<T, I>,
        bag_rows: &[T],
        options: &StepOptions,
    ) -> Result<(), Error> {
        let (data, count, options) = (bag_rows.as_ptr().cast(), bag_rows.len() as u64, options.to_c(false));
        let how = bags.to_c()?;
        call(|said| unsafe {
            let (c, names, id_count) = (self.c(), bags.ids.as_ptr().cast(), bags.ids.len() as u64);
            let (begins, n) = (bags.offsets.as_ptr().cast(), bags.offsets.len() as u64);
            sys::gradstep_table_update_bags(
                c,
                names,
                I::DTYPE,
                id_count,
                begins,
                n,
                data,
                count,
                &how,
                &options,
                said,
            )
        })
    }

    /// Pools the rows of embedding bags: writes the sum or the mean of the rows of each bag to `out`, times their weights, with all
    /// pending steps applied. `out` has `width` elements for each bag. Padding counts as absent, and a bag without ids gives 0.
    pub fn bags_into<I: RowId>(&self, bags: &Bags<T, I>, out: &mut [T]) -> Result<(), Error> {
        let (to, count, how) = (out.as_mut_ptr().cast(), out.len() as u64, bags.to_c()?);
        call(|said| unsafe {
            let (c, names, id_count) = (self.c(), bags.ids.as_ptr().cast(), bags.ids.len() as u64);
            let (begins, n) = (bags.offsets.as_ptr().cast(), bags.offsets.len() as u64);
            sys::gradstep_table_bags(c, names, I::DTYPE, id_count, begins, n, &how, to, count, said)
        })
    }

    /// Copies the rows in `ids` to `out`, in this order, with all pending steps applied. `out` has `ids.len() * width` elements.
    /// A key without a row reads as its initial values.
    pub fn rows_into<I: RowId>(&self, ids: &[I], out: &mut [T]) -> Result<(), Error> {
        let (to, count) = (out.as_mut_ptr().cast(), out.len() as u64);
        call(|said| unsafe {
            let (names, id_count) = (ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_table_rows(self.c(), names, I::DTYPE, id_count, to, count, said)
        })
    }

    /// Copies rows to `out` in 8 bits, for servers that only read. Each row has width + 8 bytes: a code for each value, then scale
    /// and offset as little-endian `f32`; a value is code * scale + offset. These are the bytes of FBGEMM.
    pub fn int8_rows_into<I: RowId>(&self, ids: &[I], out: &mut [u8]) -> Result<(), Error> {
        let (to, bytes) = (out.as_mut_ptr().cast(), out.len() as u64);
        call(|said| unsafe {
            let (names, id_count) = (ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_table_int8_rows(self.c(), names, I::DTYPE, id_count, to, bytes, said)
        })
    }

    /// Returns a copy of one row, with all pending steps applied.
    pub fn row<I: RowId>(&self, id: I) -> Result<Vec<T>, Error> {
        let mut out = vec![T::default(); self.width];
        self.rows_into(&[id], &mut out)?;
        Ok(out)
    }

    /// Copies the averages of the rows in `ids` to `out`, as `rows_into`. The key "average" sets them, or a schedule-free rule.
    pub fn averages_into<I: RowId>(&self, ids: &[I], out: &mut [T::State]) -> Result<(), Error> {
        let (to, count) = (out.as_mut_ptr().cast(), out.len() as u64);
        call(|said| unsafe {
            let (names, id_count) = (ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_table_averages(self.c(), names, I::DTYPE, id_count, to, count, said)
        })
    }

    /// Replaces the values by the averages, until `restore`. Steps return an error of code `Code::BadSequence` until then.
    pub fn apply_average(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_table_apply_average(self.c(), said) })
    }

    /// Brings back the trained values after `apply_average`.
    pub fn restore(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_table_restore(self.c(), said) })
    }

    /// Lets the rows in `ids` begin anew, with the initial values and state of the table.
    pub fn reset<I: RowId>(&mut self, ids: &[I]) -> Result<(), Error> {
        let (names, count) = (ids.as_ptr().cast(), ids.len() as u64);
        call(|said| unsafe { sys::gradstep_table_reset(self.c(), names, I::DTYPE, count, said) })
    }

    /// Applies the pending steps of all rows. With "catch_up": "touch_only", the default, there are none.
    pub fn flush(&mut self) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_table_flush(self.c(), said) })
    }

    /// Returns the progress of the run: steps, samples and epoch.
    pub fn clock(&self) -> Result<Clock, Error> {
        let mut now = Clock::default().to_c();
        call(|said| unsafe { sys::gradstep_table_clock(self.c(), &mut now, said) })?;
        Ok(Clock::from_c(&now))
    }

    /// Sets the clock to the progress of a run; of rows with keys, to no earlier step than the present one. With "catch_up": "exact" or
    /// "replay", the code of the error is `Code::BadSequence`.
    pub fn seek(&mut self, to: Clock) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_table_seek(self.c(), &to.to_c(), said) })
    }

    /// Serializes values, state, pending steps and clock, with a checksum, so that a run can resume bit for bit. It does not
    /// include the configuration.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        read_state(
            |bytes, said| unsafe { sys::gradstep_table_state_bytes(self.c(), bytes, said) },
            |data, bytes, written, said| unsafe { sys::gradstep_table_save(self.c(), data, bytes, written, said) },
        )
    }

    /// Restores the table from the bytes of `save`. It must have the same element type, rule, catch-up policy and width. A table
    /// with fewer rows grows, and a `KeyedTable` gets the rows of the bytes. If the bytes do not match or are damaged, it returns
    /// an error and nothing changes.
    pub fn load(&mut self, state: &[u8]) -> Result<(), Error> {
        let (data, bytes) = (state.as_ptr().cast(), state.len() as u64);
        call(|said| unsafe { sys::gradstep_table_load(self.c(), data, bytes, said) })
    }

    /// Writes the table to a safetensors file, like the function `save_file` of the crate. Its name in the file is "values".
    pub fn save_file(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path_in_c(path.as_ref())?;
        call(|said| unsafe { sys::gradstep_table_save_file(self.c(), path.as_ptr(), said) })
    }

    /// Loads a file of `save_file`, or of a C++ table. After an error the table is unchanged.
    pub fn load_file(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.load_file_with(path, &LoadOptions::default()).map(|_| ())
    }

    /// Loads a file with options, as the function `load_file_with` of the crate. The name of the table is "values". With `rename`
    /// and `ignore_unexpected` you can load one table from a C++ file of many. `resize_rows` does nothing: a table grows to the
    /// rows of the file, and rejects a file with fewer rows. A `KeyedTable` gets the rows of the file.
    pub fn load_file_with(&mut self, path: impl AsRef<Path>, options: &LoadOptions<'_>) -> Result<LoadReport, Error> {
        const NAME: &str = "values";
        let (mut in_file, path_in_c) = (file_names(&path)?, path_in_c(path.as_ref())?);
        let mut outcome = sys::GRADSTEP_LOADED;
        with_options(options, &in_file, |options| {
            call(|said| unsafe {
                sys::gradstep_table_load_file(self.c(), path_in_c.as_ptr(), options, &mut outcome, said)
            })
        })?;
        in_file.retain(|name| options.name_of(name) != NAME);
        let mut report = LoadReport {
            ignored: in_file,
            ..LoadReport::default()
        };
        report.add(NAME, outcome);
        Ok(report)
    }
}

impl<T: Element, O: Ownership> Table<T, Numbered, O> {
    /// Sets the rows in `ids` to values, for example pretrained ones: `ids.len() * width` elements. State that contains weights
    /// follows the new values. Moments and the clock do not change.
    pub fn set_rows<I: RowId>(&mut self, ids: &[I], values: &[T]) -> Result<(), Error> {
        let (data, count) = (values.as_ptr().cast(), values.len() as u64);
        call(|said| unsafe {
            let (names, id_count) = (ids.as_ptr().cast(), ids.len() as u64);
            sys::gradstep_table_set_rows(self.c(), names, I::DTYPE, id_count, data, count, said)
        })
    }
}

impl<T: Element> Table<T> {
    /// Adds rows with initial values, up to `rows` in total. If the table has more rows, the code of the error is
    /// `Code::BadValue`.
    pub fn grow(&mut self, rows: usize) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_table_grow(self.c(), rows as u64, said) })
    }

    /// Adds rows with these values behind the others: a multiple of `width` elements.
    pub fn append(&mut self, values: &[T]) -> Result<(), Error> {
        let (data, count) = (values.as_ptr().cast(), values.len() as u64);
        call(|said| unsafe { sys::gradstep_table_append(self.c(), data, count, said) })
    }

    /// Keeps the rows whose element of the mask is true, in their order, and removes the others. State moves with its row.
    pub fn keep(&mut self, mask: &[bool]) -> Result<(), Error> {
        let rows = mask.len() as u64; // a bool is a byte that is 0 or 1
        call(|said| unsafe { sys::gradstep_table_keep(self.c(), mask.as_ptr().cast(), rows, said) })
    }

    /// Puts the rows in another order: row i becomes what was row `order[i]`.
    pub fn permute<I: RowId>(&mut self, order: &[I]) -> Result<(), Error> {
        let (data, rows) = (order.as_ptr().cast(), order.len() as u64);
        call(|said| unsafe { sys::gradstep_table_permute(self.c(), data, I::DTYPE, rows, said) })
    }
}

/// A [`Table`] that any number of threads can update and read at once, with "concurrent": true in its configuration.
///
/// No update is lost. The rows have the bits of the same batches one after the other, in the order of their steps.
///
/// ```
/// # use gradstep::{SharedTable, StepOptions};
/// # fn main() -> Result<(), gradstep::Error> {
/// let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.5},
///     "table": {"rows": 10, "width": 2, "concurrent": true}}"#;
/// let words = SharedTable::<f32>::new(config)?;
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| words.update(&[7i64], &[1.0, 2.0], &StepOptions::default()));
///     }
/// });
/// assert_eq!(words.row(7i64)?, [-2.0, -4.0]);
/// words.table().grow(20)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedTable<T: Element, K: RowKind = Numbered> {
    table: Table<T, K>,
}

// With "concurrent": true the library allows every function at once. Methods use the table only through `table()`, which
// copies the address of the handle.
unsafe impl<T: Element, K: RowKind> Sync for SharedTable<T, K> {}

impl<T: Element, K: RowKind> SharedTable<T, K> {
    /// Makes a table as [`Table::new`]. Without "concurrent": true, or with "catch_up": "replay", the code of the error is
    /// `Code::BadConfig`.
    pub fn new(config: &str) -> Result<Self, Error> {
        let table = Table::new(config)?;
        if !table.describe()?.concurrent {
            let sentence = format!("{}.concurrent: false; expected true, for a SharedTable", K::KEY);
            return Err(Error::new(Code::BadConfig, sentence));
        }
        Ok(SharedTable { table })
    }

    /// Returns another owner of the same rows, for the functions that `SharedTable` does not have. Each thread can have its own.
    ///
    /// Except `update`, `update_bags` and the readers of rows, its functions wait until no call of other threads runs.
    pub fn table(&self) -> Table<T, K> {
        Table {
            handle: self.table.handle.clone(),
            width: self.table.width,
            of: PhantomData,
        }
    }

    /// Takes one step of the rows in `ids`, as [`Table::update`], while other threads can call the table.
    pub fn update<I: RowId>(&self, ids: &[I], gradients: &[T], options: &StepOptions) -> Result<(), Error> {
        self.table().update(ids, gradients, options)
    }

    /// The same for embedding bags, as [`Table::update_bags`].
    pub fn update_bags<I: RowId>(&self, bags: &Bags<T, I>, bag_rows: &[T], options: &StepOptions) -> Result<(), Error> {
        self.table().update_bags(bags, bag_rows, options)
    }

    /// Pools the rows of embedding bags, as [`Table::bags_into`], while other threads can call the table.
    pub fn bags_into<I: RowId>(&self, bags: &Bags<T, I>, out: &mut [T]) -> Result<(), Error> {
        self.table().bags_into(bags, out)
    }

    /// Copies rows, as [`Table::rows_into`], while other threads can call the table.
    pub fn rows_into<I: RowId>(&self, ids: &[I], out: &mut [T]) -> Result<(), Error> {
        self.table().rows_into(ids, out)
    }

    /// Copies rows in 8 bits, as [`Table::int8_rows_into`].
    pub fn int8_rows_into<I: RowId>(&self, ids: &[I], out: &mut [u8]) -> Result<(), Error> {
        self.table().int8_rows_into(ids, out)
    }

    /// Returns a copy of one row, as [`Table::row`].
    pub fn row<I: RowId>(&self, id: I) -> Result<Vec<T>, Error> {
        self.table().row(id)
    }
}
