//! Runs optimizer steps (Adam, FTRL and many more) by the C library of gradstep.
//!
//! A JSON string, the configuration, describes an optimizer. `docs/reference/configuration_keys.md` lists its keys:
//!
//! ```
//! use gradstep::{Parameter, StepOptions};
//!
//! # fn main() -> Result<(), gradstep::Error> {
//! let adam_w = r#"{
//!     "rule": {"name": "adam"},
//!     "regularizer": {"name": "decoupled", "rate": 0.01},
//!     "schedule": {"name": "constant", "rate": 0.001}
//! }"#;
//! let mut weights = Parameter::new(adam_w, &[1.0f32, -1.0])?; // fails for example with "rule.beta1: 1.5 is out of range; expected [0, 1)"
//! weights.update(&[0.5, 0.25], &StepOptions::default())?;
//! assert!(weights.values()?[0] < 1.0);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Parameter`] owns values, state and clock. [`update_all`] updates several parameters, each with its own optimizer, in one
//! call. An [`Updater`] updates values and state in your own memory. A [`Table`] has rows, of which a step updates some.
//! In a [`KeyedTable`] the rows have 64-bit keys. A [`Server`] keeps tables and parameters for [`Worker`]s on other machines.
//!
//! You can send objects to other threads (`Send`), but only one thread can use an object at a time, except a [`SharedTable`] and a
//! [`SharedWorker`].
//! A failed call changes nothing, unless the documentation of the function says otherwise.
#![warn(missing_docs)]

mod callbacks;
mod element;
mod error;
mod executor;
mod files;
mod gradients;
mod hash;
mod keyed_table;
mod ownership;
mod parameter;
mod server;
mod step;
#[allow(missing_docs)]
pub mod sys;
mod table;
mod text;
mod transport;
mod updater;
mod worker;

pub use element::{BFloat16, Element, Float16, RowId, Values};
pub use error::{Code, Error};
pub use executor::{Executor, Work};
pub use files::{file_names, load_file, load_file_with, save_file, LoadOptions, LoadReport};
pub use gradients::{first_nonfinite, global_norm, NonFinite};
pub use hash::{hash_integers, hash_texts};
pub use keyed_table::{KeyCounts, KeyedRow, KeyedTable, RowContent, SharedKeyedTable};
pub use ownership::{Borrowed, Owned, Ownership};
pub use parameter::{ascend_all, descend_all, update_all, AnyParameter, Parameter, Slot, Update};
pub use server::{Message, Server, ServerInfo, ServerView};
pub use step::{Clock, SamOptions, StepOptions, TensorOptions};
pub use table::{Bags, Keyed, Numbered, RowKind, SharedTable, Table, TableInfo};
pub use text::{canonical_config, simd_level, version};
pub use transport::Transport;
pub use updater::{State, Step, Tensor, Updater};
pub use worker::{Geo, SharedWorker, Worker, WorkerInfo, WorkerOptions};
