// A parameter server and a worker as two processes, with messages over a pair of sockets. POSIX.
#define _POSIX_C_SOURCE 200809L
#include <gradstep/c/gradstep.h>

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { server_rank, worker_rank, ranks, features = 5, steps = 4000 };

static gradstep_error error = GRADSTEP_ERROR_INIT;

// Ends the program with the sentence of a call that failed.
static void check(gradstep_status status) {
    if (status == GRADSTEP_OK) return;
    fprintf(stderr, "gradstep, code %d: %s\n", (int)error.code, error.message);
    exit(1);
}

// [transport]
// A rank's end of the socket, and the one short message that a worker sends to itself.
struct peer {
    int rank, socket;
    uint64_t own_size;
    char own[256];
};

static int move_all(int socket, void* bytes, uint64_t size, int writes) {
    char* at = (char*)bytes;
    while (size > 0) {
        ssize_t const n = writes ? write(socket, at, size) : read(socket, at, size);
        if (n <= 0) return -1;
        at += n;
        size -= (uint64_t)n;
    }
    return 0;
}

// write() queues messages of up to some 100 kB; for longer ones, let a thread send them.
static int32_t send_message(void* host, int32_t to, const void* bytes, uint64_t size) {
    struct peer* by = (struct peer*)host;
    if (to == by->rank) {
        if (by->own_size != 0 || size > sizeof by->own) return -1;
        memcpy(by->own, bytes, by->own_size = size);
        return 0;
    }
    return move_all(by->socket, &size, sizeof size, 1) != 0 || move_all(by->socket, (void*)bytes, size, 1) != 0;
}

static int32_t receive_message(void* host, int64_t milliseconds, gradstep_inbox* in) {
    struct peer* by = (struct peer*)host;
    if (by->own_size != 0) {
        void* to = gradstep_inbox_allocate(in, by->rank, by->own_size);
        if (to == NULL) return -1;
        memcpy(to, by->own, by->own_size);
        by->own_size = 0;
        return 0;
    }
    struct pollfd wait = {by->socket, POLLIN, 0};
    if (poll(&wait, 1, (int)milliseconds) <= 0) return 0;
    uint64_t size = 0;
    if (move_all(by->socket, &size, sizeof size, 0) != 0) return -1; // the other process has ended
    void* to = gradstep_inbox_allocate(in, 1 - by->rank, size);
    return to == NULL || move_all(by->socket, to, size, 0) != 0;
}

static gradstep_transport over(struct peer* by) {
    gradstep_transport out = GRADSTEP_TRANSPORT_INIT;
    out.rank = by->rank;
    out.ranks = ranks;
    out.send = send_message;
    out.receive = receive_message;
    out.host = by;
    return out;
}
// [transport]

// [server]
static int32_t keep_the_latest(void* host, gradstep_server* server, gradstep_error* reason) {
    gradstep_table* wide = NULL;
    uint64_t evicted = 0;
    (void)host;
    return gradstep_server_table(server, "wide", &wide, reason) ||
           gradstep_table_evict_to(wide, 200, NULL, NULL, &evicted, reason);
}

static void serve(struct peer* by) {
    static const char config[] = "{\"mode\": \"asynchronous\", \"tensors\": {"
                                 "  \"wide\": {\"rule\": {\"name\": \"ftrl\", \"l1\": 0.001},"
                                 "             \"schedule\": {\"name\": \"constant\", \"rate\": 0.1},"
                                 "             \"keyed_table\": {\"width\": 1}},"
                                 "  \"bias\": {\"rule\": {\"name\": \"adagrad\"},"
                                 "             \"schedule\": {\"name\": \"constant\", \"rate\": 0.1},"
                                 "             \"parameter\": {\"size\": 1}}}}";
    gradstep_server* server = NULL;
    gradstep_transport const transport = over(by);
    check(gradstep_server_create(config, strlen(config), by->rank, ranks, &server, &error));
    check(gradstep_server_after_every(server, 1000, keep_the_latest, NULL, &error));
    check(gradstep_server_run(server, &transport, &error)); // until every worker has stopped
    gradstep_server_info info = GRADSTEP_SERVER_INFO_INIT;
    check(gradstep_server_describe(server, &info, &error));
    printf("served %d pushes\n", (int)info.pushes);
    gradstep_server_release(server);
}
// [server]

static uint64_t next(uint64_t below) {
    static uint64_t random = 1;
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % below;
}

// [worker]
static void work(struct peer* by) {
    gradstep_worker* worker = NULL;
    gradstep_transport const transport = over(by);
    check(gradstep_worker_create(&transport, NULL, &worker, &error));
    int right = 0;
    for (int t = 0; t < steps; ++t) {
        uint64_t keys[features];
        float weights[features], gradients[features], bias = 0;
        int even = 0;
        for (int f = 0; f < features; ++f) even += (keys[f] = (uint64_t)f << 32 | next(50)) % 2 == 0;
        float const label = even > features / 2 ? 1.0f : 0.0f;
        check(gradstep_worker_pull(worker, "bias", GRADSTEP_FLOAT32, &bias, 1, &error));
        check(gradstep_worker_pull_rows(worker, "wide", keys, GRADSTEP_UINT64, features, GRADSTEP_FLOAT32, weights,
                                        features, &error));
        float score = bias;
        for (int f = 0; f < features; ++f) score += weights[f];
        float const wrong = 1.0f / (1.0f + expf(-score)) - label;
        for (int f = 0; f < features; ++f) gradients[f] = wrong;
        check(gradstep_worker_push(worker, "bias", GRADSTEP_FLOAT32, &wrong, 1, &error));
        check(gradstep_worker_push_rows(worker, "wide", keys, GRADSTEP_UINT64, features, GRADSTEP_FLOAT32, gradients,
                                        features, &error));
        if (t >= steps / 2) right += fabsf(wrong) < 0.5f;
    }
    check(gradstep_worker_stop(worker, &error));
    gradstep_worker_release(worker);
    printf("right for %d %% of the second half\n", 100 * right / (steps / 2));
}
// [worker]

int main(void) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
    pid_t const child = fork();
    if (child < 0) return 1;
    struct peer by = {child == 0 ? worker_rank : server_rank, sockets[child == 0], 0, {0}};
    close(sockets[child != 0]);
    if (child == 0) {
        work(&by);
        return 0;
    }
    serve(&by);
    int status = 0;
    waitpid(child, &status, 0);
    return status != 0;
}
