// State in 8 bits, chosen at run time: the bits and the files of gs::parameter with gs::block8<float>.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/saved/blob.hpp>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t length = gs::coded_block::length;

gs::optimizer_configuration read(std::string const& rule, std::string const& more = "") {
    return gs::read_optimizer(R"({"rule": {"name": ")" + rule + R"("}, "element": "block8", )" + more +
                              R"("schedule": {"name": "constant", "rate": 0.125}})");
}
auto const with_decay = R"("regularizer": {"name": "decoupled", "rate": 0.25}, )";

/// The bytes of the values and of the blocks of every slot.
std::vector<std::byte> bytes_in(auto const& memory) {
    auto const bytes = std::as_bytes(std::span(memory));
    return {bytes.begin(), bytes.end()};
}
std::vector<std::vector<std::byte>> contents(gs::any_parameter const& x) {
    std::vector<std::vector<std::byte>> out{bytes_in(x.values().as<float>())};
    for (std::size_t i = 0; i < x.optimizer().slots(); ++i)
        out.push_back(bytes_in(x.blocks(x.optimizer().slot_name(i))));
    return out;
}
template <class Updater> std::vector<std::vector<std::byte>> contents(gs::parameter<Updater> const& x) {
    std::vector<std::vector<std::byte>> out{bytes_in(x.values())};
    for (auto const* const name : Updater::state_names) out.push_back(bytes_in(x.state(name)));
    return out;
}

/// The tensors of a file, and what it says of them, without the policies.
std::string tensors_in(std::string const& file) {
    std::string const all = bytes_of(file);
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, all.data(), sizeof bytes);
    std::string const header = all.substr(sizeof bytes, static_cast<std::size_t>(bytes));
    std::size_t const first = header.find(R"(,"values":)"), last = header.find_last_not_of(' ');
    return header.substr(first, last + 1 - first) + all.substr(sizeof bytes + header.size());
}

/// Steps, files and saved states of a parameter of types, and of the same from a text.
template <class Updater> void same_as_types(Updater const& optimizer, gs::optimizer_configuration const& config) {
    constexpr std::size_t n = 100'001; // several parts for threads, and no whole number of blocks
    auto const initial = numbers<float>(n, 1);
    gs::parameter of_types{optimizer, initial};
    gs::any_parameter alone{config, initial}, shared{config, initial}, in_call{config, initial};
    gs::thread_pool pool(3);
    shared.use_threads(pool);
    gs::model net{pool};
    net.add("x", gs::any_parameter{config, initial});
    gs::any_parameter& in_model = net.get<gs::any_updater>("x");
    auto const step = [&](std::uint32_t seed) {
        auto const g = numbers<float>(n, seed);
        of_types.update(g, {.gradient_scale = 0.5});
        alone.update(g, {.gradient_scale = 0.5});
        shared.update(g, {.gradient_scale = 0.5});
        net.update({{"x", g}}, {.gradient_scale = 0.5});
        gs::any_parameter* const all[] = {&in_call};
        gs::any_span const gradients[] = {g};
        gs::update_all(all, gradients, {.gradient_scale = 0.5});
    };
    auto const check = [&] {
        for (gs::any_parameter const* const x : {&alone, &shared, &in_call, &in_model})
            CHECK(contents(*x) == contents(of_types));
    };
    check();
    for (std::uint32_t t = 0; t < 3; ++t) step(2 + t);
    check();

    folder const files;
    std::string const typed_file = files / "typed.safetensors", text_file = files / "text.safetensors";
    of_types.save(typed_file);
    shared.save(text_file);
    CHECK((tensors_in(text_file) == tensors_in(typed_file))); // without printing the bytes
    gs::any_parameter resumed{config, std::vector<float>(n)};
    resumed.load(typed_file);
    CHECK(contents(resumed) == contents(of_types));
    CHECK(resumed.clock() == of_types.clock());
    gs::parameter of_types_again{optimizer, std::vector<float>(n)};
    of_types_again.load(text_file);
    std::vector<std::byte> blob(gs::state_bytes(shared));
    gs::save_state(shared, blob);
    gs::load_state(alone, blob);
    auto const g = numbers<float>(n, 9);
    for (gs::any_parameter* const x : {&resumed, &alone}) {
        x->update(g);
        CHECK(contents(*x) != contents(of_types));
    }
    of_types_again.update(g);
    CHECK(contents(resumed) == contents(of_types_again));
    CHECK(contents(alone) == contents(of_types_again));
}

} // namespace

TEST_CASE("state in 8 bits that is chosen at run time has the bits and the files of its type", "[runtime][block8]") {
    using of = gs::block8<float>;
    constexpr gs::constant rate{0.125};
    same_as_types(gs::make_updater<of>(gs::adam{}, rate), read("adam"));
    same_as_types(gs::make_updater<of>(gs::adam{}, gs::decoupled{0.25}, rate), read("adam", with_decay));
    same_as_types(gs::make_updater<of>(gs::momentum{}, rate), read("momentum"));
    same_as_types(gs::make_updater<of>(gs::lion{}, gs::decoupled{0.25}, rate), read("lion", with_decay));
    same_as_types(gs::make_updater<of>(gs::adagrad{}, rate), read("adagrad"));
}

TEST_CASE("rows take their state in 8 bits with them, as those of a gs::parameter", "[runtime][block8]") {
    constexpr std::size_t width = 100; // rows share blocks
    auto const initial = numbers<float>(12 * width, 1);
    gs::parameter expected{
        gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{0.125}), initial, {.shape = {12, width}}};
    gs::any_parameter x{read("adam"), initial, 12, width};
    auto const change = [&](auto const& f) {
        auto const g = numbers<float>(expected.size(), 2);
        expected.update(g);
        x.update(g);
        f(expected);
        f(x);
        CHECK(contents(x) == contents(expected));
    };
    change([](auto& w) { w.append(numbers<float>(2 * width, 5)); });
    change([](auto& w) {
        w.keep(std::array{true, false, true, true, false, true, true, true, true, true, true, true, true, true});
    });
    change([](auto& w) { w.permute(std::array{11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); });
    change([](auto& w) { w.reset(std::vector<std::uint32_t>{1, 7}); });
    change([](auto& w) { w.set_values(numbers<float>(w.size(), 8)); });
    CHECK(x.blocks("m").size() == (12 * width + length - 1) / length);
}

TEST_CASE("what state in 8 bits does not support is refused by name", "[runtime][block8]") {
    auto const initial = numbers<float>(6, 1);
    auto const value = [](auto const& f) { return refusal<gs::value_error>(f); };
    std::string const kept = "\"element\": \"block8\" keeps the state in blocks of 256 elements; expected ",
                      no_rows = kept + "\"element\": \"plain\" for single rows";
    gs::any_updater optimizer{read("adam"), gs::scalar::float32};
    CHECK(optimizer.form() == gs::element_form::block8);
    CHECK(value([&] { gs::any_table{optimizer, 10, 4}; }) == "table: " + no_rows);
    CHECK(value([&] { static_cast<void>(optimizer.state_type()); }) == "state: " + kept + "any_parameter::blocks");
    std::vector<float> w(6), m(6), v(6);
    std::vector<gs::any_span> const slots{m, v};
    gs::any_tensor const tensor{w, w, slots};
    std::string const own = "slots: " + kept + "an any_parameter, which owns its state";
    optimizer.next_step();
    CHECK(value([&] { optimizer.initialize(tensor); }) == own);
    CHECK(value([&] { optimizer.apply(tensor); }) == own);
    CHECK(value([&] { gs::any_parameter(optimizer, tensor, {}); }) == own);

    gs::any_parameter x{optimizer, initial, {}, 2, 3};
    CHECK(value([&] { x.update_rows(std::vector{0}, std::vector<float>(3)); }) == "update_rows: " + no_rows);
    CHECK(value([&] { static_cast<void>(x.state("m")); }) == "state: " + kept + "any_parameter::blocks");
    CHECK(value([&] { static_cast<void>(x.blocks("k")); }) == "state: there is no slot \"k\"; expected one of m, v");
    CHECK(value([&] { gs::any_parameter(read("adagrad", R"("catch_up": "exact", )"), initial, 2, 3); }) ==
          "catch_up: " + no_rows);
    CHECK(value([&] { x.average(std::vector<float>(6)); }) ==
          "average: no average is kept; expected one in the configuration");
    gs::any_parameter const plain{gs::read_optimizer(R"({"rule": {"name": "adam"}, "schedule": {"name": "constant",
        "rate": 0.125}})"),
                                  initial};
    CHECK(value([&] { static_cast<void>(plain.blocks("m")); }) ==
          "blocks: the state has elements of float32; expected state()");

    auto const missing = [](auto const& f) { return refusal<gs::not_compiled_error>(f); };
    CHECK(missing([&] { gs::any_updater(read("adam", R"("average": {"name": "ema"}, )"), gs::scalar::float32); }) ==
          "adam, average ema, regularizer none, block8<float32>: this combination is not compiled into the program; "
          "expected this rule with no average");
    CHECK(missing([&] { gs::any_updater(read("adafactor"), gs::scalar::float32); }) ==
          "adafactor, no average, regularizer none, block8<float32>: this combination is not compiled into the "
          "program; expected this rule on elements of float32");
    CHECK(missing([&] { gs::any_updater(read("adam"), gs::scalar::float64); }) ==
          "float64: adam, no average, regularizer none: this combination is not compiled into the program; expected "
          "float32; convert the values and gradients to float32");
}
