// Embedding bags through the C library: a document is a bag of words, and its score the sum of
// their rows.
#include <gradstep/c/gradstep.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { words = 1000, width = 4, documents = 64, most_words = 12, steps = 200 };

static gradstep_error error = GRADSTEP_ERROR_INIT;

// Ends the program with the sentence of a call that failed.
static void check(gradstep_status status) {
    if (status == GRADSTEP_OK) return;
    fprintf(stderr, "gradstep, code %d: %s\n", (int)error.code, error.message);
    exit(1);
}

static uint32_t next(void) {
    static uint32_t random = 1;
    random = random * 1664525u + 1013904223u;
    return random >> 8;
}

// A batch of documents: the words of document b begin at offsets[b]. Words with even numbers
// praise, the others complain.
typedef struct {
    int64_t ids[documents * most_words], offsets[documents];
    uint64_t count;
    float label[documents];
} batch;

static void make_batch(batch* of) {
    of->count = 0;
    for (int b = 0; b < documents; ++b) {
        of->offsets[b] = (int64_t)of->count;
        int balance = 0;
        for (uint32_t k = 0, n = 3 + next() % (most_words - 3); k < n; ++k) {
            of->ids[of->count] = next() % words;
            balance += of->ids[of->count++] % 2 == 0 ? 1 : -1;
        }
        of->label[b] = balance > 0 ? 1.0f : 0.0f;
    }
}

int main(void) {
    // [create]
    static const char config[] =
        "{\"rule\": {\"name\": \"adagrad\"}, \"schedule\": {\"name\": \"constant\", \"rate\": 0.1},"
        " \"regularizer\": {\"name\": \"decoupled\", \"rate\": 1e-4}, \"catch_up\": \"exact\","
        " \"type\": \"float32\","
        " \"table\": {\"rows\": 1000, \"width\": 4, \"max_norm\": 5,"
        "           \"initial\": {\"name\": \"normal\", \"mean\": 0, \"deviation\": 0.01, \"seed\": 1}}}";
    gradstep_table* table = NULL;
    check(gradstep_table_create(config, strlen(config), &table, &error));
    // [create]
    double loss = 0;
    for (int t = 1; t <= steps; ++t) {
        batch now;
        make_batch(&now);
        // [train]
        float sums[documents * width], bag_gradients[documents * width];
        check(gradstep_table_bags(table, now.ids, GRADSTEP_INT64, now.count, now.offsets, documents, NULL, sums,
                                  documents * width, &error));
        loss = 0;
        for (uint64_t b = 0; b < documents; ++b) {
            float score = 0;
            for (uint64_t j = 0; j < width; ++j) score += sums[b * width + j];
            float const probability = 1.0f / (1.0f + expf(-score));
            for (uint64_t j = 0; j < width; ++j) bag_gradients[b * width + j] = probability - now.label[b];
            loss -= log(now.label[b] == 1.0f ? probability : 1.0 - probability) / documents;
        }
        // One gradient for all words of a document. A word of several documents gets their sum.
        check(gradstep_table_update_bags(table, now.ids, GRADSTEP_INT64, now.count, now.offsets, documents,
                                         bag_gradients, documents * width, NULL, NULL, &error));
        // [train]
        if (t == 1 || t % 50 == 0) printf("step %3d  loss %.4f\n", t, loss);
    }
    gradstep_table_release(table);
    return loss < 0.3 ? 0 : 1;
}
