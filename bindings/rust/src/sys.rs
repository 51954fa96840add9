//! The declarations of gradstep/c/gradstep.h, whose comments document each function. `tests/header.rs` compares them with the
//! header.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_void};

pub type gradstep_status = i32;

pub const GRADSTEP_ABI_MAJOR: i32 = 0;
pub const GRADSTEP_ABI_MINOR: i32 = 4;

pub const GRADSTEP_OK: i32 = 0;
pub const GRADSTEP_NULL_ARGUMENT: i32 = -1;
pub const GRADSTEP_BAD_HANDLE: i32 = -2;
pub const GRADSTEP_BAD_CONFIG: i32 = -3;
pub const GRADSTEP_NOT_COMPILED: i32 = -4;
pub const GRADSTEP_UNSUPPORTED_TYPE: i32 = -5;
pub const GRADSTEP_BAD_SIZE: i32 = -6;
pub const GRADSTEP_BAD_BUFFER: i32 = -7;
pub const GRADSTEP_BAD_VALUE: i32 = -8;
pub const GRADSTEP_NOT_FINITE: i32 = -9;
pub const GRADSTEP_BAD_SEQUENCE: i32 = -10;
pub const GRADSTEP_OUT_OF_MEMORY: i32 = -11;
pub const GRADSTEP_IO_ERROR: i32 = -12;
pub const GRADSTEP_EXECUTOR_FAILED: i32 = -13;
pub const GRADSTEP_INTERNAL_ERROR: i32 = -14;
pub const GRADSTEP_RANK_FAILED: i32 = -15;

pub const GRADSTEP_INT32: i32 = 0;
pub const GRADSTEP_UINT32: i32 = 1;
pub const GRADSTEP_INT64: i32 = 2;
pub const GRADSTEP_UINT64: i32 = 3;
pub const GRADSTEP_FLOAT32: i32 = 4;
pub const GRADSTEP_FLOAT64: i32 = 5;
pub const GRADSTEP_FLOAT16: i32 = 6;
pub const GRADSTEP_BFLOAT16: i32 = 7;

pub const GRADSTEP_GIVEN_RATE: i32 = 1;
pub const GRADSTEP_GIVEN_EPOCH: i32 = 2;
pub const GRADSTEP_GIVEN_LOSS: i32 = 4;

pub const GRADSTEP_MISSING_ERROR: i32 = 0;
pub const GRADSTEP_MISSING_KEEP: i32 = 1;
pub const GRADSTEP_UNEXPECTED_ERROR: i32 = 0;
pub const GRADSTEP_UNEXPECTED_IGNORE: i32 = 1;
pub const GRADSTEP_ROWS_ERROR: i32 = 0;
pub const GRADSTEP_ROWS_RESIZE: i32 = 1;
pub const GRADSTEP_LOADED: i32 = 0;
pub const GRADSTEP_KEPT: i32 = 1;
pub const GRADSTEP_RESIZED: i32 = 2;

pub const GRADSTEP_FEATURE_ROWS: i32 = 1;
pub const GRADSTEP_FEATURE_FILES: i32 = 2;
pub const GRADSTEP_FEATURE_COMPRESSION: i32 = 4;
pub const GRADSTEP_FEATURE_CATCH_UP: i32 = 8;
pub const GRADSTEP_FEATURE_TABLES: i32 = 16;
pub const GRADSTEP_FEATURE_SERVERS: i32 = 32;

#[repr(C)]
pub struct gradstep_error {
    pub struct_size: u32,
    pub code: i32,
    pub message: [c_char; 240],
    pub system_code: i32,
}

#[repr(C)]
pub struct gradstep_slot {
    pub struct_size: u32,
    pub dtype: i32,
    pub name: [c_char; 32],
    pub count: u64,
}

#[repr(C)]
pub struct gradstep_step_options {
    pub struct_size: u32,
    pub reserved: i32,
    pub gradient_scale: f64,
    pub rate_scale: f64,
    pub rate: f64,
    pub samples: i64,
    pub epoch: i64,
    pub zero_gradient: i32,
    pub reserved_too: i32,
    pub given: u32,
    pub reserved_last: u32,
    pub loss: f64,
}

#[repr(C)]
pub struct gradstep_tensor_options {
    pub struct_size: u32,
    pub reserved: i32,
    pub rate_scales: *const f64,
    pub decays: *const f64,
    pub steps: *const i64,
    pub ids: *const u64,
}

#[repr(C)]
pub struct gradstep_sam_options {
    pub struct_size: u32,
    pub adaptive: i32,
    pub rho: f64,
    pub eta: f64,
    pub epsilon: f64,
}

#[repr(C)]
pub struct gradstep_load_options {
    pub struct_size: u32,
    pub missing: i32,
    pub unexpected: i32,
    pub rows: i32,
    pub renamed_count: u64,
    pub renamed_from: *const *const c_char,
    pub renamed_to: *const *const c_char,
}

pub const GRADSTEP_BAG_SUM: i32 = 0;
pub const GRADSTEP_BAG_MEAN: i32 = 1;
pub const GRADSTEP_CHANGES_VALUES: i32 = 0;
pub const GRADSTEP_CHANGES_STATE: i32 = 1;
pub const GRADSTEP_CHANGES_INT8: i32 = 2;

#[repr(C)]
pub struct gradstep_bag_options {
    pub struct_size: u32,
    pub mode: i32,
    pub weights: *const c_void,
}

#[repr(C)]
pub struct gradstep_clock {
    pub struct_size: u32,
    pub reserved: i32,
    pub step: i64,
    pub samples: i64,
    pub epoch: i64,
    pub state: [f64; 4],
}

#[repr(C)]
pub struct gradstep_table_info {
    pub struct_size: u32,
    pub dtype: i32,
    pub state_dtype: i32,
    pub concurrent: i32,
    pub num_rows: u64,
    pub width: u64,
    pub skipped: u64,
    pub keyed: i32,
    pub reserved: i32,
}

#[repr(C)]
pub struct gradstep_key_counts {
    pub struct_size: u32,
    pub reserved: i32,
    pub admitted: u64,
    pub turned_away: u64,
    pub no_room: u64,
    pub skipped: u64,
    pub evicted: u64,
}

#[repr(C)]
pub struct gradstep_row {
    pub struct_size: u32,
    pub age: u32,
    pub touch_count: u32,
    pub reserved: u32,
    pub key: u64,
    pub width: u64,
    pub values: *const c_void,
    pub slots: u64,
    pub state: *const *const c_void,
}

#[repr(C)]
pub struct gradstep_transport {
    pub struct_size: u32,
    pub rank: i32,
    pub ranks: i32,
    pub concurrent: i32,
    pub timeout_ms: i64,
    pub send: gradstep_send,
    pub receive: gradstep_receive,
    pub host: *mut c_void,
}

#[repr(C)]
pub struct gradstep_server_info {
    pub struct_size: u32,
    pub finished: i32,
    pub tensors: u64,
    pub pushes: u64,
    pub staleness: f64,
}

#[repr(C)]
pub struct gradstep_message {
    pub struct_size: u32,
    pub to: i32,
    pub bytes: *const c_void,
    pub size: u64,
}

#[repr(C)]
pub struct gradstep_worker_options {
    pub struct_size: u32,
    pub num_servers: i32,
    pub max_in_flight: u64,
    pub max_kept: u64,
    pub check_elements: i32,
    pub job: u32,
}

#[repr(C)]
pub struct gradstep_worker_info {
    pub struct_size: u32,
    pub stopped: i32,
    pub workers: u64,
    pub position: u64,
    pub applied: u64,
    pub durable: u64,
}

#[repr(C)]
pub struct gradstep_parameter {
    _private: [u8; 0],
}
#[repr(C)]
pub struct gradstep_table {
    _private: [u8; 0],
}
#[repr(C)]
pub struct gradstep_bytes {
    _private: [u8; 0],
}
#[repr(C)]
pub struct gradstep_updater {
    _private: [u8; 0],
}
#[repr(C)]
pub struct gradstep_executor {
    _private: [u8; 0],
}
#[repr(C)]
pub struct gradstep_inbox {
    _private: [u8; 0],
}
#[repr(C)]
pub struct gradstep_server {
    _private: [u8; 0],
}
#[repr(C)]
pub struct gradstep_worker {
    _private: [u8; 0],
}
#[repr(C)]
pub struct gradstep_geo {
    _private: [u8; 0],
}

pub type gradstep_work = Option<unsafe extern "C" fn(task: *mut c_void, part: u64)>;
pub type gradstep_run =
    Option<unsafe extern "C" fn(host: *mut c_void, parts: u64, work: gradstep_work, task: *mut c_void)>;
pub type gradstep_row_test = Option<unsafe extern "C" fn(host: *mut c_void, row: *const gradstep_row) -> i32>;
pub type gradstep_row_score = Option<unsafe extern "C" fn(host: *mut c_void, row: *const gradstep_row) -> f64>;
pub type gradstep_send =
    Option<unsafe extern "C" fn(host: *mut c_void, to: i32, bytes: *const c_void, size: u64) -> i32>;
pub type gradstep_receive =
    Option<unsafe extern "C" fn(host: *mut c_void, milliseconds: i64, inbox: *mut gradstep_inbox) -> i32>;
pub type gradstep_task =
    Option<unsafe extern "C" fn(host: *mut c_void, server: *mut gradstep_server, reason: *mut gradstep_error) -> i32>;

extern "C" {
    pub fn gradstep_abi_version() -> u32;
    pub fn gradstep_version() -> *const c_char;
    pub fn gradstep_features() -> u64;
    pub fn gradstep_simd_level() -> *const c_char;
    pub fn gradstep_config_canonical(
        config: *const c_char,
        config_bytes: usize,
        buffer: *mut c_char,
        bytes: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_config_check_change(
        before: *const c_char,
        before_bytes: usize,
        now: *const c_char,
        now_bytes: usize,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_executor_from_callback(
        concurrency: u64,
        run: gradstep_run,
        host: *mut c_void,
        out: *mut *mut gradstep_executor,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_executor_release(executor: *mut gradstep_executor);
    pub fn gradstep_parameter_set_executor(
        parameter: *mut gradstep_parameter,
        executor: *mut gradstep_executor,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_set_executor(
        updater: *mut gradstep_updater,
        executor: *mut gradstep_executor,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_create(
        config: *const c_char,
        config_bytes: usize,
        dtype: i32,
        initial: *const c_void,
        rows: u64,
        width: u64,
        out: *mut *mut gradstep_parameter,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_update(
        parameter: *mut gradstep_parameter,
        gradient: *const c_void,
        count: u64,
        options: *const gradstep_step_options,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_update_rows(
        parameter: *mut gradstep_parameter,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        gradient_rows: *const c_void,
        count: u64,
        options: *const gradstep_step_options,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameters_ascend(
        parameters: *const *mut gradstep_parameter,
        gradients: *const *const c_void,
        counts: *const u64,
        n: u64,
        options: *const gradstep_sam_options,
        norm: *mut f64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameters_descend(
        parameters: *const *mut gradstep_parameter,
        gradients: *const *const c_void,
        counts: *const u64,
        n: u64,
        options: *const gradstep_step_options,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_set_bfloat16_copy(
        parameter: *mut gradstep_parameter,
        memory: *mut u16,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameters_update(
        parameters: *const *mut gradstep_parameter,
        gradients: *const *const c_void,
        counts: *const u64,
        n: u64,
        options: *const gradstep_step_options,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_values(
        parameter: *mut gradstep_parameter,
        data: *mut *const c_void,
        count: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_set_values(
        parameter: *mut gradstep_parameter,
        values: *const c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_append(
        parameter: *mut gradstep_parameter,
        values: *const c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_keep(
        parameter: *mut gradstep_parameter,
        mask: *const u8,
        rows: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_permute(
        parameter: *mut gradstep_parameter,
        order: *const c_void,
        id_dtype: i32,
        rows: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_reset(
        parameter: *mut gradstep_parameter,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_row(
        parameter: *mut gradstep_parameter,
        id: i64,
        out: *mut c_void,
        width: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_rows(
        parameter: *mut gradstep_parameter,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        out: *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_flush(parameter: *mut gradstep_parameter, error: *mut gradstep_error) -> gradstep_status;
    pub fn gradstep_parameter_slot_count(
        parameter: *const gradstep_parameter,
        count: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_slot(
        parameter: *mut gradstep_parameter,
        index: u64,
        info: *mut gradstep_slot,
        data: *mut *const c_void,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_set_shape(
        parameter: *mut gradstep_parameter,
        extents: *const u64,
        dimensions: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_dtype(
        parameter: *const gradstep_parameter,
        dtype: *mut i32,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_clock(
        parameter: *const gradstep_parameter,
        clock: *mut gradstep_clock,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_seek(
        parameter: *mut gradstep_parameter,
        clock: *const gradstep_clock,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_config(
        parameter: *const gradstep_parameter,
        buffer: *mut c_char,
        bytes: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_set_numbers(
        parameter: *mut gradstep_parameter,
        paths: *const *const c_char,
        values: *const f64,
        n: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_average(
        parameter: *mut gradstep_parameter,
        out: *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_apply_average(
        parameter: *mut gradstep_parameter,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_restore(
        parameter: *mut gradstep_parameter,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_state_bytes(
        parameter: *mut gradstep_parameter,
        bytes: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_save(
        parameter: *mut gradstep_parameter,
        buffer: *mut c_void,
        bytes: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_load(
        parameter: *mut gradstep_parameter,
        buffer: *const c_void,
        bytes: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameters_save_file(
        parameters: *const *mut gradstep_parameter,
        names: *const *const c_char,
        n: u64,
        path: *const c_char,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameters_load_file(
        parameters: *const *mut gradstep_parameter,
        names: *const *const c_char,
        n: u64,
        path: *const c_char,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameters_check_names(
        parameters: *const *mut gradstep_parameter,
        names: *const *const c_char,
        n: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameters_set_names(
        parameters: *const *mut gradstep_parameter,
        names: *const *const c_char,
        n: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameters_load_file_with(
        parameters: *const *mut gradstep_parameter,
        names: *const *const c_char,
        n: u64,
        path: *const c_char,
        options: *const gradstep_load_options,
        outcomes: *mut i32,
        ignored: *mut c_char,
        ignored_bytes: u64,
        ignored_written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_file_names(
        path: *const c_char,
        buffer: *mut c_char,
        bytes: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_release(parameter: *mut gradstep_parameter);
    pub fn gradstep_parameter_message_bound(
        parameter: *const gradstep_parameter,
        bytes: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_compress(
        parameter: *mut gradstep_parameter,
        gradient: *const c_void,
        count: u64,
        options: *const gradstep_step_options,
        buffer: *mut c_void,
        bytes: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_parameter_apply_messages(
        parameter: *mut gradstep_parameter,
        messages: *const *const c_void,
        message_bytes: *const u64,
        n: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_create(
        config: *const c_char,
        config_bytes: usize,
        out: *mut *mut gradstep_table,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_config(
        table: *const gradstep_table,
        buffer: *mut c_char,
        bytes: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_describe(
        table: *const gradstep_table,
        info: *mut gradstep_table_info,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_slot_count(
        table: *const gradstep_table,
        count: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_slot(
        table: *const gradstep_table,
        index: u64,
        info: *mut gradstep_slot,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_set_executor(
        table: *mut gradstep_table,
        executor: *mut gradstep_executor,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_update(
        table: *mut gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        gradient_rows: *const c_void,
        count: u64,
        options: *const gradstep_step_options,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_update_bags(
        table: *mut gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        offsets: *const c_void,
        bag_count: u64,
        bag_rows: *const c_void,
        count: u64,
        bags: *const gradstep_bag_options,
        options: *const gradstep_step_options,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_bags(
        table: *const gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        offsets: *const c_void,
        bag_count: u64,
        bags: *const gradstep_bag_options,
        out: *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_rows(
        table: *const gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        out: *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_int8_rows(
        table: *const gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        out: *mut c_void,
        bytes: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_averages(
        table: *const gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        out: *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_apply_average(table: *mut gradstep_table, error: *mut gradstep_error) -> gradstep_status;
    pub fn gradstep_table_restore(table: *mut gradstep_table, error: *mut gradstep_error) -> gradstep_status;
    pub fn gradstep_table_set_rows(
        table: *mut gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        values: *const c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_reset(
        table: *mut gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_grow(
        table: *mut gradstep_table,
        num_rows: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_append(
        table: *mut gradstep_table,
        values: *const c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_keep(
        table: *mut gradstep_table,
        mask: *const u8,
        rows: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_permute(
        table: *mut gradstep_table,
        order: *const c_void,
        id_dtype: i32,
        rows: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_flush(table: *mut gradstep_table, error: *mut gradstep_error) -> gradstep_status;
    pub fn gradstep_table_clock(
        table: *const gradstep_table,
        clock: *mut gradstep_clock,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_seek(
        table: *mut gradstep_table,
        clock: *const gradstep_clock,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_state_bytes(
        table: *const gradstep_table,
        bytes: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_save(
        table: *const gradstep_table,
        buffer: *mut c_void,
        bytes: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_load(
        table: *mut gradstep_table,
        buffer: *const c_void,
        bytes: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_save_file(
        table: *const gradstep_table,
        path: *const c_char,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_load_file(
        table: *mut gradstep_table,
        path: *const c_char,
        options: *const gradstep_load_options,
        outcome: *mut i32,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_release(table: *mut gradstep_table);
    pub fn gradstep_table_contains(
        table: *const gradstep_table,
        key: u64,
        contains: *mut i32,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_keys(
        table: *const gradstep_table,
        first: u64,
        keys: *mut u64,
        count: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_key_counts(
        table: *const gradstep_table,
        counts: *mut gradstep_key_counts,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_reserve(table: *mut gradstep_table, rows: u64, error: *mut gradstep_error)
        -> gradstep_status;
    pub fn gradstep_table_hold(
        table: *mut gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_unhold(
        table: *mut gradstep_table,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_evict_older_than(
        table: *mut gradstep_table,
        step: i64,
        evicted: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_evict(
        table: *mut gradstep_table,
        test: gradstep_row_test,
        host: *mut c_void,
        evicted: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_evict_to(
        table: *mut gradstep_table,
        rows: u64,
        score: gradstep_row_score,
        host: *mut c_void,
        evicted: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_bytes_view(
        bytes: *const gradstep_bytes,
        data: *mut *const c_void,
        size: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_bytes_release(bytes: *mut gradstep_bytes);
    pub fn gradstep_table_changed_since(
        table: *mut gradstep_table,
        step: i64,
        content: i32,
        out: *mut *mut gradstep_bytes,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_table_apply_changes(
        table: *mut gradstep_table,
        changes: *const c_void,
        bytes: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_hash_texts(
        prefix: *const c_char,
        prefix_bytes: u64,
        texts: *const c_char,
        texts_bytes: u64,
        begins: *const u64,
        ends: *const u64,
        n: u64,
        keys: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_hash_integers(
        prefix: *const c_char,
        prefix_bytes: u64,
        integers: *const c_void,
        dtype: i32,
        n: u64,
        keys: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_inbox_allocate(inbox: *mut gradstep_inbox, from: i32, size: u64) -> *mut c_void;
    pub fn gradstep_server_create(
        config: *const c_char,
        config_bytes: usize,
        rank: i32,
        ranks: i32,
        out: *mut *mut gradstep_server,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_describe(
        server: *const gradstep_server,
        info: *mut gradstep_server_info,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_table(
        server: *mut gradstep_server,
        name: *const c_char,
        out: *mut *mut gradstep_table,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_parameter(
        server: *mut gradstep_server,
        name: *const c_char,
        out: *mut *mut gradstep_parameter,
        first: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_begin(
        server: *mut gradstep_server,
        count: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_handle(
        server: *mut gradstep_server,
        from: i32,
        bytes: *const c_void,
        size: u64,
        count: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_message(
        server: *const gradstep_server,
        index: u64,
        message: *mut gradstep_message,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_run(
        server: *mut gradstep_server,
        transport: *const gradstep_transport,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_after_every(
        server: *mut gradstep_server,
        pushes: u64,
        task: gradstep_task,
        host: *mut c_void,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_checkpoint(
        server: *mut gradstep_server,
        path: *const c_char,
        every: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_save_file(
        server: *mut gradstep_server,
        path: *const c_char,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_load_file(
        server: *mut gradstep_server,
        path: *const c_char,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_server_reopen(server: *mut gradstep_server, error: *mut gradstep_error) -> gradstep_status;
    pub fn gradstep_server_release(server: *mut gradstep_server);
    pub fn gradstep_worker_create(
        transport: *const gradstep_transport,
        options: *const gradstep_worker_options,
        out: *mut *mut gradstep_worker,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_worker_describe(
        worker: *const gradstep_worker,
        info: *mut gradstep_worker_info,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_worker_size(
        worker: *mut gradstep_worker,
        name: *const c_char,
        count: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_worker_pull(
        worker: *mut gradstep_worker,
        name: *const c_char,
        dtype: i32,
        out: *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_worker_pull_rows(
        worker: *mut gradstep_worker,
        name: *const c_char,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        dtype: i32,
        out: *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_worker_push(
        worker: *mut gradstep_worker,
        name: *const c_char,
        dtype: i32,
        gradient: *const c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_worker_push_rows(
        worker: *mut gradstep_worker,
        name: *const c_char,
        ids: *const c_void,
        id_dtype: i32,
        id_count: u64,
        dtype: i32,
        gradient_rows: *const c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_worker_barrier(worker: *mut gradstep_worker, error: *mut gradstep_error) -> gradstep_status;
    pub fn gradstep_worker_go_on_from(
        worker: *mut gradstep_worker,
        position: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_worker_stop(worker: *mut gradstep_worker, error: *mut gradstep_error) -> gradstep_status;
    pub fn gradstep_worker_release(worker: *mut gradstep_worker);
    pub fn gradstep_geo_create(
        worker: *mut gradstep_worker,
        name: *const c_char,
        parameter: *mut gradstep_parameter,
        out: *mut *mut gradstep_geo,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_geo_exchange(geo: *mut gradstep_geo, error: *mut gradstep_error) -> gradstep_status;
    pub fn gradstep_geo_release(geo: *mut gradstep_geo);
    pub fn gradstep_updater_create(
        config: *const c_char,
        config_bytes: usize,
        dtype: i32,
        out: *mut *mut gradstep_updater,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_slot_count(
        updater: *const gradstep_updater,
        count: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_slot(
        updater: *const gradstep_updater,
        index: u64,
        info: *mut gradstep_slot,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_slot_size(
        updater: *const gradstep_updater,
        index: u64,
        rows: u64,
        columns: u64,
        count: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_initialize(
        updater: *const gradstep_updater,
        parameter: *const c_void,
        slots: *const *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_initialize_matrix(
        updater: *const gradstep_updater,
        parameter: *const c_void,
        slots: *const *mut c_void,
        rows: u64,
        columns: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_weights_set(
        updater: *const gradstep_updater,
        parameter: *const c_void,
        slots: *const *mut c_void,
        rows: u64,
        columns: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_next_step(
        updater: *mut gradstep_updater,
        options: *const gradstep_step_options,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_clock(
        updater: *const gradstep_updater,
        clock: *mut gradstep_clock,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_seek(
        updater: *mut gradstep_updater,
        clock: *const gradstep_clock,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_set_numbers(
        updater: *mut gradstep_updater,
        paths: *const *const c_char,
        values: *const f64,
        n: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_config(
        updater: *const gradstep_updater,
        buffer: *mut c_char,
        bytes: u64,
        written: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_apply(
        updater: *const gradstep_updater,
        parameter: *mut c_void,
        gradient: *const c_void,
        slots: *const *mut c_void,
        count: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_apply_many(
        updater: *const gradstep_updater,
        parameters: *const *mut c_void,
        gradients: *const *const c_void,
        slots: *const *const *mut c_void,
        counts: *const u64,
        n: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_apply_matrices(
        updater: *const gradstep_updater,
        parameters: *const *mut c_void,
        gradients: *const *const c_void,
        slots: *const *const *mut c_void,
        rows: *const u64,
        columns: *const u64,
        n: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_apply_with(
        updater: *const gradstep_updater,
        parameters: *const *mut c_void,
        gradients: *const *const c_void,
        slots: *const *const *mut c_void,
        rows: *const u64,
        columns: *const u64,
        n: u64,
        options: *const gradstep_tensor_options,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updaters_settle(
        updaters: *const *mut gradstep_updater,
        parameters: *const *mut c_void,
        gradients: *const *const c_void,
        slots: *const *const *mut c_void,
        counts: *const u64,
        n: u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_global_norm(
        dtype: i32,
        gradients: *const *const c_void,
        counts: *const u64,
        n: u64,
        threads: *mut gradstep_executor,
        norm: *mut f64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_first_nonfinite(
        dtype: i32,
        gradients: *const *const c_void,
        counts: *const u64,
        n: u64,
        threads: *mut gradstep_executor,
        tensor: *mut u64,
        element: *mut u64,
        error: *mut gradstep_error,
    ) -> gradstep_status;
    pub fn gradstep_updater_release(updater: *mut gradstep_updater);
}
