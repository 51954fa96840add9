// Rows of a C parameter catch up like rows of a C++ table of the same policies, bit for bit, and
// load its checkpoints.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>

#include "c/handles.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t rows = 50, width = 33;

void update_rows(c_parameter const& of, std::vector<std::int64_t> const& ids, std::vector<float> const& g) {
    ok([&](gradstep_error* e) {
        return gradstep_parameter_update_rows(of, ids.data(), GRADSTEP_INT64, ids.size(), g.data(), g.size(), nullptr,
                                              e);
    });
}
std::vector<float> row(c_parameter const& of, std::int64_t id) {
    std::vector<float> out(width);
    ok([&](gradstep_error* e) { return gradstep_parameter_row(of, id, out.data(), width, e); });
    return out;
}

// Takes enough steps for the sweep to catch up inactive rows. Now and then it reads a row, or takes
// a dense step.
template <class Table> void train(Table* by_type, c_parameter const& by_text, int first, int last) {
    std::vector<std::int64_t> all(rows);
    for (std::size_t r = 0; r < rows; ++r) all[r] = static_cast<std::int64_t>(r);
    for (int t = first; t < last; ++t) {
        auto const seed = static_cast<std::uint32_t>(t);
        if (t % 1000 == 999) {
            auto const g = numbers<float>(rows * width, seed);
            if (by_type != nullptr) by_type->update(all, g);
            update(by_text, g);
            continue;
        }
        std::vector<std::int64_t> const ids{t * t % 41, t % 7, t * t % 41};
        auto const g = numbers<float>(ids.size() * width, seed);
        if (by_type != nullptr) by_type->update(ids, g);
        update_rows(by_text, ids, g);
        if (by_type != nullptr && t % 500 == 17)
            for (std::int64_t const id : {0, 6, 40, 49}) REQUIRE(same_bits(row(by_text, id), by_type->row(id)));
    }
}

template <class Table> std::vector<float> all_of(Table& x) {
    auto const values = x.values();
    return {values.begin(), values.end()};
}

template <class Rule, class Regularizer, class CatchUp>
void same_as_table(Rule const& rule, Regularizer const& regularizer, CatchUp catch_up, std::string const& config) {
    CAPTURE(config);
    auto const initial = numbers<float>(rows * width, 1);
    auto const optimizer = gs::make_updater<float>(rule, regularizer, gs::constant{0.0625});
    gs::table by_type{optimizer, rows, width, catch_up, {.initial = initial}};
    c_parameter const by_text = make(config, initial, rows, width);
    train(&by_type, by_text, 0, 4600);

    folder const files;
    std::string const file = files / "rows.safetensors";
    gradstep_parameter* const handle = by_text;
    char const* const name = "values";

    // What a table saves, a C parameter goes on from, and the other way round; and so from the
    // bytes of a state.
    by_type.save(file);
    c_parameter const from_table = make(config, initial, rows, width);
    gradstep_parameter* const loaded = from_table;
    ok([&](gradstep_error* e) { return gradstep_parameters_load_file(&loaded, &name, 1, file.c_str(), e); });
    ok([&](gradstep_error* e) { return gradstep_parameters_save_file(&handle, &name, 1, file.c_str(), e); });
    gs::table from_text{optimizer, rows, width, catch_up};
    from_text.load(file);
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(by_text, &bytes, e); });
    std::vector<unsigned char> blob(bytes);
    ok([&](gradstep_error* e) { return gradstep_parameter_save(by_text, blob.data(), bytes, &bytes, e); });
    c_parameter const from_blob = make(config, initial, rows, width);
    ok([&](gradstep_error* e) { return gradstep_parameter_load(from_blob, blob.data(), bytes, e); });

    train(&by_type, by_text, 4600, 4700);
    train(&from_text, from_table, 4600, 4700);
    train(static_cast<decltype(&by_type)>(nullptr), from_blob, 4600, 4700);
    auto const expected = all_of(by_type);
    CHECK(same_bits(all_of(from_text), expected));
    for (c_parameter const* const one : {&by_text, &from_table, &from_blob}) {
        ok([&](gradstep_error* e) { return gradstep_parameter_flush(*one, e); });
        CHECK(same_bits(values<float>(*one), expected));
    }
    std::vector<unsigned char> slots;
    auto const memory = by_type.memory();
    for (auto const& slot : memory.state) {
        auto const* const first = reinterpret_cast<unsigned char const*>(slot.data());
        slots.insert(slots.end(), first, first + slot.size_bytes());
    }
    CHECK(same_bits(state(by_text), slots));
}

} // namespace

TEST_CASE("Rows of a C parameter that misses steps catch up with the bits of a table", "[c][bits_of_cpp]") {
    std::string const l2 = R"("regularizer": {"name": "l2", "rate": 0.125}, )", exact = R"("catch_up": "exact")";
    same_as_table(gs::sgd{}, gs::none{}, gs::exact{}, config_of(R"({"name": "sgd"})", exact));
    same_as_table(gs::sgd{}, gs::l2{0.125}, gs::exact{}, config_of(R"({"name": "sgd"})", l2 + exact));
    same_as_table(gs::momentum{}, gs::none{}, gs::exact{}, config_of(R"({"name": "momentum"})", exact));
    same_as_table(gs::adam{}, gs::none{}, gs::replay{.max_steps = 20},
                  config_of(R"({"name": "adam"})", R"("catch_up": {"name": "replay", "max_steps": 20})"));
}

TEST_CASE("Under every rule and regularizer with which rows of the C library catch up, they are those of a dense run",
          "[c]") {
    std::size_t const n = 5, w = 16;
    int const steps = 40;
    // 4 roundings a step, carried on by momentum ten times.
    float const tolerance = static_cast<float>(steps * 4 * 10) * 0x1p-24f;
    std::string const none,
        l2 = R"("regularizer": {"name": "l2", "rate": 0.25})",
        decoupled = R"("regularizer": {"name": "decoupled", "rate": 0.25})",
        proximal = R"("regularizer": {"name": "proximal", "penalty": {"name": "l1", "rate": 0.01}})",
        exact = R"("catch_up": "exact")", replay = R"("catch_up": {"name": "replay", "max_steps": 40})";
    struct combination {
        std::string rule, regularizer, catch_up;
    };
    std::vector<combination> all{{"sgd", l2, exact},
                                 {"sgd", decoupled, exact},
                                 {"sgd", proximal, exact},
                                 {"momentum", none, exact},
                                 {"momentum", l2, exact},
                                 {"momentum", decoupled, exact},
                                 {"nesterov", none, exact},
                                 {"nesterov", l2, exact},
                                 {"nesterov", decoupled, exact},
                                 {"adagrad", decoupled, exact},
                                 {"adagrad", proximal, exact},
                                 {"adam", none, replay},
                                 {"adam", decoupled, replay}};
    for (char const* const stands : {"sgd", "adagrad", "ftrl", "rowwise_adagrad"}) all.push_back({stands, none, exact});
    for (auto const& [rule, regularizer, catch_up] : all) {
        std::string const name = R"({"name": ")" + rule + R"("})";
        std::string const with = config_of(name, regularizer.empty() ? catch_up : regularizer + ", " + catch_up),
                          dense = regularizer.empty() ? config_of(name) : config_of(name, regularizer);
        CAPTURE(with);
#if defined(GRADSTEP_INSTRUCTION_SETS) // some of them are compiled
        gradstep_parameter* tried = nullptr;
        if (gradstep_parameter_create(with.data(), with.size(), GRADSTEP_FLOAT32, nullptr, n, w, &tried, nullptr) ==
            GRADSTEP_NOT_COMPILED)
            continue;
        gradstep_parameter_release(tried);
#endif
        auto const initial = numbers<float>(n * w, 1);
        c_parameter const x = make(with, initial, n, w), y = make(dense, initial, n, w);
        for (int t = 0; t < steps; ++t) {
            std::size_t const row = static_cast<std::size_t>(t * t) % (n - 1); // the last one comes at the end
            auto const g = numbers<float>(w, static_cast<std::uint32_t>(t));
            std::vector<float> gradient(n * w);
            std::copy(g.begin(), g.end(), gradient.begin() + static_cast<std::ptrdiff_t>(row * w));
            update_rows(x, {static_cast<std::int64_t>(row)}, g);
            update(y, gradient);
        }
        auto const caught_up = values<float>(x), expected = values<float>(y);
        for (std::size_t i = 0; i < n * w; ++i) {
            CAPTURE(i);
            REQUIRE(std::abs(caught_up[i] - expected[i]) <= tolerance * std::max(1.0f, std::abs(initial[i])));
        }
    }
}

TEST_CASE("Rows of a C parameter that catch up refuse what would part them from their history", "[c]") {
    auto const initial = numbers<float>(rows * width, 1);
    c_parameter const x = make(config_of(R"({"name": "momentum"})", R"("catch_up": "exact")"), initial, rows, width);
    update_rows(x, {3}, numbers<float>(width, 2));
    gradstep_clock clock = GRADSTEP_CLOCK_INIT;
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return gradstep_parameter_seek(x, &clock, e); });

    // States of one that does not catch up, or of another size.
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(x, &bytes, e); });
    std::vector<unsigned char> blob(bytes), after(bytes);
    ok([&](gradstep_error* e) { return gradstep_parameter_save(x, blob.data(), bytes, &bytes, e); });
    c_parameter const other = make(config_of(R"({"name": "momentum"})"), initial, rows, width);
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_parameter_load(other, blob.data(), blob.size(), e); });
    c_parameter const smaller =
        make(config_of(R"({"name": "momentum"})", R"("catch_up": "exact")"), numbers<float>(width, 1), 1, width);
    refused(GRADSTEP_BAD_SIZE,
            [&](gradstep_error* e) { return gradstep_parameter_load(smaller, blob.data(), blob.size(), e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_save(x, after.data(), bytes, &bytes, e); });
    CHECK(blob == after);
}

TEST_CASE("Where a host's pool fails in a step of all rows, each has taken it or catches up on it", "[c]") {
    std::uint64_t const many = 4096, wide = 64;
    c_parameter const x =
        make(config_of(R"({"name": "sgd"})", R"("regularizer": {"name": "l2", "rate": 0.5}, "catch_up": "exact")"),
             std::vector<float>(many * wide, 1), many, wide);
    auto const half = [](void*, std::uint64_t parts, gradstep_work work, void* task) {
        for (std::uint64_t p = parts / 2; p < parts; ++p) work(task, p);
    };
    gradstep_executor* pool = nullptr;
    ok([&](gradstep_error* e) { return gradstep_executor_from_callback(2, half, nullptr, &pool, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_set_executor(x, pool, e); });
    std::vector<float> const ones(many * wide, 1);
    gradstep_error error = GRADSTEP_ERROR_INIT;
    CHECK(gradstep_parameter_update(x, ones.data(), ones.size(), nullptr, &error) == GRADSTEP_EXECUTOR_FAILED);
    ok([&](gradstep_error* e) { return gradstep_parameter_set_executor(x, nullptr, e); });
    gradstep_executor_release(pool);
    auto const after = values<float>(x);
    CHECK(after.front() == 1 - 0.0625f * 0.5f);
    CHECK(after.back() == 1 - 0.0625f * 1.5f);
    CHECK(std::all_of(after.begin(), after.end(), [&](float w) { return w == after.front() || w == after.back(); }));
}

TEST_CASE("What new rows of a table begin with outlives a C parameter that its checkpoint went through", "[c]") {
    folder const files;
    std::string const file = files / "rows.safetensors";
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::none{}, gs::constant{0.0625});
    gs::table first{optimizer, 4, 2, gs::exact{}, {.initial = gs::normal{0, 1, 7}}};
    first.save(file);
    c_parameter const between =
        make(config_of(R"({"name": "sgd"})", R"("catch_up": "exact")"), std::vector<float>(8), 4, 2);
    gradstep_parameter* handle = between;
    char const* const name = "values";
    ok([&](gradstep_error* e) { return gradstep_parameters_load_file(&handle, &name, 1, file.c_str(), e); });
    ok([&](gradstep_error* e) { return gradstep_parameters_save_file(&handle, &name, 1, file.c_str(), e); });
    gs::table last{optimizer, 4, 2, gs::exact{}};
    last.load(file);
    first.grow(6);
    last.grow(6);
    CHECK(same_bits(all_of(last), all_of(first)));
}
