// The C library gives the bits of the types that C++ composes, where both have fused multiply-add,
// or neither (docs/explanation/numerics.md).
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/saved/blob.hpp>

#include "c/handles.hpp"
#include "support/edited.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

template <class Element, class Rule, class Regularizer>
void same_as_type(Rule const& rule, Regularizer const& regularizer, std::string const& config, std::size_t n) {
    using storage = typename gs::element_traits<Element>::storage;
    CAPTURE(config, n);
    auto const initial = numbers<storage>(n, 1);
    gs::parameter by_type{gs::make_updater<Element>(rule, regularizer, gs::constant{0.0625}), initial, {.id = 5}};
    c_parameter const by_text = make(config, initial);
    for (std::uint32_t k = 0; k < 4; ++k) {
        auto const g = numbers<storage>(n, 2 + k);
        gs::step_options options;
        gradstep_step_options of_c = GRADSTEP_STEP_OPTIONS_INIT;
        options.seed = 3;
        if (k % 2 == 1) {
            options.gradient_scale = of_c.gradient_scale = 0.5;
            options.rate_scale = of_c.rate_scale = 2;
            options.rate = of_c.rate = 0.03125;
            of_c.given = GRADSTEP_GIVEN_RATE;
        }
        by_type.update(g, options);
        update(by_text, g, &of_c);
    }
    CHECK(same_bits(values<storage>(by_text), std::vector(by_type.values().begin(), by_type.values().end())));
    if constexpr (std::is_same_v<Element, gs::block8<float>>) return; // C reads no blocks
    std::vector<unsigned char> slots;
    for (char const* const name : std::remove_cvref_t<decltype(by_type.optimizer())>::state_names) {
        auto const bytes = std::as_bytes(by_type.state(std::string_view(name)));
        auto const* const first = reinterpret_cast<unsigned char const*>(bytes.data());
        slots.insert(slots.end(), first, first + bytes.size());
    }
    CHECK(same_bits(state(by_text), slots));
}

template <class Element, class Rule, class Regularizer>
void same_as_type(Rule const& rule, Regularizer const& regularizer, std::string const& config) {
    for (std::size_t const n : {1u, 7u, 64u, 1001u, 5000u}) same_as_type<Element>(rule, regularizer, config, n);
}

} // namespace

TEST_CASE("A parameter of the C library has the bits of the type that C++ composes, in values and state",
          "[c][bits_of_cpp]") {
    same_as_type<float>(
        gs::adam{.beta2 = 0.98}, gs::l2{1e-3},
        config_of(R"({"name": "adam", "beta2": 0.98})", R"("regularizer": {"name": "l2", "rate": 1e-3})"));
    same_as_type<float>(gs::momentum{}, gs::decoupled{0.01},
                        config_of(R"({"name": "momentum"})", R"("regularizer": {"name": "decoupled", "rate": 0.01})"));
    same_as_type<float>(
        gs::adam{}, gs::all_of{gs::clip_value{0.5}, gs::l2{1e-3}},
        config_of(
            R"({"name": "adam"})",
            R"("regularizer": {"name": "all_of", "regularizers": [{"name": "clip_value", "limit": 0.5}, {"name": "l2", "rate": 1e-3}]})"));
    same_as_type<float>(gs::lamb{}, gs::none{}, config_of(R"({"name": "lamb"})"));
    same_as_type<float>(gs::averaged{gs::adam{}, gs::ema{0.9}}, gs::none{},
                        config_of(R"({"name": "adam"})", R"("average": {"name": "ema", "decay": 0.9})"));
    auto const asgd = [](auto element) {
        same_as_type<decltype(element)>(
            gs::averaged{gs::sgd{}, gs::polyak{1}}, gs::all_of{gs::l2{1e-3}, gs::decoupled{0.01}},
            config_of(
                R"({"name": "sgd"})",
                R"("average": {"name": "polyak", "start": 1}, "regularizer": {"name": "all_of", "regularizers": [{"name": "l2", "rate": 1e-3}, {"name": "decoupled", "rate": 0.01}]})"));
    };
    asgd(float());
    asgd(double());
    same_as_type<gs::mixed<gs::bfloat16>>(
        gs::adam{}, gs::decoupled{0.01},
        config_of(R"({"name": "adam"})", R"("element": "mixed", "regularizer": {"name": "decoupled", "rate": 0.01})"));
    same_as_type<gs::block8<float>>(
        gs::adam{}, gs::decoupled{0.01},
        config_of(R"({"name": "adam"})", R"("element": "block8", "regularizer": {"name": "decoupled", "rate": 0.01})"));
    same_as_type<gs::stochastic<gs::bfloat16>>(
        gs::sgd{}, gs::none{}, config_of(R"({"name": "sgd"})", R"("element": "stochastic", "seed": 3, "id": 5)"));
}

namespace {

// Trainers of the C library beside trainers of the C++ type, over the ramp; in its middle they
// resume from bytes.
template <class Regularizer>
void same_messages(Regularizer const& regularizer, std::string const& more, std::size_t trainers, std::size_t n,
                   gs::selection selected) {
    CAPTURE(more, trainers, n, selected == gs::selection::sampled);
    auto const optimizer = gs::make_updater<float>(gs::dgc_momentum{.mu = 0.5,
                                                                    .rampup_begin_step = 2,
                                                                    .rampup_step = 4,
                                                                    .sparsity = {0.75, 0.99},
                                                                    .nesterov = n % 2 == 0,
                                                                    .local_grad_clip_norm = 3,
                                                                    .num_trainers = static_cast<std::int64_t>(trainers),
                                                                    .dense_below = 8,
                                                                    .selected = selected},
                                                   regularizer, gs::constant{0.0625});
    using by_type = gs::compressed_parameter<std::remove_const_t<decltype(optimizer)>>;
    std::string const config = config_of(
        R"({"name": "dgc_momentum", "mu": 0.5, "rampup_begin_step": 2, "rampup_step": 4, "sparsity": [0.75, 0.99], "nesterov": )" +
            std::string(n % 2 == 0 ? "true" : "false") + R"(, "local_grad_clip_norm": 3, "num_trainers": )" +
            std::to_string(trainers) + R"(, "dense_below": 8, "selected": ")" +
            (selected == gs::selection::exact ? "exact" : "sampled") + R"("})",
        R"("seed": 3, "id": 5)" + more);
    auto const initial = numbers<float>(n, 1);
    std::vector<by_type> expected;
    std::vector<c_parameter> found;
    for (std::size_t r = 0; r < trainers; ++r) {
        expected.push_back(by_type(optimizer, initial, {.id = 5}));
        found.push_back(make(config, initial));
    }
    for (std::uint32_t t = 0; t < 8; ++t) {
        CAPTURE(t);
        gs::step_options options;
        gradstep_step_options of_c = GRADSTEP_STEP_OPTIONS_INIT;
        options.seed = 3;
        options.gradient_scale = of_c.gradient_scale = t % 2 == 1 ? 0.5 : 1;
        options.rate_scale = of_c.rate_scale = t % 3 == 1 ? 2 : 1;
        options.zero_gradient = of_c.zero_gradient = t % 2 == 1;
        std::vector<gs::sparse_message> messages;
        std::vector<std::vector<std::byte>> bytes;
        for (std::size_t r = 0; r < trainers; ++r) {
            auto g = numbers<float>(n, 2 + 8 * static_cast<std::uint32_t>(r) + t), same = g;
            messages.push_back(expected[r].compress(g, options));
            bytes.push_back(compress(found[r], same, &of_c));
            CHECK(bytes.back() == messages.back().encode());
            CHECK(same_bits(g, same));
        }
        for (std::size_t r = 0; r < trainers; ++r) {
            expected[r].apply(messages);
            apply_messages(found[r], bytes);
            CHECK(same_bits(values<float>(found[r]), values<float>(found[0])));
        }
        auto const w = expected[0].values();
        CHECK(same_bits(values<float>(found[0]), std::vector(w.begin(), w.end())));
        if (trainers == 1 && t % 2 == 0) { // and as a whole
            auto const g = numbers<float>(n, 100 + t);
            expected[0].update(g);
            update(found[0], g);
        }
        if (t != 4) continue;
        for (std::size_t r = 0; r < trainers; ++r) { // u and v are each trainer's own
            std::vector<std::byte> state(gs::state_bytes(expected[r]));
            std::uint64_t needed = 0, written = 0;
            ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(found[r], &needed, e); });
            std::vector<std::byte> of_found(needed);
            ok([&](gradstep_error* e) {
                return gradstep_parameter_save(found[r], of_found.data(), needed, &written, e);
            });
            gs::load_state(expected[r], of_found); // each continues from the other's state
            gs::save_state(expected[r], state);
            found[r] = make(config, numbers<float>(n, 99));
            ok([&](gradstep_error* e) { return gradstep_parameter_load(found[r], state.data(), state.size(), e); });
        }
    }
    for (std::size_t r = 0; r < trainers; ++r) {
        auto const u = expected[r].template state<"u">(), v = expected[r].template state<"v">();
        std::vector<float> slots(u.begin(), u.end());
        slots.insert(slots.end(), v.begin(), v.end());
        auto const bytes = state(found[r]);
        REQUIRE(bytes.size() == slots.size() * sizeof(float));
        CHECK(std::memcmp(bytes.data(), slots.data(), bytes.size()) == 0);
    }
}

} // namespace

TEST_CASE("Trainers of the C library send the messages of the type that C++ composes, byte for byte, and hold its bits",
          "[c][bits_of_cpp]") {
    using gs::selection;
    std::string const l2 = R"(, "regularizer": {"name": "l2", "rate": 0.01})";
    for (std::size_t const n : {7u, 8u, 1001u}) {
        same_messages(gs::none{}, "", 1, n, selection::exact);
        same_messages(gs::none{}, "", 3, n, selection::exact);
        same_messages(gs::l2{0.01}, l2, 1, n, selection::exact);
        same_messages(gs::l2{0.01}, l2, 3, n, selection::exact);
        same_messages(gs::none{}, "", 2, n, selection::sampled);
    }
    same_messages(gs::l2{0.01}, l2 + R"(, "threads": 2)", 1, 300'000, selection::exact);
    same_messages(gs::none{}, R"(, "threads": 2)", 2, 300'001, selection::sampled);
}

TEST_CASE("A parameter of the C library takes rows as a table under touch_only does, named once or several times",
          "[c][bits_of_cpp]") {
    std::size_t const rows = 50, width = 33;
    auto const initial = numbers<float>(rows * width, 1);
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::l2{1e-3}, gs::constant{0.0625});
    gs::table by_type{optimizer, rows, width, gs::touch_only{}, {.initial = initial}};
    c_parameter const by_text =
        make(config_of(R"({"name": "adam"})", R"("regularizer": {"name": "l2", "rate": 1e-3})"), initial, rows, width);
    auto const step = [&]<class Id>(std::vector<Id> const& ids, std::uint32_t seed) {
        auto const g = numbers<float>(ids.size() * width, seed);
        by_type.update(std::vector<std::int64_t>(ids.begin(), ids.end()), g);
        ok([&](gradstep_error* e) {
            return gradstep_parameter_update_rows(by_text, ids.data(), dtype_of<Id>(), ids.size(), g.data(), g.size(),
                                                  nullptr, e);
        });
    };
    step(std::vector<std::int64_t>{3, 49, 0}, 2);
    step(std::vector<std::int32_t>{7, 3, 7, 12, 7, 3}, 3);
    step(std::vector<std::uint32_t>{}, 4);
    step(std::vector<std::uint64_t>{49, 48, 49}, 5);
    auto const all = by_type.values();
    CHECK(same_bits(values<float>(by_text), std::vector(all.begin(), all.end())));

    std::vector<float> read(2 * width);
    std::vector<std::int32_t> const ids{49, 3};
    ok([&](gradstep_error* e) {
        return gradstep_parameter_rows(by_text, ids.data(), GRADSTEP_INT32, 2, read.data(), read.size(), e);
    });
    auto expected = by_type.row(49);
    auto const third = by_type.row(3);
    expected.insert(expected.end(), third.begin(), third.end());
    CHECK(same_bits(read, expected));
    std::vector<float> row(width);
    ok([&](gradstep_error* e) { return gradstep_parameter_row(by_text, 3, row.data(), width, e); });
    CHECK(same_bits(row, third));
    ok([&](gradstep_error* e) { return gradstep_parameter_flush(by_text, e); });
}

TEST_CASE("A row-wise rule takes every row of a C parameter for a tensor of its own, and a vector as one",
          "[c][bits_of_cpp]") {
    std::size_t const rows = 6, width = 40;
    auto const initial = numbers<float>(rows * width, 1), g = numbers<float>(rows * width, 2);
    auto const optimizer = gs::make_updater<float>(gs::lamb{}, gs::constant{0.0625});
    c_parameter const dense = make(config_of(R"({"name": "lamb"})"), initial, rows, width);
    c_parameter const sparse = make(config_of(R"({"name": "lamb"})"), initial, rows, width);
    update(dense, g);
    std::vector<std::int64_t> ids;
    for (std::size_t r = rows; r-- > 0;) ids.push_back(static_cast<std::int64_t>(r));
    std::vector<float> reversed;
    for (auto const r : ids)
        reversed.insert(reversed.end(), g.begin() + r * static_cast<std::int64_t>(width),
                        g.begin() + (r + 1) * static_cast<std::int64_t>(width));
    ok([&](gradstep_error* e) {
        return gradstep_parameter_update_rows(sparse, ids.data(), GRADSTEP_INT64, rows, reversed.data(),
                                              reversed.size(), nullptr, e);
    });
    std::vector<float> expected;
    for (std::size_t r = 0; r < rows; ++r) {
        gs::parameter row{optimizer, std::span(initial).subspan(r * width, width)};
        row.update(std::span(g).subspan(r * width, width));
        expected.insert(expected.end(), row.values().begin(), row.values().end());
    }
    CHECK(same_bits(values<float>(dense), expected));
    CHECK(same_bits(values<float>(sparse), expected));

    gs::parameter whole{optimizer, initial};
    whole.update(g);
    for (std::uint64_t const tall : {1u, static_cast<unsigned>(rows * width)}) {
        c_parameter const vector = make(config_of(R"({"name": "lamb"})"), initial, tall);
        update(vector, g);
        CHECK(same_bits(values<float>(vector), std::vector(whole.values().begin(), whole.values().end())));
    }
    c_parameter const tall = make(config_of(R"({"name": "lamb"})"), initial, initial.size());
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_parameter_update_rows(tall, ids.data(), GRADSTEP_INT64, 1, g.data(), 1, nullptr, e);
          }).find("row-wise") != std::string::npos);
}

TEST_CASE("Integers of every kind take deltas through the C library, which wrap around", "[c]") {
    auto const add = []<class T>(T) {
        std::vector<T> const initial{1, static_cast<T>(-1), std::numeric_limits<T>::max()}, delta{3, 5, 1};
        c_parameter const counts = make(config_of(R"({"name": "add_delta"})"), initial);
        gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT;
        options.rate = 1, options.given = GRADSTEP_GIVEN_RATE;
        update(counts, delta, &options);
        auto const sum = values<T>(counts);
        CHECK(sum[0] == 4);
        CHECK(sum[1] == static_cast<T>(4));
        CHECK(sum[2] == std::numeric_limits<T>::min());
    };
    add(std::int32_t()), add(std::uint32_t()), add(std::int64_t()), add(std::uint64_t());
}

TEST_CASE("One call updates parameters of different policies, elements and sizes as a call for each does", "[c]") {
    std::vector<std::string> const configs{
        config_of(R"({"name": "adam"})"), config_of(R"({"name": "sgd"})", R"("threads": 2)"),
        config_of(R"({"name": "momentum"})", R"("regularizer": {"name": "decoupled", "rate": 0.01})"),
        config_of(R"({"name": "lamb"})")};
    for (std::size_t const n : {std::size_t(0), std::size_t(5), std::size_t(3000), std::size_t(300'000)}) {
        std::vector<c_parameter> together, alone;
        std::vector<std::vector<float>> gradients;
        for (std::uint32_t k = 0; k < 12; ++k) {
            auto const initial = numbers<float>(n + k % 3, k);
            together.push_back(make(configs[k % 4], initial));
            alone.push_back(make(configs[k % 4], initial));
            gradients.push_back(numbers<float>(n + k % 3, 100 + k));
        }
        std::vector<gradstep_parameter*> const handles(together.begin(), together.end());
        std::vector<void const*> pointers;
        std::vector<std::uint64_t> counts;
        for (auto const& g : gradients) pointers.push_back(g.data()), counts.push_back(g.size());
        for (int step = 0; step < 3; ++step) {
            ok([&](gradstep_error* e) {
                return gradstep_parameters_update(handles.data(), pointers.data(), counts.data(), handles.size(),
                                                  nullptr, e);
            });
            for (std::size_t k = 0; k < alone.size(); ++k) update(alone[k], gradients[k]);
        }
        for (std::size_t k = 0; k < alone.size(); ++k)
            CHECK(same_bits(values<float>(together[k]), values<float>(alone[k])));
    }
}

TEST_CASE("A C parameter is clipped by value, by its norm, and with others by the norm of all", "[c]") {
    auto const sgd = [](std::string const& more = "") { return config_of(R"({"name": "sgd"})", more); };
    std::string const adam = R"({"name": "adam"})";
    auto const clip = [&](std::string const& name, std::string const& limit) {
        return sgd(R"("clip": {"name": ")" + name + R"(", "limit": )" + limit + "}");
    };
    std::vector<float> const initial{1, 2}, three{3, 0}, four{0, -4}, both{3, -4};
    gradstep_step_options scaled = GRADSTEP_STEP_OPTIONS_INIT;
    auto const expect = [&](c_parameter const& clipped, std::vector<float> const& g, double scale) {
        c_parameter const plain = make(sgd(), initial);
        scaled.gradient_scale = scale;
        update(plain, g, &scaled);
        CHECK(same_bits(values<float>(clipped), values<float>(plain)));
    };
    for (char const* const name : {"clip_norm", "clip_global_norm"}) { // for a single parameter, both clip alike
        c_parameter const one = make(clip(name, "2.5"), initial);
        update(one, both);
        expect(one, both, 0.5);
    }
    c_parameter const by_value = make(config_of(adam, R"("clip": {"name": "clip_value", "limit": 3.5})"), initial),
                      of_clipped = make(config_of(adam), initial);
    update(by_value, four);
    update(of_clipped, std::vector{0.f, -3.5f});
    CHECK(same_bits(state(by_value), state(of_clipped)));

    c_parameter const first = make(clip("clip_global_norm", "2.5"), initial),
                      alone = make(clip("clip_norm", "1.5"), initial), none = make(sgd(), initial),
                      second = make(clip("clip_global_norm", "2.5"), initial);
    gradstep_parameter* const handles[] = {first, alone, none, second};
    void const* const gradients[] = {three.data(), three.data(), three.data(), four.data()};
    std::uint64_t const counts[] = {2, 2, 2, 2};
    ok([&](gradstep_error* e) { return gradstep_parameters_update(handles, gradients, counts, 4, nullptr, e); });
    expect(first, three, 0.5);
    expect(alone, three, 0.5);
    expect(none, three, 1);
    expect(second, four, 0.5);

    std::vector<std::int64_t> const ids{0};
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_parameter_update_rows(alone, ids.data(), GRADSTEP_INT64, 1, three.data(), 2, nullptr, e);
          }).find("update_rows: clip") != std::string::npos);
    gradstep_updater* updater = nullptr;
    std::string const rows = config_of(R"({"name": "adagrad"})", R"("catch_up": "exact")");
    CHECK(refused(GRADSTEP_BAD_CONFIG, [&](gradstep_error* e) {
              return gradstep_updater_create(rows.data(), rows.size(), GRADSTEP_FLOAT32, &updater, e);
          }) == "catch_up: an updater has no rows; expected touch_only, or gradstep_parameter_create");
    std::string const blocks = config_of(R"({"name": "adam"})", R"("element": "block8")");
    CHECK(refused(GRADSTEP_BAD_CONFIG,
                  [&](gradstep_error* e) {
                      return gradstep_updater_create(blocks.data(), blocks.size(), GRADSTEP_FLOAT32, &updater, e);
                  }) ==
          "element: block8 keeps the state in blocks, and an updater uses your memory; expected plain, or "
          "gradstep_parameter_create");
    CHECK(updater == nullptr);
    c_parameter const coded = make(blocks, three);
    CHECK(refused(GRADSTEP_BAD_VALUE,
                  [&](gradstep_error* e) { return gradstep_parameter_slot(coded, 0, nullptr, nullptr, e); }) ==
          "slot: \"element\": \"block8\" keeps the state in blocks of 256 elements; expected a saved state, which "
          "contains it");
}

TEST_CASE("An updater of the C library has the bits of the updater in C++, in memory of the caller's",
          "[c][bits_of_cpp]") {
    std::string const config = config_of(R"({"name": "adam"})", R"("regularizer": {"name": "l2", "rate": 1e-3})");
    gradstep_updater* optimizer = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &optimizer, e);
    });
    std::uint64_t slots = 0;
    ok([&](gradstep_error* e) { return gradstep_updater_slot_count(optimizer, &slots, e); });
    REQUIRE(slots == 2);
    gradstep_slot slot = GRADSTEP_SLOT_INIT;
    ok([&](gradstep_error* e) { return gradstep_updater_slot(optimizer, 1, &slot, e); });
    CHECK(std::string(slot.name) == "v");
    CHECK(slot.dtype == GRADSTEP_FLOAT32);
    CHECK(slot.count == 0);

    auto by_type = gs::make_updater<float>(gs::adam{}, gs::l2{1e-3}, gs::constant{0.0625});
    std::vector<std::vector<float>> w, g, m, v, cw;
    std::vector<std::vector<float>> cm, cv;
    std::vector<void*> parameters;
    std::vector<void const*> gradients;
    std::vector<std::vector<void*>> each(7);
    std::vector<void* const*> all_slots;
    std::vector<std::uint64_t> counts;
    for (std::uint32_t k = 0; k < 7; ++k) {
        std::size_t const n = k * k * 11;
        w.push_back(numbers<float>(n, k)), g.push_back(numbers<float>(n, 50 + k));
        cw = w;
    }
    for (std::size_t k = 0; k < 7; ++k) {
        std::size_t const n = w[k].size();
        m.emplace_back(n, 9.f), v.emplace_back(n, 9.f), cm.emplace_back(n, 9.f), cv.emplace_back(n, 9.f);
    }
    for (std::size_t k = 0; k < 7; ++k) {
        each[k] = {cm[k].data(), cv[k].data()};
        parameters.push_back(cw[k].data()), gradients.push_back(g[k].data()), all_slots.push_back(each[k].data());
        counts.push_back(w[k].size());
        by_type.initialize(w[k], m[k], v[k]);
        ok([&](gradstep_error* e) {
            return gradstep_updater_initialize(optimizer, cw[k].data(), each[k].data(), counts[k], e);
        });
    }
    CHECK(refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) {
              return gradstep_updater_apply(optimizer, cw[3].data(), g[3].data(), each[3].data(), counts[3], e);
          }).find("next_step") != std::string::npos);
    for (int step = 0; step < 3; ++step) {
        auto const prepared = by_type.next_step();
        ok([&](gradstep_error* e) { return gradstep_updater_next_step(optimizer, nullptr, e); });
        for (std::size_t k = 0; k < 7; ++k) {
            prepared(w[k], g[k], m[k], v[k]);
            if (step == 1)
                ok([&](gradstep_error* e) {
                    return gradstep_updater_apply(optimizer, cw[k].data(), g[k].data(), each[k].data(), counts[k], e);
                });
        }
        if (step != 1)
            ok([&](gradstep_error* e) {
                return gradstep_updater_apply_many(optimizer, parameters.data(), gradients.data(), all_slots.data(),
                                                   counts.data(), 7, e);
            });
    }
    CHECK(w == cw);
    CHECK(m == cm);
    CHECK(v == cv);
    gradstep_clock clock = GRADSTEP_CLOCK_INIT;
    ok([&](gradstep_error* e) { return gradstep_updater_clock(optimizer, &clock, e); });
    CHECK(clock.step == 3);
    clock.step = 1;
    ok([&](gradstep_error* e) { return gradstep_updater_seek(optimizer, &clock, e); });
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) {
        return gradstep_updater_apply(optimizer, cw[3].data(), g[3].data(), each[3].data(), counts[3], e);
    });
    gradstep_updater_release(optimizer);
}

TEST_CASE("The C library goes on from weights that the caller has changed beside their master copies",
          "[c][bits_of_cpp]") {
    std::string const config = config_of(R"({"name": "adam"})", R"("element": "mixed")");
    gradstep_updater* optimizer = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_updater_create(config.data(), config.size(), GRADSTEP_BFLOAT16, &optimizer, e);
    });
    std::size_t const n = 1003;
    auto w = numbers<gs::bfloat16>(n, 1);
    std::vector<float> m(n), v(n), master(n);
    std::vector<void*> const slots{m.data(), v.data(), master.data()};
    ok([&](gradstep_error* e) { return gradstep_updater_initialize(optimizer, w.data(), slots.data(), n, e); });
    auto by_type = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::adam{}, gs::constant{0.0625});
    auto expected = w;
    std::vector<float> expected_m(n), expected_v(n), expected_master(n);
    by_type.initialize(expected, expected_m, expected_v, expected_master);
    for (std::uint32_t step = 1; step < 5; ++step) {
        auto const g = numbers<gs::bfloat16>(n, 1 + step);
        edit<gs::bfloat16>(w, step);
        reseed<gs::bfloat16>(w, master, expected, expected_master);
        ok([&](gradstep_error* e) { return gradstep_updater_next_step(optimizer, nullptr, e); });
        ok([&](gradstep_error* e) {
            return gradstep_updater_apply(optimizer, w.data(), g.data(), slots.data(), n, e);
        });
        by_type.next_step()(expected, g, expected_m, expected_v, expected_master);
        CHECK(same_bits(w, expected));
        CHECK(same_bits(master, expected_master));
        CHECK(same_bits(m, expected_m));
        CHECK(same_bits(v, expected_v));
    }
    gradstep_updater_release(optimizer);
}

TEST_CASE("The threads of a configuration, of OpenMP and of a host's pool give the bits of one thread", "[c]") {
    std::size_t const n = 1 << 20;
    auto const initial = numbers<float>(n, 1), g = numbers<float>(n, 2);
    auto const run = [&](std::string const& more, gradstep_executor* pool) {
        c_parameter const parameter = make(config_of(R"({"name": "adam"})", more), initial);
        if (pool != nullptr) ok([&](gradstep_error* e) { return gradstep_parameter_set_executor(parameter, pool, e); });
        update(parameter, g), update(parameter, g);
        return values<float>(parameter);
    };
    auto const expected = run("", nullptr);
    CHECK(same_bits(run(R"("threads": 2)", nullptr), expected));
    CHECK(same_bits(run(R"("threads": 0)", nullptr), expected));

    struct host {
        int calls = 0;
        bool forgets = false;
        static void run(void* of, uint64_t parts, gradstep_work work, void* task) {
            auto& self = *static_cast<host*>(of);
            ++self.calls;
            for (uint64_t part = parts; part-- > (self.forgets ? 1u : 0u);) work(task, part);
        }
    } pool;
    gradstep_executor* executor = nullptr;
    ok([&](gradstep_error* e) { return gradstep_executor_from_callback(3, &host::run, &pool, &executor, e); });
    CHECK(same_bits(run("", executor), expected));
    CHECK(pool.calls == 2);
    c_parameter const last = make(config_of(R"({"name": "adam"})"), initial);
    ok([&](gradstep_error* e) { return gradstep_parameter_set_executor(last, executor, e); });
    gradstep_executor_release(executor); // the parameter keeps it
    update(last, g);
    CHECK(pool.calls == 3);
    pool.forgets = true;
    CHECK(gradstep_parameter_update(last, g.data(), n, nullptr, nullptr) == GRADSTEP_EXECUTOR_FAILED);
    ok([&](gradstep_error* e) { return gradstep_parameter_set_executor(last, nullptr, e); });
    update(last, g);
    CHECK(pool.calls == 4);
    CHECK(gradstep_parameter_set_executor(last, executor, nullptr) == GRADSTEP_BAD_HANDLE);
}

TEST_CASE("A C parameter that draws at random goes on by the seed and the id of the state that it loads", "[c]") {
    auto const with = [](char const* drawn_by) {
        return config_of(R"({"name": "sgd"})", std::string(R"("element": "stochastic", )") + drawn_by);
    };
    std::size_t const n = 1001;
    auto const initial = numbers<gs::bfloat16>(n, 1), g = numbers<gs::bfloat16>(n, 2);
    c_parameter const first = make(with(R"("seed": 3, "id": 5)"), initial);
    c_parameter const other = make(with(R"("seed": 4, "id": 6)"), initial),
                      same = make(with(R"("seed": 4, "id": 6)"), initial);
    update(first, g);
    update(other, g);
    CHECK_FALSE(same_bits(values<gs::bfloat16>(other), values<gs::bfloat16>(first)));

    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(first, &bytes, e); });
    std::vector<std::byte> state(bytes);
    ok([&](gradstep_error* e) { return gradstep_parameter_save(first, state.data(), bytes, &bytes, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_load(other, state.data(), bytes, e); });
    folder const files;
    std::string const file = files / "one.safetensors";
    char const* const name = "w";
    gradstep_parameter *saved = first, *loaded = same;
    ok([&](gradstep_error* e) { return gradstep_parameters_save_file(&saved, &name, 1, file.c_str(), e); });
    ok([&](gradstep_error* e) { return gradstep_parameters_load_file(&loaded, &name, 1, file.c_str(), e); });
    for (c_parameter const* const x : {&first, &other, &same}) update(*x, g);
    for (c_parameter const* const x : {&other, &same}) {
        CHECK(same_bits(values<gs::bfloat16>(*x), values<gs::bfloat16>(first)));
        std::array<char, 1000> text{};
        std::uint64_t written = 0;
        ok([&](gradstep_error* e) { return gradstep_parameter_config(*x, text.data(), text.size(), &written, e); });
        CHECK(std::string(text.data()).find(R"("seed":3,"id":5)") != std::string::npos);
    }
}
