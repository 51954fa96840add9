// Click-through prediction with hashed features through the C library: FTRL in a table of keys, and
// a replica that answers queries.
#include <gradstep/c/gradstep.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { features = 4, batch = 256, steps = 300 };

static gradstep_error error = GRADSTEP_ERROR_INIT;

// Ends the program with the sentence of a call that failed.
static void check(gradstep_status status) {
    if (status == GRADSTEP_OK) return;
    fprintf(stderr, "gradstep, code %d: %s\n", (int)error.code, error.message);
    exit(1);
}

static uint64_t next(uint64_t below) { // small numbers are frequent
    static uint64_t random = 1;
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % (1 + (random >> 40) % below);
}

// Impressions: keys of the features of each, and whether there was a click.
static void read_log(uint64_t keys[batch * features], float click[batch]) {
    static const char* const names[features] = {"advertiser=", "site=", "user=", "bias="};
    static const uint64_t different[features] = {1000, 300, 1000000, 1};
    static uint64_t values[features][batch], column[batch];
    for (int i = 0; i < batch; ++i) {
        for (int f = 0; f < features; ++f) values[f][i] = next(different[f]);
        click[i] = (values[0][i] % 3 == 0) + (values[1][i] % 2 == 0) > 1 ? 1.0f : 0.0f;
    }
    // [hash]
    for (int f = 0; f < features; ++f) { // the key of "site=17", for example
        check(gradstep_hash_integers(names[f], strlen(names[f]), values[f], GRADSTEP_UINT64, batch, column, &error));
        for (int i = 0; i < batch; ++i) keys[i * features + f] = column[i];
    }
    // [hash]
}

int main(void) {
    static uint64_t keys[batch * features];
    static float click[batch], weights[batch * features], gradients[batch * features];
    // [create]
    static const char config[] = "{\"rule\": {\"name\": \"ftrl\", \"l1\": 0.001, \"l2\": 0.001},"
                                 " \"schedule\": {\"name\": \"constant\", \"rate\": 0.1},"
                                 " \"keyed_table\": {\"width\": 1, \"admit_after\": 2, \"max_rows\": 100000}}";
    gradstep_table *table = NULL, *replica = NULL;
    check(gradstep_table_create(config, strlen(config), &table, &error));
    check(gradstep_table_create(config, strlen(config), &replica, &error));
    // [create]
    double loss = 0;
    int64_t sent = 0;
    for (int t = 1; t <= steps; ++t) {
        read_log(keys, click);
        // [train]
        uint64_t const n = batch * features;
        check(gradstep_table_rows(table, keys, GRADSTEP_UINT64, n, weights, n, &error)); // 0 for keys without a row
        loss = 0;
        for (int i = 0; i < batch; ++i) {
            float score = 0;
            for (int f = 0; f < features; ++f) score += weights[i * features + f];
            float const probability = 1.0f / (1.0f + expf(-score));
            for (int f = 0; f < features; ++f) gradients[i * features + f] = probability - click[i];
            loss -= log(click[i] == 1.0f ? probability : 1.0 - probability) / batch;
        }
        check(gradstep_table_update(table, keys, GRADSTEP_UINT64, n, gradients, n, NULL, &error));
        // [train]
        if (t % 100 != 0) continue;
        // [replica]
        uint64_t evicted = 0, size = 0;
        check(gradstep_table_evict_older_than(table, t - 50, &evicted, &error)); // rows that 50 steps did not use
        gradstep_bytes* changes = NULL;
        const void* data = NULL;
        check(gradstep_table_changed_since(table, sent, GRADSTEP_CHANGES_VALUES, &changes, &error));
        check(gradstep_bytes_view(changes, &data, &size, &error)); // send these bytes to the replica's process
        check(gradstep_table_apply_changes(replica, data, size, &error));
        gradstep_bytes_release(changes);
        sent = t;
        // [replica]
        gradstep_table_info info = GRADSTEP_TABLE_INFO_INIT;
        check(gradstep_table_describe(replica, &info, &error));
        printf("step %3d  loss %.4f  rows %d  evicted %d\n", t, loss, (int)info.num_rows, (int)evicted);
    }
    gradstep_table_release(table);
    gradstep_table_release(replica);
    return loss < 0.3 ? 0 : 1;
}
