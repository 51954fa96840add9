// Calls of servers and workers during which C calls Go: the transport and the tasks. Each gets the cgo.Handle of a Go `call`, which the
// functions for C find again by their thread. So C keeps no pointer and no handle of Go's when a call has returned.
#include <stdint.h>
#include <stdlib.h>
#include <gradstep/c/gradstep.h>

// Handles of the library are integers and elements are bytes, as in parameter.go.
gradstep_status serving_begin(uintptr_t call, uintptr_t server, uint64_t* count, gradstep_error*);
gradstep_status serving_handle(uintptr_t call, uintptr_t server, int32_t from, const uint8_t* bytes, uint64_t size, uint64_t* count,
                               gradstep_error*);
gradstep_status serving_after_every(uintptr_t server, uint64_t pushes, uintptr_t task, gradstep_error*);
gradstep_status serving_run(uintptr_t call, uintptr_t server, int32_t rank, int32_t ranks, int64_t timeout_ms, gradstep_error*);

gradstep_status working_create(uintptr_t call, int32_t rank, int32_t ranks, int64_t timeout_ms, const gradstep_worker_options*,
                               gradstep_worker** out, gradstep_error*);
gradstep_status working_pull(uintptr_t call, uintptr_t worker, const char* name, int32_t dtype, uint8_t* out, uint64_t count,
                             gradstep_error*);
gradstep_status working_pull_rows(uintptr_t call, uintptr_t worker, const char* name, const uint8_t* ids, int32_t id_dtype,
                                  uint64_t id_count, int32_t dtype, uint8_t* out, uint64_t count, gradstep_error*);
gradstep_status working_push(uintptr_t call, uintptr_t worker, const char* name, int32_t dtype, const uint8_t* gradient, uint64_t count,
                             gradstep_error*);
gradstep_status working_push_rows(uintptr_t call, uintptr_t worker, const char* name, const uint8_t* ids, int32_t id_dtype,
                                  uint64_t id_count, int32_t dtype, const uint8_t* rows, uint64_t count, gradstep_error*);
gradstep_status working_barrier(uintptr_t call, uintptr_t worker, gradstep_error*);
gradstep_status working_stop(uintptr_t call, uintptr_t worker, gradstep_error*);
gradstep_status working_geo(uintptr_t call, uintptr_t worker, const char* name, uintptr_t parameter, gradstep_geo** out,
                            gradstep_error*);
gradstep_status working_exchange(uintptr_t call, uintptr_t geo, gradstep_error*);
