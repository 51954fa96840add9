/* The optimizer library of PaddlePaddle's first parameter server (paddle/optimizer/optimizer.h
 * of 2017), implemented by gradstep: the same functions with the same arguments. A program that was
 * written for it, in C, C++ or Go, links and runs without changes.
 * docs/how_to/migrate_from_paddle_optimizer.md lists the improvements, and what they change in a
 * run.
 *
 * Target gradstep::paddle_optimizer. C99 and C++. No function throws, prints or ends the
 * program. If an argument is NULL, a size does not fit, the element type differs, or bytes are
 * not a valid message, a function returns NULL or PADDLE_ERROR and changes nothing. An optimizer
 * is not thread-safe. Different optimizers can be used from different threads.
 */
#ifndef GRADSTEP_C_PADDLE_OPTIMIZER_H
#define GRADSTEP_C_PADDLE_OPTIMIZER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The element types of parameters and gradients; optimizers support the last two. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    PADDLE_ELEMENT_TYPE_INT32 = 0,
    PADDLE_ELEMENT_TYPE_UINT32 = 1,
    PADDLE_ELEMENT_TYPE_INT64 = 2,
    PADDLE_ELEMENT_TYPE_UINT64 = 3,
    PADDLE_ELEMENT_TYPE_FLOAT32 = 4,
    PADDLE_ELEMENT_TYPE_FLOAT64 = 5
} paddle_element_type;

/* The results of functions that return no size. */
enum { PADDLE_SUCCESS = 0, PADDLE_ERROR = -1 };

typedef struct paddle_optimizer paddle_optimizer;

/* Creates an optimizer for the num_bytes / sizeof(element) elements of param_buffer, which must
 * come from malloc. The optimizer takes ownership of it, trains in it and frees it. If NULL is
 * returned, you still own it.
 *
 * config_proto is a serialized OptimizerConfig
 * (bindings/paddle_optimizer/optimizer_config.proto; Paddle's own has the same bytes). NULL with
 * 0 is an empty message: SGD with a learning rate of 1.
 *
 * `state` is the result of paddle_optimizer_get_state for an optimizer with the same rule,
 * element and size, from gradstep or PaddlePaddle; values and learning rate then come from the
 * state. NULL with 0: starts a new run. */
paddle_optimizer* paddle_create_optimizer(const unsigned char* config_proto, int config_proto_len,
                                          paddle_element_type data_type, void* param_buffer, int num_bytes,
                                          const char* state, int state_len);

/* Frees the optimizer and its parameter. NULL is allowed. Returns PADDLE_SUCCESS. */
int paddle_release_optimizer(paddle_optimizer* o);

/* One step. The gradient has the element type and the size of the parameter. It is not kept, and
 * can be at any address. Also returns PADDLE_ERROR if its norm is not finite and the
 * configuration has clip_norm. */
int paddle_update_parameter(paddle_optimizer* o, paddle_element_type data_type, const void* gradient, int num_bytes);

/* Sets *buffer to the parameter, which every update changes, and which is valid until the
 * optimizer is released. Returns the number of its elements. For NULL: PADDLE_ERROR, and NULL in
 * *buffer. */
int paddle_optimizer_get_weights(paddle_optimizer* o, void** buffer);

/* Sets *state to memory from malloc, which the caller must free. It contains all that
 * paddle_create_optimizer needs to resume with the same bits, in a message that PaddlePaddle can
 * read too. Returns the number of bytes. If this is more than INT_MAX, or if there is no memory:
 * PADDLE_ERROR, and NULL in *state. */
int paddle_optimizer_get_state(paddle_optimizer* o, const char** state);

#ifdef __cplusplus
}
#endif

#endif
