// Rows of several parameters of a model that change together, and frozen parameters.
#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/model_optimizers.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

using namespace model_optimizers;

namespace {

using adam_type = std::remove_const_t<decltype(adam)>;
using sgd_type = std::remove_const_t<decltype(sgd)>;

std::vector<float> copy(std::span<float const> x) { return {x.begin(), x.end()}; }

// Three points: positions of two numbers, and an opacity.
struct points {
    gs::model net;

    explicit points(gs::model_options options = {}) : net(options) {
        net.add("means", gs::parameter{adam, numbers<float>(6, 1), {.shape = {3, 2}}});
        net.add("opacity", gs::parameter{adam, numbers<float>(3, 2)});
        net.add("scale", gs::parameter{sgd, numbers<float>(2, 3)});
    }
    void step(std::uint32_t seed = 1) {
        auto const means = numbers<float>(this->means().size(), seed),
                   opacity = numbers<float>(this->opacity().size(), seed);
        net.update({{"means", means}, {"opacity", opacity}, {"scale", numbers<float>(2, seed)}});
    }
    gs::parameter<adam_type>& means() { return net.get<adam_type>("means"); }
    gs::parameter<adam_type>& opacity() { return net.get<adam_type>("opacity"); }
    std::vector<std::vector<float>> contents() {
        return {copy(means().values()),
                copy(means().state("m")),
                copy(means().state("v")),
                copy(opacity().values()),
                copy(opacity().state("m")),
                copy(opacity().state("v")),
                copy(net.get<sgd_type>("scale").values())};
    }
};

} // namespace

TEST_CASE("rows of several parameters change together", "[model][rows]") {
    points x, alone;
    x.step();
    alone.step();
    auto const new_means = numbers<float>(4, 9), new_opacity = numbers<float>(2, 8);
    x.net.append({{"means", new_means}, {"opacity", new_opacity}});
    alone.means().append(new_means);
    alone.opacity().append(new_opacity);
    CHECK(x.contents() == alone.contents());
    x.net.keep({"means", "opac*"}, std::array{true, false, true, true, true});
    x.net.permute({"means", "opacity"}, std::array{3, 1, 2, 0});
    x.net.reset({"opacity"}, std::array{1});
    for (gs::parameter<adam_type>* const each : {&alone.means(), &alone.opacity()}) {
        each->keep(std::array{true, false, true, true, true});
        each->permute(std::array{3, 1, 2, 0});
    }
    alone.opacity().reset(std::array{1});
    CHECK(x.contents() == alone.contents());
    x.step(5);
    alone.step(5);
    CHECK(x.contents() == alone.contents());
    CHECK(x.means().rows() == 4);
}

TEST_CASE("a change of rows that is refused changes no parameter", "[model][rows]") {
    points x;
    std::vector<float> w(3), g(3);
    x.net.add("mine", sgd, {w, g});
    x.net.set_shard("scale", {.rank = 0, .ranks = 2, .first = 0, .size = 4});
    auto const before = x.contents();
    auto const four = numbers<float>(4, 1), two = numbers<float>(2, 1), three = numbers<float>(3, 1);
    std::vector<double> const doubles(2);
    auto const value = [](auto const& f) { return refusal<gs::value_error>(f); };
    auto const size = [](auto const& f) { return refusal<gs::size_error>(f); };
    CHECK(size([&] {
              x.net.append({{"means", four}, {"opacity", three}});
          }) == "opacity: append: 3 rows; expected 2, as many as means");
    CHECK(size([&] {
              x.net.append({{"opacity", three}, {"means", three}});
          }) == "means: append: 3 values; expected a multiple of 2, the width of a row");
    CHECK(value([&] {
              x.net.append({{"means", four}, {"means", four}});
          }) == "append: means: is given twice; expected the values of its new rows");
    CHECK(value([&] {
              x.net.append({{"means", four}, {"opacity", doubles}});
          }) ==
          "opacity: append: the values are of another type than the parameter; expected the type that float has in "
          "memory");
    CHECK(value([&] {
              x.net.append({{"means", four}, {"mine", two}});
          }) ==
          "mine: append: its values and state are in memory of the application; expected a parameter that the model "
          "owns");
    CHECK(value([&] {
              x.net.append({{"means", four}, {"scale", two}});
          }) == "scale: append: it is a shard of a larger tensor; expected a whole tensor");
    CHECK(value([&] {
              x.net.append({{"means", four}, {"colors", two}});
          }).starts_with("append: there is no parameter colors; expected one of means, "));
    CHECK(size([&] {
              x.net.keep({"opacity", "means", "mine"}, std::array{true, true});
          }) == "means: keep: the mask has 2 elements; expected 3");
    CHECK(value([&] {
              x.net.keep({"means", "colour*"}, std::array{true, true, false});
          }) == "keep: name_patterns: \"colour*\" matches no parameter; expected a pattern that matches a name");
    CHECK(value([&] {
              x.net.permute({"means", "opacity"}, std::array{0, 1, 1});
          }) == "means: permute: row 1 is in the order twice; expected each row once");
    CHECK(value([&] { x.net.reset({"means"}, std::array{3}); }) ==
          "means: reset: element 0 is 3; expected a row in [0, 3)");
    CHECK(x.contents() == before);
}

TEST_CASE("checkpoints and shapes follow the rows", "[model][rows]") {
    points x;
    x.net.set_shape("means", {3, 2, 1});
    x.step();
    x.net.keep({"means", "opacity"}, std::array{true, false, true});
    folder const in;
    std::string const file = in / "rows.safetensors";
    x.net.save(file);
    points other;
    CHECK_THROWS_AS(other.net.load(file), gs::size_error); // three rows
    other.net.keep({"means", "opacity"}, std::array{true, false, true});
    other.net.set_shape("means", {2, 2, 1});
    other.net.load(file);
    CHECK(other.contents() == x.contents());
}

TEST_CASE("a frozen parameter does not change, and norms leave it out", "[model][rows]") {
    points x({.clip_norm = 0.5}), without({.clip_norm = 0.5});
    x.step();
    without.step();
    auto const scale = copy(x.net.get<sgd_type>("scale").values());
    x.net.freeze({"sc*"});
    CHECK(x.net.is_frozen("scale"));
    CHECK_FALSE(x.net.is_frozen("means"));
    auto const means = numbers<float>(6, 4), opacity = numbers<float>(3, 4);
    // The same as with gradients of 0, except that it does not step.
    auto const result = x.net.update({{"means", means}, {"opacity", opacity}});
    auto const expected =
        without.net.update({{"means", means}, {"opacity", opacity}, {"scale", std::vector<float>(2)}});
    CHECK(result.norm == expected.norm);
    CHECK(copy(x.means().values()) == copy(without.means().values()));
    CHECK(copy(x.net.get<sgd_type>("scale").values()) == scale);
    CHECK(x.net.clock("scale").step == 1);
    CHECK(x.net.clock("means").step == 2);
    // A gradient that is given is not read, whatever it has.
    std::vector<float> const nan(2, std::numeric_limits<float>::quiet_NaN()), wrong(7);
    x.net.update({{"scale", nan}, {"means", means}, {"opacity", opacity}});
    x.net.update({{"scale", wrong}, {"means", means}, {"opacity", opacity}});
    x.net.ascend({{"means", means}, {"opacity", opacity}});
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { x.net.unfreeze({"scale"}); }) ==
          "unfreeze: ascend() has moved the weights; expected descend() or restore() first");
    x.net.descend({{"means", means}, {"opacity", opacity}});
    CHECK(copy(x.net.get<sgd_type>("scale").values()) == scale);
    x.net.unfreeze({"*"});
    CHECK(refusal<gs::value_error>([&] {
              x.net.update({{"means", means}, {"opacity", opacity}});
          }) == "update: the gradient of scale is missing; expected one for each parameter");
    x.step();
    CHECK(x.net.clock("scale").step == 2);
    CHECK(copy(x.net.get<sgd_type>("scale").values()) != scale);
    x.net.freeze({"*"});
    auto const all = x.contents();
    x.net.update();
    CHECK(x.contents() == all);
    CHECK(refusal<gs::value_error>([&] { x.net.freeze({"scales"}); }) ==
          "freeze: name_patterns: \"scales\" matches no parameter; expected a pattern that matches a name");
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("no parameter changes its rows if memory does not suffice", "[model][rows]") {
    auto const new_means = numbers<float>(4, 9), new_opacity = numbers<float>(2, 8);
    for (std::size_t failures = 0;; ++failures) {
        points x;
        x.step();
        auto const before = x.contents();
        std::array<gs::named_gradient, 2> const added{{{"means", new_means}, {"opacity", new_opacity}}};
        allocations_until_failure = failures;
        bool failed = false;
        try {
            x.net.append(added);
        } catch (std::bad_alloc const&) {
            failed = true;
        }
        bool const done = allocations_until_failure != SIZE_MAX;
        allocations_until_failure = SIZE_MAX;
        CHECK(failed != done);
        CHECK((x.contents() == before) == failed);
        if (done) break;
    }
}
#endif
