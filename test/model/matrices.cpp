// A model with matrices, which muon updates, and a companion for everything else, by patterns of
// names.
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/rules/muon.hpp>

#include <support/allocations.hpp>
#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

constexpr std::size_t rows = 12, cols = 20, n = rows * cols;

std::vector<float> numbers(std::size_t size, std::size_t seed) {
    std::vector<float> out(size);
    for (std::size_t i = 0; i < size; ++i)
        out[i] = (static_cast<float>((i * i * 7 + i * 13 * seed + 5 * seed) % 257) - 128) / 64;
    return out;
}
auto const muon = gs::make_updater<float>(gs::muon{}, gs::decoupled{0.1}, gs::constant{0.02});
auto const adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.1}, gs::constant{0.001});

template <class Span> bool same(Span a, std::vector<float> const& b) {
    return std::equal(a.begin(), a.end(), b.begin());
}

} // namespace

TEST_CASE("A model of matrices and a companion", "[model]") {
    struct tensor {
        std::string name;
        std::size_t rows, cols;
    };
    std::vector<tensor> const tensors{
        {"embed.weight", 30, 8}, {"layer.0.weight", rows, cols}, {"layer.0.bias", 1, rows}, {"layer.1.weight", 8, 8}};
    gs::thread_pool pool{3};
    gs::model net{pool}, alone;
    for (gs::model* const each : {&net, &alone}) {
        gs::name_patterns companion{"embed.*", "*.bias"};
        for (tensor const& x : tensors) {
            auto const initial = numbers(x.rows * x.cols, 1);
            if (companion.match(x.name)) each->add(x.name, gs::parameter{adamw, initial});
            else each->add(x.name, gs::parameter{muon, initial, {.shape = {x.rows, x.cols}}}, {.rate_scale = 0.5});
        }
        companion.require_all_used();
    }
    for (std::size_t s = 2; s < 5; ++s) {
        std::vector<std::vector<float>> memory;
        for (tensor const& x : tensors) memory.push_back(numbers(x.rows * x.cols, s));
        std::vector<gs::named_gradient> gradients;
        for (std::size_t k = 0; k < tensors.size(); ++k) gradients.push_back({tensors[k].name, memory[k]});
        net.update(gradients);
        alone.update(gradients);
    }
    for (tensor const& x : tensors) {
        auto const expected = [&](auto const& optimizer, double rate_scale) {
            gs::parameter w{optimizer, numbers(x.rows * x.cols, 1), {.shape = {x.rows, x.cols}}};
            for (std::size_t s = 2; s < 5; ++s) w.update(numbers(x.rows * x.cols, s), {.rate_scale = rate_scale});
            return std::vector(w.values().begin(), w.values().end());
        };
        for (gs::model* const each : {&net, &alone}) {
            CAPTURE(x.name);
            if (x.name == "embed.weight" || x.name == "layer.0.bias")
                CHECK(same(each->get<decltype(adamw)>(x.name).values(), expected(adamw, 1)));
            else CHECK(same(each->get<decltype(muon)>(x.name).values(), expected(muon, 0.5)));
        }
    }
}

TEST_CASE("Matrices in the memory of the application, and shapes that come later", "[model]") {
    auto w = numbers(n, 1), g = numbers(n, 2), m = std::vector<float>(n);
    auto const expected = [&] {
        gs::parameter x{muon, w, {.shape = {rows, cols}}};
        x.update(g);
        return std::vector(x.values().begin(), x.values().end());
    }();
    gs::model net;
    net.add("given", muon, {w, g, m});
    net.add("owned", gs::parameter{muon, w});
    std::string const no_shape =
        ": parameter: has no shape, and muon needs a matrix; expected rows and columns: .shape of "
        "a slice or of parameter_options, or set_shape of a parameter or a model; give vectors "
        "to another rule";
    CHECK(refusal<gs::value_error>([&] { net.update({{"owned", g}}); }) == "given" + no_shape);
    net.set_shape("given", {rows, cols});
    CHECK(refusal<gs::value_error>([&] { net.update({{"owned", g}}); }) == "owned" + no_shape);
    CHECK(net.clock("given").step == 0);
    CHECK(w == numbers(n, 1));
    CHECK(m == std::vector<float>(n));
    net.set_shape("owned", {rows, cols / 4, 2, 2});
    net.update({{"owned", g}});
    CHECK(w == expected);
    CHECK(same(net.get<decltype(muon)>("owned").values(), expected));
    CHECK(refusal<gs::size_error>([&] {
              net.set_shape("owned", {rows, cols + 1});
          }).find("owned") != std::string::npos);
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("A model of matrices allocates in its first update, and changes nothing without memory", "[model]") {
    auto const g = numbers(n, 2), w0 = numbers(n, 1);
    bool done = false;
    for (std::size_t failures = 0; !done; ++failures) {
        // Copies of an updater share their work memory, and this one has none yet.
        auto const fresh = gs::make_updater<float>(gs::muon{}, gs::decoupled{0.1}, gs::constant{0.02});
        gs::model net;
        net.add("a", gs::parameter{fresh, w0, {.shape = {rows, cols}}});
        net.add("b", gs::parameter{fresh, w0, {.shape = {cols, rows}}});
        std::array<gs::named_gradient, 2> const gradients{{{"a", g}, {"b", g}}};
        bool failed = false;
        allocations_until_failure = failures;
        try {
            net.update(gradients);
        } catch (std::bad_alloc const&) {
            failed = true;
        }
        done = allocations_until_failure != SIZE_MAX;
        allocations_until_failure = SIZE_MAX;
        CHECK(failed != done);
        if (failed) {
            for (char const* const name : {"a", "b"}) {
                CHECK(same(net.get<decltype(muon)>(name).values(), w0));
                CHECK(same(net.get<decltype(muon)>(name).state("m"), std::vector<float>(n)));
                CHECK(net.clock(name).step == 0);
            }
            continue;
        }
        allocations = 0;
        net.update(gradients);
        CHECK(allocations == 0);
    }
}
#endif

TEST_CASE("Patterns of names", "[model]") {
    gs::name_patterns some{"*embed*", "*.bias", "head.?", "exact"};
    for (char const* const name : {"embed", "tok_embedding.weight", "a.b.bias", ".bias", "head.1", "exact"}) {
        CAPTURE(name);
        CHECK(some.match(name));
    }
    for (char const* const name : {"", "emb", "bias", "a.bias2", "head.", "head.12", "exactly", "inexact"}) {
        CAPTURE(name);
        CHECK_FALSE(some.match(name));
    }
    some.require_all_used();
    CHECK(gs::name_patterns{"*a*b*c"}.match("aabbabcc"));
    CHECK_FALSE(gs::name_patterns{"*a*b*c"}.match("aabbabcd"));
    CHECK(gs::name_patterns{"*"}.match(""));
    // "?" is a character, of 1 to 4 bytes in UTF-8: a, \u00e9, \u20ac, \U0001f40d.
    for (std::string const letter : {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x8d"}) {
        CAPTURE(letter);
        for (char const* const pattern : {"?", "*?", "?*", "*", "*?*"}) CHECK(gs::name_patterns{pattern}.match(letter));
        for (char const* const pattern : {"??", "*??", "??*", "?*?"}) {
            CHECK_FALSE(gs::name_patterns{pattern}.match(letter));
            CHECK(gs::name_patterns{pattern}.match(letter + letter));
        }
        CHECK(gs::name_patterns{"x?.?y"}.match("x" + letter + "." + letter + "y"));
        CHECK(gs::name_patterns{"*" + letter + "?"}.match(letter + letter));
        CHECK_FALSE(gs::name_patterns{"*??c*"}.match(letter + "cd"));
    }

    gs::name_patterns const unused{"*.bias", "haed.*"};
    CHECK(refusal<gs::value_error>([&] {
              gs::name_patterns copy = unused;
              copy.match("a.bias");
              copy.match("head.weight");
              copy.require_all_used();
          }) == R"(name_patterns: "haed.*" matches no parameter; expected a pattern that matches a name)");
    CHECK(refusal<gs::value_error>([] { gs::name_patterns{}; }) ==
          "name_patterns: there is no pattern; expected one at least");
    CHECK(refusal<gs::value_error>([] { gs::name_patterns{""}; }) ==
          R"(name_patterns: a pattern is empty; expected a name, or a pattern such as "*.bias")");
    CHECK(refusal<gs::value_error>([] {
              gs::name_patterns{"a", "a"};
          }) == R"(name_patterns: "a" is given twice; expected each pattern once)");
}
