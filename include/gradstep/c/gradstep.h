/* gradstep for C, and for every language that calls C. C99 and C++; docs/c_abi.md is the manual.
 *
 * A function that can fail returns 0 or a negative gradstep_status_code. On failure it fills in the gradstep_error that it is given
 * (NULL is fine) with the code and a sentence and, unless its comment says otherwise, changes nothing. None throws, prints or ends
 * the program. Counts are of elements, unless their name says bytes. Memory of the caller's is not kept beyond the call, unless a
 * comment says so. Different handles may be used by different threads at the same time, one handle by one thread at a time.
 *
 * An optimizer is described by a JSON string, its configuration (docs/configuration_reference.md has every key):
 *
 *     {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}}
 *
 * These keys may be added; left out, they have these values:
 *
 *     "element": "plain"        "mixed" (float16, bfloat16: a master copy in float32) or "stochastic" (rounded at random)
 *     "threads": 1              of an update; 0: one for each core that the process may use. Inside a process that runs OpenMP they are
 *                               OpenMP's, else those of one pool of the library
 *     "clip": {"name": "none"}  {"name": "clip_norm", "limit": 1}, "clip_global_norm" or "clip_value": clips gradients
 *     "on_nonfinite": "propagate"    "skip": a gradient with NaN or infinity leaves its parameter or tensor as it is; "raise": it
 *                               refuses the call, before anything is written
 *     "seed": 0, "id": 0        of what is drawn at random (stochastic rounding, the "sampled" selection of dgc_momentum): of the
 *                               run, and of this parameter among those of a model
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

/* What a program was compiled with; gradstep_abi_version() is what it runs with. A library of the same major and the same or a
 * later minor number has every function and every member of a structure that this header has. The major number is the SONAME's. */
#define GRADSTEP_ABI_MAJOR 0
#define GRADSTEP_ABI_MINOR 2

typedef int32_t gradstep_status;

enum gradstep_status_code {
    GRADSTEP_OK = 0,
    GRADSTEP_NULL_ARGUMENT = -1,    /* a required pointer (or one of an array) is NULL; allowed where the count is 0 */
    GRADSTEP_BAD_HANDLE = -2,       /* released, or no handle of this kind */
    GRADSTEP_BAD_CONFIG = -3,       /* no JSON, an unknown key, a number out of range: the message names its place */
    GRADSTEP_NOT_COMPILED = -4,     /* a combination that is not in the library: the message names what is */
    GRADSTEP_UNSUPPORTED_TYPE = -5, /* no dtype, or one that the rule does not work on */
    GRADSTEP_BAD_SIZE = -6,         /* a count that differs from what it has to be */
    GRADSTEP_BAD_BUFFER = -7,       /* misaligned, or overlapping another one */
    GRADSTEP_BAD_VALUE = -8,        /* a number or an id out of its range, a state of something else */
    GRADSTEP_NOT_FINITE = -9,       /* a gradient, where on_nonfinite is "raise" */
    GRADSTEP_BAD_SEQUENCE = -10,    /* a call that cannot follow the one before */
    GRADSTEP_OUT_OF_MEMORY = -11,
    GRADSTEP_IO_ERROR = -12,        /* the system did not read or write a file */
    GRADSTEP_EXECUTOR_FAILED = -13, /* the host's pool did not run every part once, or the system gives no threads */
    GRADSTEP_INTERNAL_ERROR = -14   /* what should not be: please report it */
};

/* Elements in memory. */
enum gradstep_dtype {
    GRADSTEP_INT32 = 0, /* integers: rule add_delta alone, whose arithmetic wraps around; and ids of rows */
    GRADSTEP_UINT32 = 1,
    GRADSTEP_INT64 = 2,
    GRADSTEP_UINT64 = 3,
    GRADSTEP_FLOAT32 = 4,
    GRADSTEP_FLOAT64 = 5,
    GRADSTEP_FLOAT16 = 6,
    GRADSTEP_BFLOAT16 = 7
};

/* Structures begin with their size, as the caller knows them: programs that were compiled with an older header go on working.
 * GRADSTEP_..._INIT sets it, and every other member to its default. */
typedef struct gradstep_error {
    uint32_t struct_size; /* 0 counts as sizeof(gradstep_error) of ABI 0.1 */
    int32_t code;         /* enum gradstep_status_code */
    char message[240];    /* UTF-8, ends with 0; "" where there was no error */
    int32_t system_code; /* GRADSTEP_IO_ERROR: the errno of the system call that failed, 0 if none did; since ABI 0.2 */
} gradstep_error;
#define GRADSTEP_ERROR_INIT                                                                                            \
    { sizeof(gradstep_error), 0, {0}, 0 }

typedef struct gradstep_slot {
    uint32_t struct_size;
    int32_t dtype; /* enum gradstep_dtype */
    char name[32]; /* "m", "v", "master", ... */
    uint64_t
        count; /* elements; of an updater 1 where the slot has one number for a whole tensor, else 0: as many as the tensor */
} gradstep_slot;
#define GRADSTEP_SLOT_INIT                                                                                             \
    { sizeof(gradstep_slot), 0, {0}, 0 }

/* What gradstep_step_options.given is the sum of. */
enum gradstep_given { GRADSTEP_GIVEN_RATE = 1, GRADSTEP_GIVEN_EPOCH = 2 };

/* Options for a single step. NULL: the defaults.
 *
 *     gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT;
 *     options.rate = 0.01, options.given |= GRADSTEP_GIVEN_RATE;
 *
 * The library refuses a rate or an epoch that differs from GRADSTEP_STEP_OPTIONS_INIT without its bit. Programs that were compiled
 * with the header of ABI 0.1 have no bits: there a rate of NaN and a negative epoch mean that none is given. */
typedef struct gradstep_step_options {
    uint32_t struct_size;
    int32_t reserved;      /* 0 */
    double gradient_scale; /* multiplies every gradient as it is read; finite */
    double rate_scale;     /* multiplies the learning rate; finite, >= 0 */
    double rate; /* with GRADSTEP_GIVEN_RATE: the learning rate of this step instead of the schedule's; finite, >= 0 */
    int64_t samples;       /* that this step has seen: the clock advances by it; >= 0 */
    int64_t epoch;         /* with GRADSTEP_GIVEN_EPOCH: the clock's epoch from this step on, >= 0; else it stays */
    int32_t zero_gradient; /* 1: every gradient is set to zero as soon as it is read; it must be writable memory then */
    int32_t reserved_too;  /* 0 */
    uint32_t given;        /* the sum of the gradstep_given of what is given; since ABI 0.2 */
    uint32_t reserved_last; /* 0 */
} gradstep_step_options;
#define GRADSTEP_STEP_OPTIONS_INIT                                                                                     \
    { sizeof(gradstep_step_options), 0, 1.0, 1.0, GRADSTEP_NAN, 0, -1, 0, 0, 0, 0 }
#define GRADSTEP_NAN (-(double)(1e308 * 1e308 - 1e308 * 1e308))

typedef struct gradstep_clock {
    uint32_t struct_size;
    int32_t reserved;
    int64_t step, samples, epoch; /* steps and samples so far */
} gradstep_clock;
#define GRADSTEP_CLOCK_INIT                                                                                            \
    { sizeof(gradstep_clock), 0, 0, 0, 0 }

typedef struct gradstep_parameter gradstep_parameter;
typedef struct gradstep_updater gradstep_updater;
typedef struct gradstep_executor gradstep_executor;

/* ---- The library ---- */

/* major * 65536 + minor. */
GRADSTEP_API uint32_t gradstep_abi_version(void);
/* "0.1.0". */
GRADSTEP_API const char* gradstep_version(void);

enum gradstep_feature {
    GRADSTEP_FEATURE_ROWS = 1,        /* gradstep_parameter_update_rows */
    GRADSTEP_FEATURE_FILES = 2,       /* gradstep_parameters_save_file */
    GRADSTEP_FEATURE_COMPRESSION = 4, /* gradstep_parameter_compress */
    GRADSTEP_FEATURE_CATCH_UP = 8     /* catch_up "exact" and "replay" */
};
/* The sum of those that it has. */
GRADSTEP_API uint64_t gradstep_features(void);
/* The instruction set that updates run with: "sse2", "avx2" (with FMA), "avx512": the best that processor and system have, or
 * the one that the environment variable GRADSTEP_SIMD names when the library is first called. "" where it names none that
 * runs here; every create function then says so. */
GRADSTEP_API const char* gradstep_simd_level(void);

/* The configuration as the library understands it: complete, with every default. `written` takes the bytes of the text, without
 * the 0 that follows it; where `bytes` is not enough for both, the code is GRADSTEP_BAD_SIZE, and nothing but `written` is written
 * (buffer may then be NULL, with bytes = 0). */
GRADSTEP_API gradstep_status gradstep_config_canonical(const char* config, size_t config_bytes, char* buffer,
                                                       uint64_t bytes, uint64_t* written, gradstep_error*);

/* ---- Threads: `threads` of a configuration, or those of a host ---- */

/* The host's own pool: run(host, parts, work, task) calls work(task, 0) to work(task, parts - 1) once each, on any threads,
 * and returns when all are done; `concurrency` parts are worth running at a time. */
typedef void (*gradstep_work)(void* task, uint64_t part);
typedef void (*gradstep_run)(void* host, uint64_t parts, gradstep_work work, void* task);
GRADSTEP_API gradstep_status gradstep_executor_from_callback(uint64_t concurrency, gradstep_run run, void* host,
                                                             gradstep_executor** out, gradstep_error*);
/* Parameters and updaters that use it keep it alive; the host's pool must be there as long. NULL is fine. */
GRADSTEP_API void gradstep_executor_release(gradstep_executor*);
/* Instead of the `threads` of the configuration, from the next update on. NULL: those again. */
GRADSTEP_API gradstep_status gradstep_parameter_set_executor(gradstep_parameter*, gradstep_executor*, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_updater_set_executor(gradstep_updater*, gradstep_executor*, gradstep_error*);

/* ---- Parameters: the library owns values, state and clock ---- */

/* rows x width elements of `dtype`; a dense vector is 1 x n or n x 1. `initial` has as many, row by row; NULL: zeros. */
GRADSTEP_API gradstep_status gradstep_parameter_create(const char* config, size_t config_bytes, int32_t dtype,
                                                       const void* initial, uint64_t rows, uint64_t width,
                                                       gradstep_parameter** out, gradstep_error*);
/* One step of all elements: `count` = rows * width gradients of the parameter's dtype. */
GRADSTEP_API gradstep_status gradstep_parameter_update(gradstep_parameter*, const void* gradient, uint64_t count,
                                                       const gradstep_step_options*, gradstep_error*);
/* One step of the rows that `ids` name (id_dtype: an integer type); gradient_rows has count = id_count * width elements. The
 * gradients of a row that is named several times are added. The other rows stay as they are, unless the configuration has
 * "catch_up": "exact" or "replay": then they miss the step, and catch up on all that they missed when a step names them, when
 * they are read, when they would miss more than is kept, and all of them by `flush` and by a step of all elements. */
GRADSTEP_API gradstep_status gradstep_parameter_update_rows(gradstep_parameter*, const void* ids, int32_t id_dtype,
                                                            uint64_t id_count, const void* gradient_rows,
                                                            uint64_t count, const gradstep_step_options*,
                                                            gradstep_error*);
/* One step of each of n different parameters, whatever their configurations are, in one call and split over threads together:
 * those of the parameter that has most. All are checked before any is written. Every gradient lies apart from the memory of all
 * parameters; several parameters may have the same one, except under zero_gradient. */
GRADSTEP_API gradstep_status gradstep_parameters_update(gradstep_parameter* const*, const void* const* gradients,
                                                        const uint64_t* counts, uint64_t n,
                                                        const gradstep_step_options*, gradstep_error*);
/* The values, row by row, all caught up, without a copy. They stay as they are until a step, `apply_messages`, a load,
 * `apply_average` or `restore` changes them, and the memory until `release`. */
GRADSTEP_API gradstep_status gradstep_parameter_values(gradstep_parameter*, const void** data, uint64_t* count,
                                                       gradstep_error*);
/* Sets all values: `count` = rows * width elements of the parameter's dtype. Rows catch up first. A master copy becomes the new values;
 * the rest of the state, the averages in it too, stays as it is, and so does the clock. Since ABI 0.2. */
GRADSTEP_API gradstep_status gradstep_parameter_set_values(gradstep_parameter*, const void* values, uint64_t count,
                                                           gradstep_error*);
/* A copy of row `id`, caught up, of `width` elements. */
GRADSTEP_API gradstep_status gradstep_parameter_row(gradstep_parameter*, int64_t id, void* out, uint64_t width,
                                                    gradstep_error*);
/* Copies of rows, in the order of ids: out has id_count * width = count elements. */
GRADSTEP_API gradstep_status gradstep_parameter_rows(gradstep_parameter*, const void* ids, int32_t id_dtype,
                                                     uint64_t id_count, void* out, uint64_t count, gradstep_error*);
/* Brings every row up to date. Under "catch_up": "touch_only", the default, every row always is. */
GRADSTEP_API gradstep_status gradstep_parameter_flush(gradstep_parameter*, gradstep_error*);
/* The state: its slots, in the order of the rule (then the master copy), as they are: not caught up. data is borrowed as the values
 * are; where rows catch up, what reads the values (`values`, `row`, `rows`, `flush`, `average`) changes the state, too.
 * gradstep_parameter_slot takes NULL for info or data. */
GRADSTEP_API gradstep_status gradstep_parameter_slot_count(const gradstep_parameter*, uint64_t* count, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_parameter_slot(gradstep_parameter*, uint64_t index, gradstep_slot* info,
                                                     const void** data, gradstep_error*);
/* The shape of the values, for files and saved states, which carry it and are refused where theirs is another one: the extents,
 * whose product is rows * width (dimensions = 0: a single number). Without it, it is rows x width where both are more than 1, and
 * else unknown, as in a file of a parameter without shape: then only the number of elements has to match. */
GRADSTEP_API gradstep_status gradstep_parameter_set_shape(gradstep_parameter*, const uint64_t* extents,
                                                          uint64_t dimensions, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_parameter_clock(const gradstep_parameter*, gradstep_clock*, gradstep_error*);
/* Puts the clock to where a run stood; not of rows that catch up, which have a history of their steps: they go on by `load`. */
GRADSTEP_API gradstep_status gradstep_parameter_seek(gradstep_parameter*, const gradstep_clock*, gradstep_error*);
/* Changes n numbers of the configuration, from the next step on: values[k] takes the place of that at paths[k], written as in error
 * messages: "rule.beta1", "schedule.rate", "regularizer.rate", "average.decay", "clip.limit", "regularizer.regularizers[1].rate",
 * "schedule.rates[0]". Values, state and clock stay. All are checked as in a configuration before any is changed
 * (GRADSTEP_BAD_CONFIG). Rows that catch up keep the numbers they have (GRADSTEP_BAD_SEQUENCE). Since ABI 0.2. */
GRADSTEP_API gradstep_status gradstep_parameter_set_numbers(gradstep_parameter*, const char* const* paths,
                                                            const double* values, uint64_t n, gradstep_error*);
/* Canonical, complete JSON; buffer, bytes and written as in gradstep_config_canonical. */
GRADSTEP_API gradstep_status gradstep_parameter_config(const gradstep_parameter*, char* buffer, uint64_t bytes,
                                                       uint64_t* written, gradstep_error*);
/* The average that "average" of the configuration keeps, of the type of the state: `count` = rows * width elements. */
GRADSTEP_API gradstep_status gradstep_parameter_average(gradstep_parameter*, void* out, uint64_t count,
                                                        gradstep_error*);
/* Puts the average in the place of the values, and the trained values back; no step in between. */
GRADSTEP_API gradstep_status gradstep_parameter_apply_average(gradstep_parameter*, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_parameter_restore(gradstep_parameter*, gradstep_error*);
/* All that a run needs to go on bit for bit, as bytes: values, state, clock, with a checksum. `load` takes those of a parameter of
 * the same size, element and rule, and changes nothing where it refuses them. The numbers of the configuration stay, but
 * `seed` and `id` become those of the state where something is drawn by them. */
GRADSTEP_API gradstep_status gradstep_parameter_state_bytes(gradstep_parameter*, uint64_t* bytes, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_parameter_save(gradstep_parameter*, void* buffer, uint64_t bytes,
                                                     uint64_t* written, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_parameter_load(gradstep_parameter*, const void* buffer, uint64_t bytes,
                                                     gradstep_error*);
/* The same of n parameters under names in one safetensors file, which C++, Python and any other reader of that format open
 * (docs/checkpoints.md). The file is there once it is whole and on the disk; until then the one before is. `load_file` wants
 * exactly the names of the file, in any order; where the system stops reading in the middle of the data (GRADSTEP_IO_ERROR), a part
 * has been loaded. */
GRADSTEP_API gradstep_status gradstep_parameters_save_file(gradstep_parameter* const*, const char* const* names,
                                                           uint64_t n, const char* path, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_parameters_load_file(gradstep_parameter* const*, const char* const* names,
                                                           uint64_t n, const char* path, gradstep_error*);
/* Whether a file can hold n parameters of these names, all together: UTF-8 that is not empty, not "__metadata__", each once, and
 * none that meets a slot of another one ("w/m" beside a "w" with a slot m). Nothing is written. For hosts that name parameters
 * long before they save them. */
GRADSTEP_API gradstep_status gradstep_parameters_check_names(gradstep_parameter* const*, const char* const* names,
                                                             uint64_t n, gradstep_error*);
/* A load that takes a part of a file, or parameters of other names or numbers of rows. `rows`: where values have another first
 * extent than those of the file and the same others, the rows that both have are loaded, with their state; the parameter keeps
 * its further rows as they are (with catch_up "exact" and "replay" it must have at least as many as the file).
 * renamed_from[k], a name in the file, is renamed_to[k] here; names that are not listed stay. */
enum gradstep_load_missing { GRADSTEP_MISSING_ERROR = 0, GRADSTEP_MISSING_KEEP = 1 }; /* the file has no such name */
enum gradstep_load_unexpected {
    GRADSTEP_UNEXPECTED_ERROR = 0,
    GRADSTEP_UNEXPECTED_IGNORE = 1
}; /* no such name is given */
enum gradstep_load_rows { GRADSTEP_ROWS_ERROR = 0, GRADSTEP_ROWS_RESIZE = 1 };
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
/* What became of a parameter. */
enum gradstep_load_outcome { GRADSTEP_LOADED = 0, GRADSTEP_KEPT = 1, GRADSTEP_RESIZED = 2 };
/* As gradstep_parameters_load_file with options (NULL: the defaults). outcomes takes n of enum gradstep_load_outcome; ignored the
 * names of the file that were left out, each followed by a 0, ignored_written bytes in all. Each may be NULL (ignored with
 * ignored_bytes = 0); where ignored_bytes is not enough, the code is GRADSTEP_BAD_SIZE and nothing is loaded, but ignored_written
 * is written. */
GRADSTEP_API gradstep_status gradstep_parameters_load_file_with(gradstep_parameter* const*, const char* const* names,
                                                                uint64_t n, const char* path,
                                                                const gradstep_load_options*, int32_t* outcomes,
                                                                char* ignored, uint64_t ignored_bytes,
                                                                uint64_t* ignored_written, gradstep_error*);
/* The names of the parameters in a file, in the order of their bytes, each followed by a 0: written bytes in all. Where `bytes` is
 * not enough, the code is GRADSTEP_BAD_SIZE, and nothing but `written` is written (buffer may then be NULL, with bytes = 0). */
GRADSTEP_API gradstep_status gradstep_file_names(const char* path, char* buffer, uint64_t bytes, uint64_t* written,
                                                 gradstep_error*);
/* NULL is fine. */
GRADSTEP_API void gradstep_parameter_release(gradstep_parameter*);

/* ---- Compressed gradients: parameters of rule "dgc_momentum" (docs/dgc.md) ----
 * The trainers of a model have a parameter each, with the same configuration and the same values at the start, and send each other
 * a message in every step, by a network of theirs. gradstep_parameter_update is both halves for a single trainer. With more,
 * it refuses a compressed step (GRADSTEP_BAD_SEQUENCE), but takes a dense one, before the ramp or of fewer than "dense_below"
 * elements, with the gradient of this trainer alone: the trainers then differ. Call compress and apply_messages in every step. */

/* The most bytes that the message of the next step has; with "selected": "exact" every message has exactly this many. */
GRADSTEP_API gradstep_status gradstep_parameter_message_bound(const gradstep_parameter*, uint64_t* bytes,
                                                              gradstep_error*);
/* The first half of a step: the gradient enters the state, the clock moves, and the message for all trainers is written to `buffer`,
 * `written` bytes of it. If `bytes` is below the bound, the code is GRADSTEP_BAD_SIZE, and only `written` is written: it is the
 * bound. If a gradient is not finite, on_nonfinite "skip" makes a message without entries. If the host's pool fails in the middle
 * (GRADSTEP_EXECUTOR_FAILED), the clock has moved and there is no message. */
GRADSTEP_API gradstep_status gradstep_parameter_compress(gradstep_parameter*, const void* gradient, uint64_t count,
                                                         const gradstep_step_options*, void* buffer, uint64_t bytes,
                                                         uint64_t* written, gradstep_error*);
/* The second half: the mean of the messages of all trainers moves the values. n is "num_trainers"; messages[k], of message_bytes[k]
 * bytes at any address, is that of rank k, this trainer's own too. They may be any bytes: those that are no message of this step and
 * this parameter are refused, nothing has changed, and the call may come again with others. In between no update and no saving. Where
 * the host's pool fails in the middle (GRADSTEP_EXECUTOR_FAILED), a part of the values may have moved, and no message is awaited. */
GRADSTEP_API gradstep_status gradstep_parameter_apply_messages(gradstep_parameter*, const void* const* messages,
                                                               const uint64_t* message_bytes, uint64_t n,
                                                               gradstep_error*);

/* ---- Updaters: policies and clock in the handle, all memory the caller's ---- */

GRADSTEP_API gradstep_status gradstep_updater_create(const char* config, size_t config_bytes, int32_t dtype,
                                                     gradstep_updater** out, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_updater_slot_count(const gradstep_updater*, uint64_t* count, gradstep_error*);
/* Name and dtype; count as gradstep_slot says. */
GRADSTEP_API gradstep_status gradstep_updater_slot(const gradstep_updater*, uint64_t index, gradstep_slot* info,
                                                   gradstep_error*);
/* Sets the slots of a tensor of `count` elements to their values at step 0. slots: slot_count pointers, NULL where there are none. */
GRADSTEP_API gradstep_status gradstep_updater_initialize(const gradstep_updater*, const void* parameter,
                                                         void* const* slots, uint64_t count, gradstep_error*);
/* Prepares the next step, and moves the clock; then `apply` to every tensor of the model. Under zero_gradient the gradients that
 * `apply` is given are written. */
GRADSTEP_API gradstep_status gradstep_updater_next_step(gradstep_updater*, const gradstep_step_options*,
                                                        gradstep_error*);
GRADSTEP_API gradstep_status gradstep_updater_clock(const gradstep_updater*, gradstep_clock*, gradstep_error*);
/* Puts the clock to where a run stood; the next call is next_step. */
GRADSTEP_API gradstep_status gradstep_updater_seek(gradstep_updater*, const gradstep_clock*, gradstep_error*);
/* As gradstep_parameter_set_numbers; the next call is next_step. Since ABI 0.2. */
GRADSTEP_API gradstep_status gradstep_updater_set_numbers(gradstep_updater*, const char* const* paths,
                                                          const double* values, uint64_t n, gradstep_error*);
GRADSTEP_API gradstep_status gradstep_updater_config(const gradstep_updater*, char* buffer, uint64_t bytes,
                                                     uint64_t* written, gradstep_error*);
/* The step that next_step prepared, of one tensor. The buffers lie apart from each other. Several threads may apply the same step
 * to different tensors. Under on_nonfinite "skip" and "raise" a gradient that is not finite leaves parameter and slots as they are; the
 * clock, which next_step has moved, stays where it is. */
GRADSTEP_API gradstep_status gradstep_updater_apply(const gradstep_updater*, void* parameter, const void* gradient,
                                                    void* const* slots, uint64_t count, gradstep_error*);
/* Of n tensors in one call, split over threads together; tensor k is the k-th in stochastic rounding. All are checked before any is
 * written. The parameters and slots of all tensors lie apart from each other and from every gradient; tensors may share a gradient, except
 * under zero_gradient. Under on_nonfinite "skip" the other tensors take the step, under "raise" none does. */
GRADSTEP_API gradstep_status gradstep_updater_apply_many(const gradstep_updater*, void* const* parameters,
                                                         const void* const* gradients, void* const* const* slots,
                                                         const uint64_t* counts, uint64_t n, gradstep_error*);
/* NULL is fine. */
GRADSTEP_API void gradstep_updater_release(gradstep_updater*);

#ifdef __cplusplus
}
#endif

#endif
