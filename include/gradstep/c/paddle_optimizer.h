/* The optimizer library of PaddlePaddle's first parameter server (paddle/optimizer/optimizer.h of 2017), over gradstep: the same
 * functions with the same arguments, so that a program that was written for it, in C, C++ or Go, links and runs as it is.
 * docs/migrating_from_paddle.md says what is better than it was, and what that changes in a run.
 *
 * Target gradstep::paddle_optimizer. C99 and C++. Nothing throws, prints or ends the program: a function that is given NULL, a
 * size that does not fit, another element, or bytes that are no message returns NULL or PADDLE_ERROR, and changes nothing.
 * Different optimizers may be used by different threads at the same time, one optimizer by one thread at a time.
 */
#ifndef GRADSTEP_C_PADDLE_OPTIMIZER_H
#define GRADSTEP_C_PADDLE_OPTIMIZER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Elements of parameters and gradients; optimizers work on the last two. */
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

/* What a function returns that returns no size. */
enum { PADDLE_SUCCESS = 0, PADDLE_ERROR = -1 };

typedef struct paddle_optimizer paddle_optimizer;

/* An optimizer of the num_bytes / sizeof(element) elements of param_buffer, which malloc has given: from here on it belongs to the
 * optimizer, which trains in it and frees it; where NULL is returned it is still the caller's. config_proto is a serialized
 * OptimizerConfig (bindings/paddle_optimizer/optimizer_config.proto; Paddle's own is the same on the wire). NULL with 0 is an empty
 * message: SGD with a learning rate of 1. `state`: what paddle_optimizer_get_state gave of an optimizer of the same rule, element and
 * size, here or in PaddlePaddle; values and learning rate are then those of the state. NULL with 0: a run from the start. */
paddle_optimizer* paddle_create_optimizer(const unsigned char* config_proto, int config_proto_len,
                                          paddle_element_type data_type, void* param_buffer, int num_bytes,
                                          const char* state, int state_len);

/* Frees the optimizer, with its parameter. NULL is fine. Returns PADDLE_SUCCESS. */
int paddle_release_optimizer(paddle_optimizer* o);

/* One step. The gradient has the element and the size of the parameter; it is not kept, and may lie at any address. PADDLE_ERROR
 * also for one whose norm is not finite, where the configuration has clip_norm. */
int paddle_update_parameter(paddle_optimizer* o, paddle_element_type data_type, const void* gradient, int num_bytes);

/* Sets *buffer to the parameter, which every update writes, and which is there until the optimizer is released. Returns the number
 * of its elements. Of NULL: PADDLE_ERROR, and NULL in *buffer. */
int paddle_optimizer_get_weights(paddle_optimizer* o, void** buffer);

/* Sets *state to memory from malloc, which the caller frees, with all that paddle_create_optimizer needs to go on with the same
 * bits: a message that PaddlePaddle reads, too. Returns its bytes; where there are more than INT_MAX, or no memory, PADDLE_ERROR,
 * and NULL in *state. */
int paddle_optimizer_get_state(paddle_optimizer* o, const char** state);

#ifdef __cplusplus
}
#endif

#endif
