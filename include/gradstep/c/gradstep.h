/* gradstep for C, and for every language that can call C. C99 and C++. docs/how_to/c.md is the guide,
 * docs/reference/compiled_combinations.md lists the policies. One file, as bindings expect.
 *
 * A function that can fail returns 0 or a negative gradstep_status_code. On failure it writes
 * the code and a message to the gradstep_error argument (NULL is allowed). Unless its comment
 * says otherwise, a failed call changes nothing. No function throws, prints or ends the program.
 *
 * Counts are numbers of elements, unless the name says bytes. The library does not keep your
 * memory after a call returns, unless a comment says so. Handles are not thread-safe. Different
 * handles can be used from different threads.
 *
 * A JSON string, the configuration, describes an optimizer (docs/reference/configuration_keys.md
 * documents every key):
 *
 *     {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}}
 *
 * You can add these keys. Their default values are:
 *
 *     "element": "plain"        "mixed" (float16, bfloat16: a master copy in float32) or
 *                               "stochastic" (rounded at random)
 *     "threads": 1              the threads of an update; 0: one per core that the process may use;
 *                               in a process that runs OpenMP, its threads, else a pool of the library
 *     "clip": {"name": "none"}  {"name": "clip_norm", "limit": 1}, "clip_global_norm", "clip_value",
 *                               or {"name": "clip_adaptive", "ratio": 0.01}: clips gradients
 *     "on_nonfinite": "propagate"
 *                               "skip": a gradient with NaN or infinity does not change its parameter
 *                               or tensor; "raise": the call fails before anything is written
 *     "seed": 0, "id": 0        for random numbers (stochastic rounding, noise, sampled dgc_momentum):
 *                               of the run, and of this parameter in a model
 */
#ifndef GRADSTEP_C_GRADSTEP_H
#define GRADSTEP_C_GRADSTEP_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define GRADSTEP_API
#else
#define GRADSTEP_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI version that a program was compiled with. A library of the same major version and the
 * same or a later minor one has all of this header. The major number is part of the SONAME. */
#define GRADSTEP_ABI_MAJOR 0
#define GRADSTEP_ABI_MINOR 4

typedef int32_t gradstep_status;
enum gradstep_status_code {
    GRADSTEP_OK = 0,
    GRADSTEP_NULL_ARGUMENT = -1, /* a required pointer (or one in an array) is NULL; allowed if the count is 0 */
    GRADSTEP_BAD_HANDLE = -2,    /* a released handle, or a handle of another kind */
    GRADSTEP_BAD_CONFIG = -3,   /* invalid JSON, an unknown key, a number out of range: the message contains the path */
    GRADSTEP_NOT_COMPILED = -4, /* the library does not contain this combination: the message has the closest ones */
    GRADSTEP_UNSUPPORTED_TYPE = -5, /* not a dtype, or a dtype that the rule does not support */
    GRADSTEP_BAD_SIZE = -6,         /* a wrong count */
    GRADSTEP_BAD_BUFFER = -7,       /* misaligned, or overlapping another buffer */
    GRADSTEP_BAD_VALUE = -8,        /* a number or an id out of range, or the state of another object */
    GRADSTEP_NOT_FINITE = -9,       /* a gradient contains NaN or infinity, and on_nonfinite is "raise" */
    GRADSTEP_BAD_SEQUENCE = -10,    /* a call in the wrong order */
    GRADSTEP_OUT_OF_MEMORY = -11,
    GRADSTEP_IO_ERROR = -12,        /* the system could not read or write a file */
    GRADSTEP_EXECUTOR_FAILED = -13, /* your pool did not run every part once, or no more threads exist */
    GRADSTEP_INTERNAL_ERROR = -14,  /* a bug: please report it */
    GRADSTEP_RANK_FAILED = -15 /* another rank does not answer, or your transport failed; since ABI 0.4 */
};

/* The types of elements in memory. */
enum gradstep_dtype {
    GRADSTEP_INT32 = 0, /* integers: only with rule add_delta, whose arithmetic wraps around; and for row ids */
    GRADSTEP_UINT32 = 1,
    GRADSTEP_INT64 = 2,
    GRADSTEP_UINT64 = 3,
    GRADSTEP_FLOAT32 = 4,
    GRADSTEP_FLOAT64 = 5,
    GRADSTEP_FLOAT16 = 6,
    GRADSTEP_BFLOAT16 = 7
};

/* An error. Every structure begins with its size in the caller's header, so that older programs
 * keep working. GRADSTEP_..._INIT sets the size, and other members to their defaults. */
typedef struct gradstep_error {
    uint32_t struct_size; /* 0 counts as sizeof(gradstep_error) of ABI 0.1 */
    int32_t code;         /* enum gradstep_status_code */
    char message[240];    /* UTF-8, ends with 0; "" if there was no error */
    int32_t system_code; /* GRADSTEP_IO_ERROR: the errno of the system call that failed, 0 if none did; since ABI 0.2 */
} gradstep_error;
#define GRADSTEP_ERROR_INIT                                                                                            \
    { sizeof(gradstep_error), 0, {0}, 0 }

/* Describes one array of an optimizer's state. */
typedef struct gradstep_slot {
    uint32_t struct_size;
    int32_t dtype;  /* enum gradstep_dtype */
    char name[32];  /* "m", "v", "master", ... */
    uint64_t count; /* elements; of an updater: 1 if one number per tensor, else 0: see gradstep_updater_slot_size */
} gradstep_slot;
#define GRADSTEP_SLOT_INIT                                                                                             \
    { sizeof(gradstep_slot), 0, {0}, 0 }

/* The flags whose sum is gradstep_step_options.given. */
enum gradstep_given { GRADSTEP_GIVEN_RATE = 1, GRADSTEP_GIVEN_EPOCH = 2, GRADSTEP_GIVEN_LOSS = 4 };

/* Options of a single step. NULL: the defaults.
 *
 *     gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT;
 *     options.rate = 0.01, options.given |= GRADSTEP_GIVEN_RATE;
 *
 * A rate, an epoch or a loss without its flag must be as in GRADSTEP_STEP_OPTIONS_INIT. With the
 * header of ABI 0.1 there are no flags: a rate of NaN and a negative epoch mean "not given". */
typedef struct gradstep_step_options {
    uint32_t struct_size;
    int32_t reserved;      /* 0 */
    double gradient_scale; /* multiplies every gradient as it is read; finite */
    double rate_scale;     /* multiplies the learning rate; finite, >= 0 */
    double rate; /* with GRADSTEP_GIVEN_RATE: the learning rate of this step instead of the schedule's; finite, >= 0 */
    int64_t samples;        /* the samples of this step: the clock advances by it; >= 0 */
    int64_t epoch;          /* with GRADSTEP_GIVEN_EPOCH: the clock's epoch from this step on, >= 0; else unchanged */
    int32_t zero_gradient;  /* 1: sets every gradient to zero after reading it; the gradient must then be writable */
    int32_t reserved_too;   /* 0 */
    uint32_t given;         /* the sum of the gradstep_given flags; since ABI 0.2 */
    uint32_t reserved_last; /* 0 */
    double loss; /* with GRADSTEP_GIVEN_LOSS: the loss of this step, for rules that need it; finite; since ABI 0.3 */
} gradstep_step_options;
#define GRADSTEP_STEP_OPTIONS_INIT                                                                                     \
    { sizeof(gradstep_step_options), 0, 1.0, 1.0, GRADSTEP_NAN, 0, -1, 0, 0, 0, 0, GRADSTEP_NAN }
#define GRADSTEP_NAN (-(double)(1e308 * 1e308 - 1e308 * 1e308))

/* The progress of a run. To resume, pass the whole clock that you got: a schedule-free rule needs
 * `state`, and the library rejects a clock after step 0 without it. */
typedef struct gradstep_clock {
    uint32_t struct_size;
    int32_t reserved;
    int64_t step, samples, epoch; /* steps and samples so far; the epoch that the option `epoch` set */
    double state[4]; /* what the rule keeps of all steps, such as the weight of its average; else 0; since ABI 0.3 */
} gradstep_clock;
#define GRADSTEP_CLOCK_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(gradstep_clock), 0, 0, 0, 0, { 0 }                                                                      \
    }

/* Options of the tensors of gradstep_updater_apply_with: arrays with one number for each tensor, or
 * NULL for the default. Since ABI 0.4. */
typedef struct gradstep_tensor_options {
    uint32_t struct_size;
    int32_t reserved;          /* 0 */
    const double* rate_scales; /* multiply the learning rate of the step; finite, >= 0; NULL: 1 */
    const double*
        decays; /* multiply the decay of the regularizer; finite, >= 0; 0: no decay, clipping stays; NULL: 1 */
    const int64_t*
        steps; /* numbers of the step, such as lower ones of a tensor that joined later; 0, NULL: the clock's */
    const uint64_t* ids; /* tensor k draws random numbers as id "id" + ids[k]: if the order of tensors can change, or
                            several threads apply a step; NULL: tensors are counted over all calls of a step */
} gradstep_tensor_options;
#define GRADSTEP_TENSOR_OPTIONS_INIT                                                                                   \
    { sizeof(gradstep_tensor_options), 0, NULL, NULL, NULL, NULL }

/* Options of gradstep_parameters_ascend. NULL: the defaults. Since ABI 0.4. */
typedef struct gradstep_sam_options {
    uint32_t struct_size;
    int32_t adaptive; /* 1: ASAM: a^2 g in place of g, and the norm of a g, with a = |w| + eta */
    double rho;       /* the length of the move; finite, >= 0 */
    double eta;       /* of ASAM; finite, >= 0 */
    double epsilon;   /* added to the norm; finite, >= 0 */
} gradstep_sam_options;
#define GRADSTEP_SAM_OPTIONS_INIT                                                                                      \
    { sizeof(gradstep_sam_options), 0, 0.05, 0.01, 1e-12 }

typedef struct gradstep_parameter gradstep_parameter;
typedef struct gradstep_table gradstep_table;
typedef struct gradstep_updater gradstep_updater;
typedef struct gradstep_executor gradstep_executor;

/* ---- The library ---- */
/* Returns the ABI version of the library: major * 65536 + minor. */
GRADSTEP_API uint32_t gradstep_abi_version(void);
/* Returns the version of the library, such as "0.1.0". */
GRADSTEP_API const char* gradstep_version(void);
/* Optional features of the library. */
enum gradstep_feature {
    GRADSTEP_FEATURE_ROWS = 1,        /* gradstep_parameter_update_rows */
    GRADSTEP_FEATURE_FILES = 2,       /* gradstep_parameters_save_file */
    GRADSTEP_FEATURE_COMPRESSION = 4, /* gradstep_parameter_compress */
    GRADSTEP_FEATURE_CATCH_UP = 8,    /* catch_up "exact" and "replay" */
    GRADSTEP_FEATURE_TABLES = 16,     /* gradstep_table_create, of numbers and keys */
    GRADSTEP_FEATURE_SERVERS = 32     /* gradstep_server_create, gradstep_worker_create */
};
/* Returns the sum of the features that the library has. */
GRADSTEP_API uint64_t gradstep_features(void);
/* Returns the instruction set of updates, "sse2", "avx2" (with FMA) or "avx512": the best one here, or
 * the environment variable's GRADSTEP_SIMD at the first call. "" if that one does not run here:
 * every create function then reports the error. */
GRADSTEP_API const char* gradstep_simd_level(void);

/* Writes the complete configuration with all defaults. `written` gets its number of bytes without the
 * terminating 0. If `bytes` is not enough for both, the code is GRADSTEP_BAD_SIZE, and only
 * `written` is written (buffer can then be NULL, with bytes = 0). */
GRADSTEP_API gradstep_status gradstep_config_canonical(const char* config, size_t config_bytes, char* buffer,
                                                       uint64_t bytes, uint64_t* written, gradstep_error*);
/* Checks whether state of the configuration `before` can be used with `now`: the numbers that must be
 * the same in all steps, such as initial values, are equal (else GRADSTEP_BAD_CONFIG). Since ABI
 * 0.4. */
GRADSTEP_API gradstep_status gradstep_config_check_change(const char* before, size_t before_bytes, const char* now,
                                                          size_t now_bytes, gradstep_error*);

/* ---- Threads: `threads` of a configuration, or your own thread pool ---- */

/* Runs one part of a task. The library gives it to your gradstep_run. */
typedef void (*gradstep_work)(void* task, uint64_t part);
/* Your function that runs a task: it must call work(task, 0) to work(task, parts - 1) once each, on
 * any threads, and return when all calls have ended. */
typedef void (*gradstep_run)(void* host, uint64_t parts, gradstep_work work, void* task);
/* Creates an executor from your thread pool. The library calls run(host, parts, work, task).
 * `concurrency` is the number of parts that run at once. */
GRADSTEP_API gradstep_status gradstep_executor_from_callback(uint64_t concurrency, gradstep_run run, void* host,
                                                             gradstep_executor** out, gradstep_error*);
/* Releases the executor; those that use it keep it alive, and need your pool. NULL is allowed. */
GRADSTEP_API void gradstep_executor_release(gradstep_executor*);
/* Uses the executor instead of "threads", from the next update on. NULL: uses "threads" again. */
GRADSTEP_API gradstep_status gradstep_parameter_set_executor(gradstep_parameter*, gradstep_executor*, gradstep_error*);
/* Like gradstep_parameter_set_executor, for an updater. */
GRADSTEP_API gradstep_status gradstep_updater_set_executor(gradstep_updater*, gradstep_executor*, gradstep_error*);

/* ---- Parameters: the library owns values, state and clock ---- */

/* Creates a parameter of rows x width elements of `dtype`; a dense vector is 1 x n or n x 1.
 * `initial` contains as many elements, row by row, which are copied; NULL: zeros. */
GRADSTEP_API gradstep_status gradstep_parameter_create(const char* config, size_t config_bytes, int32_t dtype,
                                                       const void* initial, uint64_t rows, uint64_t width,
                                                       gradstep_parameter** out, gradstep_error*);
/* Takes one step of all elements. `gradient` has `count` = rows * width elements of the same dtype. */
GRADSTEP_API gradstep_status gradstep_parameter_update(gradstep_parameter*, const void* gradient, uint64_t count,
                                                       const gradstep_step_options*, gradstep_error*);
/* Takes one step of the rows in `ids`, id_count numbers of id_dtype, an integer type. gradient_rows
 * contains count = id_count * width elements, row by row. Gradients of a duplicate row are added.
 * With catch_up "exact" or "replay", other rows get pending steps, which are applied when a step
 * contains the row, when it is read, when the history is full, and by `flush` to all rows. */
GRADSTEP_API gradstep_status gradstep_parameter_update_rows(gradstep_parameter*, const void* ids, int32_t id_dtype,
                                                            uint64_t id_count, const void* gradient_rows,
                                                            uint64_t count, const gradstep_step_options*,
                                                            gradstep_error*);
/* Takes one step of n different parameters with any configurations, on the threads of the one with
 * the most. All are checked before any is written. No gradient can overlap a parameter's memory.
 * Only without zero_gradient can they share one. If parameters draw random numbers by equal ids,
 * all but one, a trained one if there is any, get new ids, which they keep. */
GRADSTEP_API gradstep_status gradstep_parameters_update(gradstep_parameter* const*, const void* const* gradients,
                                                        const uint64_t* counts, uint64_t n,
                                                        const gradstep_step_options*, gradstep_error*);
/* The first half of a step of sharpness-aware minimization (docs/how_to/sharpness_aware.md) of n
 * different parameters: moves their values by rho / (norm + epsilon) * gradient, with the norm of
 * all n gradients, which it writes to `norm` unless that is NULL. Until `descend` or
 * gradstep_parameter_restore, other steps, loads and saves return GRADSTEP_BAD_SEQUENCE. If a
 * gradient is not finite and on_nonfinite of its parameter is "skip", no parameter moves, and
 * `norm` gets NaN: the step is over. Not for integers, catch_up "exact" or "replay", or with a copy
 * in bfloat16: GRADSTEP_BAD_VALUE. Since ABI 0.4. */
GRADSTEP_API gradstep_status gradstep_parameters_ascend(gradstep_parameter* const*, const void* const* gradients,
                                                        const uint64_t* counts, uint64_t n, const gradstep_sam_options*,
                                                        double* norm, gradstep_error*);
/* The second half: brings back the values before `ascend`, bit for bit, and takes the step of
 * gradstep_parameters_update with gradients at the values that `ascend` left. GRADSTEP_BAD_SEQUENCE
 * for a parameter that has not ascended. A parameter whose gradient is skipped gets its values
 * back, too. Since ABI 0.4. */
GRADSTEP_API gradstep_status gradstep_parameters_descend(gradstep_parameter* const*, const void* const* gradients,
                                                         const uint64_t* counts, uint64_t n,
                                                         const gradstep_step_options*, gradstep_error*);
/* Writes the values, rounded to bfloat16, to your memory of `count` = rows * width numbers of 16
 * bits. From now on, each step writes the values that it changes, and `flush` writes all rows. The
 * library keeps the pointer until another call of this function or `release`. NULL and 0 end it.
 * Call it again after `set_values`, a load, `apply_average` or `restore`, which do not write the
 * copy. Only for float32, without dgc_momentum: else GRADSTEP_BAD_VALUE. While there is a copy, the
 * rows cannot move, and there is no `ascend`. Since ABI 0.4. */
GRADSTEP_API gradstep_status gradstep_parameter_set_bfloat16_copy(gradstep_parameter*, uint16_t* memory, uint64_t count,
                                                                  gradstep_error*);
/* Returns the values, row by row, with pending steps applied, without a copy. The memory is valid
 * until `release` or a change of rows, and changes in steps, loads, `apply_average`, `restore` and
 * `gradstep_parameters_ascend`. */
GRADSTEP_API gradstep_status gradstep_parameter_values(gradstep_parameter*, const void** data, uint64_t* count,
                                                       gradstep_error*);
/* Sets all values: `count` = rows * width elements of its dtype, after pending steps. State follows
 * as in gradstep_updater_weights_set. Since ABI 0.2. */
GRADSTEP_API gradstep_status gradstep_parameter_set_values(gradstep_parameter*, const void* values, uint64_t count,
                                                           gradstep_error*);
/* Copies row `id` with all pending steps applied: `width` elements. */
GRADSTEP_API gradstep_status gradstep_parameter_row(gradstep_parameter*, int64_t id, void* out, uint64_t width,
                                                    gradstep_error*);
/* Copies rows in the order of ids: out has id_count * width = count elements. */
GRADSTEP_API gradstep_status gradstep_parameter_rows(gradstep_parameter*, const void* ids, int32_t id_dtype,
                                                     uint64_t id_count, void* out, uint64_t count, gradstep_error*);
/* Applies the pending steps of every row, which exist only with "catch_up": "exact" or "replay". */
GRADSTEP_API gradstep_status gradstep_parameter_flush(gradstep_parameter*, gradstep_error*);
/* Adds rows of its dtype behind the others; `count` is a multiple of a row's elements. `create`
 * defines rows; if it got one row, set_shape does, else each element is a row: create a table that
 * grows from one row with 0 rows. State follows its row (docs/how_to/growing_parameters.md); new
 * rows begin anew. Memory of `values` and `slot` is then invalid. This and the next three: since
 * ABI 0.3. */
GRADSTEP_API gradstep_status gradstep_parameter_append(gradstep_parameter*, const void* values, uint64_t count,
                                                       gradstep_error*);
/* Keeps the rows whose byte of the mask is not 0, in their order. */
GRADSTEP_API gradstep_status gradstep_parameter_keep(gradstep_parameter*, const uint8_t* mask, uint64_t rows,
                                                     gradstep_error*);
/* Row i becomes what was row order[i]; the order contains each row once. */
GRADSTEP_API gradstep_status gradstep_parameter_permute(gradstep_parameter*, const void* order, int32_t id_dtype,
                                                        uint64_t rows, gradstep_error*);
/* Lets the state of the rows in `ids` begin anew. The values stay. */
GRADSTEP_API gradstep_status gradstep_parameter_reset(gradstep_parameter*, const void* ids, int32_t id_dtype,
                                                      uint64_t id_count, gradstep_error*);
/* Returns the number of slots of the state. */
GRADSTEP_API gradstep_status gradstep_parameter_slot_count(const gradstep_parameter*, uint64_t* count, gradstep_error*);
/* Returns a slot of the state, without pending steps and without a copy: in the order of the rule,
 * then the master copy. `data` is valid like the values. info or data can be NULL. */
GRADSTEP_API gradstep_status gradstep_parameter_slot(gradstep_parameter*, uint64_t index, gradstep_slot* info,
                                                     const void** data, gradstep_error*);
/* Sets the shape of the values, which files and saved states contain, and loads compare. The
 * product of the extents must be rows * width (dimensions = 0: a single number). By default it is
 * rows x width if `create` got several rows wider than 1; else any shape matches. */
GRADSTEP_API gradstep_status gradstep_parameter_set_shape(gradstep_parameter*, const uint64_t* extents,
                                                          uint64_t dimensions, gradstep_error*);
/* Returns the dtype of the values and gradients. Since ABI 0.4. */
GRADSTEP_API gradstep_status gradstep_parameter_dtype(const gradstep_parameter*, int32_t* dtype, gradstep_error*);
/* Returns the progress of the run. */
GRADSTEP_API gradstep_status gradstep_parameter_clock(const gradstep_parameter*, gradstep_clock*, gradstep_error*);
/* Sets the clock to the progress of a run. With catch_up "exact", "replay": GRADSTEP_BAD_SEQUENCE. */
GRADSTEP_API gradstep_status gradstep_parameter_seek(gradstep_parameter*, const gradstep_clock*, gradstep_error*);
/* Changes n numbers of the configuration, from the next step on: values[k] replaces the number at
 * paths[k], which is written as in error messages: "rule.beta1", "schedule.rates[0]", "clip.limit",
 * "regularizer.regularizers[1].rate". All are checked before any changes. GRADSTEP_BAD_CONFIG: out
 * of range, or a number that must be the same in all steps, such as an initial value.
 * GRADSTEP_BAD_SEQUENCE: rows have a history of steps (catch_up). Since ABI 0.2. */
GRADSTEP_API gradstep_status gradstep_parameter_set_numbers(gradstep_parameter*, const char* const* paths,
                                                            const double* values, uint64_t n, gradstep_error*);
/* Writes the complete configuration as JSON. The buffer is as in gradstep_config_canonical. */
GRADSTEP_API gradstep_status gradstep_parameter_config(const gradstep_parameter*, char* buffer, uint64_t bytes,
                                                       uint64_t* written, gradstep_error*);
/* Copies the average (key "average" or schedule-free rules): rows * width numbers of state dtype. */
GRADSTEP_API gradstep_status gradstep_parameter_average(gradstep_parameter*, void* out, uint64_t count,
                                                        gradstep_error*);
/* Replaces the values by the average. Until `restore`, steps return GRADSTEP_BAD_SEQUENCE. */
GRADSTEP_API gradstep_status gradstep_parameter_apply_average(gradstep_parameter*, gradstep_error*);
/* Brings back the trained values, bit for bit, after `apply_average`, or after
 * gradstep_parameters_ascend without a step. */
GRADSTEP_API gradstep_status gradstep_parameter_restore(gradstep_parameter*, gradstep_error*);
/* Returns the number of bytes that `save` writes. */
GRADSTEP_API gradstep_status gradstep_parameter_state_bytes(gradstep_parameter*, uint64_t* bytes, gradstep_error*);
/* Serializes values (the trained ones), state and clock with a checksum, to resume bit for bit. */
GRADSTEP_API gradstep_status gradstep_parameter_save(gradstep_parameter*, void* buffer, uint64_t bytes,
                                                     uint64_t* written, gradstep_error*);
/* Restores values, state and clock from the bytes of `save`, of a parameter with the same size, dtype,
 * rule, and numbers that must be the same in all steps. If it rejects them, nothing changes. The
 * configuration stays, except that `seed` and `id` come from the state if random numbers use
 * them. */
GRADSTEP_API gradstep_status gradstep_parameter_load(gradstep_parameter*, const void* buffer, uint64_t bytes,
                                                     gradstep_error*);
/* Saves n named parameters to one safetensors file (docs/how_to/checkpoints.md), which any reader
 * of the format can open. It replaces the previous file when it is complete and on the disk. */
GRADSTEP_API gradstep_status gradstep_parameters_save_file(gradstep_parameter* const*, const char* const* names,
                                                           uint64_t n, const char* path, gradstep_error*);
/* Loads a file of `save_file` that has exactly the names of n parameters, in any order. If the
 * system fails in the middle of the data (GRADSTEP_IO_ERROR), a part has been loaded. */
GRADSTEP_API gradstep_status gradstep_parameters_load_file(gradstep_parameter* const*, const char* const* names,
                                                           uint64_t n, const char* path, gradstep_error*);
/* Checks whether a file can contain n parameters with these names: non-empty UTF-8, not
 * "__metadata__", each once, and no "w/m" beside a "w" with a slot m. Nothing is written. */
GRADSTEP_API gradstep_status gradstep_parameters_check_names(gradstep_parameter* const*, const char* const* names,
                                                             uint64_t n, gradstep_error*);
/* Gives n parameters the ids of their names for random numbers: "id" plus a hash of the name. Call it
 * before the first step: those that have taken one, or loaded another id, keep it. Since ABI
 * 0.4. */
GRADSTEP_API gradstep_status gradstep_parameters_set_names(gradstep_parameter* const*, const char* const* names,
                                                           uint64_t n, gradstep_error*);
/* What to do if the file lacks the name of a parameter, and if no parameter has a name in the file. */
enum gradstep_load_missing { GRADSTEP_MISSING_ERROR = 0, GRADSTEP_MISSING_KEEP = 1 };
enum gradstep_load_unexpected { GRADSTEP_UNEXPECTED_ERROR = 0, GRADSTEP_UNEXPECTED_IGNORE = 1 };
/* What to do if values differ from the file in the first extent only. GRADSTEP_ROWS_RESIZE loads
 * the rows that both have; with catch_up "exact" and "replay" the file must not have more rows. */
enum gradstep_load_rows { GRADSTEP_ROWS_ERROR = 0, GRADSTEP_ROWS_RESIZE = 1 };
/* Options to load a part of a file, or with other names or numbers of rows. renamed_from[k] is a
 * name in the file, and renamed_to[k] the name of its parameter. Other names do not change. */
typedef struct gradstep_load_options {
    uint32_t struct_size;
    int32_t missing;    /* enum gradstep_load_missing */
    int32_t unexpected; /* enum gradstep_load_unexpected */
    int32_t rows;       /* enum gradstep_load_rows */
    uint64_t renamed_count;
    const char* const* renamed_from;
    const char* const* renamed_to;
} gradstep_load_options;
#define GRADSTEP_LOAD_OPTIONS_INIT                                                                                     \
    { sizeof(gradstep_load_options), 0, 0, 0, 0, NULL, NULL }
/* The result for each parameter. */
enum gradstep_load_outcome { GRADSTEP_LOADED = 0, GRADSTEP_KEPT = 1, GRADSTEP_RESIZED = 2 };
/* Like gradstep_parameters_load_file, with options (NULL: the defaults). outcomes gets n values of
 * enum gradstep_load_outcome, ignored the names in the file that were not loaded, each followed by
 * a 0: ignored_written bytes. All can be NULL. If ignored_bytes is too small: GRADSTEP_BAD_SIZE. */
GRADSTEP_API gradstep_status gradstep_parameters_load_file_with(gradstep_parameter* const*, const char* const* names,
                                                                uint64_t n, const char* path,
                                                                const gradstep_load_options*, int32_t* outcomes,
                                                                char* ignored, uint64_t ignored_bytes,
                                                                uint64_t* ignored_written, gradstep_error*);
/* Writes the names of the parameters in a file, in the order of their bytes, each followed by a 0:
 * `written` bytes in total. If `bytes` is too small, see gradstep_config_canonical. */
GRADSTEP_API gradstep_status gradstep_file_names(const char* path, char* buffer, uint64_t bytes, uint64_t* written,
                                                 gradstep_error*);
/* Releases the parameter. NULL is allowed. */
GRADSTEP_API void gradstep_parameter_release(gradstep_parameter*);

/* ---- Compressed gradients: parameters of rule "dgc_momentum" (docs/how_to/compressed_gradients.md) ----
 *
 * The trainers of a model have one parameter each, with the same configuration and initial values.
 * In every step they send each other a message over your own network: call compress and
 * apply_messages. For a single trainer, gradstep_parameter_update does both. With several, it
 * rejects a compressed step (GRADSTEP_BAD_SEQUENCE), and takes a dense step with its own gradient
 * only. */

/* Returns the largest size in bytes of the next message; with "selected": "exact", its exact size. */
GRADSTEP_API gradstep_status gradstep_parameter_message_bound(const gradstep_parameter*, uint64_t* bytes,
                                                              gradstep_error*);
/* The first phase of a step: adds the gradient to the state, advances the clock, and writes the
 * message for all trainers to `buffer`, `written` bytes. If `bytes` is below the bound, the code is
 * GRADSTEP_BAD_SIZE, and `written` is the bound. With on_nonfinite "skip", a gradient that is not
 * finite makes a message without entries. After GRADSTEP_EXECUTOR_FAILED there is no message. */
GRADSTEP_API gradstep_status gradstep_parameter_compress(gradstep_parameter*, const void* gradient, uint64_t count,
                                                         const gradstep_step_options*, void* buffer, uint64_t bytes,
                                                         uint64_t* written, gradstep_error*);
/* The second phase: the mean of the messages of all trainers updates the values. n is
 * "num_trainers"; messages[k], of message_bytes[k] bytes at any address, is the message of rank k,
 * including this trainer's own. If they are not messages of this step and this parameter, nothing
 * changes, and you can call again. Between the phases you can neither update nor save. After
 * GRADSTEP_EXECUTOR_FAILED, a part of the values may have changed, and the step is over. */
GRADSTEP_API gradstep_status gradstep_parameter_apply_messages(gradstep_parameter*, const void* const* messages,
                                                               const uint64_t* message_bytes, uint64_t n,
                                                               gradstep_error*);

/* ---- Tables: rows, of which a step updates those in its batch. All since ABI 0.4 ----
 *
 * The configuration of an optimizer, with the type of the values and a table (docs/how_to/c.md).
 * Rows have numbers:
 *
 *     {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
 *      "catch_up": "exact", "type": "float32",
 *      "table": {"rows": 1000, "width": 16, "duplicates": "mean", "max_norm": 1, "ignore_id": 0,
 *                "initial": {"name": "normal", "mean": 0, "deviation": 0.01, "seed": 1}, "concurrent": true}}
 *
 * or 64-bit keys, which get a row when the table admits them:
 *
 *      "keyed_table": {"width": 16, "admit_after": 3, "max_rows": 50000000, "concurrent": true}
 *
 * With "concurrent": true, any number of threads can call gradstep_table_update,
 * gradstep_table_update_bags, gradstep_table_rows and gradstep_table_bags of a table at once: no
 * update is lost, and the rows have the bits of the same batches one after the other, in the order
 * of their steps. The other functions then wait until no call runs. Only gradstep_table_release
 * needs a table that no thread uses.
 *
 * `ids` are id_count row numbers of id_dtype, int32, int64 or uint64. For keys it is uint64, or
 * int64 with the same bits. Gradients and values are of the table's type, row by row. */

/* Creates a table. GRADSTEP_BAD_CONFIG also for a rule that updates no single rows, and for
 * "concurrent" with catch_up "replay". */
GRADSTEP_API gradstep_status gradstep_table_create(const char* config, size_t config_bytes, gradstep_table** out,
                                                   gradstep_error*);
/* Writes the complete configuration as JSON. The buffer is as in gradstep_config_canonical. */
GRADSTEP_API gradstep_status gradstep_table_config(const gradstep_table*, char* buffer, uint64_t bytes,
                                                   uint64_t* written, gradstep_error*);
/* Facts of a table. */
typedef struct gradstep_table_info {
    uint32_t struct_size;
    int32_t dtype;       /* of values and gradients */
    int32_t state_dtype; /* of averages */
    int32_t concurrent;  /* 1: several threads can call it */
    uint64_t num_rows, width;
    uint64_t skipped; /* gradient rows that on_nonfinite "skip" left out so far */
    int32_t keyed;    /* 1: rows have keys */
    int32_t reserved;
} gradstep_table_info;
#define GRADSTEP_TABLE_INFO_INIT                                                                                       \
    { sizeof(gradstep_table_info), 0, 0, 0, 0, 0, 0, 0, 0 }
/* Returns the facts of the table. */
GRADSTEP_API gradstep_status gradstep_table_describe(const gradstep_table*, gradstep_table_info*, gradstep_error*);
/* Returns the number of slots of the state. */
GRADSTEP_API gradstep_status gradstep_table_slot_count(const gradstep_table*, uint64_t* count, gradstep_error*);
/* Returns the name and the dtype of a slot. Its count is the number of its elements in a row: `width`,
 * or 1 if the rule keeps one number for each row. */
GRADSTEP_API gradstep_status gradstep_table_slot(const gradstep_table*, uint64_t index, gradstep_slot* info,
                                                 gradstep_error*);
/* Uses the executor instead of "threads", as gradstep_parameter_set_executor. Concurrent calls run
 * on the threads that call. */
GRADSTEP_API gradstep_status gradstep_table_set_executor(gradstep_table*, gradstep_executor*, gradstep_error*);
/* Takes one step of the rows in `ids`. gradient_rows contains count = id_count * width elements. A
 * row that appears several times gets the sum, the mean or the last of its gradients ("duplicates":
 * "sum", "mean", "last"), or is GRADSTEP_BAD_VALUE ("unique"). With catch_up "exact" or "replay",
 * other rows get pending steps, as in gradstep_parameter_update_rows. */
GRADSTEP_API gradstep_status gradstep_table_update(gradstep_table*, const void* ids, int32_t id_dtype,
                                                   uint64_t id_count, const void* gradient_rows, uint64_t count,
                                                   const gradstep_step_options*, gradstep_error*);
/* How bags are pooled. */
enum { GRADSTEP_BAG_SUM = 0, GRADSTEP_BAG_MEAN = 1 };
/* Options of calls with embedding bags. NULL means the sum, without weights. */
typedef struct gradstep_bag_options {
    uint32_t struct_size;
    int32_t mode;        /* GRADSTEP_BAG_SUM or GRADSTEP_BAG_MEAN */
    const void* weights; /* id_count weights, one for each id; NULL: 1. They are doubles if the table
                          * is of GRADSTEP_FLOAT64, else floats. Not for tables of integers. */
} gradstep_bag_options;
#define GRADSTEP_BAG_OPTIONS_INIT                                                                                      \
    { sizeof(gradstep_bag_options), GRADSTEP_BAG_SUM, NULL }
/* The same for embedding bags. Bag b consists of ids[offsets[b]] to ids[offsets[b + 1] - 1]; the last
 * one ends at id_count, which can follow as one more offset. `offsets` are bag_count numbers of
 * id_dtype, ascending from 0; a bag can be empty. Row b of bag_rows, the gradient of bag b, has
 * `width` elements; `count` is the number of all elements. An id with weight w gets the gradient
 * w * row (GRADSTEP_BAG_SUM), or (w / n) * row in a bag of n ids without padding
 * (GRADSTEP_BAG_MEAN), computed in float, or in double for GRADSTEP_FLOAT64. */
GRADSTEP_API gradstep_status gradstep_table_update_bags(gradstep_table*, const void* ids, int32_t id_dtype,
                                                        uint64_t id_count, const void* offsets, uint64_t bag_count,
                                                        const void* bag_rows, uint64_t count,
                                                        const gradstep_bag_options*, const gradstep_step_options*,
                                                        gradstep_error*);
/* Copies rows with all pending steps applied, in the order of ids: out has count = id_count * width
 * elements. Keys without a row have initial values. Threads can read a table together while none
 * changes it. */
GRADSTEP_API gradstep_status gradstep_table_rows(const gradstep_table*, const void* ids, int32_t id_dtype,
                                                 uint64_t id_count, void* out, uint64_t count, gradstep_error*);
/* The same in 8 bits, for servers that only read. Each row has width + 8 bytes: a code of 8 bits for
 * each value, then scale and offset in float; a value is code * scale + offset. These are FBGEMM's
 * bytes (docs/how_to/keyed_tables.md). `bytes` is id_count * (width + 8). Not for tables of
 * integers. */
GRADSTEP_API gradstep_status gradstep_table_int8_rows(const gradstep_table*, const void* ids, int32_t id_dtype,
                                                      uint64_t id_count, void* out, uint64_t bytes, gradstep_error*);
/* Writes the pooled rows of embedding bags with all pending steps applied, without copies of the
 * rows: for each bag `width` elements, the sum of w * row over its ids, divided by n for
 * GRADSTEP_BAG_MEAN. `out` has `count` elements. A bag without ids gives 0. Padding ("ignore_id")
 * counts as absent, and keys without a row have initial values. Threads can read as in `rows`. */
GRADSTEP_API gradstep_status gradstep_table_bags(const gradstep_table*, const void* ids, int32_t id_dtype,
                                                 uint64_t id_count, const void* offsets, uint64_t bag_count,
                                                 const gradstep_bag_options*, void* out, uint64_t count,
                                                 gradstep_error*);
/* The same as `rows` for averages (key "average"), of the state's dtype. */
GRADSTEP_API gradstep_status gradstep_table_averages(const gradstep_table*, const void* ids, int32_t id_dtype,
                                                     uint64_t id_count, void* out, uint64_t count, gradstep_error*);
/* Replaces the values by the averages. Until `restore`, steps return GRADSTEP_BAD_SEQUENCE. */
GRADSTEP_API gradstep_status gradstep_table_apply_average(gradstep_table*, gradstep_error*);
/* Brings back the trained values after `apply_average`. */
GRADSTEP_API gradstep_status gradstep_table_restore(gradstep_table*, gradstep_error*);
/* Lets rows begin anew, with the initial values and state of the table. */
GRADSTEP_API gradstep_status gradstep_table_reset(gradstep_table*, const void* ids, int32_t id_dtype, uint64_t id_count,
                                                  gradstep_error*);
/* Applies the pending steps of every row. */
GRADSTEP_API gradstep_status gradstep_table_flush(gradstep_table*, gradstep_error*);
/* Returns the progress of the run. */
GRADSTEP_API gradstep_status gradstep_table_clock(const gradstep_table*, gradstep_clock*, gradstep_error*);
/* Sets the clock to the progress of a run; of rows with keys, to no earlier step than the present one.
 * With catch_up "exact", "replay": GRADSTEP_BAD_SEQUENCE. */
GRADSTEP_API gradstep_status gradstep_table_seek(gradstep_table*, const gradstep_clock*, gradstep_error*);
/* Returns the number of bytes that `save` writes now. Steps of other threads can change it. */
GRADSTEP_API gradstep_status gradstep_table_state_bytes(const gradstep_table*, uint64_t* bytes, gradstep_error*);
/* Serializes values, state, pending steps and clock with a checksum, to resume bit for bit. */
GRADSTEP_API gradstep_status gradstep_table_save(const gradstep_table*, void* buffer, uint64_t bytes, uint64_t* written,
                                                 gradstep_error*);
/* Restores a table of the same element, rule, catch-up policy and width from the bytes of `save`. A
 * table with fewer rows grows; a keyed one gets the rows of the bytes. If it rejects them, nothing
 * changes. */
GRADSTEP_API gradstep_status gradstep_table_load(gradstep_table*, const void* buffer, uint64_t bytes, gradstep_error*);
/* Saves the table to a safetensors file, as gradstep_parameters_save_file; its name there is "values". */
GRADSTEP_API gradstep_status gradstep_table_save_file(const gradstep_table*, const char* path, gradstep_error*);
/* Loads a file of `save_file` or of a C++ table, as gradstep_table_load; renamed_to[k] is then "values".
 * `rows` of the options has no effect. `outcome` gets GRADSTEP_LOADED or GRADSTEP_KEPT; NULL is
 * allowed. After an error the table is unchanged, since rows are read into new memory. */
GRADSTEP_API gradstep_status gradstep_table_load_file(gradstep_table*, const char* path, const gradstep_load_options*,
                                                      int32_t* outcome, gradstep_error*);
/* Releases the table. NULL is allowed. */
GRADSTEP_API void gradstep_table_release(gradstep_table*);

/* For tables whose rows have numbers. For other tables these functions return GRADSTEP_BAD_HANDLE. */

/* Sets rows to values, for example pretrained ones: count = id_count * width elements. State follows
 * as in gradstep_parameter_set_values. */
GRADSTEP_API gradstep_status gradstep_table_set_rows(gradstep_table*, const void* ids, int32_t id_dtype,
                                                     uint64_t id_count, const void* values, uint64_t count,
                                                     gradstep_error*);
/* Adds rows with initial values, up to num_rows in total. Fewer than there are: GRADSTEP_BAD_VALUE. */
GRADSTEP_API gradstep_status gradstep_table_grow(gradstep_table*, uint64_t num_rows, gradstep_error*);
/* Adds rows with these values behind the others; `count` is a multiple of the width. */
GRADSTEP_API gradstep_status gradstep_table_append(gradstep_table*, const void* values, uint64_t count,
                                                   gradstep_error*);
/* Keeps the rows whose byte of the mask is not 0, in their order. State moves with its row. */
GRADSTEP_API gradstep_status gradstep_table_keep(gradstep_table*, const uint8_t* mask, uint64_t rows, gradstep_error*);
/* Row i becomes what was row order[i]; the order, of id_dtype, contains each row once. */
GRADSTEP_API gradstep_status gradstep_table_permute(gradstep_table*, const void* order, int32_t id_dtype, uint64_t rows,
                                                    gradstep_error*);

/* For tables whose rows have keys (docs/how_to/keyed_tables.md). For other tables these functions
 * return GRADSTEP_BAD_HANDLE. */

/* Writes 1 if the key has a row, else 0. */
GRADSTEP_API gradstep_status gradstep_table_contains(const gradstep_table*, uint64_t key, int32_t* contains,
                                                     gradstep_error*);
/* Writes a page of the keys that have rows: `written` keys, at most `count`, from number `first` on.
 * Their order changes when rows are evicted. */
GRADSTEP_API gradstep_status gradstep_table_keys(const gradstep_table*, uint64_t first, uint64_t* keys, uint64_t count,
                                                 uint64_t* written, gradstep_error*);
/* Counts of events since the table was made, including the time before a checkpoint. */
typedef struct gradstep_key_counts {
    uint32_t struct_size;
    int32_t reserved;
    uint64_t admitted;    /* new rows */
    uint64_t turned_away; /* gradient rows that were dropped because their key was not admitted yet, */
    uint64_t no_room;     /* because the table had "max_rows" rows, */
    uint64_t skipped;     /* because they contained NaN or infinity */
    uint64_t evicted;     /* rows */
} gradstep_key_counts;
#define GRADSTEP_KEY_COUNTS_INIT                                                                                       \
    { sizeof(gradstep_key_counts), 0, 0, 0, 0, 0, 0 }
/* Returns the counts. */
GRADSTEP_API gradstep_status gradstep_table_key_counts(const gradstep_table*, gradstep_key_counts*, gradstep_error*);
/* Allocates memory for this many rows in total, so that no update waits while rows are allocated.
 * The index of the keys still grows with them. */
GRADSTEP_API gradstep_status gradstep_table_reserve(gradstep_table*, uint64_t rows, gradstep_error*);
/* Protects the rows of keys from eviction, until as many calls of `unhold`. */
GRADSTEP_API gradstep_status gradstep_table_hold(gradstep_table*, const void* ids, int32_t id_dtype, uint64_t id_count,
                                                 gradstep_error*);
GRADSTEP_API gradstep_status gradstep_table_unhold(gradstep_table*, const void* ids, int32_t id_dtype,
                                                   uint64_t id_count, gradstep_error*);
/* Evicts the rows whose last step was before `step`. `evicted` gets their number. It returns
 * GRADSTEP_BAD_SEQUENCE with "last_touches": false, and so do changed_since, and evict_to without a
 * score. */
GRADSTEP_API gradstep_status gradstep_table_evict_older_than(gradstep_table*, int64_t step, uint64_t* evicted,
                                                             gradstep_error*);
/* A row, with all steps applied. The memory is valid during the call of your function. */
typedef struct gradstep_row {
    uint32_t struct_size;
    uint32_t age;         /* steps since the last one that contained the row; 0 with "last_touches": false */
    uint32_t touch_count; /* steps that contained it; 0 without "touch_counts": true */
    uint32_t reserved;
    uint64_t key, width;
    const void* values; /* `width` elements of the table's type */
    uint64_t slots;
    const void* const* state; /* an array for each slot, as gradstep_table_slot describes it */
} gradstep_row;
/* Your functions that judge a row. They must not call functions of the table:
 * GRADSTEP_BAD_SEQUENCE. */
typedef int32_t (*gradstep_row_test)(void* host, const gradstep_row*);
typedef double (*gradstep_row_score)(void* host, const gradstep_row*);
/* Evicts the rows for which test(host, row) is positive. Rows that are held stay. If it is negative,
 * the call returns GRADSTEP_BAD_VALUE, and nothing is evicted. */
GRADSTEP_API gradstep_status gradstep_table_evict(gradstep_table*, gradstep_row_test test, void* host,
                                                  uint64_t* evicted, gradstep_error*);
/* Evicts the rows with the lowest score(host, row) until there are at most `rows`. NULL score: the
 * least recently updated ones. A score of NaN is GRADSTEP_BAD_VALUE, and nothing is evicted. */
GRADSTEP_API gradstep_status gradstep_table_evict_to(gradstep_table*, uint64_t rows, gradstep_row_score score,
                                                     void* host, uint64_t* evicted, gradstep_error*);
/* Bytes that the library has made for you. */
typedef struct gradstep_bytes gradstep_bytes;
/* Returns the memory of the bytes, valid until `release`. */
GRADSTEP_API gradstep_status gradstep_bytes_view(const gradstep_bytes*, const void** data, uint64_t* size,
                                                 gradstep_error*);
/* Releases the bytes. NULL is allowed. */
GRADSTEP_API void gradstep_bytes_release(gradstep_bytes*);
/* What changes contain of rows: their values; the state, too, for a replica that trains; or the
 * values in 8 bits, as gradstep_table_int8_rows. */
enum { GRADSTEP_CHANGES_VALUES = 0, GRADSTEP_CHANGES_STATE = 1, GRADSTEP_CHANGES_INT8 = 2 };
/* Makes bytes of the rows that `step` and later steps updated or evicted, for a replica. From step
 * 0 on they are all rows, and replace the rows of the replica. GRADSTEP_BAD_VALUE if the table no
 * longer knows all evictions since `step`: then send the changes since step 0. */
GRADSTEP_API gradstep_status gradstep_table_changed_since(gradstep_table*, int64_t step, int32_t content,
                                                          gradstep_bytes** out, gradstep_error*);
/* Applies the bytes of changed_since of another table with the same element, rule and width. Its step
 * must be between `step` and the step of the sender, else GRADSTEP_BAD_SEQUENCE. After an error the
 * table is unchanged. */
GRADSTEP_API gradstep_status gradstep_table_apply_changes(gradstep_table*, const void* changes, uint64_t bytes,
                                                          gradstep_error*);

/* ---- Servers and workers: parameters and tables on several machines. All since ABI 0.4 ----
 *
 * Servers store weights and update them by the gradients that workers push
 * (docs/how_to/parameter_servers.md). A job has ranks: the first ones are servers, the others
 * workers. The messages go over your transport, or you pass them to the server yourself:
 *
 *     gradstep_server_begin(server, &count, &error);    send the messages 0 to count - 1, then
 *     gradstep_server_handle(server, from, bytes, size, &count, &error);    for each that arrives
 *
 * Each push is applied exactly once, also after a restart of a server or a worker. */

/* A message that arrived, which your receive function fills in. */
typedef struct gradstep_inbox gradstep_inbox;
/* Returns memory for the `size` bytes of a message from rank `from`, to write them there. Call it at
 * most once in each call of your receive function. NULL if there is no memory: return -1 then. */
GRADSTEP_API void* gradstep_inbox_allocate(gradstep_inbox*, int32_t from, uint64_t size);
/* Your function that queues a message to rank `to`, and returns without waiting for the receiver.
 * Messages between two ranks must keep their order. A rank can send to itself, as every worker
 * does. The memory is valid during the call. Return 0, or another number if you cannot send. Your
 * functions must not call the worker (GRADSTEP_BAD_SEQUENCE). */
typedef int32_t (*gradstep_send)(void* host, int32_t to, const void* bytes, uint64_t size);
/* Your function that waits for the next message of any rank, at most so many milliseconds, and with 0
 * not at all. Copy it to gradstep_inbox_allocate; without a message, do not call that. Return 0, or
 * another number to end the call that waits. */
typedef int32_t (*gradstep_receive)(void* host, int64_t milliseconds, gradstep_inbox*);
/* Your transport. */
typedef struct gradstep_transport {
    uint32_t struct_size;
    int32_t rank, ranks;    /* this rank, from 0, and the number of servers and workers together */
    int32_t concurrent;     /* 1: several threads can call both functions at once. Else a worker polls, with 0 ms */
    int64_t timeout_ms;     /* how long to wait for another rank before GRADSTEP_RANK_FAILED; > 0 */
    gradstep_send send;
    gradstep_receive receive;
    void* host;             /* the first argument of your functions */
} gradstep_transport;
#define GRADSTEP_TRANSPORT_INIT                                                                                        \
    { sizeof(gradstep_transport), 0, 0, 0, 60000, NULL, NULL, NULL }

typedef struct gradstep_server gradstep_server;
typedef struct gradstep_worker gradstep_worker;
typedef struct gradstep_geo gradstep_geo;

/* Creates the server with rank `rank` in a job of `ranks` ranks, with its parts of all tensors:
 *
 *     {"mode": "asynchronous", "num_servers": 2, "split_from": 65536, "check_elements": false, "job": 0,
 *      "tensors": {
 *         "deep": {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
 *                  "type": "float32", "parameter": {"size": 4096, "delay_compensation": 0}},
 *         "features": {"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1},
 *                      "keyed_table": {"width": 8, "evict": {"every": 10000, "rows": 50000000}}}}}
 *
 * Modes are "synchronous", "asynchronous" and "geo". A tensor has the keys of an optimizer, and one
 * of "parameter", "table" and "keyed_table"; a table is as in gradstep_table_create, without
 * "concurrent". All servers of a job get the same text. Use a server from one thread. */
GRADSTEP_API gradstep_status gradstep_server_create(const char* config, size_t config_bytes, int32_t rank,
                                                    int32_t ranks, gradstep_server** out, gradstep_error*);
/* Facts of a server. */
typedef struct gradstep_server_info {
    uint32_t struct_size;
    int32_t finished; /* 1: every worker has stopped */
    uint64_t tensors; /* parameters and tables on this server, shards included */
    uint64_t pushes;  /* applied since this server started */
    double staleness; /* the average number of steps of a parameter between the pull and the push of a worker */
} gradstep_server_info;
#define GRADSTEP_SERVER_INFO_INIT                                                                                      \
    { sizeof(gradstep_server_info), 0, 0, 0, 0 }
/* Returns the facts of the server. */
GRADSTEP_API gradstep_status gradstep_server_describe(const gradstep_server*, gradstep_server_info*, gradstep_error*);
/* Return a table or a dense parameter of this server, to read it, to evict rows, to send changes, or
 * to set values before the first worker connects. Call its functions between calls of `handle`, or
 * in a task. Steps, and changes of its clock or of the rows that there are, return
 * GRADSTEP_BAD_VALUE. The handle belongs to the server, and is valid until the server is released:
 * do not release it. `first` gets the number of the first element of this server's shard, or 0 for
 * a whole parameter; NULL is allowed. GRADSTEP_BAD_VALUE if this server has none of this name. */
GRADSTEP_API gradstep_status gradstep_server_table(gradstep_server*, const char* name, gradstep_table** out,
                                                   gradstep_error*);
GRADSTEP_API gradstep_status gradstep_server_parameter(gradstep_server*, const char* name, gradstep_parameter** out,
                                                       uint64_t* first, gradstep_error*);
/* Makes the first messages of the server; `count` gets their number. */
GRADSTEP_API gradstep_status gradstep_server_begin(gradstep_server*, uint64_t* count, gradstep_error*);
/* Handles a message of rank `from`, and makes the messages to send; `count` gets their number. An
 * invalid message changes nothing: its sender gets an error message. Fails with the error of a
 * checkpoint or of a task: end the job then, since the answers to this message are lost. */
GRADSTEP_API gradstep_status gradstep_server_handle(gradstep_server*, int32_t from, const void* bytes, uint64_t size,
                                                    uint64_t* count, gradstep_error*);
/* A message to send. */
typedef struct gradstep_message {
    uint32_t struct_size;
    int32_t to; /* the rank of its receiver */
    const void* bytes;
    uint64_t size;
} gradstep_message;
#define GRADSTEP_MESSAGE_INIT                                                                                          \
    { sizeof(gradstep_message), 0, NULL, 0 }
/* Returns message `index` of the last `begin` or `handle`. Its memory is valid until the next one. */
GRADSTEP_API gradstep_status gradstep_server_message(const gradstep_server*, uint64_t index, gradstep_message*,
                                                     gradstep_error*);
/* Serves over a transport until every worker has stopped. Unlike your own loop with `handle`, it
 * also detects silent workers (GRADSTEP_RANK_FAILED), and tells all ranks why it fails. If your
 * receive function ends it, all ranks get an error. */
GRADSTEP_API gradstep_status gradstep_server_run(gradstep_server*, const gradstep_transport*, gradstep_error*);
/* Your function between two messages. Return 0, or another number to end the run with
 * GRADSTEP_BAD_VALUE, and write the reason to `message` of the error, which `run` sends to all
 * ranks. The function must not call `handle`, `run` or `release` of the server. */
typedef int32_t (*gradstep_task)(void* host, gradstep_server*, gradstep_error*);
/* Calls task(host, server, error) after every so many pushes, in `handle` and `run`: to evict rows, to send
 * changes to replicas, or to log. Rows that workers have pulled and not pushed since stay. */
GRADSTEP_API gradstep_status gradstep_server_after_every(gradstep_server*, uint64_t pushes, gradstep_task, void* host,
                                                         gradstep_error*);
/* Continues from the file if it exists, and then writes it after every `every` pushes (0: never for
 * their number), and when all workers have stopped. Each server needs its own file. Call it before
 * the first message. */
GRADSTEP_API gradstep_status gradstep_server_checkpoint(gradstep_server*, const char* path, uint64_t every,
                                                        gradstep_error*);
/* Save and load everything, with the positions of the workers, as a safetensors file. If a tensor
 * of the file does not fit, those before it have the values of the file. Workers keep their pushes
 * until the file of `checkpoint` contains them, not another file. */
GRADSTEP_API gradstep_status gradstep_server_save_file(gradstep_server*, const char* path, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_server_load_file(gradstep_server*, const char* path, gradstep_error*);
/* Lets workers start again after all have stopped, to continue from a final checkpoint. */
GRADSTEP_API gradstep_status gradstep_server_reopen(gradstep_server*, gradstep_error*);
/* Releases the server with its tables and parameters. NULL is allowed. */
GRADSTEP_API void gradstep_server_release(gradstep_server*);

/* The options of a worker. */
typedef struct gradstep_worker_options {
    uint32_t struct_size;
    int32_t num_servers;     /* as "num_servers" of the servers */
    uint64_t max_in_flight;  /* pushes that a server has not applied yet: the next push waits; > 0 */
    uint64_t max_kept;       /* pushes to a server that no checkpoint contains yet: the next one waits; > 0 */
    int32_t check_elements;  /* 1: checksums also cover the weights */
    uint32_t job;            /* as "job" of the servers */
} gradstep_worker_options;
#define GRADSTEP_WORKER_OPTIONS_INIT                                                                                   \
    { sizeof(gradstep_worker_options), 1, 16, 1024, 0, 0 }
/* Connects to all servers, and waits for them. NULL options: the defaults. The functions of the
 * transport must work until the worker is released. If the transport is concurrent, several threads
 * can call the worker at once. */
GRADSTEP_API gradstep_status gradstep_worker_create(const gradstep_transport*, const gradstep_worker_options*,
                                                    gradstep_worker** out, gradstep_error*);
/* Facts of a worker. */
typedef struct gradstep_worker_info {
    uint32_t struct_size;
    int32_t stopped;  /* 1: a server knows that this worker has stopped; only `stop` can be called */
    uint64_t workers; /* of the job */
    uint64_t position; /* pushes and barriers so far; of a new worker: those that all servers have saved */
    uint64_t applied; /* the position up to which all servers have applied its pushes, */
    uint64_t durable; /* and up to which their checkpoints contain them */
} gradstep_worker_info;
#define GRADSTEP_WORKER_INFO_INIT                                                                                      \
    { sizeof(gradstep_worker_info), 0, 0, 0, 0, 0 }
/* Returns the facts of the worker. */
GRADSTEP_API gradstep_status gradstep_worker_describe(const gradstep_worker*, gradstep_worker_info*, gradstep_error*);
/* Returns the number of elements of a dense parameter. */
GRADSTEP_API gradstep_status gradstep_worker_size(gradstep_worker*, const char* name, uint64_t* count, gradstep_error*);
/* Copies a dense parameter to `out`, which has `count` elements of `dtype`. */
GRADSTEP_API gradstep_status gradstep_worker_pull(gradstep_worker*, const char* name, int32_t dtype, void* out,
                                                  uint64_t count, gradstep_error*);
/* Copies the rows of ids or keys of a table, in their order, to `out` of count = id_count * width
 * elements. id_dtype is as in gradstep_table_update. */
GRADSTEP_API gradstep_status gradstep_worker_pull_rows(gradstep_worker*, const char* name, const void* ids,
                                                       int32_t id_dtype, uint64_t id_count, int32_t dtype, void* out,
                                                       uint64_t count, gradstep_error*);
/* Send a gradient. They return before the step, and wait only if max_in_flight earlier pushes are not
 * applied. You must pull a tensor before you push to it (GRADSTEP_BAD_SEQUENCE). Gradients of a
 * duplicate row follow "duplicates" of the table. If a server rejects a push, later calls fail. */
GRADSTEP_API gradstep_status gradstep_worker_push(gradstep_worker*, const char* name, int32_t dtype,
                                                  const void* gradient, uint64_t count, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_worker_push_rows(gradstep_worker*, const char* name, const void* ids,
                                                       int32_t id_dtype, uint64_t id_count, int32_t dtype,
                                                       const void* gradient_rows, uint64_t count, gradstep_error*);
/* Waits until every worker that has not stopped has called it equally often, and all their earlier
 * pushes are applied. */
GRADSTEP_API gradstep_status gradstep_worker_barrier(gradstep_worker*, gradstep_error*);
/* Sets a smaller position before the first push: where the interrupted step began.
 * Servers ignore pushes that they have applied. */
GRADSTEP_API gradstep_status gradstep_worker_go_on_from(gradstep_worker*, uint64_t position, gradstep_error*);
/* The last call: waits until all pushes are applied and saved, and all workers have called it. */
GRADSTEP_API gradstep_status gradstep_worker_stop(gradstep_worker*, gradstep_error*);
/* Releases the worker, which does not stop it. NULL is allowed. */
GRADSTEP_API void gradstep_worker_release(gradstep_worker*);

/* Geo-SGD: a worker trains a parameter of its own, and exchanges changes with the servers. Sets the
 * parameter to the servers' weights of `name`, whose rule must be add_delta at a rate of 1. The
 * parameter has a floating-point type and no master copy. Worker and parameter must outlive it. */
GRADSTEP_API gradstep_status gradstep_geo_create(gradstep_worker*, const char* name, gradstep_parameter*,
                                                 gradstep_geo** out, gradstep_error*);
/* Sends the change since the last exchange, divided by the number of workers, and takes over what the
 * other workers have sent. Call it every k steps of the parameter, and at the end. */
GRADSTEP_API gradstep_status gradstep_geo_exchange(gradstep_geo*, gradstep_error*);
/* Releases the exchange; the parameter stays. NULL is allowed. */
GRADSTEP_API void gradstep_geo_release(gradstep_geo*);
/* Hashes n texts to keys: keys[i] is gs::stable_hash of the bytes of `prefix` and of text i, one
 * behind the other. So "site=" and "17" give the key of "site=17" in every language. Text i is
 * texts[begins[i]] to texts[ends[i] - 1]. The keys are the same on every system and in every
 * version:
 *
 *     h = 0xcbf29ce484222325;   each byte in turn:   h = (h ^ byte) * 0x100000001b3      modulo 2^64
 *     z = h + 0x9e3779b97f4a7c15
 *     z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9
 *     z = (z ^ z >> 27) * 0x94d049bb133111eb
 *     key = z ^ z >> 31 */
GRADSTEP_API gradstep_status gradstep_hash_texts(const char* prefix, uint64_t prefix_bytes, const char* texts,
                                                 uint64_t texts_bytes, const uint64_t* begins, const uint64_t* ends,
                                                 uint64_t n, uint64_t* keys, gradstep_error*);
/* The same for n integers of `dtype`, int32 to uint64. Their texts are decimal, such as "-17". */
GRADSTEP_API gradstep_status gradstep_hash_integers(const char* prefix, uint64_t prefix_bytes, const void* integers,
                                                    int32_t dtype, uint64_t n, uint64_t* keys, gradstep_error*);

/* ---- Updaters: the library owns the clock, and you own all memory ---- */

/* Creates an updater for values and gradients of `dtype`. */
GRADSTEP_API gradstep_status gradstep_updater_create(const char* config, size_t config_bytes, int32_t dtype,
                                                     gradstep_updater** out, gradstep_error*);
/* Returns the number of slots of the state. */
GRADSTEP_API gradstep_status gradstep_updater_slot_count(const gradstep_updater*, uint64_t* count, gradstep_error*);
/* Returns the name and the dtype of a slot, and its count as documented in gradstep_slot. */
GRADSTEP_API gradstep_status gradstep_updater_slot(const gradstep_updater*, uint64_t index, gradstep_slot* info,
                                                   gradstep_error*);
/* Returns the number of elements of a slot for a tensor of rows x columns elements; columns 0: for a
 * vector of `rows` elements. Factored rules (adafactor) can have 0. Since ABI 0.3. */
GRADSTEP_API gradstep_status gradstep_updater_slot_size(const gradstep_updater*, uint64_t index, uint64_t rows,
                                                        uint64_t columns, uint64_t* count, gradstep_error*);
/* Sets the slots of a new tensor: slot_count pointers. Averages account for the steps so far. */
GRADSTEP_API gradstep_status gradstep_updater_initialize(const gradstep_updater*, const void* parameter,
                                                         void* const* slots, uint64_t count, gradstep_error*);
/* The same with a shape, as in gradstep_updater_slot_size. Factored rules need it. Since ABI 0.3. */
GRADSTEP_API gradstep_status gradstep_updater_initialize_matrix(const gradstep_updater*, const void* parameter,
                                                                void* const* slots, uint64_t rows, uint64_t columns,
                                                                gradstep_error*);
/* Call it after you have set the weights of a tensor: slots that contain weights follow
 * (docs/how_to/checkpoints.md). columns: 0 for a vector of `rows` elements. Since ABI 0.4. */
GRADSTEP_API gradstep_status gradstep_updater_weights_set(const gradstep_updater*, const void* parameter,
                                                          void* const* slots, uint64_t rows, uint64_t columns,
                                                          gradstep_error*);
/* Prepares the next step and advances the clock. Then call `apply` for every tensor, or if the rule
 * is model-wise (prodigy), apply_many once with all. With zero_gradient, they clear gradients. The
 * clips "clip_norm" and "clip_adaptive" limit each gradient's norm. "clip_global_norm" limits the
 * norm of all gradients of a call that are not skipped. A norm that is not finite is
 * GRADSTEP_BAD_VALUE. Before ABI 0.4, gradstep_updater_create rejects these clips. */
GRADSTEP_API gradstep_status gradstep_updater_next_step(gradstep_updater*, const gradstep_step_options*,
                                                        gradstep_error*);
/* Return and set the progress of the run. After `seek`, call next_step. */
GRADSTEP_API gradstep_status gradstep_updater_clock(const gradstep_updater*, gradstep_clock*, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_updater_seek(gradstep_updater*, const gradstep_clock*, gradstep_error*);
/* Like gradstep_parameter_set_numbers. Call next_step next. Since ABI 0.2. */
GRADSTEP_API gradstep_status gradstep_updater_set_numbers(gradstep_updater*, const char* const* paths,
                                                          const double* values, uint64_t n, gradstep_error*);
/* Like gradstep_parameter_config. */
GRADSTEP_API gradstep_status gradstep_updater_config(const gradstep_updater*, char* buffer, uint64_t bytes,
                                                     uint64_t* written, gradstep_error*);
/* Applies the step that next_step prepared to one tensor. The buffers must not overlap. Threads can
 * apply a step to different tensors. With on_nonfinite "skip" and "raise", a non-finite gradient
 * changes neither parameter nor slots. For random numbers, the tensors of a step are counted. */
GRADSTEP_API gradstep_status gradstep_updater_apply(const gradstep_updater*, void* parameter, const void* gradient,
                                                    void* const* slots, uint64_t count, gradstep_error*);
/* Applies the step to n tensors in one call, which splits them over threads together. All are checked
 * before any is written. Parameters and slots must not overlap each other or any gradient. Tensors
 * can share a gradient, except with zero_gradient. With on_nonfinite "skip" the others are updated,
 * with "raise" none is. If the rule is model-wise, the call is the step of the whole model, or
 * after gradstep_updaters_settle a part: apply a step once, on one thread; "skip" skips all. */
GRADSTEP_API gradstep_status gradstep_updater_apply_many(const gradstep_updater*, void* const* parameters,
                                                         const void* const* gradients, void* const* const* slots,
                                                         const uint64_t* counts, uint64_t n, gradstep_error*);
/* The same for rules that use shapes, muon and the factored ones, which gradstep_updater_apply and
 * gradstep_updater_apply_many reject. Tensor k has rows[k] x columns[k] elements in row-major
 * order; if columns[k] is 0, it is a vector of rows[k] elements, which muon rejects. Other rules
 * update the tensors as gradstep_updater_apply_many does. Since ABI 0.3. */
GRADSTEP_API gradstep_status gradstep_updater_apply_matrices(const gradstep_updater*, void* const* parameters,
                                                             const void* const* gradients, void* const* const* slots,
                                                             const uint64_t* rows, const uint64_t* columns, uint64_t n,
                                                             gradstep_error*);
/* The same with options of each tensor. Tensor k has rows[k] x columns[k] elements as in
 * gradstep_updater_apply_matrices; columns can be NULL if all are vectors. A step is prepared once
 * for each different triple of options. Rules that count all steps together (schedule_free_adam) or
 * that are model-wise have no steps of single tensors: GRADSTEP_BAD_VALUE. Since ABI 0.4. */
GRADSTEP_API gradstep_status gradstep_updater_apply_with(const gradstep_updater*, void* const* parameters,
                                                         const void* const* gradients, void* const* const* slots,
                                                         const uint64_t* rows, const uint64_t* columns, uint64_t n,
                                                         const gradstep_tensor_options*, gradstep_error*);
/* Settles the prepared steps of several updaters with the same model-wise rule and clock as the step
 * of one model. Tensor k belongs to updaters[k]. Then apply each step. Since ABI 0.3. */
GRADSTEP_API gradstep_status gradstep_updaters_settle(gradstep_updater* const* updaters, void* const* parameters,
                                                      const void* const* gradients, void* const* const* slots,
                                                      const uint64_t* counts, uint64_t n, gradstep_error*);
/* Returns the Euclidean norm of n gradients together, of counts[k] elements of `dtype` each, as the
 * clip "clip_global_norm" computes it: summed in double in a fixed order, with the same bits for
 * any number of threads. It is not finite if an element is not. NULL executor: the caller's thread.
 * Integers are GRADSTEP_UNSUPPORTED_TYPE. Since ABI 0.4. */
GRADSTEP_API gradstep_status gradstep_global_norm(int32_t dtype, const void* const* gradients, const uint64_t* counts,
                                                  uint64_t n, gradstep_executor*, double* norm, gradstep_error*);
/* Finds the first NaN or infinity in n gradients: its tensor and its element. If there is none,
 * `tensor` gets n, and `element` 0. Otherwise like gradstep_global_norm. Since ABI 0.4. */
GRADSTEP_API gradstep_status gradstep_first_nonfinite(int32_t dtype, const void* const* gradients,
                                                      const uint64_t* counts, uint64_t n, gradstep_executor*,
                                                      uint64_t* tensor, uint64_t* element, gradstep_error*);
/* Releases the updater. NULL is allowed. */
GRADSTEP_API void gradstep_updater_release(gradstep_updater*);

#ifdef __cplusplus
}
#endif

#endif
