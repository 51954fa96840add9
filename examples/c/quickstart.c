// AdamW on one parameter through the C library: fits a line to points.
#include <gradstep/c/gradstep.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The gradient of the mean squared error of y = w[0] x + w[1] at points of the line y = 2 x - 1.
static void backward(const float* w, float* gradient) {
    enum { points = 64 };
    gradient[0] = gradient[1] = 0;
    for (int i = 0; i < points; ++i) {
        float const x = (float)i / points, wrong = w[0] * x + w[1] - (2 * x - 1);
        gradient[0] += wrong * x / points;
        gradient[1] += wrong / points;
    }
}

static gradstep_error error = GRADSTEP_ERROR_INIT;

static void check(gradstep_status status) {
    if (status == GRADSTEP_OK) return;
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

int main(void) {
    // [quickstart]
    const char adamw[] = "{\"rule\": {\"name\": \"adam\"}, \"regularizer\": {\"name\": \"decoupled\", \"rate\": 0.01},"
                         " \"schedule\": {\"name\": \"cosine\", \"rate\": 1e-3, \"steps\": 10000}}";
    const float initial[2] = {0, 0};
    gradstep_parameter* line = NULL;
    check(gradstep_parameter_create(adamw, strlen(adamw), GRADSTEP_FLOAT32, initial, 1, 2, &line, &error));
    const void* w = NULL; // the values, in the library's memory
    uint64_t count = 0;
    float gradient[2];
    for (int t = 0; t < 10000; ++t) {
        check(gradstep_parameter_values(line, &w, &count, &error));
        backward(w, gradient); // yours
        check(gradstep_parameter_update(line, gradient, 2, NULL, &error));
    }
    check(gradstep_parameter_values(line, &w, &count, &error));
    const float* const values = w;
    printf("slope %.2f, intercept %.2f\n", values[0], values[1]);
    // [quickstart]
    int const good = fabsf(values[0] - 2) < 0.01f && fabsf(values[1] + 1) < 0.01f;
    gradstep_parameter_release(line);
    return good ? 0 : 1;
}
