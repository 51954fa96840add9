// A model with factored rules: matrices beside vectors, with threads and without, saved and
// resumed, and with shapes that come later.
#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/adafactor.hpp>

#include <support/allocations.hpp>
#include <support/catch.hpp>
#include <support/folder.hpp>
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
auto const adafactor = gs::make_updater<float>(gs::adafactor{}, gs::decoupled{0.1}, gs::constant{0.02});
using parameter = gs::parameter<std::remove_const_t<decltype(adafactor)>>;

template <class Span> bool same(Span a, std::vector<float> const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}
struct tensor {
    std::string name;
    gs::shape of;
    std::size_t size;
};
std::vector<tensor> const tensors{{"embed", {300, 130}, 39'000}, {"layer", {rows, cols}, n}, {"bias", {}, rows}};

void add_to(gs::model& net) {
    for (tensor const& x : tensors) net.add(x.name, gs::parameter{adafactor, numbers(x.size, 1), {.shape = x.of}});
}
void update(gs::model& net, std::size_t seed) {
    std::vector<std::vector<float>> memory;
    for (tensor const& x : tensors) memory.push_back(numbers(x.size, seed));
    std::vector<gs::named_gradient> gradients;
    for (std::size_t k = 0; k < tensors.size(); ++k) gradients.push_back({tensors[k].name, memory[k]});
    net.update(gradients);
}
std::vector<std::vector<float>> values(gs::model& net) {
    std::vector<std::vector<float>> out;
    for (tensor const& x : tensors) {
        auto const w = net.get<decltype(adafactor)>(x.name).values();
        out.emplace_back(w.begin(), w.end());
    }
    return out;
}
std::vector<std::vector<float>> expected(std::size_t steps) {
    std::vector<std::vector<float>> out;
    for (tensor const& x : tensors) {
        gs::parameter w{adafactor, numbers(x.size, 1), {.shape = x.of}};
        for (std::size_t s = 0; s < steps; ++s) w.update(numbers(x.size, s + 2));
        out.emplace_back(w.values().begin(), w.values().end());
    }
    return out;
}

} // namespace

TEST_CASE("A model of matrices and vectors with factored state", "[model]") {
    gs::thread_pool pool{3};
    gs::model net{pool}, alone;
    for (gs::model* const each : {&net, &alone}) {
        add_to(*each);
        for (std::size_t s = 2; s < 5; ++s) update(*each, s);
        CHECK(values(*each) == expected(3));
    }
    auto const& layer = net.get<decltype(adafactor)>("layer");
    CHECK(layer.state<"r">().size() == rows);
    CHECK(layer.state<"c">().size() == cols);
    CHECK(layer.state<"v">().empty());
    CHECK(net.get<decltype(adafactor)>("bias").state<"v">().size() == rows);
}

TEST_CASE("Factored state is saved and resumed bit for bit", "[model]") {
    folder const files;
    std::string const file = files / "model.safetensors";
    gs::model first, second;
    add_to(first);
    add_to(second);
    for (std::size_t s = 2; s < 4; ++s) update(first, s);
    first.save(file);
    second.load(file);
    update(second, 4);
    CHECK(values(second) == expected(3));

    gs::model other;
    for (tensor const& x : tensors)
        other.add(x.name, gs::parameter{adafactor, numbers(x.size, 1), {.shape = {x.of.cols, x.of.rows}}});
    CHECK(refusal<gs::size_error>([&] { other.load(file); }).find("has the shape [300, 130]; expected [130, 300]") !=
          std::string::npos);
    gs::model without_shape;
    for (tensor const& x : tensors) without_shape.add(x.name, gs::parameter{adafactor, numbers(x.size, 1)});
    CHECK(refusal<gs::size_error>([&] { without_shape.load(file); }).find("elements; expected 0") != std::string::npos);
    for (tensor const& x : tensors)
        if (x.of.is_known()) without_shape.set_shape(x.name, {x.of.rows, x.of.cols});
    without_shape.load(file);
    update(without_shape, 4);
    CHECK(values(without_shape) == expected(3));
}

TEST_CASE("Factored state in the memory of the application, and shapes that come later", "[model]") {
    auto w = numbers(n, 1), g = numbers(n, 2);
    std::vector<float> r(rows), c(cols), v, whole(n), none;
    auto const stepped = [&] {
        gs::parameter x{adafactor, numbers(n, 1), {.shape = {rows, cols}}};
        x.update(g);
        return std::vector(x.values().begin(), x.values().end());
    }();
    gs::model net;
    net.add("given", adafactor, {w, g, r, c, v});
    net.add("owned", gs::parameter{adafactor, w});
    net.set_shape("given", {rows, cols});
    net.set_shape("owned", {rows, cols / 4, 2, 2});
    net.update({{"owned", g}});
    CHECK(w == stepped);
    CHECK(same(net.get<decltype(adafactor)>("owned").values(), stepped));
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] {
              net.set_shape("owned", {cols, rows});
          }).find("set_shape: the rule keeps numbers for the rows and columns of another shape") != std::string::npos);
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] {
              net.set_shape("owned", {n});
          }).find("set_shape: the rule keeps numbers for the rows and columns of another shape") != std::string::npos);
    gs::model early;
    early.add("owned", gs::parameter{adafactor, w, {.shape = {rows, cols}}});
    early.set_shape("owned", {n});
    CHECK(early.get<decltype(adafactor)>("owned").state<"v">().size() == n);
    CHECK(refusal<gs::size_error>([&] {
              net.set_shape("given", {cols, rows});
          }) == "given: r: has 12 elements; expected 20, for a parameter of 240 elements and the shape 20 x 12");
    CHECK(w == stepped);
    net.update({{"owned", g}}); // by the shape before
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("A model with factored state changes nothing without memory", "[model]") {
    auto const g = numbers(n, 2), w0 = numbers(n, 1);
    bool done = false;
    for (std::size_t failures = 0; !done; ++failures) {
        auto const fresh = gs::make_updater<float>(gs::adafactor{}, gs::constant{0.02}); // without work memory
        gs::model net;
        net.add("a", gs::parameter{fresh, w0, {.shape = {rows, cols}}});
        net.add("b", gs::parameter{fresh, w0});
        std::array<gs::named_gradient, 2> const gradients{{{"a", g}, {"b", g}}};
        allocations_until_failure = failures;
        bool failed = false;
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
                CHECK(same(net.get<decltype(fresh)>(name).values(), w0));
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
