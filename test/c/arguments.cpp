// Every pointer of every function of the C library NULL in turn, and every handle released, or one
// of another kind.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "c/functions.hpp"
#include "c/handles.hpp"
#include "c/serving.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"

namespace {

// The number of a kind of handle, or -1.
template <class T>
constexpr int kind_of = std::is_same_v<T, gradstep_parameter>  ? 0
                        : std::is_same_v<T, gradstep_updater>  ? 1
                        : std::is_same_v<T, gradstep_executor> ? 2
                        : std::is_same_v<T, gradstep_table>    ? 3
                        : std::is_same_v<T, gradstep_bytes>    ? 4
                        : std::is_same_v<T, gradstep_server>   ? 5
                        : std::is_same_v<T, gradstep_worker>   ? 6
                        : std::is_same_v<T, gradstep_geo>      ? 7
                                                               : -1;

class spoiler {
public:
    // `released`: a handle of each kind.
    spoiler(void* another, std::array<void*, 8> const& released) : another_(another), released_(released) {}

    // Calls function(arguments..., &error) with one argument spoilt at a time. Arguments in
    // `optional` may be NULL.
    template <class... Parameters, class... Arguments>
    void operator()(char const* name, gradstep_status (*function)(Parameters...),
                    std::initializer_list<std::size_t> optional, Arguments... arguments) {
        called.insert(name);
        INFO(name);
        gradstep_error error = GRADSTEP_ERROR_INIT;
        std::tuple<Parameters...> const good(arguments..., &error);
        auto const refuses = [&](gradstep_status code, auto const& bad) {
            CHECK(std::apply(function, bad) == code);
            CHECK(error.code == code);
            CHECK(error.message[0] != 0);
        };
        auto const spoil = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
            using type = std::tuple_element_t<I, std::tuple<Parameters...>>;
            if constexpr (std::is_pointer_v<type>) {
                using pointee = std::remove_const_t<std::remove_pointer_t<type>>;
                INFO("argument " << I);
                auto bad = good;
                std::get<I>(bad) = nullptr;
                if (std::find(optional.begin(), optional.end(), I) == optional.end())
                    refuses(GRADSTEP_NULL_ARGUMENT, bad);
                if constexpr (kind_of<pointee> >= 0) {
                    for (void* const handle : {another_, released_[kind_of<pointee>]}) {
                        std::get<I>(bad) = static_cast<type>(handle);
                        refuses(GRADSTEP_BAD_HANDLE, bad);
                    }
                }
            }
        };
        [&]<std::size_t... I>(std::index_sequence<I...>) { (spoil(std::integral_constant<std::size_t, I>()), ...); }
        (std::make_index_sequence<sizeof...(Parameters) - 1>()); // all but the error
    }

    std::set<std::string> called;

private:
    void* another_; // memory that is no handle
    std::array<void*, 8> released_;
};
std::int32_t keep_all(void*, gradstep_row const*) { return 0; }
double score_none(void*, gradstep_row const*) { return 0; }
void run_nothing(void*, std::uint64_t, gradstep_work, void*) {}
std::int32_t no_task(void*, gradstep_server*, gradstep_error*) { return 0; }

} // namespace

TEST_CASE("Every function of the C library refuses each pointer that is NULL, and each handle that is none", "[c]") {
    constexpr std::uint64_t rows = 4, width = 3, size = rows * width, bytes = 4096;
    std::string const config = config_of(R"({"name": "adam"})", R"("average": {"name": "ema"})"),
                      plain = config_of(R"({"name": "adam"})"), compressing = config_of(R"({"name": "dgc_momentum"})");
    auto const initial = numbers<float>(size, 1), g = numbers<float>(size, 2);
    c_parameter const averaged = make(config, initial, rows), compressed = make(compressing, initial, rows);
    gradstep_parameter *const p = averaged, *const trainer = compressed;
    auto const all = [](gradstep_parameter* of) { return std::pair(values<float>(of), state(of)); };
    auto const before = all(p), trainer_before = all(trainer);

    auto const create_updater = [&](gradstep_updater** out) {
        ok([&](gradstep_error* e) {
            return gradstep_updater_create(plain.data(), plain.size(), GRADSTEP_FLOAT32, out, e);
        });
    };
    auto const create_executor = [&](gradstep_executor** out) {
        ok([&](gradstep_error* e) { return gradstep_executor_from_callback(2, run_nothing, nullptr, out, e); });
    };
    gradstep_parameter* released = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_parameter_create(plain.data(), plain.size(), GRADSTEP_FLOAT32, nullptr, 1, 1, &released, e);
    });
    std::string const of_table = R"({"rule": {"name": "sgd"}, "average": {"name": "ema"},
        "schedule": {"name": "constant", "rate": 0.0625}, "table": {"rows": 4, "width": 3}})";
    auto const create_table = [&](gradstep_table** out) {
        ok([&](gradstep_error* e) { return gradstep_table_create(of_table.data(), of_table.size(), out, e); });
    };
    gradstep_table *table = nullptr, *released_table = nullptr, *new_table = nullptr;
    for (auto* const each : {&table, &released_table}) create_table(each);
    gradstep_table_release(released_table);
    std::string const of_keys = R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.0625},
        "keyed_table": {"width": 3}})";
    gradstep_table* keyed = nullptr;
    gradstep_bytes *changes = nullptr, *released_bytes = nullptr, *new_bytes = nullptr;
    ok([&](gradstep_error* e) { return gradstep_table_create(of_keys.data(), of_keys.size(), &keyed, e); });
    for (auto* const each : {&changes, &released_bytes})
        ok([&](gradstep_error* e) { return gradstep_table_changed_since(keyed, 0, 0, each, e); });
    gradstep_bytes_release(released_bytes);
    auto const table_state = [&] {
        std::uint64_t size_of_state = 0;
        ok([&](gradstep_error* e) { return gradstep_table_state_bytes(table, &size_of_state, e); });
        std::string out(size_of_state, ' ');
        ok([&](gradstep_error* e) { return gradstep_table_save(table, out.data(), out.size(), &size_of_state, e); });
        return out;
    };
    auto const table_before = table_state();
    gradstep_updater *u = nullptr, *released_updater = nullptr;
    gradstep_executor *host = nullptr, *released_executor = nullptr;
    for (auto* const each : {&u, &released_updater}) create_updater(each);
    for (auto* const each : {&host, &released_executor}) create_executor(each);
    gradstep_parameter_release(released);
    gradstep_updater_release(released_updater);
    gradstep_executor_release(released_executor);
    ok([&](gradstep_error* e) { return gradstep_updater_next_step(u, nullptr, e); });

    gradstep_parameter* const parameters[] = {p};
    char const *const names[] = {"weight"}, *const paths[] = {"schedule.rate"};
    double const to_numbers[] = {0.5};
    void const *const gradients[] = {g.data()}, *const messages[] = {g.data()};
    std::uint64_t const counts[] = {size};
    std::int64_t const ids[] = {1};
    std::vector<float> w = initial, m(size), v(size);
    void *const tensors[] = {w.data()}, *const slots[] = {m.data(), v.data()};
    void* const* const slots_of[] = {slots};
    std::vector<char> out(bytes);
    std::uint64_t number = 0;
    void const* data = nullptr;
    gradstep_clock clock = GRADSTEP_CLOCK_INIT;
    gradstep_slot slot = GRADSTEP_SLOT_INIT;
    gradstep_parameter* new_parameter = nullptr;
    gradstep_updater* new_updater = nullptr;
    gradstep_executor* new_executor = nullptr;
    std::vector<std::uint64_t> const another(8, 42);
    folder const files;
    std::string const path = files / "model.safetensors";
    constexpr std::int32_t f32 = GRADSTEP_FLOAT32, i64 = GRADSTEP_INT64;

    std::uint64_t to_keys[1] = {};
    std::string const of_server = R"({"tensors": {"w": {"rule": {"name": "add_delta"}, "schedule": {"name": "constant",
        "rate": 1}, "parameter": {"size": 12}}, "t": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1},
        "table": {"rows": 4, "width": 3}}}})";
    gradstep_server *released_server = nullptr, *new_server = nullptr;
    gradstep_worker *released_worker = nullptr, *new_worker = nullptr;
    gradstep_geo *geo = nullptr, *released_geo = nullptr, *new_geo = nullptr;
    c_serving::server const server(of_server, 0, 2);
    c_serving::one_thread by(server);
    c_serving::worker const worker(by.transport(), 1);
    c_parameter const local = make(plain, initial);
    for (auto* const each : {&geo, &released_geo})
        ok([&](gradstep_error* e) { return gradstep_geo_create(worker, "w", local, each, e); });
    gradstep_geo_release(released_geo);
    {
        c_serving::server const dying_server(of_server, 0, 2);
        c_serving::one_thread once(dying_server);
        c_serving::worker const dying_worker(once.transport(), 1);
        released_server = dying_server;
        released_worker = dying_worker;
    }
    spoiler spoilt(const_cast<std::uint64_t*>(another.data()),
                   {released, released_updater, released_executor, released_table, released_bytes, released_server,
                    released_worker, released_geo});
#define SPOIL(function, ...) spoilt(#function, function, __VA_ARGS__)
    using none = std::initializer_list<std::size_t>;
    SPOIL(gradstep_config_canonical, none{}, config.data(), config.size(), out.data(), bytes, &number);
    SPOIL(gradstep_config_check_change, none{}, config.data(), config.size(), config.data(), config.size());
    SPOIL(gradstep_executor_from_callback, {2}, 2u, run_nothing, nullptr, &new_executor);
    SPOIL(gradstep_parameter_set_executor, {1}, p, host);
    SPOIL(gradstep_updater_set_executor, {1}, u, host);
    SPOIL(gradstep_parameter_create, {3}, config.data(), config.size(), f32, initial.data(), rows, width,
          &new_parameter);
    SPOIL(gradstep_parameter_update, {3}, p, g.data(), size, nullptr);
    SPOIL(gradstep_parameter_update_rows, {6}, p, ids, i64, 1u, g.data(), width, nullptr);
    SPOIL(gradstep_parameters_update, {4}, parameters, gradients, counts, 1u, nullptr);
    double norm = 0;
    SPOIL(gradstep_parameters_ascend, (none{4, 5}), parameters, gradients, counts, 1u, nullptr, &norm);
    SPOIL(gradstep_parameters_descend, {4}, parameters, gradients, counts, 1u, nullptr);
    std::uint16_t half_floats[size] = {};
    SPOIL(gradstep_parameter_set_bfloat16_copy, none{}, p, half_floats, size);
    SPOIL(gradstep_parameter_values, none{}, p, &data, &number);
    SPOIL(gradstep_parameter_set_values, none{}, p, g.data(), size);
    std::uint8_t const mask[rows] = {};
    SPOIL(gradstep_parameter_append, none{}, p, g.data(), width);
    SPOIL(gradstep_parameter_keep, none{}, p, mask, rows);
    SPOIL(gradstep_parameter_permute, none{}, p, ids, i64, 1u);
    SPOIL(gradstep_parameter_reset, none{}, p, ids, i64, 1u);
    SPOIL(gradstep_parameter_row, none{}, p, 1, out.data(), width);
    SPOIL(gradstep_parameter_rows, none{}, p, ids, i64, 1u, out.data(), width);
    SPOIL(gradstep_parameter_flush, none{}, p);
    SPOIL(gradstep_parameter_slot_count, none{}, p, &number);
    SPOIL(gradstep_parameter_slot, (none{2, 3}), p, 0u, &slot, &data);
    std::int32_t dtype = 0;
    SPOIL(gradstep_parameter_dtype, none{}, p, &dtype);
    SPOIL(gradstep_parameter_clock, none{}, p, &clock);
    SPOIL(gradstep_parameter_seek, none{}, p, &clock);
    SPOIL(gradstep_parameter_set_numbers, none{}, p, paths, to_numbers, 1u);
    SPOIL(gradstep_parameter_config, none{}, p, out.data(), bytes, &number);
    SPOIL(gradstep_parameter_average, none{}, p, out.data(), size);
    SPOIL(gradstep_parameter_apply_average, none{}, p);
    SPOIL(gradstep_parameter_restore, none{}, p);
    SPOIL(gradstep_parameter_state_bytes, none{}, p, &number);
    SPOIL(gradstep_parameter_save, none{}, p, out.data(), bytes, &number);
    SPOIL(gradstep_parameter_load, none{}, p, out.data(), bytes);
    SPOIL(gradstep_parameters_save_file, none{}, parameters, names, 1u, path.c_str());
    SPOIL(gradstep_parameters_load_file, none{}, parameters, names, 1u, path.c_str());
    std::int32_t outcome = 0;
    SPOIL(gradstep_parameters_load_file_with, (none{4, 5, 8}), parameters, names, 1u, path.c_str(), nullptr, &outcome,
          out.data(), bytes, &number);
    SPOIL(gradstep_parameters_check_names, none{}, parameters, names, 1u);
    SPOIL(gradstep_parameters_set_names, none{}, parameters, names, 1u);
    SPOIL(gradstep_file_names, none{}, path.c_str(), out.data(), bytes, &number);
    SPOIL(gradstep_parameter_set_shape, none{}, p, counts, 1u);
    SPOIL(gradstep_parameter_message_bound, none{}, trainer, &number);
    SPOIL(gradstep_parameter_compress, {3}, trainer, g.data(), size, nullptr, out.data(), bytes, &number);
    SPOIL(gradstep_parameter_apply_messages, none{}, trainer, messages, counts, 1u);
    SPOIL(gradstep_updater_create, none{}, plain.data(), plain.size(), f32, &new_updater);
    SPOIL(gradstep_updater_slot_count, none{}, u, &number);
    SPOIL(gradstep_updater_slot, none{}, u, 0u, &slot);
    SPOIL(gradstep_updater_initialize, none{}, u, w.data(), slots, size);
    SPOIL(gradstep_updater_slot_size, none{}, u, 0u, size, 0u, &number);
    SPOIL(gradstep_updater_initialize_matrix, none{}, u, w.data(), slots, size, 0u);
    SPOIL(gradstep_updater_weights_set, none{}, u, w.data(), slots, size, 0u);
    SPOIL(gradstep_updater_next_step, {1}, u, nullptr);
    SPOIL(gradstep_updater_clock, none{}, u, &clock);
    SPOIL(gradstep_updater_seek, none{}, u, &clock);
    SPOIL(gradstep_updater_set_numbers, none{}, u, paths, to_numbers, 1u);
    SPOIL(gradstep_updater_config, none{}, u, out.data(), bytes, &number);
    SPOIL(gradstep_updater_apply, none{}, u, w.data(), g.data(), slots, size);
    SPOIL(gradstep_updater_apply_many, none{}, u, tensors, gradients, slots_of, counts, 1u);
    std::uint64_t const columns[] = {1};
    SPOIL(gradstep_updater_apply_matrices, none{}, u, tensors, gradients, slots_of, counts, columns, 1u);
    SPOIL(gradstep_updater_apply_with, (none{5, 7}), u, tensors, gradients, slots_of, counts, columns, 1u, nullptr);
    SPOIL(gradstep_global_norm, {4}, f32, gradients, counts, 1u, host, &norm);
    SPOIL(gradstep_first_nonfinite, {4}, f32, gradients, counts, 1u, host, &number, &number);
    SPOIL(gradstep_hash_texts, none{}, "site=", 5u, "17", 2u, counts, counts, 1u, &number);
    SPOIL(gradstep_hash_integers, none{}, "site=", 5u, ids, i64, 1u, &number);
    gradstep_updater* const updaters[] = {u};
    SPOIL(gradstep_updaters_settle, none{}, updaters, tensors, gradients, slots_of, counts, 1u);

    SPOIL(gradstep_table_create, none{}, of_table.data(), of_table.size(), &new_table);
    SPOIL(gradstep_table_config, none{}, table, out.data(), bytes, &number);
    gradstep_table_info info = GRADSTEP_TABLE_INFO_INIT;
    SPOIL(gradstep_table_describe, none{}, table, &info);
    SPOIL(gradstep_table_slot_count, none{}, table, &number);
    SPOIL(gradstep_table_slot, none{}, table, 0u, &slot);
    SPOIL(gradstep_table_set_executor, {1}, table, host);
    SPOIL(gradstep_table_update, {6}, table, ids, i64, 1u, g.data(), width, nullptr);
    SPOIL(gradstep_table_update_bags, (none{8, 9}), table, ids, i64, 1u, ids, 1u, g.data(), width, nullptr, nullptr);
    SPOIL(gradstep_table_rows, none{}, table, ids, i64, 1u, out.data(), width);
    SPOIL(gradstep_table_int8_rows, none{}, table, ids, i64, 1u, out.data(), width + 8);
    SPOIL(gradstep_table_bags, {6}, table, ids, i64, 1u, ids, 1u, nullptr, out.data(), width);
    SPOIL(gradstep_table_averages, none{}, table, ids, i64, 1u, out.data(), width);
    gradstep_clock const of_table_at = GRADSTEP_CLOCK_INIT;
    SPOIL(gradstep_table_seek, none{}, table, &of_table_at);
    SPOIL(gradstep_table_apply_average, none{}, table);
    SPOIL(gradstep_table_restore, none{}, table);
    SPOIL(gradstep_table_set_rows, none{}, table, ids, i64, 1u, g.data(), width);
    SPOIL(gradstep_table_reset, none{}, table, ids, i64, 1u);
    SPOIL(gradstep_table_grow, none{}, table, rows);
    SPOIL(gradstep_table_append, none{}, table, g.data(), width);
    SPOIL(gradstep_table_keep, none{}, table, mask, rows);
    SPOIL(gradstep_table_permute, none{}, table, ids, i64, 1u);
    SPOIL(gradstep_table_flush, none{}, table);
    SPOIL(gradstep_table_clock, none{}, table, &clock);
    SPOIL(gradstep_table_state_bytes, none{}, table, &number);
    SPOIL(gradstep_table_save, none{}, table, out.data(), bytes, &number);
    SPOIL(gradstep_table_load, none{}, table, out.data(), bytes);
    SPOIL(gradstep_table_save_file, none{}, table, path.c_str());
    SPOIL(gradstep_table_load_file, (none{2, 3}), table, path.c_str(), nullptr, &outcome);
    SPOIL(gradstep_table_contains, none{}, keyed, 1u, &outcome);
    SPOIL(gradstep_table_keys, none{}, keyed, 0u, to_keys, 1u, &number);
    gradstep_key_counts key_counts = GRADSTEP_KEY_COUNTS_INIT;
    SPOIL(gradstep_table_key_counts, none{}, keyed, &key_counts);
    SPOIL(gradstep_table_reserve, none{}, keyed, rows);
    SPOIL(gradstep_table_hold, none{}, keyed, ids, i64, 1u);
    SPOIL(gradstep_table_unhold, none{}, keyed, ids, i64, 1u);
    SPOIL(gradstep_table_evict_older_than, none{}, keyed, 0, &number);
    SPOIL(gradstep_table_evict, {2}, keyed, keep_all, nullptr, &number);
    SPOIL(gradstep_table_evict_to, (none{2, 3}), keyed, 0u, score_none, nullptr, &number);
    SPOIL(gradstep_bytes_view, none{}, changes, &data, &number);
    SPOIL(gradstep_table_changed_since, none{}, keyed, 0, 0, &new_bytes);
    SPOIL(gradstep_table_apply_changes, none{}, keyed, g.data(), bytes);

    gradstep_server* const s = server;
    gradstep_worker* const k = worker;
    gradstep_server_info of = GRADSTEP_SERVER_INFO_INIT;
    gradstep_worker_info facts = GRADSTEP_WORKER_INFO_INIT;
    gradstep_message reply = GRADSTEP_MESSAGE_INIT;
    SPOIL(gradstep_server_create, none{}, of_server.data(), of_server.size(), 0, 2, &new_server);
    SPOIL(gradstep_server_describe, none{}, s, &of);
    SPOIL(gradstep_server_table, none{}, s, "t", &new_table);
    SPOIL(gradstep_server_parameter, {3}, s, "w", &new_parameter, &number);
    SPOIL(gradstep_server_begin, none{}, s, &number);
    SPOIL(gradstep_server_handle, none{}, s, 1, out.data(), bytes, &number);
    SPOIL(gradstep_server_message, none{}, s, 0u, &reply);
    SPOIL(gradstep_server_run, none{}, s, &by.transport());
    SPOIL(gradstep_server_after_every, {3}, s, 1u, no_task, nullptr);
    SPOIL(gradstep_server_checkpoint, none{}, s, path.c_str(), 1u);
    SPOIL(gradstep_server_save_file, none{}, s, path.c_str());
    SPOIL(gradstep_server_load_file, none{}, s, path.c_str());
    SPOIL(gradstep_server_reopen, none{}, s);
    SPOIL(gradstep_worker_create, {1}, &by.transport(), nullptr, &new_worker);
    SPOIL(gradstep_worker_describe, none{}, k, &facts);
    SPOIL(gradstep_worker_size, none{}, k, "w", &number);
    SPOIL(gradstep_worker_pull, none{}, k, "w", f32, out.data(), size);
    SPOIL(gradstep_worker_pull_rows, none{}, k, "t", ids, i64, 1u, f32, out.data(), width);
    SPOIL(gradstep_worker_push, none{}, k, "w", f32, g.data(), size);
    SPOIL(gradstep_worker_push_rows, none{}, k, "t", ids, i64, 1u, f32, g.data(), width);
    SPOIL(gradstep_worker_barrier, none{}, k);
    SPOIL(gradstep_worker_go_on_from, none{}, k, 0u);
    SPOIL(gradstep_worker_stop, none{}, k);
    SPOIL(gradstep_geo_create, none{}, k, "w", p, &new_geo);
    SPOIL(gradstep_geo_exchange, none{}, geo);
    CHECK(gradstep_inbox_allocate(nullptr, 0, 1) == nullptr);

    CHECK(new_server == nullptr);
    CHECK(new_worker == nullptr);
    CHECK(new_geo == nullptr);
    CHECK(server.info().pushes == 0);
    CHECK(worker.info().position == 0);
    CHECK(new_parameter == nullptr);
    CHECK(new_bytes == nullptr);
    CHECK(new_table == nullptr);
    CHECK(table_state() == table_before);
    CHECK(new_updater == nullptr);
    CHECK(new_executor == nullptr);
    CHECK(number == 0);
    CHECK(norm == 0);
    CHECK(files.names().empty());
    CHECK(w == initial);
    CHECK(out == std::vector<char>(bytes));
    CHECK(all(p) == before);
    CHECK(all(trainer) == trainer_before);
    CHECK(spoilt.called == functions_that_fail());
    for (auto* const each : {table, keyed}) gradstep_table_release(each);
    gradstep_geo_release(geo);
    gradstep_bytes_release(changes);
    gradstep_updater_release(u);
    gradstep_executor_release(host);
}
