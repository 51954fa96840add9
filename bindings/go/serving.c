#include "serving.h"
#include "_cgo_export.h"

// The call of this thread. Calls nest if a transport or a task calls another server or worker.
static __thread uintptr_t current;

static int32_t send_message(void* host, int32_t to, const void* bytes, uint64_t size) {
    (void)host;
    return current == 0 ? -1 : gradstepSend(current, to, (void*)bytes, size);
}
static int32_t receive_message(void* host, int64_t milliseconds, gradstep_inbox* in) {
    (void)host;
    return current == 0 ? -1 : gradstepReceive(current, milliseconds, in);
}
static int32_t run_task(void* host, gradstep_server* server, gradstep_error* reason) {
    (void)server;
    return current == 0 ? -1 : gradstepTask(current, (uintptr_t)host, reason);
}
static gradstep_transport transport_of(int32_t rank, int32_t ranks, int64_t timeout_ms) {
    gradstep_transport out = GRADSTEP_TRANSPORT_INIT;
    out.rank = rank;
    out.ranks = ranks;
    out.concurrent = 1;
    out.timeout_ms = timeout_ms;
    out.send = send_message;
    out.receive = receive_message;
    return out;
}

#define DURING(call, expression)                                                                                       \
    uintptr_t const before = current;                                                                                  \
    current = call;                                                                                                    \
    gradstep_status const status = (expression);                                                                       \
    current = before;                                                                                                  \
    return status
#define SERVER ((gradstep_server*)server)
#define WORKER ((gradstep_worker*)worker)

gradstep_status serving_begin(uintptr_t call, uintptr_t server, uint64_t* count, gradstep_error* error) {
    DURING(call, gradstep_server_begin(SERVER, count, error));
}
gradstep_status serving_handle(uintptr_t call, uintptr_t server, int32_t from, const uint8_t* bytes, uint64_t size,
                               uint64_t* count, gradstep_error* error) {
    DURING(call, gradstep_server_handle(SERVER, from, bytes, size, count, error));
}
gradstep_status serving_after_every(uintptr_t server, uint64_t pushes, uintptr_t task, gradstep_error* error) {
    return gradstep_server_after_every(SERVER, pushes, run_task, (void*)task, error);
}
gradstep_status serving_run(uintptr_t call, uintptr_t server, int32_t rank, int32_t ranks, int64_t timeout_ms,
                            gradstep_error* error) {
    gradstep_transport const over = transport_of(rank, ranks, timeout_ms);
    DURING(call, gradstep_server_run(SERVER, &over, error));
}

gradstep_status working_create(uintptr_t call, int32_t rank, int32_t ranks, int64_t timeout_ms,
                               const gradstep_worker_options* options, gradstep_worker** out, gradstep_error* error) {
    gradstep_transport const over = transport_of(rank, ranks, timeout_ms);
    DURING(call, gradstep_worker_create(&over, options, out, error));
}
gradstep_status working_pull(uintptr_t call, uintptr_t worker, const char* name, int32_t dtype, uint8_t* out,
                             uint64_t count, gradstep_error* error) {
    DURING(call, gradstep_worker_pull(WORKER, name, dtype, out, count, error));
}
gradstep_status working_pull_rows(uintptr_t call, uintptr_t worker, const char* name, const uint8_t* ids,
                                  int32_t id_dtype, uint64_t id_count, int32_t dtype, uint8_t* out, uint64_t count,
                                  gradstep_error* error) {
    DURING(call, gradstep_worker_pull_rows(WORKER, name, ids, id_dtype, id_count, dtype, out, count, error));
}
gradstep_status working_push(uintptr_t call, uintptr_t worker, const char* name, int32_t dtype, const uint8_t* gradient,
                             uint64_t count, gradstep_error* error) {
    DURING(call, gradstep_worker_push(WORKER, name, dtype, gradient, count, error));
}
gradstep_status working_push_rows(uintptr_t call, uintptr_t worker, const char* name, const uint8_t* ids,
                                  int32_t id_dtype, uint64_t id_count, int32_t dtype, const uint8_t* rows,
                                  uint64_t count, gradstep_error* error) {
    DURING(call, gradstep_worker_push_rows(WORKER, name, ids, id_dtype, id_count, dtype, rows, count, error));
}
gradstep_status working_barrier(uintptr_t call, uintptr_t worker, gradstep_error* error) {
    DURING(call, gradstep_worker_barrier(WORKER, error));
}
gradstep_status working_stop(uintptr_t call, uintptr_t worker, gradstep_error* error) {
    DURING(call, gradstep_worker_stop(WORKER, error));
}
gradstep_status working_geo(uintptr_t call, uintptr_t worker, const char* name, uintptr_t parameter, gradstep_geo** out,
                            gradstep_error* error) {
    DURING(call, gradstep_geo_create(WORKER, name, (gradstep_parameter*)parameter, out, error));
}
gradstep_status working_exchange(uintptr_t call, uintptr_t geo, gradstep_error* error) {
    DURING(call, gradstep_geo_exchange((gradstep_geo*)geo, error));
}
