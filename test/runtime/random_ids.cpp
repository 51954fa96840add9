// Parameters and tensors with the same configuration draw different random numbers, the same after a
// resume, and whatever others there are.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/saved/blob.hpp>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t size = 37;
// Its steps are noise alone.
gs::optimizer_configuration noisy(std::int64_t id = 0) {
    auto out = gs::read_optimizer(R"({"rule": {"name": "sgld"}, "schedule": {"name": "constant", "rate": 0.125}})");
    out.options.id = id;
    return out;
}
auto const of_types = gs::make_updater<float>(gs::sgld{}, gs::constant{0.125});
std::vector<float> const zeros(size);

gs::any_parameter made(std::int64_t id = 0) { return {noisy(id), zeros}; }
std::vector<float> values_of(gs::any_parameter const& of) {
    auto const values = of.values().as<float>();
    return {values.begin(), values.end()};
}
void update(std::vector<gs::any_parameter*> const& all) {
    gs::update_all(all, std::vector<gs::any_span>(all.size(), zeros));
}
template <class... Parameters> bool all_differ(Parameters const&... of) {
    return std::set<std::vector<float>>{values_of(of)...}.size() == sizeof...(of);
}

} // namespace

TEST_CASE("parameters of one configuration draw different numbers in one call", "[random]") {
    for (std::int64_t const id : {0, 7}) {
        gs::any_parameter a = made(id), b = made(id), c = made(id), alone = made(id);
        update({&a, &b, &c});
        CHECK(all_differ(a, b, c));
        alone.update(zeros);
        CHECK(same_bits(values_of(a), values_of(alone))); // the first one keeps its id
        update({&c, &a});
        update({&b});
        CHECK(all_differ(a, b, c));
    }
    // Ids that differ stay.
    gs::any_parameter a = made(1), b = made(0);
    update({&a, &b});
    CHECK(a.drawing_id() == 1);
    CHECK(b.drawing_id() == 0);
}

TEST_CASE("ids do not depend on the order or the number of parameters of later calls", "[random]") {
    gs::any_parameter a = made(), b = made(), c = made(), d = made();
    update({&a, &b});
    auto const ids = std::pair(a.drawing_id(), b.drawing_id());
    update({&b, &a});
    update({&c, &b}); // a new one in the place that another one had
    update({&d, &a});
    CHECK(std::pair(a.drawing_id(), b.drawing_id()) == ids);
    CHECK(std::set{a.drawing_id(), b.drawing_id(), c.drawing_id(), d.drawing_id()}.size() == 4);
}

TEST_CASE("a call that fails gives nobody another id", "[random]") {
    gs::any_parameter a = made(), b = made();
    std::array<gs::any_parameter*, 2> const both{&a, &b};
    std::array<gs::any_span, 2> const gradients{zeros, std::span(zeros).first(1)};
    CHECK_THROWS_AS(gs::update_all(both, gradients), gs::size_error);
    CHECK(a.drawing_id() == 0);
    CHECK(b.drawing_id() == 0);
}

TEST_CASE("a run that resumes beside a new parameter draws the same numbers", "[random]") {
    folder const files;
    bool const in_file = GENERATE(true, false);
    gs::any_parameter a = made(), b = made();
    update({&a, &b});
    auto const resumed = [&](gs::any_parameter const& of) {
        gs::any_parameter out = made();
        if (in_file) {
            of.save(files / "a.safetensors");
            out.load(files / "a.safetensors");
        } else {
            std::vector<std::byte> blob(gs::state_bytes(of));
            gs::save_state(of, blob);
            gs::load_state(out, blob);
        }
        return out;
    };
    gs::any_parameter a2 = resumed(a), b2 = resumed(b), added = made();
    for (int t = 0; t < 3; ++t) {
        update({&a, &b});
        update({&added, &b2, &a2});
        CHECK(same_bits(values_of(a), values_of(a2)));
        CHECK(same_bits(values_of(b), values_of(b2)));
        CHECK(all_differ(a2, b2, added));
    }
}

TEST_CASE("equal ids in the files of earlier versions are told apart", "[random]") {
    gs::any_parameter a = made(), b = made();
    for (auto* const one : {&a, &b}) one->resume({.step = 3}, 0, {});
    update({&a, &b});
    CHECK(a.drawing_id() == 0);
    CHECK(all_differ(a, b));
}

TEST_CASE("a named parameter has the id of a gs::model, and keeps it", "[random]") {
    gs::any_parameter a = made(), b = made(5), begun = made();
    a.set_name("a");
    b.set_name("b");
    CHECK(a.drawing_id() == gs::detail::hash_of("a"));
    CHECK(b.drawing_id() == gs::detail::hash_of("b") + 5);
    a.set_name("another");
    CHECK(a.drawing_id() == gs::detail::hash_of("a"));
    begun.update(zeros);
    begun.set_name("c");
    CHECK(begun.drawing_id() == 0);
    // A copy by a saved state that has no name gets one of its own.
    gs::any_parameter const first = made();
    std::vector<std::byte> blob(gs::state_bytes(first));
    gs::save_state(first, blob);
    gs::any_parameter copy = made();
    gs::load_state(copy, blob);
    copy.set_name("copy");
    CHECK(copy.drawing_id() == gs::detail::hash_of("copy"));
}

TEST_CASE("in a gs::model, parameters of one configuration draw the numbers of the typed ones", "[random]") {
    gs::model typed, owned, borrowed, with_id;
    std::vector<float> memory[3] = {zeros, zeros, zeros};
    gs::any_updater const optimizer(noisy(), gs::scalar::float32), of_id(noisy(7), gs::scalar::float32);
    for (char const* const name : {"a", "b"}) {
        typed.add(name, gs::parameter{of_types, zeros});
        owned.add(name, made());
        borrowed.add(name, optimizer, {memory[name[0] - 'a'], {}, {}});
        with_id.add(name, made(7));
    }
    borrowed.add("c", of_id, {memory[2], {}, {}, 99});
    for (auto* const each : {&typed, &owned, &with_id}) each->update({{"a", zeros}, {"b", zeros}});
    borrowed.update({{"a", zeros}, {"b", zeros}, {"c", zeros}});
    auto const of = [](gs::model& x, char const* name) { return values_of(x.get<gs::any_updater>(name)); };
    for (char const* const name : {"a", "b"}) {
        auto const values = typed.get<decltype(of_types)>(name).values();
        std::vector<float> const expected(values.begin(), values.end());
        CHECK(same_bits(of(owned, name), expected));
        CHECK(same_bits(memory[name[0] - 'a'], expected));
        CHECK(!same_bits(of(with_id, name), expected));
    }
    CHECK(!same_bits(of(with_id, "a"), of(with_id, "b")));
    gs::any_parameter alone = made(99); // the id of the tensor itself
    alone.update(zeros);
    CHECK(same_bits(memory[2], values_of(alone)));
}

TEST_CASE("an updater counts the tensors of a step over all calls", "[random]") {
    std::vector<float> w[7];
    for (auto& each : w) each = zeros;
    gs::any_updater optimizer(noisy(3), gs::scalar::float32), together = optimizer;
    auto const tensor = [&](int k) { return gs::any_tensor{w[k], zeros, {}}; };
    for (int t = 0; t < 2; ++t) {
        optimizer.next_step();
        optimizer.apply(tensor(0));
        optimizer.apply(std::array{tensor(1), tensor(2)});
        together.next_step();
        together.apply(std::array{tensor(3), tensor(4), tensor(5)});
    }
    for (int k = 0; k < 3; ++k) {
        CAPTURE(k);
        CHECK(same_bits(w[k], w[k + 3]));
    }
    CHECK(std::set{w[0], w[1], w[2]}.size() == 3);
    gs::any_parameter alone = made(3);
    for (int t = 0; t < 2; ++t) alone.update(zeros);
    CHECK(same_bits(w[0], values_of(alone)));
}

TEST_CASE("stochastic rounding of equal parameters and of equal rows differs", "[random]") {
    auto of = [](char const* rule) {
        return gs::read_optimizer(std::string(R"({"rule": {"name": ")") + rule +
                                  R"("}, "schedule": {"name": "constant", "rate": 1e-3}, "element": "stochastic"})");
    };
    std::size_t const n = 512;
    std::vector<gs::bfloat16> const ones(n, gs::bfloat16(1.0f));
    auto const bits = [](gs::any_parameter const& x, std::size_t first, std::size_t count) {
        auto const values = x.values().as<gs::bfloat16>().subspan(first, count);
        std::vector<float> out;
        for (auto const each : values) out.push_back(gs::detail::widen(each));
        return out;
    };
    gs::any_parameter a(of("sgd"), ones), b(of("sgd"), ones);
    gs::update_all(std::array{&a, &b}, std::array<gs::any_span, 2>{ones, ones});
    CHECK(!same_bits(bits(a, 0, n), bits(b, 0, n)));
    // Rows of a row-wise rule, which sees each as a tensor, have the bits of gs::table.
    gs::any_parameter rows(of("rowwise_adagrad"), ones, 2, n / 2);
    gs::table table{gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::rowwise_adagrad{}, gs::constant{1e-3}),
                    2,
                    n / 2,
                    gs::touch_only{},
                    {.initial = 1}};
    std::vector<std::int64_t> const ids{0, 1};
    rows.update_rows(ids, ones);
    table.update(ids, ones);
    CHECK(!same_bits(bits(rows, 0, n / 2), bits(rows, n / 2, n / 2)));
    std::vector<float> of_table;
    for (auto const each : table.values()) of_table.push_back(gs::detail::widen(each));
    CHECK(same_bits(bits(rows, 0, n), of_table));
}
