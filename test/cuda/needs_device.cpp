// Runs the tests where there is a device; elsewhere exits with 77, which ctest reports as skipped:
// the build was the test.
#if __has_include(<catch2/reporters/catch_reporter_event_listener.hpp>)
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
using listener = Catch::TestEventListenerBase;
#endif

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

struct needs_device : listener {
    using listener::listener;
    void testRunStarting(Catch::TestRunInfo const&) override {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) == cudaSuccess && devices != 0) return;
        std::puts("no CUDA device here: compiled, not run");
        std::exit(77);
    }
};
CATCH_REGISTER_LISTENER(needs_device)
