// Logistic regression through the C library: two parameters with an optimizer each, one call a
// step, a file in between.
#include <gradstep/c/gradstep.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { inputs = 8, points = 200, steps = 300 };

static float x[points][inputs], label[points];

// Points of a normal-like distribution; the label is 1 where the sum of the first three inputs is
// above 0.5.
static void make_points(void) {
    uint32_t random = 1;
    for (int i = 0; i < points; ++i) {
        for (int j = 0; j < inputs; ++j) {
            for (int k = 0; k < 4; ++k) {
                random = random * 1664525u + 1013904223u;
                x[i][j] += (float)(random >> 8) / 16777216.0f - 0.5f;
            }
        }
        label[i] = x[i][0] + x[i][1] + x[i][2] > 0.5f ? 1.0f : 0.0f;
    }
}

// The mean of the cross entropy, and its gradient.
static double loss_of(const float* weights, const float* bias, float* of_weights, float* of_bias) {
    double loss = 0;
    memset(of_weights, 0, inputs * sizeof *of_weights);
    *of_bias = 0;
    for (int i = 0; i < points; ++i) {
        float z = *bias;
        for (int j = 0; j < inputs; ++j) z += weights[j] * x[i][j];
        float const probability = 1.0f / (1.0f + expf(-z)), wrong = (probability - label[i]) / points;
        for (int j = 0; j < inputs; ++j) of_weights[j] += wrong * x[i][j];
        *of_bias += wrong;
        loss -= log(label[i] == 1.0f ? probability : 1.0 - probability) / points;
    }
    return loss;
}

// [helpers]
static gradstep_error error = GRADSTEP_ERROR_INIT;

// Ends the program with the sentence of a call that failed.
static void check(gradstep_status status) {
    if (status == GRADSTEP_OK) return;
    fprintf(stderr, "gradstep, code %d: %s\n", (int)error.code, error.message);
    exit(1);
}

static const float* values_of(gradstep_parameter* parameter) {
    const void* data = NULL;
    uint64_t count = 0;
    check(gradstep_parameter_values(parameter, &data, &count, &error));
    return data;
}
// [helpers]

// [create]
static gradstep_parameter* create(const char* config, const float* initial, uint64_t count) {
    gradstep_parameter* parameter = NULL;
    check(gradstep_parameter_create(config, strlen(config), GRADSTEP_FLOAT32, initial, 1, count, &parameter, &error));
    return parameter;
}

// AdamW for the weights, plain descent for the bias.
static const char for_weights[] = "{\"rule\": {\"name\": \"adam\", \"beta2\": 0.99},"
                                  " \"regularizer\": {\"name\": \"decoupled\", \"rate\": 0.01},"
                                  " \"schedule\": {\"name\": \"cosine\", \"rate\": 0.1, \"steps\": 300}}";
static const char for_bias[] = "{\"rule\": {\"name\": \"sgd\"}, \"schedule\": {\"name\": \"constant\", \"rate\": 0.5}}";
// [create]

// [train]
// Trains from where the parameters stand until `last`; the loss then.
static double train(gradstep_parameter* const model[2], int64_t last) {
    float of_weights[inputs], of_bias;
    const void* const gradients[2] = {of_weights, &of_bias};
    const uint64_t counts[2] = {inputs, 1};
    gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT;
    options.samples = points;
    gradstep_clock now = GRADSTEP_CLOCK_INIT;
    for (;;) {
        double const loss = loss_of(values_of(model[0]), values_of(model[1]), of_weights, &of_bias);
        check(gradstep_parameter_clock(model[0], &now, &error));
        if (now.step % 100 == 0) printf("step %3d  loss %.4f\n", (int)now.step, loss);
        if (now.step >= last) return loss;
        check(gradstep_parameters_update(model, gradients, counts, 2, &options, &error)); // both in one call
    }
}
// [train]

int main(void) {
    make_points();
    printf("gradstep %s, updates by %s\n", gradstep_version(), gradstep_simd_level());
    // [save]
    static const float zeros[inputs];
    static const char* const names[2] = {"weights", "bias"};
    static const char path[] = "logistic_regression.safetensors";

    gradstep_parameter* const model[2] = {create(for_weights, zeros, inputs), create(for_bias, zeros, 1)};
    train(model, steps / 2);
    check(gradstep_parameters_save_file(model, names, 2, path, &error));
    double const loss = train(model, steps);

    gradstep_parameter* const resumed[2] = {create(for_weights, zeros, inputs), create(for_bias, zeros, 1)};
    check(gradstep_parameters_load_file(resumed, names, 2, path, &error)); // values, state and clock
    train(resumed, steps);
    int const same = memcmp(values_of(model[0]), values_of(resumed[0]), sizeof zeros) == 0;
    printf("a run that was stopped and went on has %s\n", same ? "the same bits" : "OTHER BITS");
    // [save]
    remove(path);

    // [error]
    gradstep_parameter* none = NULL;
    static const char wrong[] =
        "{\"rule\": {\"name\": \"adam\", \"beta1\": 1.5}, \"schedule\": {\"name\": \"constant\", \"rate\": 0.1}}";
    if (gradstep_parameter_create(wrong, strlen(wrong), GRADSTEP_FLOAT32, zeros, 1, inputs, &none, &error) ==
        GRADSTEP_BAD_CONFIG)
        printf("%s\n", error.message); // rule.beta1: 1.5 is out of range; expected [0, 1)
    // [error]

    int correct = 0;
    const float *const w = values_of(model[0]), *const b = values_of(model[1]);
    for (int i = 0; i < points; ++i) {
        float z = *b;
        for (int j = 0; j < inputs; ++j) z += w[j] * x[i][j];
        correct += (z > 0) == (label[i] == 1.0f);
    }
    printf("%d of %d points are classified correctly\n", correct, (int)points);
    for (int k = 0; k < 2; ++k) {
        gradstep_parameter_release(model[k]);
        gradstep_parameter_release(resumed[k]);
    }
    return same && none == NULL && loss < 0.2 && correct >= points * 95 / 100 ? 0 : 1;
}
