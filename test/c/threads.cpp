// Threads on handles of their own, and on one table: under the thread sanitizer too, where little
// of the library is compiled (test_c_threads).
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "c/handles.hpp"
#include "support/numbers.hpp"

namespace {

constexpr std::uint64_t rows = 1000, width = 64, size = rows * width; // enough for a pool that all handles share
std::string const shared_pool = config_of(R"({"name": "momentum"})", R"("threads": 2)");
std::string const own_thread = config_of(R"({"name": "sgd"})");

struct result {
    std::vector<float> of_parameter, of_updater;
    std::string blob, config, error;
    bool operator==(result const&) const = default;
};

// Every kind of call that does not read a file, with handles of this thread's. No macro of Catch2
// here: it takes one thread.
result call_all(std::vector<float> const& initial, std::vector<float> const& g) {
    result out;
    for (std::string const& config : {shared_pool, own_thread}) {
        gradstep_error error = GRADSTEP_ERROR_INIT;
        gradstep_parameter *parameter = nullptr, *other = nullptr;
        for (auto* const each : {&parameter, &other})
            gradstep_parameter_create(config.data(), config.size(), GRADSTEP_FLOAT32, initial.data(), rows, width, each,
                                      &error);
        gradstep_parameter_update(parameter, g.data(), size, nullptr, &error);
        std::int64_t const ids[] = {7, 3, 7};
        gradstep_parameter_update_rows(parameter, ids, GRADSTEP_INT64, 3, g.data(), 3 * width, nullptr, &error);
        gradstep_parameter* const both[] = {parameter, other};
        void const* const gradients[] = {g.data(), g.data()};
        std::uint64_t const counts[] = {size, size};
        gradstep_parameters_update(both, gradients, counts, 2, nullptr, &error);

        std::uint64_t bytes = 0, written = 0;
        gradstep_parameter_state_bytes(parameter, &bytes, &error);
        out.blob.resize(bytes);
        gradstep_parameter_save(parameter, out.blob.data(), bytes, &written, &error);
        gradstep_parameter_load(other, out.blob.data(), bytes, &error);
        out.config.resize(4096);
        gradstep_parameter_config(other, out.config.data(), out.config.size(), &written, &error);
        void const* data = nullptr;
        std::uint64_t count = 0;
        gradstep_parameter_values(other, &data, &count, &error);
        auto const* const values = static_cast<float const*>(data);
        out.of_parameter.insert(out.of_parameter.end(), values, values + count);
        gradstep_parameter_update(parameter, g.data(), 1, nullptr, &error); // refused
        out.error = error.message;
        for (auto* const each : both) gradstep_parameter_release(each);

        gradstep_updater* updater = nullptr;
        gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &updater, &error);
        std::vector<float> w = initial, m(size);
        void* const slots[] = {m.data()};
        gradstep_updater_initialize(updater, w.data(), slots, size, &error);
        gradstep_updater_next_step(updater, nullptr, &error);
        gradstep_updater_apply(updater, w.data(), g.data(), slots, size, &error);
        gradstep_updater_release(updater);
        out.of_updater.insert(out.of_updater.end(), w.begin(), w.end());
    }
    return out;
}

} // namespace

TEST_CASE("Threads with handles of their own do not meet in the C library", "[c]") {
    auto const initial = numbers<float>(size, 1), g = numbers<float>(size, 2);
    std::vector<result> results(4);
    std::vector<std::thread> workers;
    for (result& own : results)
        workers.emplace_back([&] {
            for (int round = 0; round < 5; ++round) own = call_all(initial, g);
        });
    for (auto& worker : workers) worker.join();
    for (result const& own : results) CHECK((own == results[0]));
    CHECK(results[0].of_parameter.size() == 2 * size);
    CHECK(results[0].of_parameter[0] != initial[0]);
    CHECK(results[0].of_updater[0] != initial[0]);
    CHECK(results[0].error.find("64000") != std::string::npos);
    CHECK(results[0].blob.size() > size * sizeof(float));
}

TEST_CASE("Threads share a concurrent table of the C library and its replica", "[c]") {
    for (std::string const of_table : {R"("table": {"rows": 100, "concurrent": true, "width": 3})",
                                       R"("keyed_table": {"concurrent": true, "width": 3})"}) {
        INFO(of_table);
        std::string const config = config_of(R"({"name": "sgd"})", of_table);
        gradstep_table *table = nullptr, *replica = nullptr;
        for (auto* const each : {&table, &replica})
            ok([&](gradstep_error* e) { return gradstep_table_create(config.data(), config.size(), each, e); });
        constexpr std::size_t threads = 4, steps = 20;
        std::vector<int> failures(threads);
        std::vector<std::thread> workers;
        for (std::size_t k = 0; k < threads; ++k)
            workers.emplace_back([&, k] {
                std::vector<float> const g(9, 1.0f);
                std::vector<float> seen(9);
                for (std::size_t t = 0; t < steps; ++t) {
                    std::int64_t const ids[] = {1, static_cast<std::int64_t>(10 * k + t % 7), 1};
                    gradstep_table_info info = GRADSTEP_TABLE_INFO_INIT;
                    failures[k] += gradstep_table_update(table, ids, GRADSTEP_INT64, 3, g.data(), 9, nullptr,
                                                         nullptr) != GRADSTEP_OK;
                    failures[k] +=
                        gradstep_table_rows(table, ids, GRADSTEP_INT64, 3, seen.data(), 9, nullptr) != GRADSTEP_OK;
                    failures[k] += gradstep_table_describe(table, &info, nullptr) != GRADSTEP_OK;
                    failures[k] += gradstep_table_set_executor(table, nullptr, nullptr) != GRADSTEP_OK;
                    if (info.keyed == 1)
                        failures[k] += gradstep_table_rows(replica, ids, GRADSTEP_INT64, 3, seen.data(), 9, nullptr) !=
                                       GRADSTEP_OK;
                    if (info.keyed == 0 || k != 0) continue;
                    gradstep_bytes* changes = nullptr; // all rows, which replace the rows of the replica
                    void const* data = nullptr;
                    std::uint64_t bytes = 0;
                    failures[k] += gradstep_table_changed_since(table, 0, 1, &changes, nullptr) != GRADSTEP_OK;
                    failures[k] += gradstep_bytes_view(changes, &data, &bytes, nullptr) != GRADSTEP_OK;
                    failures[k] += gradstep_table_apply_changes(replica, data, bytes, nullptr) != GRADSTEP_OK;
                    gradstep_bytes_release(changes);
                }
            });
        for (auto& worker : workers) worker.join();
        CHECK(failures == std::vector<int>(threads));
        std::int64_t const one[] = {1};
        std::vector<float> row(3);
        ok([&](gradstep_error* e) { return gradstep_table_rows(table, one, GRADSTEP_INT64, 1, row.data(), 3, e); });
        // A rate of 1/16, twice a step; and once more where k is 0 and t % 7 is 1.
        float const expected = -0.0625f * (2.0f * threads * steps + 3.0f);
        CHECK(row == std::vector<float>(3, expected));
        for (auto* const each : {table, replica}) gradstep_table_release(each);
    }
}
