// Children of fork, which have no threads of their parent's.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "c/handles.hpp"
#include "support/sanitizers.hpp"

#if defined(FORKS_BESIDE_THREADS)
TEST_CASE("Handles that have stepped on two threads step on in a child of fork", "[c][any_instruction_set]") {
    constexpr std::size_t n = std::size_t{1} << 18; // enough for two threads
    std::string const rule = R"({"name": "adam"})", config = config_of(rule, R"("threads": 2)");
    std::vector<float> const w(n, 1.0f), g(n, 0.5f);
    c_parameter const alone = make(config_of(rule), w), parameter = make(config, w);
    update(alone, g);
    update(alone, g);
    auto const expected = values<float>(alone);

    gradstep_updater* updater = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &updater, e);
    });
    std::vector<float> weights = w, m(n), v(n);
    void* const slots[] = {m.data(), v.data()};
    auto const step = [&] { // without Catch, which a child must not use
        return gradstep_parameter_update(parameter, g.data(), n, nullptr, nullptr) == GRADSTEP_OK &&
               gradstep_updater_next_step(updater, nullptr, nullptr) == GRADSTEP_OK &&
               gradstep_updater_apply(updater, weights.data(), g.data(), slots, n, nullptr) == GRADSTEP_OK;
    };
    auto const has_expected = [&] {
        void const* data = nullptr;
        std::uint64_t count = 0;
        return gradstep_parameter_values(parameter, &data, &count, nullptr) == GRADSTEP_OK && count == n &&
               std::memcmp(data, expected.data(), n * sizeof(float)) == 0 && weights == expected;
    };
    REQUIRE(step());
    pid_t const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(60);
        _exit(step() && has_expected() ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    REQUIRE(step());
    CHECK(has_expected());
    gradstep_updater_release(updater);
}

TEST_CASE("A child of fork makes threads while another thread of its parent makes some", "[c][any_instruction_set]") {
    constexpr std::size_t n = std::size_t{1} << 18; // enough for two threads
    std::string const config = config_of(R"({"name": "sgd"})", R"("threads": 2)");
    std::vector<float> const w(n, 1.0f), g(n, 0.5f);
    auto const make_and_step = [&] { // without Catch, which a child must not use
        gradstep_parameter* made = nullptr;
        bool const done = gradstep_parameter_create(config.data(), config.size(), GRADSTEP_FLOAT32, w.data(), 1, n,
                                                    &made, nullptr) == GRADSTEP_OK &&
                          gradstep_parameter_update(made, g.data(), n, nullptr, nullptr) == GRADSTEP_OK;
        gradstep_parameter_release(made);
        return done;
    };
    REQUIRE(make_and_step()); // what a process does once is done
    std::atomic<bool> stop = false, failed = false;
    std::thread other([&] {
        while (!stop) failed = failed || !make_and_step();
    });
    int wrong = 0;
    for (int k = 0; k < 50; ++k) {
        pid_t const child = fork();
        if (child == 0) {
            alarm(20);
            _exit(make_and_step() ? 0 : 1);
        }
        int status = -1;
        wrong += child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        if (wrong != 0) break;
    }
    stop = true;
    other.join();
    CHECK(wrong == 0);
    CHECK(!failed);
}
#endif
