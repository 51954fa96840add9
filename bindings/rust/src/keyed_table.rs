use crate::element::slice;
use crate::error::call;
use crate::ownership::{Owned, Ownership};
use crate::parameter::{name_of, new_slot};
use crate::table::{Keyed, SharedTable, Table};
use crate::{sys, Element, Error, RowId};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut};

/// A [`Table`] whose rows have 64-bit keys, such as hashed features. It admits keys, evicts rows, and sends changes to replicas.
///
/// The configuration has the key "keyed_table" instead of "table" (docs/how_to/rust.md#keyed-tables):
///
/// ```
/// # use gradstep::{KeyedTable, StepOptions};
/// # fn main() -> Result<(), gradstep::Error> {
/// let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.5},
///     "keyed_table": {"width": 2, "admit_after": 2}}"#;
/// let mut features = KeyedTable::<f32>::new(config)?;
/// for _ in 0..2 {
///     features.update(&[1u64 << 40], &[1.0, 2.0], &StepOptions::default())?; // the second step admits the key
/// }
/// assert_eq!(features.row(1u64 << 40)?, [-0.5, -1.0]);
/// assert_eq!(features.evict(|row| row.values()[0] < 0.0)?, 1);
/// # Ok(())
/// # }
/// ```
///
/// It has the methods of a [`Table`] except `set_rows`, `grow`, `append`, `keep` and `permute`. Keys are `u64`, or `i64` with the
/// same bits. For other types the code of the error is `Code::BadValue`.
pub type KeyedTable<T, O = Owned> = Table<T, Keyed, O>;

/// A [`KeyedTable`] that any number of threads can update and read at once: a [`SharedTable`] of rows with keys.
pub type SharedKeyedTable<T> = SharedTable<T, Keyed>;

/// What [`KeyedTable::changed_since`] sends of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowContent {
    /// The values, for a replica that only reads.
    Values = sys::GRADSTEP_CHANGES_VALUES as isize,
    /// Also the state, for a replica that trains.
    State = sys::GRADSTEP_CHANGES_STATE as isize,
    /// The values in 8 bits, as [`Table::int8_rows_into`], for a replica that only reads.
    Int8 = sys::GRADSTEP_CHANGES_INT8 as isize,
}

/// The counts that [`KeyedTable::counts`] returns, since the table was made. A checkpoint contains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyCounts {
    /// The number of new rows.
    pub admitted: u64,
    /// The number of gradient rows that were dropped because their key was not admitted yet.
    pub turned_away: u64,
    /// The number of gradient rows that were dropped because the table had "max_rows" rows.
    pub no_room: u64,
    /// The number of gradient rows that "on_nonfinite": "skip" left out.
    pub skipped: u64,
    /// The number of evicted rows.
    pub evicted: u64,
}

/// A row as [`KeyedTable::evict`] and [`KeyedTable::evict_to_by`] pass it to your function, with all pending steps applied.
pub struct KeyedRow<'a, T: Element> {
    c: &'a sys::gradstep_row,
    slots: &'a [SlotOf],
    of: PhantomData<&'a [T]>,
}

/// The number of elements of a slot of the state in a row, and its name.
type SlotOf = (usize, String);

impl<'a, T: Element> KeyedRow<'a, T> {
    /// Returns the key.
    pub fn key(&self) -> u64 {
        self.c.key
    }
    /// Returns the number of steps since the last step that contained the row; 0 with "last_touches": false.
    pub fn age(&self) -> u32 {
        self.c.age
    }
    /// Returns the number of steps that contained the row; 0 without "touch_counts": true.
    pub fn touch_count(&self) -> u32 {
        self.c.touch_count
    }
    /// Returns the values.
    pub fn values(&self) -> &'a [T] {
        unsafe { slice(self.c.values.cast(), self.c.width as usize) }
    }
    /// Returns a slot of the state by its name, such as "m" or "average": `width` elements, or one if the rule has one for each
    /// row. `None` if there is no slot of this name.
    pub fn state(&self, name: &str) -> Option<&'a [T::State]> {
        let index = self.slots.iter().position(|slot| slot.1 == name)?;
        let all = unsafe { slice(self.c.state, self.c.slots as usize) };
        let data = all.get(index)?;
        Some(unsafe { slice(data.cast(), self.slots[index].0) })
    }
}

impl<T: Element> fmt::Debug for KeyedRow<'_, T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("KeyedRow")
            .field("key", &self.key())
            .field("age", &self.age())
            .field("touch_count", &self.touch_count())
            .field("values", &self.values())
            .finish()
    }
}

/// A function of the program that judges rows while C calls it.
struct Judge<F, R> {
    f: F,
    slots: Vec<SlotOf>,
    after_panic: R,
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn judge_row<T, R, F>(host: *mut c_void, row: *const sys::gradstep_row) -> R
where
    T: Element,
    R: Copy,
    F: FnMut(&KeyedRow<'_, T>) -> R,
{
    let judge = &mut *host.cast::<Judge<F, R>>();
    if judge.panic.is_some() {
        return judge.after_panic;
    }
    let row = KeyedRow {
        c: &*row,
        slots: &judge.slots,
        of: PhantomData,
    };
    // A panic must not reach C. It goes on when C has returned.
    catch_unwind(AssertUnwindSafe(|| (judge.f)(&row))).unwrap_or_else(|panic| {
        judge.panic = Some(panic);
        judge.after_panic
    })
}

impl<T: Element, O: Ownership> KeyedTable<T, O> {
    /// Returns whether the key has a row.
    pub fn contains(&self, key: u64) -> Result<bool, Error> {
        let mut contains = 0;
        call(|said| unsafe { sys::gradstep_table_contains(self.c(), key, &mut contains, said) })?;
        Ok(contains != 0)
    }

    /// Returns the keys that have rows. Evictions change their order. `iter_keys` needs less memory.
    pub fn keys(&self) -> Result<Vec<u64>, Error> {
        let (mut keys, mut written) = (vec![0; self.describe()?.rows + 1], 0);
        loop {
            let room = keys.len();
            let to = keys.as_mut_ptr();
            call(|said| unsafe { sys::gradstep_table_keys(self.c(), 0, to, room as u64, &mut written, said) })?;
            if (written as usize) < room {
                keys.truncate(written as usize);
                return Ok(keys);
            }
            keys.resize(2 * room, 0); // another thread has added rows
        }
    }

    /// Returns an iterator over the keys that have rows, which asks the library for a thousand at a time. Meanwhile you can read the
    /// table, but not change it:
    ///
    /// ```
    /// # use gradstep::{Error, KeyedTable};
    /// # fn sum_of_weights(features: &KeyedTable<f32>) -> Result<f32, Error> {
    /// features.iter_keys().map(|key| Ok(features.row(key?)?[0])).sum()
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0502
    /// # use gradstep::{Error, KeyedTable};
    /// # fn forget(features: &mut KeyedTable<f32>) -> Result<(), Error> {
    /// for key in features.iter_keys() {
    ///     features.reset(&[key?])?; // cannot borrow `*features` as mutable because it is also borrowed as immutable
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// After an error it ends. If other owners of a [`SharedKeyedTable`] evict rows meanwhile, keys can be left out or come twice.
    pub fn iter_keys(&self) -> impl Iterator<Item = Result<u64, Error>> + '_ {
        const PAGE: usize = 1024;
        let (mut page, mut at, mut first) = (Vec::new(), 0, 0);
        std::iter::from_fn(move || {
            if at == page.len() && (first == 0 || at == PAGE) {
                let mut written = 0;
                page.resize(PAGE, 0);
                let done = call(|said| unsafe {
                    sys::gradstep_table_keys(self.c(), first, page.as_mut_ptr(), PAGE as u64, &mut written, said)
                });
                page.truncate(written as usize);
                (at, first) = (0, first + PAGE as u64);
                if let Err(failed) = done {
                    return Some(Err(failed));
                }
            }
            let key = page.get(at).copied().map(Ok);
            at += usize::from(key.is_some());
            key
        })
    }

    /// Returns the numbers of rows that were admitted, turned away and evicted.
    pub fn counts(&self) -> Result<KeyCounts, Error> {
        let mut now = sys::gradstep_key_counts {
            struct_size: std::mem::size_of::<sys::gradstep_key_counts>() as u32,
            reserved: 0,
            admitted: 0,
            turned_away: 0,
            no_room: 0,
            skipped: 0,
            evicted: 0,
        };
        call(|said| unsafe { sys::gradstep_table_key_counts(self.c(), &mut now, said) })?;
        Ok(KeyCounts {
            admitted: now.admitted,
            turned_away: now.turned_away,
            no_room: now.no_room,
            skipped: now.skipped,
            evicted: now.evicted,
        })
    }

    /// Allocates memory for this many rows in total. Steps allocate none until the table has them.
    pub fn reserve(&mut self, rows: usize) -> Result<(), Error> {
        call(|said| unsafe { sys::gradstep_table_reserve(self.c(), rows as u64, said) })
    }

    /// Protects the rows of keys from eviction, for example between a read and the update that depends on it. Each `hold` needs
    /// one `unhold`.
    pub fn hold<I: RowId>(&mut self, keys: &[I]) -> Result<(), Error> {
        let (names, count) = (keys.as_ptr().cast(), keys.len() as u64);
        call(|said| unsafe { sys::gradstep_table_hold(self.c(), names, I::DTYPE, count, said) })
    }

    /// Ends the protection of one `hold` of these keys.
    pub fn unhold<I: RowId>(&mut self, keys: &[I]) -> Result<(), Error> {
        let (names, count) = (keys.as_ptr().cast(), keys.len() as u64);
        call(|said| unsafe { sys::gradstep_table_unhold(self.c(), names, I::DTYPE, count, said) })
    }

    /// Evicts the rows whose last step was before `step`, and returns their number.
    pub fn evict_older_than(&mut self, step: i64) -> Result<usize, Error> {
        let mut evicted = 0;
        call(|said| unsafe { sys::gradstep_table_evict_older_than(self.c(), step, &mut evicted, said) })?;
        Ok(evicted as usize)
    }

    /// Evicts the least recently updated rows until there are at most `rows`, and returns the number of evicted rows.
    pub fn evict_to(&mut self, rows: usize) -> Result<usize, Error> {
        let (rows, mut evicted) = (rows as u64, 0);
        call(|said| unsafe { sys::gradstep_table_evict_to(self.c(), rows, None, null_mut(), &mut evicted, said) })?;
        Ok(evicted as usize)
    }

    /// Evicts the rows with the lowest `score(row)` until there are at most `rows`, and returns the number of evicted rows.
    ///
    /// If a score is NaN, the code of the error is `Code::BadValue` and nothing is evicted. `score` must not use the table. If it
    /// panics, nothing is evicted and the panic goes on.
    pub fn evict_to_by(&mut self, rows: usize, score: impl FnMut(&KeyedRow<'_, T>) -> f64) -> Result<usize, Error> {
        let c = self.c();
        self.judge(score, f64::NAN, |score, host, evicted, said| unsafe {
            sys::gradstep_table_evict_to(c, rows as u64, Some(score), host, evicted, said)
        })
    }

    /// Evicts the rows for which `chosen(row)` is true, and returns their number. Rows that are held stay.
    ///
    /// `chosen` must not use the table. If it panics, nothing is evicted and the panic goes on.
    pub fn evict(&mut self, mut chosen: impl FnMut(&KeyedRow<'_, T>) -> bool) -> Result<usize, Error> {
        let c = self.c();
        self.judge(
            |row| i32::from(chosen(row)),
            -1,
            |test, host, evicted, said| unsafe { sys::gradstep_table_evict(c, Some(test), host, evicted, said) },
        )
    }

    /// Calls a function of C that passes rows to `f`. It gets `after_panic` for the rows after a panic.
    fn judge<R: Copy, F: FnMut(&KeyedRow<'_, T>) -> R>(
        &mut self,
        f: F,
        after_panic: R,
        evict: impl FnOnce(
            unsafe extern "C" fn(*mut c_void, *const sys::gradstep_row) -> R,
            *mut c_void,
            *mut u64,
            *mut sys::gradstep_error,
        ) -> sys::gradstep_status,
    ) -> Result<usize, Error> {
        let mut judge = Judge {
            f,
            slots: self.slots()?,
            after_panic,
            panic: None,
        };
        let (host, mut evicted) = (&mut judge as *mut Judge<F, R>, 0);
        let done = call(|said| evict(judge_row::<T, R, F>, host.cast(), &mut evicted, said));
        if let Some(panic) = judge.panic {
            resume_unwind(panic);
        }
        done.map(|_| evicted as usize)
    }

    /// The slots of a row.
    fn slots(&self) -> Result<Vec<SlotOf>, Error> {
        let mut count = 0;
        call(|said| unsafe { sys::gradstep_table_slot_count(self.c(), &mut count, said) })?;
        (0..count)
            .map(|index| {
                let mut info = new_slot();
                call(|said| unsafe { sys::gradstep_table_slot(self.c(), index, &mut info, said) })?;
                Ok((info.count as usize, name_of(&info)))
            })
            .collect()
    }

    /// Returns the rows that `step` and later steps have updated or evicted, as bytes for a replica.
    ///
    /// If the table no longer knows all evictions since `step`, the code of the error is `Code::BadValue`: then send the bytes of
    /// `changed_since(0, ..)` or of `save`.
    pub fn changed_since(&mut self, step: i64, content: RowContent) -> Result<Vec<u8>, Error> {
        let (mut bytes, mut data, mut size) = (null_mut(), null(), 0);
        call(|said| unsafe { sys::gradstep_table_changed_since(self.c(), step, content as i32, &mut bytes, said) })?;
        let viewed = call(|said| unsafe { sys::gradstep_bytes_view(bytes, &mut data, &mut size, said) });
        let out = viewed.map(|_| unsafe { slice(data.cast(), size as usize) }.to_vec());
        unsafe { sys::gradstep_bytes_release(bytes) }
        out
    }

    /// Applies the bytes of `changed_since` of another table with the same configuration. After an error the table is unchanged.
    pub fn apply_changes(&mut self, changes: &[u8]) -> Result<(), Error> {
        let (data, bytes) = (changes.as_ptr().cast(), changes.len() as u64);
        call(|said| unsafe { sys::gradstep_table_apply_changes(self.c(), data, bytes, said) })
    }
}
