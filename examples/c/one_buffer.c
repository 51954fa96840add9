// AdamW on a model whose parameters lie in one buffer, as in llm.c: the gradient is clipped by its
// global norm, only matrices decay, and the caller counts the steps. The model is a network with
// one hidden layer, which learns the sine.
#include <gradstep/c/gradstep.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { hidden = 16, tensors = 4, points = 128 };

static gradstep_error error = GRADSTEP_ERROR_INIT;

static void check(gradstep_status status) {
    if (status == GRADSTEP_OK) return;
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

// [model]
typedef struct {
    float *parameters, *gradients, *m, *v; // a buffer each, of `size` elements
    uint64_t counts[tensors], size;        // the tensors lie behind each other: two matrices, two biases
    gradstep_updater* adamw;
} network;

// The gradients are clipped to a global norm of 1. The learning rate comes with each step.
static const char config[] = "{\"rule\": {\"name\": \"adam\", \"beta2\": 0.95},"
                             " \"regularizer\": {\"name\": \"decoupled\", \"rate\": 0.1},"
                             " \"schedule\": {\"name\": \"external\"},"
                             " \"clip\": {\"name\": \"clip_global_norm\", \"limit\": 1.0}}";

static void update(network* of, double learning_rate, int t) { // t = 1, 2, ...
    void *parameters[tensors], *slots[tensors][2];
    void* const* slots_of[tensors];
    const void* gradients[tensors];
    double decays[tensors];
    uint64_t at = 0;
    for (int k = 0; k < tensors; at += of->counts[k++]) {
        parameters[k] = of->parameters + at;
        gradients[k] = of->gradients + at;
        slots[k][0] = of->m + at;
        slots[k][1] = of->v + at;
        slots_of[k] = slots[k];
        decays[k] = k < 2 ? 1 : 0; // biases do not decay
    }
    gradstep_clock clock = GRADSTEP_CLOCK_INIT;
    clock.step = t - 1; // the steps before this one
    gradstep_step_options step = GRADSTEP_STEP_OPTIONS_INIT;
    step.rate = learning_rate, step.given = GRADSTEP_GIVEN_RATE;
    gradstep_tensor_options options = GRADSTEP_TENSOR_OPTIONS_INIT;
    options.decays = decays;
    check(gradstep_updater_seek(of->adamw, &clock, &error));
    check(gradstep_updater_next_step(of->adamw, &step, &error));
    check(gradstep_updater_apply_with(of->adamw, parameters, gradients, slots_of, of->counts, NULL, tensors, &options,
                                      &error));
}
// [model]

// The loss of y = w2 tanh(w1 x + b1) + b2 at points of the sine, and its gradient.
static double backward(const network* of) {
    const float *const w1 = of->parameters, *const w2 = w1 + hidden, *const b1 = w2 + hidden, *const b2 = b1 + hidden;
    float *const g1 = of->gradients, *const g2 = g1 + hidden, *const gb1 = g2 + hidden, *const gb2 = gb1 + hidden;
    double loss = 0;
    memset(of->gradients, 0, of->size * sizeof(float));
    for (int i = 0; i < points; ++i) {
        float const x = 6.0f * (float)i / points - 3;
        float y = b2[0], h[hidden];
        for (int k = 0; k < hidden; ++k) {
            h[k] = tanhf(w1[k] * x + b1[k]);
            y += w2[k] * h[k];
        }
        float const wrong = y - sinf(x);
        loss += wrong * wrong / points;
        gb2[0] += 2 * wrong / points;
        for (int k = 0; k < hidden; ++k) {
            float const of_h = 2 * wrong / points * w2[k] * (1 - h[k] * h[k]);
            g2[k] += 2 * wrong / points * h[k];
            g1[k] += of_h * x;
            gb1[k] += of_h;
        }
    }
    return loss;
}

int main(void) {
    network net = {NULL, NULL, NULL, NULL, {hidden, hidden, hidden, 1}, 3 * hidden + 1, NULL};
    float* const memory = calloc(4 * net.size, sizeof(float)); // m and v begin with zeros
    if (memory == NULL) return 1;
    net.parameters = memory;
    net.gradients = memory + net.size;
    net.m = memory + 2 * net.size;
    net.v = memory + 3 * net.size;
    for (int k = 0; k < 2 * hidden; ++k) net.parameters[k] = 0.5f * sinf(7.0f * (float)k + 1);
    check(gradstep_updater_create(config, strlen(config), GRADSTEP_FLOAT32, &net.adamw, &error));
    double loss = 0;
    for (int t = 1; t <= 1000; ++t) {
        loss = backward(&net);
        if (t % 200 == 1) {
            // [norm]
            const void* gradient = net.gradients;
            double norm = 0;
            check(gradstep_global_norm(GRADSTEP_FLOAT32, &gradient, &net.size, 1, NULL, &norm, &error));
            printf("step %4d  loss %.5f  norm of the gradient %.4f\n", t, loss, norm);
            // [norm]
        }
        update(&net, t <= 800 ? 0.02 : 0.002, t);
    }
    printf("the last loss is %.5f\n", loss);
    gradstep_updater_release(net.adamw);
    free(memory);
    return loss < 0.01 ? 0 : 1;
}
