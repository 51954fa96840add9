// Where memory runs out in any call of the C library, whichever of its allocations it is: a code
// and a sentence, nothing has changed, nothing is lost; and the call that has memory does what it
// does.
#include "support/allocations.hpp"

#if defined(COUNTS_ALLOCATIONS)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "c/functions.hpp"
#include "c/handles.hpp"
#include "support/folder.hpp"

namespace {

// What is inside others, for the reader of configurations has a level more for each.
std::string const schedule = R"("schedule": {"name": "warmup", "steps": 5, "after": {"name": "chain", "boundaries": [3],
    "schedules": [{"name": "constant", "rate": 0.5}, {"name": "piecewise", "boundaries": [2], "rates": [0.5, 0.25]}]}}})";
std::string const averaged = R"({"rule": {"name": "adam"}, "average": {"name": "ema", "decay": 0.5}, )" + schedule;
std::string const regularized = R"({"rule": {"name": "adam", "epsilon_place": "hat"}, "regularizer": {"name": "all_of",
    "regularizers": [{"name": "clip_value", "limit": 0.5}, {"name": "l2", "rate": 0.25}]}, "threads": 2, "on_nonfinite": "skip", )" +
                                schedule;
std::string const all_kinds = R"({"rule": {"dialect": "torch", "name": "rmsprop", "alpha": 0.5}, "average":
    [{"name": "ema"}, {"name": "polyak"}], "catch_up": "touch_only", "regularizer": {"name": "all_of", "regularizers":
    [{"name": "proximal", "penalty": {"name": "elastic_net", "l1": 0.25, "l2": 0.5}}]}, )" +
                              schedule;
std::string const compressing =
    R"({"rule": {"name": "dgc_momentum", "rampup_begin_step": 1, "sparsity": [0.5], "dense_below": 0}, )" + schedule;
std::string const unknown_key = R"({"rule": {"name": "adam", "beta": 0.5}, )" + schedule;
std::string const not_compiled = R"({"rule": {"name": "lamb"}, "average": {"name": "ema"}, )" + schedule;
std::string const one_brace_more = averaged + "}", broken_off = R"([1, {"a": [], "b": {"c": {}}})";
std::string const clipping =
    R"({"rule": {"name": "adam"}, "clip": {"name": "clip_global_norm", "limit": 0.5}, )" + schedule;
std::string const catching_up = R"({"rule": {"name": "momentum"}, "catch_up": "exact", )" + schedule;

std::string const of_model = R"({"rule": {"name": "dog"}, )" + schedule;

std::string const of_table = R"({"rule": {"name": "sgd"}, "average": {"name": "ema"}, "type": "float32",
    "table": {"rows": 4, "width": 3, "initial": {"name": "uniform", "low": 0.25, "high": 0.5, "seed": 1},
              "max_norm": 2}, )" +
                             schedule,
                  no_table = unknown_key,
                  of_keys =
                      R"({"rule": {"name": "momentum"}, "keyed_table": {"width": 3, "admit_after": 1}, )" + schedule;

std::string const of_server = R"({"tensors": {"w": {"rule": {"name": "adam"}, "parameter": {"size": 12}, )" + schedule +
                              R"(, "t": {"rule": {"name": "sgd"}, "table": {"rows": 4, "width": 3}, )" + schedule +
                              "}}";

void run_in_order(void*, std::uint64_t parts, gradstep_work work, void* task) {
    for (std::uint64_t part = 0; part < parts; ++part) work(task, part);
}

// One of each kind of handle, and memory for calls with them.
struct scene {
    static constexpr std::uint64_t rows = 4, width = 3, size = rows * width;
    std::vector<float> const g = numbers<float>(size, 2);
    c_parameter first = make(averaged, numbers<float>(size, 1), rows), second = make(regularized, g, rows);
    gradstep_parameter* const both[2] = {first, second};
    // Too long to lie in a std::string itself.
    char const* const names[2] = {"wide.embedding.of.users.weight", "deep.tower.first.layer.weights"};
    void const* const gradients[2] = {g.data(), g.data()};
    std::uint64_t const counts[2] = {size, size};
    std::int32_t const ids[3] = {3, 1, 3};
    std::uint8_t const mask[rows] = {1, 0, 1, 1};
    std::uint32_t const order[rows] = {3, 1, 0, 2};
    gradstep_executor* host = nullptr;
    gradstep_updater* updater = nullptr;
    gradstep_table *table = nullptr, *new_table = nullptr, *keyed = nullptr;
    gradstep_bytes *changes = nullptr, *new_bytes = nullptr;
    gradstep_server *server = nullptr, *new_server = nullptr;
    gradstep_table* table_of_server = nullptr;
    gradstep_worker* new_worker = nullptr;
    std::uint64_t const keys[3] = {1, 1ull << 40, 5};
    std::vector<float> w = numbers<float>(size, 3), m = w, v = w;
    void* const slots[2] = {m.data(), v.data()};
    void* const tensors[2] = {w.data(), nullptr};
    void* const* const slots_of[2] = {slots, slots};
    std::uint64_t const counts_of[2] = {size, 0};
    c_parameter trainer = make(compressing, g, rows); // its first message is dense, the second is not
    std::vector<std::byte> message;
    c_parameter clipped = make(clipping, g, rows), away = make(catching_up, g, rows);
    gradstep_parameter* const several[3] = {clipped, trainer, away};
    void const* const gradients_of_several[3] = {g.data(), g.data(), g.data()};
    std::uint64_t const counts_of_several[3] = {size, size, size};
    char const* const paths[1] = {"rule.beta1"};
    double const to_numbers[1] = {0.5};
    folder files;
    std::string const path = files / "model.safetensors";
    std::string blob; // of `first`, at an earlier step

    // What calls write or make.
    gradstep_parameter* new_parameter = nullptr;
    gradstep_updater* new_updater = nullptr;
    gradstep_executor* new_executor = nullptr;
    std::vector<char> out = std::vector<char>(4096, '#');
    std::uint64_t number = 77, element = 77;
    double norm = 77;
    std::uint16_t half_floats[size] = {};
    gradstep_slot slot = GRADSTEP_SLOT_INIT;
    gradstep_clock clock = GRADSTEP_CLOCK_INIT;

    scene() {
        ok([&](gradstep_error* e) { return gradstep_executor_from_callback(2, run_in_order, nullptr, &host, e); });
        ok([&](gradstep_error* e) {
            return gradstep_updater_create(regularized.data(), regularized.size(), GRADSTEP_FLOAT32, &updater, e);
        });
        ok([&](gradstep_error* e) { return gradstep_table_create(of_table.data(), of_table.size(), &table, e); });
        ok([&](gradstep_error* e) { return gradstep_table_create(of_keys.data(), of_keys.size(), &keyed, e); });
        ok([&](gradstep_error* e) {
            return gradstep_table_update(keyed, keys, GRADSTEP_UINT64, 2, g.data(), 2 * width, nullptr, e);
        });
        ok([&](gradstep_error* e) { return gradstep_table_changed_since(keyed, 0, 1, &changes, e); });
        ok([&](gradstep_error* e) {
            return gradstep_server_create(of_server.data(), of_server.size(), 0, 2, &server, e);
        });
        ok([&](gradstep_error* e) { return gradstep_parameters_update(both, gradients, counts, 2, nullptr, e); });
        ok([&](gradstep_error* e) { return gradstep_updater_next_step(updater, nullptr, e); });
        for (float& x : v) x *= x;
    }
    scene(scene const&) = delete;
    scene& operator=(scene const&) = delete;
    ~scene() {
        for (auto* each : {updater, new_updater}) gradstep_updater_release(each);
        for (auto* each : {host, new_executor}) gradstep_executor_release(each);
        for (auto* each : {table, new_table, keyed}) gradstep_table_release(each);
        for (auto* each : {changes, new_bytes}) gradstep_bytes_release(each);
        for (auto* each : {server, new_server}) gradstep_server_release(each);
        gradstep_worker_release(new_worker);
        gradstep_parameter_release(new_parameter);
    }

    static std::string blob_of(gradstep_parameter* of) {
        std::uint64_t bytes = 0;
        ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(of, &bytes, e); });
        std::string out(bytes, ' ');
        ok([&](gradstep_error* e) { return gradstep_parameter_save(of, out.data(), bytes, &bytes, e); });
        return out;
    }
    template <class T> static std::string bytes_of(T const& x) {
        return {reinterpret_cast<char const*>(x.data()), x.size() * sizeof x[0]};
    }
    static std::string state_of(gradstep_parameter* of) {
        if (of == nullptr) return "none";
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        ok([&](gradstep_error* e) { return gradstep_parameter_clock(of, &at, e); });
        return bytes_of(values<float>(of)) + bytes_of(state(of)) + std::to_string(at.step);
    }
    static std::string state_of(gradstep_updater* of) {
        if (of == nullptr) return "none";
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        std::uint64_t bytes = 0;
        std::string out(4096, ' ');
        ok([&](gradstep_error* e) { return gradstep_updater_clock(of, &at, e); });
        ok([&](gradstep_error* e) { return gradstep_updater_config(of, out.data(), out.size(), &bytes, e); });
        return out + std::to_string(at.step);
    }
    static std::string state_of(gradstep_table* of) {
        if (of == nullptr) return "none";
        std::uint64_t bytes = 0;
        if (gradstep_table_state_bytes(of, &bytes, nullptr) == GRADSTEP_BAD_SEQUENCE) return "averages";
        std::string out(bytes, ' ');
        ok([&](gradstep_error* e) { return gradstep_table_save(of, out.data(), bytes, &bytes, e); });
        return out;
    }
    // All that a call may change.
    std::vector<std::string> picture() const {
        std::vector<std::string> all{state_of(first),
                                     state_of(second),
                                     state_of(trainer),
                                     state_of(clipped),
                                     state_of(away),
                                     state_of(updater),
                                     state_of(table),
                                     state_of(new_table),
                                     state_of(keyed),
                                     new_bytes == nullptr ? "none" : "some",
                                     state_of(table_of_server),
                                     new_server == nullptr ? "none" : "one",
                                     new_worker == nullptr ? "none" : "one",
                                     state_of(new_parameter),
                                     state_of(new_updater),
                                     new_executor == nullptr ? "none" : "one",
                                     bytes_of(w),
                                     bytes_of(m),
                                     bytes_of(v),
                                     bytes_of(out),
                                     std::to_string(number),
                                     slot.name,
                                     std::to_string(clock.step)};
        for (std::string const& name : files.names()) all.push_back(name + ": " + ::bytes_of(files / name));
        return all;
    }
};

// One that queues messages and gets none.
gradstep_transport broken_transport(std::int32_t rank) {
    gradstep_transport out = GRADSTEP_TRANSPORT_INIT;
    out.rank = rank;
    out.ranks = 2;
    out.send = [](void*, std::int32_t, void const*, std::uint64_t) { return 0; };
    out.receive = [](void*, std::int64_t, gradstep_inbox*) { return 1; };
    return out;
}

struct line {
    char const* name; // of the function
    gradstep_status (*call)(scene&, gradstep_error*);
    gradstep_status wanted = GRADSTEP_OK;
    void (*prepare)(scene&) = [](scene&) {};
    bool keeps_memory = false; // the handle does, for its next calls
};
gradstep_status create(std::string const& config, scene& s, gradstep_error* e) {
    return gradstep_parameter_create(config.data(), config.size(), GRADSTEP_FLOAT32, s.g.data(), scene::rows,
                                     scene::width, &s.new_parameter, e);
}
gradstep_status apply_with(scene& s, gradstep_error* e) {
    double const factors[] = {0.5, 0.25};
    gradstep_tensor_options options = GRADSTEP_TENSOR_OPTIONS_INIT;
    options.rate_scales = options.decays = factors;
    std::uint64_t const ids[] = {4, 2};
    options.ids = ids;
    return gradstep_updater_apply_with(s.new_updater, s.tensors, s.gradients, s.slots_of, s.counts_of, nullptr, 2,
                                       &options, e);
}
gradstep_status create_table(std::string const& config, scene& s, gradstep_error* e) {
    return gradstep_table_create(config.data(), config.size(), &s.new_table, e);
}
gradstep_status update_table(scene& s, gradstep_error* e) {
    return gradstep_table_update(s.table, s.ids, GRADSTEP_INT32, 3, s.g.data(), 3 * scene::width, nullptr, e);
}
gradstep_status update_keys(scene& s, gradstep_error* e) { // one of them is new
    return gradstep_table_update(s.keyed, s.keys, GRADSTEP_UINT64, 3, s.g.data(), 3 * scene::width, nullptr, e);
}
// Fills the memory for rows, by as many keys: scratch memory is released before it grows.
void train_other_keys(scene& s) {
    for (std::uint64_t const last : {7u, 9u}) {
        std::uint64_t const keys[] = {s.keys[0], s.keys[1], last};
        ok([&](gradstep_error* e) {
            return gradstep_table_update(s.keyed, keys, GRADSTEP_UINT64, 3, s.g.data(), 3 * scene::width, nullptr, e);
        });
    }
}
void train_keys(scene& s) {
    ok([&](gradstep_error* e) { return update_keys(s, e); });
}
std::int32_t is_even(void*, gradstep_row const* row) { return row->key % 2 == 0; }
double by_key(void*, gradstep_row const* row) { return static_cast<double>(row->key); }
void train_table(scene& s) {
    ok([&](gradstep_error* e) { return update_table(s, e); });
}
void put_averages_of_table(scene& s) {
    train_table(s);
    ok([&](gradstep_error* e) { return gradstep_table_apply_average(s.table, e); });
}
void keep_state_of_table(scene& s) {
    s.blob = scene::state_of(s.table);
    ok([&](gradstep_error* e) { return gradstep_table_save_file(s.table, s.path.c_str(), e); });
    train_table(s);
}
gradstep_status create_updater(std::string const& config, scene& s, gradstep_error* e) {
    return gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &s.new_updater, e);
}
gradstep_status canonical(std::string const& config, scene& s, gradstep_error* e) {
    return gradstep_config_canonical(config.data(), config.size(), s.out.data(), s.out.size(), &s.number, e);
}
gradstep_status update_rows_of_away(scene& s, gradstep_error* e) {
    return gradstep_parameter_update_rows(s.away, s.ids, GRADSTEP_INT32, 3, s.g.data(), 3 * scene::width, nullptr, e);
}
gradstep_status update_several(scene& s, gradstep_error* e) {
    return gradstep_parameters_update(s.several, s.gradients_of_several, s.counts_of_several, 3, nullptr, e);
}
void update_several_twice(scene& s) { // then the handles have all that they keep
    for (int k = 0; k < 2; ++k) ok([&](gradstep_error* e) { return update_several(s, e); });
}
gradstep_status ascend_both(scene& s, gradstep_error* e) {
    return gradstep_parameters_ascend(s.both, s.gradients, s.counts, 2, nullptr, &s.norm, e);
}
void ascend(scene& s) {
    ok([&](gradstep_error* e) { return ascend_both(s, e); });
}
void put_average(scene& s) {
    ok([&](gradstep_error* e) { return gradstep_parameter_apply_average(s.first, e); });
}
void keep_state_and_go_on(scene& s) {
    s.blob = scene::blob_of(s.first);
    ok([&](gradstep_error* e) { return gradstep_parameters_save_file(s.both, s.names, 2, s.path.c_str(), e); });
    update(s.first, s.g);
}
gradstep_status compress_to(scene& s, gradstep_error* e) {
    return gradstep_parameter_compress(s.trainer, s.g.data(), scene::size, nullptr, s.out.data(), s.out.size(),
                                       &s.number, e);
}
gradstep_status apply_to(scene& s, gradstep_error* e) {
    void const* const messages[] = {s.message.data()};
    std::uint64_t const bytes[] = {s.message.size()};
    return gradstep_parameter_apply_messages(s.trainer, messages, bytes, 1, e);
}
void send(scene& s) { s.message = compress(s.trainer, s.g); }
void take_dense_step(scene& s) { update(s.trainer, s.g); }
void send_sparse(scene& s) { take_dense_step(s), send(s); }
void point_at(scene& s, void const* data) { s.out[0] = data == nullptr ? '0' : '1'; }

line const lines[] = {
    {"gradstep_config_canonical", [](scene& s, gradstep_error* e) { return canonical(all_kinds, s, e); }},
    {"gradstep_config_check_change",
     [](scene&, gradstep_error* e) {
         return gradstep_config_check_change(all_kinds.data(), all_kinds.size(), all_kinds.data(), all_kinds.size(), e);
     }},
    {"gradstep_config_canonical", [](scene& s, gradstep_error* e) { return canonical(unknown_key, s, e); },
     GRADSTEP_BAD_CONFIG},
    {"gradstep_config_canonical", [](scene& s, gradstep_error* e) { return canonical(one_brace_more, s, e); },
     GRADSTEP_BAD_CONFIG},
    {"gradstep_executor_from_callback",
     [](scene& s, gradstep_error* e) {
         return gradstep_executor_from_callback(2, run_in_order, nullptr, &s.new_executor, e);
     }},
    {"gradstep_parameter_set_executor",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_set_executor(s.first, s.host, e); }},
    {"gradstep_updater_set_executor",
     [](scene& s, gradstep_error* e) { return gradstep_updater_set_executor(s.updater, s.host, e); }},
    {"gradstep_parameter_create", [](scene& s, gradstep_error* e) { return create(averaged, s, e); }},
    {"gradstep_parameter_create", [](scene& s, gradstep_error* e) { return create(regularized, s, e); }},
    {"gradstep_parameter_create", [](scene& s, gradstep_error* e) { return create(not_compiled, s, e); },
     GRADSTEP_NOT_COMPILED},
    {"gradstep_parameter_update",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_update(s.first, s.g.data(), scene::size, nullptr, e);
     }},
    {"gradstep_parameter_update",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_update(s.second, s.g.data(), scene::size, nullptr, e);
     }},
    {"gradstep_parameter_update_rows",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_update_rows(s.second, s.ids, GRADSTEP_INT32, 3, s.g.data(), 3 * scene::width,
                                               nullptr, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_parameters_update",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameters_update(s.both, s.gradients, s.counts, 2, nullptr, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_parameters_update", update_several, GRADSTEP_OK, update_several_twice, true},
    {"gradstep_parameters_ascend", ascend_both, GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_parameters_descend",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameters_descend(s.both, s.gradients, s.counts, 2, nullptr, e);
     },
     GRADSTEP_OK, ascend, true},
    {"gradstep_parameter_set_bfloat16_copy",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_set_bfloat16_copy(s.first, s.half_floats, scene::size, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_parameter_update_rows", update_rows_of_away, GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_parameter_values",
     [](scene& s, gradstep_error* e) {
         void const* data = nullptr;
         auto const status = gradstep_parameter_values(s.first, &data, &s.number, e);
         point_at(s, data);
         return status;
     }},
    {"gradstep_parameter_set_values",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_set_values(s.first, s.g.data(), scene::size, e); }},
    {"gradstep_parameter_append",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_append(s.first, s.g.data(), scene::width, e); }},
    {"gradstep_parameter_keep",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_keep(s.first, s.mask, scene::rows, e); }},
    {"gradstep_parameter_permute",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_permute(s.first, s.order, GRADSTEP_UINT32, scene::rows, e);
     }},
    {"gradstep_parameter_reset",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_reset(s.first, s.ids, GRADSTEP_INT32, 3, e); }},
    {"gradstep_parameter_row",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_row(s.first, 1, s.out.data(), scene::width, e); }},
    {"gradstep_parameter_rows",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_rows(s.first, s.ids, GRADSTEP_INT32, 3, s.out.data(), 3 * scene::width, e);
     }},
    {"gradstep_parameter_flush", [](scene& s, gradstep_error* e) { return gradstep_parameter_flush(s.first, e); }},
    {"gradstep_parameter_slot_count",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_slot_count(s.first, &s.number, e); }},
    {"gradstep_parameter_slot",
     [](scene& s, gradstep_error* e) {
         void const* data = nullptr;
         auto const status = gradstep_parameter_slot(s.first, 1, &s.slot, &data, e);
         point_at(s, data);
         return status;
     }},
    {"gradstep_parameter_dtype",
     [](scene& s, gradstep_error* e) {
         std::int32_t dtype = -1;
         auto const status = gradstep_parameter_dtype(s.first, &dtype, e);
         s.number = static_cast<std::uint64_t>(dtype);
         return status;
     }},
    {"gradstep_parameter_clock",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_clock(s.first, &s.clock, e); }},
    {"gradstep_parameter_seek",
     [](scene& s, gradstep_error* e) {
         gradstep_clock at = GRADSTEP_CLOCK_INIT;
         at.step = 3;
         return gradstep_parameter_seek(s.first, &at, e);
     }},
    {"gradstep_parameter_config",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_config(s.second, s.out.data(), s.out.size(), &s.number, e);
     }},
    {"gradstep_parameter_average",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_average(s.first, s.out.data(), scene::size, e); }},
    {"gradstep_parameter_apply_average",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_apply_average(s.first, e); }},
    {"gradstep_parameter_restore", [](scene& s, gradstep_error* e) { return gradstep_parameter_restore(s.first, e); },
     GRADSTEP_OK, put_average},
    {"gradstep_parameter_state_bytes",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_state_bytes(s.first, &s.number, e); }},
    {"gradstep_parameter_save",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_save(s.first, s.out.data(), s.out.size(), &s.number, e);
     }},
    {"gradstep_parameter_load",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_load(s.first, s.blob.data(), s.blob.size(), e); },
     GRADSTEP_OK, keep_state_and_go_on},
    {"gradstep_parameter_load",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_load(s.second, s.blob.data(), s.blob.size(), e); },
     GRADSTEP_BAD_VALUE, keep_state_and_go_on},
    {"gradstep_parameters_save_file",
     [](scene& s, gradstep_error* e) { return gradstep_parameters_save_file(s.both, s.names, 2, s.path.c_str(), e); },
     GRADSTEP_OK, keep_state_and_go_on},
    {"gradstep_parameters_load_file",
     [](scene& s, gradstep_error* e) { return gradstep_parameters_load_file(s.both, s.names, 2, s.path.c_str(), e); },
     GRADSTEP_OK, keep_state_and_go_on},
    {"gradstep_parameters_load_file",
     [](scene& s, gradstep_error* e) { return gradstep_parameters_load_file(s.both, s.names, 1, s.path.c_str(), e); },
     GRADSTEP_BAD_VALUE, keep_state_and_go_on},
    {"gradstep_parameters_load_file_with",
     [](scene& s, gradstep_error* e) {
         gradstep_load_options options = GRADSTEP_LOAD_OPTIONS_INIT;
         options.unexpected = GRADSTEP_UNEXPECTED_IGNORE;
         options.renamed_count = 1;
         options.renamed_from = s.names + 1;
         options.renamed_to = s.names;
         return gradstep_parameters_load_file_with(s.both + 1, s.names, 1, s.path.c_str(), &options, nullptr,
                                                   s.out.data(), s.out.size(), &s.number, e);
     },
     GRADSTEP_BAD_VALUE, keep_state_and_go_on},
    {"gradstep_parameters_load_file_with",
     [](scene& s, gradstep_error* e) {
         gradstep_load_options options = GRADSTEP_LOAD_OPTIONS_INIT;
         options.unexpected = GRADSTEP_UNEXPECTED_IGNORE;
         return gradstep_parameters_load_file_with(s.both, s.names, 1, s.path.c_str(), &options, nullptr, s.out.data(),
                                                   s.out.size(), &s.number, e);
     },
     GRADSTEP_OK, keep_state_and_go_on},
    {"gradstep_parameters_check_names",
     [](scene& s, gradstep_error* e) { return gradstep_parameters_check_names(s.both, s.names, 2, e); }},
    {"gradstep_parameters_set_names",
     [](scene& s, gradstep_error* e) { return gradstep_parameters_set_names(s.both, s.names, 2, e); }},
    {"gradstep_file_names",
     [](scene& s, gradstep_error* e) {
         return gradstep_file_names(s.path.c_str(), s.out.data(), s.out.size(), &s.number, e);
     },
     GRADSTEP_OK, keep_state_and_go_on},
    {"gradstep_parameter_set_shape",
     [](scene& s, gradstep_error* e) {
         std::uint64_t const extents[] = {s.size, 1};
         return gradstep_parameter_set_shape(s.first, extents, 2, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_parameter_message_bound",
     [](scene& s, gradstep_error* e) { return gradstep_parameter_message_bound(s.trainer, &s.number, e); }},
    {"gradstep_parameter_compress", compress_to, GRADSTEP_OK, [](scene&) {},
     true}, // the step does: the first makes one
    {"gradstep_parameter_compress", compress_to, GRADSTEP_OK, take_dense_step},
    {"gradstep_parameter_apply_messages", apply_to, GRADSTEP_OK, send},
    {"gradstep_parameter_apply_messages", apply_to, GRADSTEP_OK, send_sparse},
    {"gradstep_parameter_update",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_update(s.trainer, s.g.data(), scene::size, nullptr, e);
     },
     GRADSTEP_OK, take_dense_step},
    {"gradstep_updater_create", [](scene& s, gradstep_error* e) { return create_updater(averaged, s, e); }},
    {"gradstep_updater_create", [](scene& s, gradstep_error* e) { return create_updater(regularized, s, e); }},
    {"gradstep_updater_create", [](scene& s, gradstep_error* e) { return create_updater(broken_off, s, e); },
     GRADSTEP_BAD_CONFIG},
    {"gradstep_updater_slot_count",
     [](scene& s, gradstep_error* e) { return gradstep_updater_slot_count(s.updater, &s.number, e); }},
    {"gradstep_updater_slot",
     [](scene& s, gradstep_error* e) { return gradstep_updater_slot(s.updater, 1, &s.slot, e); }},
    {"gradstep_updater_initialize",
     [](scene& s, gradstep_error* e) {
         return gradstep_updater_initialize(s.updater, s.w.data(), s.slots, scene::size, e);
     }},
    {"gradstep_updater_slot_size",
     [](scene& s, gradstep_error* e) {
         return gradstep_updater_slot_size(s.updater, 1, scene::size, 0, &s.number, e);
     }},
    {"gradstep_updater_initialize_matrix",
     [](scene& s, gradstep_error* e) {
         return gradstep_updater_initialize_matrix(s.updater, s.w.data(), s.slots, scene::size, 1, e);
     }},
    {"gradstep_updater_weights_set",
     [](scene& s, gradstep_error* e) {
         return gradstep_updater_weights_set(s.updater, s.w.data(), s.slots, scene::size, 0, e);
     }},
    {"gradstep_updater_next_step",
     [](scene& s, gradstep_error* e) { return gradstep_updater_next_step(s.updater, nullptr, e); }},
    {"gradstep_updater_clock",
     [](scene& s, gradstep_error* e) { return gradstep_updater_clock(s.updater, &s.clock, e); }},
    {"gradstep_updater_seek",
     [](scene& s, gradstep_error* e) {
         gradstep_clock at = GRADSTEP_CLOCK_INIT;
         at.step = 3;
         return gradstep_updater_seek(s.updater, &at, e);
     }},
    {"gradstep_updater_set_numbers",
     [](scene& s, gradstep_error* e) { return gradstep_updater_set_numbers(s.updater, s.paths, s.to_numbers, 1, e); }},
    {"gradstep_parameter_set_numbers",
     [](scene& s, gradstep_error* e) {
         return gradstep_parameter_set_numbers(s.clipped, s.paths, s.to_numbers, 1, e);
     }},
    {"gradstep_updater_config",
     [](scene& s,
        gradstep_error* e) { return gradstep_updater_config(s.updater, s.out.data(), s.out.size(), &s.number, e); }},
    {"gradstep_updater_apply",
     [](scene& s,
        gradstep_error*
            e) { return gradstep_updater_apply(s.updater, s.w.data(), s.g.data(), s.slots, scene::size, e); }},
    {"gradstep_updater_apply_many",
     [](scene& s, gradstep_error* e) {
         return gradstep_updater_apply_many(s.updater, s.tensors, s.gradients, s.slots_of, s.counts_of, 2, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_updater_apply_matrices",
     [](scene& s, gradstep_error* e) {
         std::uint64_t const columns[] = {1, 1};
         return gradstep_updater_apply_matrices(s.updater, s.tensors, s.gradients, s.slots_of, s.counts_of, columns, 2,
                                                e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_updater_apply_with", [](scene& s, gradstep_error* e) { return apply_with(s, e); },
     GRADSTEP_OK,
     [](scene& s) { // the first call remembers its buffers
         ok([&](gradstep_error* e) { return create_updater(clipping, s, e); });
         ok([&](gradstep_error* e) { return gradstep_updater_next_step(s.new_updater, nullptr, e); });
         ok([&](gradstep_error* e) { return apply_with(s, e); });
     },
     true},
    {"gradstep_global_norm",
     [](scene& s, gradstep_error* e) {
         return gradstep_global_norm(GRADSTEP_FLOAT32, s.gradients, s.counts_of, 2, s.host, &s.norm, e);
     }},
    {"gradstep_first_nonfinite",
     [](scene& s, gradstep_error* e) {
         return gradstep_first_nonfinite(GRADSTEP_FLOAT32, s.gradients, s.counts_of, 2, s.host, &s.number, &s.element,
                                         e);
     }},
    {"gradstep_hash_texts",
     [](scene& s, gradstep_error* e) {
         std::uint64_t const begins[] = {0}, ends[] = {2};
         return gradstep_hash_texts("site=", 5, "17", 2, begins, ends, 1, &s.number, e);
     }},
    {"gradstep_hash_integers",
     [](scene& s, gradstep_error* e) {
         std::int64_t const integers[] = {17};
         return gradstep_hash_integers("site=", 5, integers, GRADSTEP_INT64, 1, &s.number, e);
     }},
    {"gradstep_table_create", [](scene& s, gradstep_error* e) { return create_table(of_table, s, e); }},
    {"gradstep_table_create", [](scene& s, gradstep_error* e) { return create_table(no_table, s, e); },
     GRADSTEP_BAD_CONFIG},
    {"gradstep_table_config",
     [](scene& s, gradstep_error* e) {
         return gradstep_table_config(s.table, s.out.data(), s.out.size(), &s.number, e);
     }},
    {"gradstep_table_describe",
     [](scene& s, gradstep_error* e) {
         gradstep_table_info info = GRADSTEP_TABLE_INFO_INIT;
         auto const status = gradstep_table_describe(s.table, &info, e);
         s.number = info.num_rows;
         return status;
     }},
    {"gradstep_table_slot_count",
     [](scene& s, gradstep_error* e) { return gradstep_table_slot_count(s.table, &s.number, e); }},
    {"gradstep_table_slot", [](scene& s, gradstep_error* e) { return gradstep_table_slot(s.table, 0, &s.slot, e); }},
    {"gradstep_table_set_executor",
     [](scene& s, gradstep_error* e) { return gradstep_table_set_executor(s.table, s.host, e); }},
    {"gradstep_table_update", update_table, GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_table_update_bags",
     [](scene& s, gradstep_error* e) {
         std::int32_t const offsets[] = {0, 2};
         return gradstep_table_update_bags(s.table, s.ids, GRADSTEP_INT32, 3, offsets, 2, s.g.data(), 2 * scene::width,
                                           nullptr, nullptr, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_table_bags",
     [](scene& s, gradstep_error* e) {
         std::int32_t const offsets[] = {0, 2};
         return gradstep_table_bags(s.table, s.ids, GRADSTEP_INT32, 3, offsets, 2, nullptr, s.out.data(),
                                    2 * scene::width, e);
     }},
    {"gradstep_table_rows",
     [](scene& s, gradstep_error* e) {
         return gradstep_table_rows(s.table, s.ids, GRADSTEP_INT32, 3, s.out.data(), 3 * scene::width, e);
     }},
    {"gradstep_table_int8_rows",
     [](scene& s, gradstep_error* e) {
         return gradstep_table_int8_rows(s.table, s.ids, GRADSTEP_INT32, 3, s.out.data(), 3 * (scene::width + 8), e);
     }},
    {"gradstep_table_averages",
     [](scene& s, gradstep_error* e) {
         return gradstep_table_averages(s.table, s.ids, GRADSTEP_INT32, 3, s.out.data(), 3 * scene::width, e);
     },
     GRADSTEP_OK, train_table},
    {"gradstep_table_apply_average",
     [](scene& s, gradstep_error* e) { return gradstep_table_apply_average(s.table, e); }, GRADSTEP_OK, train_table,
     true},
    {"gradstep_table_restore", [](scene& s, gradstep_error* e) { return gradstep_table_restore(s.table, e); },
     GRADSTEP_OK, put_averages_of_table},
    {"gradstep_table_set_rows",
     [](scene& s, gradstep_error* e) {
         return gradstep_table_set_rows(s.table, s.ids, GRADSTEP_INT32, 2, s.g.data(), 2 * scene::width, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_table_reset",
     [](scene& s, gradstep_error* e) { return gradstep_table_reset(s.table, s.ids, GRADSTEP_INT32, 2, e); },
     GRADSTEP_OK, train_table, true},
    {"gradstep_table_grow", [](scene& s, gradstep_error* e) { return gradstep_table_grow(s.table, 9, e); }, GRADSTEP_OK,
     [](scene&) {}, true},
    {"gradstep_table_append",
     [](scene& s, gradstep_error* e) { return gradstep_table_append(s.table, s.g.data(), scene::width, e); },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_table_keep",
     [](scene& s, gradstep_error* e) { return gradstep_table_keep(s.table, s.mask, scene::rows, e); }, GRADSTEP_OK,
     train_table, true},
    {"gradstep_table_permute",
     [](scene& s, gradstep_error* e) {
         std::int32_t const order[] = {3, 1, 0, 2};
         return gradstep_table_permute(s.table, order, GRADSTEP_INT32, scene::rows, e);
     },
     GRADSTEP_OK, train_table, true},
    {"gradstep_table_flush", [](scene& s, gradstep_error* e) { return gradstep_table_flush(s.table, e); }},
    {"gradstep_table_clock",
     [](scene& s, gradstep_error* e) { return gradstep_table_clock(s.table, &s.clock, e); }, GRADSTEP_OK, train_table},
    {"gradstep_table_seek",
     [](scene& s, gradstep_error* e) {
         gradstep_clock at = GRADSTEP_CLOCK_INIT;
         at.step = 9;
         return gradstep_table_seek(s.table, &at, e);
     },
     GRADSTEP_OK, keep_state_of_table},
    {"gradstep_table_state_bytes",
     [](scene& s, gradstep_error* e) { return gradstep_table_state_bytes(s.table, &s.number, e); }},
    {"gradstep_table_save",
     [](scene& s, gradstep_error* e) {
         return gradstep_table_save(s.table, s.out.data(), s.out.size(), &s.number, e);
     }},
    {"gradstep_table_load",
     [](scene& s, gradstep_error* e) { return gradstep_table_load(s.table, s.blob.data(), s.blob.size(), e); },
     GRADSTEP_OK, keep_state_of_table, true},
    {"gradstep_table_save_file",
     [](scene& s, gradstep_error* e) { return gradstep_table_save_file(s.table, s.path.c_str(), e); }, GRADSTEP_OK,
     keep_state_of_table},
    {"gradstep_table_load_file",
     [](scene& s, gradstep_error* e) {
         return gradstep_table_load_file(s.table, s.path.c_str(), nullptr, nullptr, e);
     },
     GRADSTEP_OK, keep_state_of_table, true},
    {"gradstep_table_update", update_keys, GRADSTEP_OK, train_other_keys, true},
    {"gradstep_table_rows",
     [](scene& s, gradstep_error* e) {
         return gradstep_table_rows(s.keyed, s.keys, GRADSTEP_UINT64, 3, s.out.data(), 3 * scene::width, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_table_contains",
     [](scene& s, gradstep_error* e) {
         std::int32_t contains = 0;
         auto const status = gradstep_table_contains(s.keyed, 1, &contains, e);
         if (contains == 1) s.number = 1;
         return status;
     }},
    {"gradstep_table_keys",
     [](scene& s, gradstep_error* e) {
         std::uint64_t keys[2] = {};
         auto const status = gradstep_table_keys(s.keyed, 0, keys, 2, &s.number, e);
         return status;
     }},
    {"gradstep_table_key_counts",
     [](scene& s, gradstep_error* e) {
         gradstep_key_counts counts = GRADSTEP_KEY_COUNTS_INIT;
         auto const status = gradstep_table_key_counts(s.keyed, &counts, e);
         s.number = counts.admitted;
         return status;
     }},
    {"gradstep_table_reserve", [](scene& s, gradstep_error* e) { return gradstep_table_reserve(s.keyed, 100, e); },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_table_hold",
     [](scene& s, gradstep_error* e) { return gradstep_table_hold(s.keyed, s.keys, GRADSTEP_UINT64, 2, e); },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_table_unhold",
     [](scene& s, gradstep_error* e) { return gradstep_table_unhold(s.keyed, s.keys, GRADSTEP_UINT64, 2, e); },
     GRADSTEP_OK,
     [](scene& s) {
         ok([&](gradstep_error* e) { return gradstep_table_hold(s.keyed, s.keys, GRADSTEP_UINT64, 2, e); });
     },
     true},
    {"gradstep_table_evict_older_than",
     [](scene& s, gradstep_error* e) { return gradstep_table_evict_older_than(s.keyed, 2, &s.number, e); }, GRADSTEP_OK,
     [](scene&) {}, true},
    {"gradstep_table_evict",
     [](scene& s, gradstep_error* e) { return gradstep_table_evict(s.keyed, is_even, nullptr, &s.number, e); },
     GRADSTEP_OK, train_keys, true},
    {"gradstep_table_evict_to",
     [](scene& s, gradstep_error* e) { return gradstep_table_evict_to(s.keyed, 1, by_key, nullptr, &s.number, e); },
     GRADSTEP_OK, train_keys, true},
    {"gradstep_table_changed_since",
     [](scene& s, gradstep_error* e) { return gradstep_table_changed_since(s.keyed, 0, 1, &s.new_bytes, e); },
     GRADSTEP_OK, train_keys, true},
    {"gradstep_bytes_view",
     [](scene& s, gradstep_error* e) {
         void const* data = nullptr;
         auto const status = gradstep_bytes_view(s.changes, &data, &s.number, e);
         point_at(s, data);
         return status;
     }},
    {"gradstep_table_apply_changes",
     [](scene& s, gradstep_error* e) {
         void const* data = nullptr;
         std::uint64_t size = 0;
         (void)gradstep_bytes_view(s.changes, &data, &size, nullptr);
         return gradstep_table_apply_changes(s.new_table, data, size, e);
     },
     GRADSTEP_OK,
     [](scene& s) { ok([&](gradstep_error* e) { return create_table(of_keys, s, e); }); }, true},
    {"gradstep_server_create",
     [](scene& s, gradstep_error* e) {
         return gradstep_server_create(of_server.data(), of_server.size(), 0, 2, &s.new_server, e);
     }},
    {"gradstep_server_describe",
     [](scene& s, gradstep_error* e) {
         gradstep_server_info info = GRADSTEP_SERVER_INFO_INIT;
         return gradstep_server_describe(s.server, &info, e);
     }},
    {"gradstep_server_table",
     [](scene& s, gradstep_error* e) { return gradstep_server_table(s.server, "t", &s.table_of_server, e); },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_server_parameter",
     [](scene& s, gradstep_error* e) {
         gradstep_parameter* w = nullptr; // the server's
         return gradstep_server_parameter(s.server, "w", &w, &s.number, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_server_begin",
     [](scene& s, gradstep_error* e) { return gradstep_server_begin(s.server, &s.number, e); }, GRADSTEP_OK,
     [](scene&) {}, true},
    {"gradstep_server_handle",
     [](scene& s, gradstep_error* e) { // it tells the sender that this is no message
         return gradstep_server_handle(s.server, 1, s.g.data(), 8, &s.number, e);
     },
     GRADSTEP_OK,
     [](scene& s) {
         ok([&](gradstep_error* e) { return gradstep_server_handle(s.server, 1, s.g.data(), 8, &s.element, e); });
     },
     true},
    {"gradstep_server_message",
     [](scene& s, gradstep_error* e) {
         gradstep_message message = GRADSTEP_MESSAGE_INIT;
         return gradstep_server_message(s.server, 0, &message, e);
     },
     GRADSTEP_OK,
     [](scene& s) { ok([&](gradstep_error* e) { return gradstep_server_begin(s.server, &s.number, e); }); }},
    {"gradstep_server_run",
     [](scene& s, gradstep_error* e) {
         auto const over = broken_transport(0);
         return gradstep_server_run(s.server, &over, e);
     },
     GRADSTEP_RANK_FAILED},
    {"gradstep_server_after_every",
     [](scene& s, gradstep_error* e) {
         return gradstep_server_after_every(
             s.server, 2, [](void*, gradstep_server*, gradstep_error*) { return 0; }, nullptr, e);
     },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_server_checkpoint",
     [](scene& s, gradstep_error* e) { return gradstep_server_checkpoint(s.server, s.path.c_str(), 1, e); },
     GRADSTEP_OK, [](scene&) {}, true},
    {"gradstep_server_save_file",
     [](scene& s, gradstep_error* e) { return gradstep_server_save_file(s.server, s.path.c_str(), e); }},
    {"gradstep_server_load_file",
     [](scene& s, gradstep_error* e) { return gradstep_server_load_file(s.server, s.path.c_str(), e); }, GRADSTEP_OK,
     [](scene& s) {
         ok([&](gradstep_error* e) { return gradstep_server_save_file(s.server, s.path.c_str(), e); });
     },
     true},
    {"gradstep_server_reopen", [](scene& s, gradstep_error* e) { return gradstep_server_reopen(s.server, e); }},
    {"gradstep_worker_create",
     [](scene& s, gradstep_error* e) {
         auto const over = broken_transport(1);
         return gradstep_worker_create(&over, nullptr, &s.new_worker, e);
     },
     GRADSTEP_RANK_FAILED},
    {"gradstep_updaters_settle",
     [](scene& s, gradstep_error* e) {
         gradstep_updater* const updaters[] = {s.new_updater, s.new_updater};
         return gradstep_updaters_settle(updaters, s.tensors, s.gradients, s.slots_of, s.counts_of, 2, e);
     },
     GRADSTEP_OK,
     [](scene& s) {
         ok([&](gradstep_error* e) { return create_updater(of_model, s, e); });
         ok([&](gradstep_error* e) { return gradstep_updater_next_step(s.new_updater, nullptr, e); });
     }},
};

// Calls until no allocation fails any more. Where `all_following` fail too, those that errors need
// are among them.
void fail_each(line const& of, bool all_following) {
    scene with_memory;
    of.prepare(with_memory);
    auto const before = with_memory.picture();
    std::ptrdiff_t const held_before = allocations_held;
    gradstep_status const got = of.call(with_memory, nullptr);
    std::ptrdiff_t const most_kept = of.keeps_memory ? allocations_held - held_before : 0;
    REQUIRE(got == of.wanted);
    auto const after = with_memory.picture();

    std::optional<scene> without;
    std::ptrdiff_t kept = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        INFO("after " << allowed << " allocations");
        if (!without) of.prepare(without.emplace());
        gradstep_error error = GRADSTEP_ERROR_INIT;
        kept -= allocations_held;
        allocations_keep_failing = all_following;
        allocations_until_failure = allowed;
        gradstep_status const status = of.call(*without, &error);
        bool const had_memory = allocations_until_failure != (all_following ? 0 : SIZE_MAX);
        allocations_until_failure = SIZE_MAX;
        allocations_keep_failing = false;
        kept += allocations_held;
        INFO(error.message);
        CHECK(error.code == status);
        if (status == of.wanted) { // also where it does without, as std::stable_sort
            REQUIRE((without->picture() == after));
            if (had_memory) return;
            without.reset();
            kept = 0;
            continue;
        }
        REQUIRE(status == GRADSTEP_OUT_OF_MEMORY);
        REQUIRE(error.message[0] != 0);
        REQUIRE(kept >= 0);
        REQUIRE(kept <= most_kept);
        REQUIRE((without->picture() == before));
    }
}

} // namespace

TEST_CASE("Where memory runs out in a call of the C library, it says so, and nothing has changed or is lost",
          "[c][any_instruction_set]") {
    for (line const& each : lines)
        for (bool const all_following : {false, true}) {
            INFO(each.name << (all_following ? ", all that follow fail too" : ""));
            fail_each(each, all_following);
        }
}

TEST_CASE("Every function of the C library that can fail is called without memory", "[c][any_instruction_set]") {
    std::set<std::string> called;
    for (line const& each : lines) called.insert(each.name);
    auto expected = functions_that_fail();
    // A worker cannot go on after it could not send: test/distributed/failing.cpp.
    std::erase_if(expected, [](std::string const& name) {
        return name.starts_with("gradstep_geo_") ||
               (name.starts_with("gradstep_worker_") && name != "gradstep_worker_create");
    });
    CHECK(called == expected);
}
#endif
