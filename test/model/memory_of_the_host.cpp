// A model over memory of the host's: the bits of the model that owns its memory, and of
// step(slices); and what a model allocates.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/model_optimizers.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/thread_counts.hpp"

namespace gs = gradstep;

using namespace model_optimizers;

namespace {

using adam_type = std::remove_const_t<decltype(adam)>;
using sgd_type = std::remove_const_t<decltype(sgd)>;

// The buffers of one tensor, as a framework has them.
template <class Updater> struct tensor_of {
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;
    std::vector<storage> w, g;
    std::array<std::vector<state_type>, Updater::slots> state;

    tensor_of(Updater const& optimizer, std::size_t n) : w(numbers<storage>(n, 1)), g(n) {
        for (std::size_t i = 0; i != Updater::slots; ++i) state[i].resize(Updater::slot_size(i, n));
        optimizer.initialize(slice());
    }
    gs::slice<Updater> slice() {
        return [this]<std::size_t... I>(std::index_sequence<I...>) { return gs::slice<Updater>(w, g, state[I]...); }
        (std::make_index_sequence<Updater::slots>{});
    }
    bool same(tensor_of const& other) const {
        bool equal = same_bits(w, other.w);
        for (std::size_t i = 0; i != Updater::slots; ++i) equal = equal && same_bits(state[i], other.state[i]);
        return equal;
    }
    bool same(gs::parameter<Updater> const& other) const {
        auto const equal_to = [](auto const& mine, auto others) {
            return same_bits(mine, {others.begin(), others.end()});
        };
        bool equal = equal_to(w, other.values());
        for (std::size_t i = 0; i != Updater::slots; ++i)
            equal = equal && equal_to(state[i], other.state(Updater::state_names[i]));
        return equal;
    }
};

#if defined(GRADSTEP_SANITIZED)
std::vector<std::size_t> const sizes{0, 1, 4095, 4097, 44'003};
#else
std::vector<std::size_t> const sizes{0, 1, 4095, 4097, 70'003};
#endif
std::array<gs::tensor_options, 2> const groups{gs::tensor_options{.rate_scale = 0.3}, {.decay = false}};

// Tensors of one updater, of every size and group, three times: in a model as memory of the host's,
// in a model as parameters of its own, and in a step over slices.
template <class Updater> class triple {
public:
    triple(std::string of, Updater const& optimizer, gs::model& borrowing, gs::model& owning)
        : name_(std::move(of)), optimizer_(optimizer), owning_(owning) {
        for (std::size_t const n : sizes)
            for (std::size_t k = 0; k < groups.size(); ++k) borrowed_.emplace_back(optimizer, n);
        sliced_ = borrowed_;
        for (std::size_t i = 0; i < borrowed_.size(); ++i) {
            gs::tensor_options const& own = groups[i % groups.size()];
            gs::slice<Updater> in_model = borrowed_[i].slice(), slice = sliced_[i].slice();
            if (i < groups.size()) { // what a slice says holds as well
                in_model.decay = own.decay;
                in_model.rate_scale = own.rate_scale;
                borrowing.add(name(i), optimizer, in_model);
            } else {
                borrowing.add(name(i), optimizer, in_model, own);
            }
            owning.add(name(i), gs::parameter{optimizer, borrowed_[i].w}, own);
            slice.decay = own.decay;
            slice.rate_scale = own.rate_scale;
            slice.id = gs::detail::hash_of(name(i));
            slices_.push_back(slice);
        }
    }
    void set_gradients(std::uint32_t t, std::vector<gs::named_gradient>& owned) {
        for (std::size_t i = 0; i < borrowed_.size(); ++i) {
            auto const g = numbers<typename Updater::traits::storage>(borrowed_[i].g.size(), 7 * t + 1);
            std::copy(g.begin(), g.end(), borrowed_[i].g.begin());
            std::copy(g.begin(), g.end(), sliced_[i].g.begin());
            owned.push_back({names_[i], sliced_[i].g});
        }
    }
    void step(gs::step_options const& options) { optimizer_.next_step(options)(slices_); }
    bool agree(gs::model const& borrowing) const {
        bool equal = true;
        for (std::size_t i = 0; i < borrowed_.size(); ++i)
            equal = equal && borrowed_[i].same(sliced_[i]) && borrowed_[i].same(owning_.get<Updater>(names_[i])) &&
                    borrowing.clock(names_[i]) == optimizer_.clock() && owning_.clock(names_[i]) == optimizer_.clock();
        return equal;
    }

private:
    std::string const& name(std::size_t i) {
        if (i == names_.size()) names_.push_back(name_ + std::to_string(i));
        return names_[i];
    }

    std::string name_;
    Updater optimizer_;
    gs::model& owning_;
    std::vector<tensor_of<Updater>> borrowed_, sliced_;
    std::vector<std::string> names_;
    std::vector<gs::slice<Updater>> slices_;
};

// Two tensors of a framework, and a model over them.
struct small_host {
    tensor_of<adam_type> a{adam, 100};
    tensor_of<sgd_type> b{sgd, 50};
    gs::model net;

    explicit small_host(gs::model_options options = {}) : net(options) {
        a.g = numbers<float>(100, 2);
        b.g = numbers<float>(50, 3);
        net.add("a", adam, a.slice());
        net.add("b", sgd, b.slice());
        net.update({.samples = 2});
    }
    template <class Error, class F> std::string refused(F const& f) {
        tensor_of<adam_type> const a_before = a;
        tensor_of<sgd_type> const b_before = b;
        gs::clock const clock = net.clock("a");
        std::string const text = refusal<Error>([&] { f(); });
        CHECK((a.same(a_before) && b.same(b_before) && same_bits(a.g, a_before.g) && same_bits(b.g, b_before.g)));
        CHECK((net.clock("a") == clock && net.clock("b") == clock && net.size() == 2));
        return text;
    }
};

} // namespace

TEST_CASE("a model over memory of the host equals one that owns it, and step(slices), bit for bit",
          "[model][threads]") {
    for (std::size_t const threads : thread_counts({1, 3})) {
        gs::thread_pool pool(threads);
        gs::model borrowing{pool}, owning{pool};
        triple adams("adam ", adam, borrowing, owning);
        triple mixeds("mixed ", mixed, borrowing, owning);
        triple stochastics("stochastic ", stochastic, borrowing, owning);
        triple ftrls("ftrl ", ftrl, borrowing, owning);
        triple lambs("lamb ", lamb, borrowing, owning);
        auto const each = [&](auto const& f) {
            f(adams);
            f(mixeds);
            f(stochastics);
            f(ftrls);
            f(lambs);
        };
        for (std::uint32_t t = 0; t < 3; ++t) {
            gs::step_options const options{
                .gradient_scale = t == 1 ? 0.7 : 1, .rate_scale = t == 2 ? 0.6 : 1, .samples = 7, .seed = 3};
            std::vector<gs::named_gradient> gradients;
            each([&](auto& x) { x.set_gradients(t, gradients); });
            CHECK(borrowing.update(options).applied);
            CHECK(owning.update(gradients, options).applied);
            each([&](auto& x) {
                x.step(options);
                CHECK(x.agree(borrowing));
            });
        }
    }
}

TEST_CASE("clip_norm and on_nonfinite treat memory of the host as the model's own", "[model]") {
    gs::model_options const options{.clip_norm = 0.5, .on_nonfinite = gs::nonfinite::skip};
    small_host x(options);
    gs::model owning(options);
    owning.add("a", gs::parameter{adam, numbers<float>(100, 1)});
    owning.add("b", gs::parameter{sgd, numbers<float>(50, 1)});
    auto const first = owning.update({{"a", x.a.g}, {"b", x.b.g}});
    CHECK((first.norm && *first.norm > 0.5));
    CHECK((x.a.same(owning.get<adam_type>("a")) && x.b.same(owning.get<sgd_type>("b"))));

    CHECK(x.net.update().norm == first.norm);
    auto const good = x.b.g;
    x.b.g[17] = std::numeric_limits<float>::quiet_NaN();
    auto const before = x.a;
    auto const skipped = x.net.update({.zero_gradient = true});
    CHECK((!skipped.applied && skipped.nonfinite == std::pair(std::string("b"), std::size_t(17))));
    CHECK((x.a.same(before) && x.net.clock("b").step == 2));
    CHECK((x.a.g == std::vector<float>(100) && x.b.g == std::vector<float>(50)));
}

TEST_CASE("a gradient of the host's may be given by name, for one step or for each", "[model]") {
    small_host held, given;
    auto const other = numbers<float>(50, 9);
    held.net.update({{"b", other}}); // instead of b's own, and a's own
    given.b.g = other;
    given.net.update();
    CHECK((held.a.same(given.a) && held.b.same(given.b)));
    held.net.update(); // b's own again
    given.b.g = held.b.g;
    given.net.update();
    CHECK((held.a.same(given.a) && held.b.same(given.b)));

    tensor_of<adam_type> x(adam, 100);
    gs::model net;
    net.add("x", adam, {x.w, std::span<float>(), x.state[0], x.state[1]});
    CHECK(refusal<gs::value_error>([&] { net.update(); }) ==
          "update: the gradient of x is missing; expected one for each parameter");
    net.update({{"x", held.a.g}});
    CHECK(net.clock("x").step == 1);
}

TEST_CASE("memory of the host is gone on with from the optimizer's clock, and from where seek puts it", "[model]") {
    small_host straight, resumed;
    for (int t = 0; t < 2; ++t) straight.net.update();
    auto const a = straight.a;
    auto const b = straight.b;
    gs::clock const at = straight.net.clock("a");
    CHECK(at == gs::clock{.step = 3, .samples = 2});
    straight.net.update();

    // A new model over memory that a checkpoint filled.
    auto a_again = a;
    auto b_again = b;
    auto optimizer = adam;
    optimizer.seek(at);
    gs::model again;
    again.add("a", optimizer, a_again.slice());
    again.add("b", sgd, b_again.slice());
    CHECK(again.clock("a") == at);
    CHECK(again.clock("b") == gs::clock{});
    again.seek("b", at);
    a_again.g = straight.a.g;
    b_again.g = straight.b.g;
    again.update();
    CHECK((a_again.same(straight.a) && b_again.same(straight.b)));

    // The same model, put back.
    std::copy(a.w.begin(), a.w.end(), straight.a.w.begin());
    for (std::size_t i = 0; i < 2; ++i) std::copy(a.state[i].begin(), a.state[i].end(), straight.a.state[i].begin());
    for (char const* name : {"a", "b"}) straight.net.seek(name, at);
    straight.net.update();
    CHECK(a_again.same(straight.a));
    CHECK_THAT(refusal<gs::value_error>([&] { straight.net.seek("a", {.step = -1}); }),
               Catch::Matchers::EndsWith("expected counts >= 0"));
    CHECK(refusal<gs::value_error>([&] { straight.net.clock("c"); }) ==
          "clock: there is no parameter c; expected one of a, b");
}

TEST_CASE("memory of the host that does not fit is refused with everything as it was", "[model]") {
    small_host x;
    tensor_of<adam_type> y(adam, 64);
    std::vector<float> const constant(64);
    std::vector<float> short_one(3);
    std::span<float> const null(static_cast<float*>(nullptr), 64);
    auto const add = [&](gs::slice<adam_type> slice, gs::tensor_options options = {}) {
        return [&x, slice, options] { x.net.add("y", adam, slice, options); };
    };
    CHECK(x.refused<gs::size_error>(add({y.w, y.g, short_one, y.state[1]})) ==
          "y: m: has 3 elements, parameter has 64; expected the same length for all buffers of a tensor");
    CHECK(x.refused<gs::size_error>(add({y.w, short_one, y.state[0], y.state[1]})) ==
          "y: gradient: has 3 elements, parameter has 64; expected the same length for all buffers of a tensor");
    CHECK(x.refused<gs::buffer_error>(add({y.w, y.g, y.state[0], y.state[0]})) ==
          "y: v: overlaps m; expected separate memory for each buffer");
    CHECK(x.refused<gs::buffer_error>(add({y.w, null, y.state[0], y.state[1]})) ==
          "y: gradient: is null; expected 64 elements of memory");
    CHECK(x.refused<gs::value_error>(add(y.slice(), {.rate_scale = -1})) ==
          "add: y: rate_scale: -1 is out of range; expected finite and >= 0");
    auto slow = y.slice();
    slow.rate_scale = -2;
    CHECK(x.refused<gs::value_error>(add(slow)) == "add: y: rate_scale: -2 is out of range; expected finite and >= 0");
    CHECK(x.refused<gs::value_error>([&] { x.net.add("a", adam, y.slice()); }) ==
          "add: there is a parameter a already; expected another name");
    CHECK(x.refused<gs::value_error>([&] { x.net.get<adam_type>("a"); }) ==
          "get: a: its values and state are in your memory; expected a parameter that the model owns; read your "
          "memory, and "
          "clock(name) for the clock");
    CHECK(x.refused<gs::size_error>([&] {
        x.net.update({{"a", x.b.g}});
    }) == "the gradient of a: has 50 elements; expected 100");
    CHECK_THAT(x.refused<gs::buffer_error>([&] {
        x.net.update({{"b", x.b.w}});
    }),
               Catch::Matchers::StartsWith("b: gradient: overlaps parameter"));

    gs::model net;
    net.add("y", adam, {y.w, constant, y.state[0], y.state[1]});
    CHECK_THAT(refusal<gs::buffer_error>([&] { net.update({.zero_gradient = true}); }),
               Catch::Matchers::StartsWith("y: gradient: is const or lazy"));
    CHECK(net.clock("y").step == 0);
    net.update();
    CHECK(net.description() == "y [64]: " + gs::describe(adam) + "\n");
}

TEST_CASE("parameters are slices of a step, and a step has options of its tensors alone", "[model]") {
    auto const g = numbers<float>(100, 2);
    auto const same_values = [](auto const& a, auto const& b) {
        return same_bits(std::vector(a.values().begin(), a.values().end()), {b.values().begin(), b.values().end()});
    };
    gs::parameter alone{adam, numbers<float>(100, 1)}, together{alone}, scaled{alone}, in_step{alone};
    alone.update(g, {.samples = 3});
    together.optimizer().next_step({.samples = 3})(together.as_slice(g));
    CHECK(same_values(alone, together));
    CHECK(alone.clock() == together.clock());

    auto slice = scaled.as_slice(g);
    slice.rate_scale = 0.3;
    slice.decay = false;
    scaled.optimizer().next_step({.rate_scale = 0.7})(slice);
    auto const before = in_step;
    auto const step = in_step.optimizer().next_step({.rate_scale = 0.7}, {.rate_scale = 0.3, .decay = false});
    slice = in_step.as_slice(g);
    CHECK(refusal<gs::value_error>([&] { step(slice); }) ==
          "slice.decay: is true, and the step was prepared without decay; expected false");
    CHECK(same_values(in_step, before));
    slice.decay = false;
    step(slice);
    CHECK(same_values(in_step, scaled));
    CHECK(refusal<gs::value_error>([&] { alone.optimizer().next_step({}, {.rate_scale = -1}); }) ==
          "tensor_options.rate_scale: -1 is out of range; expected finite and >= 0");
}

TEST_CASE("a model writes copies in bfloat16, of its parameters and of the host's, with the clip and on threads",
          "[model]") {
    constexpr std::size_t n = 60'000;
    gs::thread_pool pool(3);
    gs::model net{pool, {.clip_norm = 0.5}}, without{pool, {.clip_norm = 0.5}};
    std::vector<gs::bfloat16> copy_of_host(n), copy_of_owned(n), unused(n);
    tensor_of host{adam, n}, same{adam, n};
    host.g = same.g = numbers<float>(n, 2);
    auto slice = host.slice();
    slice.bfloat16_copy = copy_of_host;
    net.add("of the host", adam, slice);
    net.add("owned", gs::parameter{adam, numbers<float>(n, 3), {.bfloat16_copy = copy_of_owned}});
    without.add("of the host", adam, same.slice());
    without.add("owned", gs::parameter{adam, numbers<float>(n, 3)});
    auto const gradient = numbers<float>(n, 4);
    for (int k = 0; k < 2; ++k) {
        net.update({{"owned", gradient}});
        without.update({{"owned", gradient}});
    }
    CHECK(host.same(same));
    auto const values = net.get<adam_type>("owned").values();
    CHECK(std::ranges::equal(values, without.get<adam_type>("owned").values()));
    auto const is_rounded = [](gs::bfloat16 a, float b) { return a.bits == gs::bfloat16(b).bits; };
    CHECK(std::ranges::equal(copy_of_host, host.w, is_rounded));
    CHECK(std::ranges::equal(copy_of_owned, values, is_rounded));

    gs::model other;
    other.add("w", gs::parameter{adam, gradient, {.bfloat16_copy = std::span(unused).first(n - 1)}});
    CHECK(refusal<gs::size_error>([&] {
              other.update({{"w", gradient}});
          }) ==
          "w: bfloat16_copy: has 59999 elements, parameter has 60000; expected the same length for all buffers of "
          "a tensor");
    CHECK(other.clock("w").step == 0);
}

TEST_CASE("an update of a model allocates nothing once one has been done", "[model]") {
    gs::thread_pool pool(2);
    gs::model net{pool, {.clip_norm = 1, .on_nonfinite = gs::nonfinite::skip}};
    tensor_of<adam_type> a(adam, 70'003);
    tensor_of<std::remove_const_t<decltype(mixed)>> b(mixed, 5000);
    std::vector<float> const g = numbers<float>(300, 1);
    net.add("weight", adam, a.slice());
    net.add("a name that is too long for a string without memory of its own", mixed, b.slice(), {.rate_scale = 0.5});
    net.add("owned", gs::parameter{sgd, numbers<float>(300, 2)});
    net.update({{"owned", g}});
    allocations = 0;
    for (int t = 0; t < 5; ++t) net.update({{"owned", g}}, {.zero_gradient = false});
    CHECK(allocations == 0);
}

TEST_CASE("parameters of a model that share memory are refused, and nothing is changed", "[model]") {
    tensor_of<adam_type> x(adam, 64), y(adam, 64);
    auto const before = x.w;
    auto const refused = [&](gs::slice<adam_type> slice, gs::step_options const& options = {}) {
        gs::compressed_model net;
        net.add("x", adam, x.slice());
        net.add("y", adam, slice);
        std::string const said = refusal<gs::buffer_error>([&] { net.update(options); });
        CHECK((x.w == before && net.clock("x").step == 0 && net.clock("y").step == 0));
        CHECK(refusal<gs::buffer_error>([&] { net.compress(options); }) == said);
        return said;
    };
    CHECK(refused({x.w, y.g, y.state[0], y.state[1]}) ==
          "y: parameter: overlaps x: parameter; expected separate memory for each buffer");
    CHECK(refused({y.w, y.g, y.state[0], x.state[1]}) ==
          "y: v: overlaps x: v; expected separate memory for each buffer");
    CHECK(refused({y.w, x.w, y.state[0], y.state[1]}) ==
          "y: gradient: overlaps x: parameter; expected separate memory for each buffer");
    CHECK(refused({y.w, x.g, y.state[0], y.state[1]}, {.zero_gradient = true}) ==
          "y: gradient: overlaps x: gradient; expected separate memory for each buffer");

    gs::model net;
    net.add("x", adam, x.slice());
    net.add("y", adam, {y.w, x.g, y.state[0], y.state[1]}); // a gradient that is only read
    net.update();
    CHECK(refusal<gs::buffer_error>([&] { net.update({.zero_gradient = true}); }) ==
          "y: gradient: overlaps x: gradient; expected separate memory for each buffer");
    std::vector<float> z(32);
    std::span<float> const half = std::span(x.w).first(32);
    net.add("z", sgd, {half, z});
    CHECK(refusal<gs::buffer_error>([&] { net.update(); }) ==
          "z: parameter: overlaps x: parameter; expected separate memory for each buffer");
    CHECK(net.clock("x").step == 1);

    gs::model of_its_own;
    of_its_own.add("w", gs::parameter{sgd, before});
    auto const values = of_its_own.get<sgd_type>("w").values();
    of_its_own.add("x", adam, x.slice());
    CHECK(refusal<gs::buffer_error>([&] {
              of_its_own.update({{"w", x.g}, {"x", values}});
          }) == "x: gradient: overlaps w: parameter; expected separate memory for each buffer");
}

TEST_CASE("adding to a model takes time by what is added, not by what is there", "[model]") {
    constexpr std::size_t count = 10'000;
    std::vector<float> w(count), g(count);
    gs::model net;
    allocations = 0;
    for (std::size_t i = 0; i < count; ++i)
        net.add("w" + std::to_string(i), sgd, {std::span(w).subspan(i, 1), std::span(g).subspan(i, 1)});
    CHECK(allocations <= count + 100); // a member each, and memory that doubles: before, an array of all for every add
    CHECK(net.update().applied);
    CHECK((net.contains("w9999") && !net.contains("w10000") && net.clock("w5000").step == 1));
}

TEST_CASE("an allocation that fails in a call of a model leaves everything as it was", "[model]") {
    enum { adding, adding_borrowed, updating, calls };
    for (int which = 0; which < calls; ++which) {
        std::size_t failures = 0;
        for (bool done = false; !done; failures += !done) {
            tensor_of<adam_type> a(adam, 100), extra(adam, 9);
            gs::model net{{.clip_norm = 1, .on_nonfinite = gs::nonfinite::skip}};
            a.g = numbers<float>(100, 2);
            net.add("a", adam, a.slice());
            for (std::size_t i = 0; i < 3; ++i) net.add(std::to_string(i), gs::parameter{sgd, std::vector<float>{}});
            auto const before = a;
            std::vector<float> const none;
            std::string const name = "a name that is too long for a string without memory of its own";
            allocations_until_failure = failures;
            try {
                if (which == adding) net.add(name, gs::parameter{sgd, a.w});
                if (which == adding_borrowed) net.add(name, adam, extra.slice());
                if (which == updating) net.update({{"0", none}, {"1", none}, {"2", none}});
                done = true;
            } catch (std::bad_alloc const&) {
            }
            allocations_until_failure = SIZE_MAX;
            CAPTURE(which, failures);
            CHECK(net.size() == 4u + (done && which != updating));
            CHECK(net.contains(name) == (done && which != updating));
            CHECK(net.clock("a").step == (done && which == updating));
            CHECK(a.same(before) == !(done && which == updating));
        }
#if defined(COUNTS_ALLOCATIONS)
        CHECK(failures >= 2);
#endif
    }
}

namespace {

// A backend on which updates of several parameters may wait for each other, as Thrust's.
struct gathering_backend : gs::detail::host_buffers {
    template <class Batch> void run(Batch const& batch) const { gs::serial_backend().run(batch); }
    struct gathering {
        explicit gathering(gathering_backend const&) {}
        template <class Batch> void add(Batch const& batch) { gs::serial_backend().run(batch); }
        void run() {}
    };
    bool shares_launches_with(gathering_backend const&) const { return true; }
};
static_assert(gs::detail::gathers_updates<gathering_backend>);

} // namespace

TEST_CASE("a step of a model that finds no memory for updates to wait in is taken without", "[model]") {
    auto const optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{0.125}, gathering_backend{});
    auto const like = gs::make_updater<float>(gs::momentum{}, gs::constant{0.125}, gs::serial_backend{});
    using updater = std::remove_const_t<decltype(optimizer)>;
    std::size_t failures = 0;
    for (bool done = false; !done; failures += !done) {
        gs::model net;
        net.add("a", gs::parameter{optimizer, numbers<float>(100, 1)});
        net.add("b", gs::parameter{optimizer, numbers<float>(7, 2)});
        gs::parameter expected{like, numbers<float>(100, 1)};
        auto const g = numbers<float>(100, 3), h = numbers<float>(7, 4);
        bool applied = false;
        allocations_until_failure = failures;
        allocations_keep_failing = true;
        try {
            net.update({{"a", g}, {"b", h}});
            applied = true;
        } catch (std::bad_alloc const&) {
        }
        done = allocations_until_failure != 0;
        allocations_keep_failing = false;
        allocations_until_failure = SIZE_MAX;
        CAPTURE(failures);
        if (applied) expected.update(g);
        CHECK(net.clock("a").step == applied);
        CHECK(net.clock("b").step == applied);
        CHECK(std::ranges::equal(net.get<updater>("a").values(), expected.values()));
    }
}

TEST_CASE("an allocation that fails where averages take the weights' place leaves every weight there", "[model]") {
    auto const averaging = gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{0.5}}, gs::constant{0.125});
    using averaging_type = std::remove_const_t<decltype(averaging)>;
    auto const g = numbers<float>(100, 2);
    auto const copy = [](auto values) { return std::vector<float>(values.begin(), values.end()); };
    enum { of_a_parameter, of_a_model, reading, calls };
    for (int which = 0; which < calls; ++which) {
        std::size_t failures = 0;
        for (bool done = false; !done; failures += !done) {
            tensor_of<averaging_type> borrowed(averaging, 100), last(averaging, 100);
            gs::parameter alone{averaging, numbers<float>(100, 3)};
            gs::model net;
            net.add("borrowed", averaging, borrowed.slice());
            net.add("owned", gs::parameter{averaging, numbers<float>(100, 4)});
            net.add("plain", gs::parameter{sgd, numbers<float>(100, 5)});
            net.add("last", averaging, last.slice());
            borrowed.g = last.g = g;
            auto const update = [&] {
                alone.update(g);
                net.update({{"owned", g}, {"plain", g}});
            };
            update();
            auto& owned = net.get<averaging_type>("owned");
            auto const all = [&] { return std::array{borrowed.w, last.w, copy(owned.values()), copy(alone.values())}; };
            auto const trained = all();
            bool const is_reading = which == reading;
            allocations_until_failure = failures;
            try {
                if (which == of_a_parameter) alone.apply_average().dismiss();
                if (which == of_a_model) net.apply_average().dismiss();
                if (is_reading) static_cast<void>(alone.average());
                done = true;
            } catch (std::bad_alloc const&) {
            }
            allocations_until_failure = SIZE_MAX;
            CAPTURE(which, failures);
            bool const net_applied = done && which == of_a_model, alone_applied = done && which == of_a_parameter;
            CHECK(net.average_is_applied() == net_applied);
            CHECK(alone.average_is_applied() == alone_applied);
            auto const now = all();
            for (std::size_t i = 0; i < now.size(); ++i)
                CHECK(same_bits(now[i], trained[i]) == !(i == 3 ? alone_applied : net_applied));
            if (net_applied) net.restore();
            if (alone_applied) alone.restore();
            CHECK(all() == trained);
            update(); // and nothing thinks that an average is in a place
            CHECK(all() != trained);
        }
#if defined(COUNTS_ALLOCATIONS)
        CHECK(failures >= (which == of_a_model ? 5u : which == of_a_parameter ? 1u : 2u));
#endif
    }
}

TEST_CASE("a model follows the containers of the host to other memory", "[model]") {
    // `add` is given containers, and every update looks up where their memory is.
    std::size_t const n = 4097;
    auto const train = [&](bool moves) {
        std::vector<float> w = numbers<float>(n, 1), g = numbers<float>(n, 2), m(n), v(n);
        std::vector<float> bias{1}, bias_gradient{0.5f};
        auto const move = [&](std::vector<float>& x) {
            if (moves) x = std::vector<float>(x);
        };
        gs::model net;
        adam.initialize(w, m, v);
        net.add("w", adam, {w, g, m, v});
        net.add("bias", sgd, {bias, bias_gradient});
        std::vector<gs::named_gradient> const by_name = {{"w", g}, {"bias", bias_gradient}}; // for every step
        for (int t = 0; t < 3; ++t) {
            for (auto* const x : {&w, &g, &m, &v, &bias, &bias_gradient}) move(*x);
            net.update({.zero_gradient = t == 1});
            for (std::size_t i = 0; i < n; ++i) g[i] = w[i] - 1;
            move(g);
            net.update(by_name);
        }
        return std::pair{w, std::pair{m, bias}};
    };
    CHECK(train(true) == train(false));
}

TEST_CASE("a model refuses containers whose sizes have come to differ, and changes nothing", "[model]") {
    std::vector<float> w(8, 1), g(8, 1), m(8), v(8), bias(2, 1), bias_gradient(2, 1);
    gs::model net{{.clip_norm = 1.0, .on_nonfinite = gs::nonfinite::skip}}; // both read the gradients before
    net.add("bias", sgd, {bias, bias_gradient});
    net.add("w", adam, {w, g, m, v});
    net.update();
    auto const before = std::tuple(w, m, v, bias);
    std::string const all_equal = "; expected the same length for all buffers of a tensor";
    auto const refused = [&](auto const& call) {
        std::string const sentence = refusal<gs::size_error>(call);
        CHECK(bias == std::get<3>(before));
        CHECK(net.clock("bias").step == 1);
        CHECK(net.clock("w").step == 1);
        return sentence;
    };
    g.resize(1000);
    CHECK(refused([&] { net.update(); }) == "w: gradient: has 1000 elements, parameter has 8" + all_equal);
    g.resize(8);
    v.resize(7);
    CHECK(refused([&] { net.update(); }) == "w: v: has 7 elements, parameter has 8" + all_equal);
    std::vector<float> other(8);
    CHECK(refused([&] {
              net.update({{"w", other}, {"bias", bias_gradient}});
          }) == "w: v: has 7 elements, parameter has 8" + all_equal);
    v.push_back(std::get<2>(before)[7]);
    w.resize(6);
    CHECK(refused([&] { net.update(); }) == "w: gradient: has 8 elements, parameter has 6" + all_equal);
    w = std::get<0>(before);
    CHECK(std::tuple(w, m, v, bias) == before);

    g.clear(); // no gradient of its own any more
    CHECK(refusal<gs::value_error>([&] { net.update(); }) ==
          "update: the gradient of w is missing; expected one for each parameter");
    g.assign(8, 1);
    net.update();
    CHECK(net.clock("w").step == 2);

    for (auto* const x : {&w, &g, &m, &v}) x->resize(100, 1); // all of them
    net.update();
    CHECK(net.description().find("w [100]") != std::string::npos);
}

TEST_CASE("averages go to where the weights of the host are", "[model]") {
    auto const averaging = gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{0.5}}, gs::constant{0.5});
    std::vector<float> w{8, 4}, g{4, 4}, average(2);
    averaging.initialize(w, average);
    gs::model net;
    net.add("w", averaging, {w, g, average});
    net.update();
    auto const trained = w;
    w = std::vector<float>(w);
    average = std::vector<float>(average);
    CHECK(net.average("w") == average);
    {
        auto const shown = net.apply_average();
        CHECK(w == average);
        w = std::vector<float>(w);
    }
    CHECK(w == trained);
    auto shown = net.apply_average();
    w.push_back(1);
    CHECK(refusal<gs::size_error>([&] { net.restore(); }) ==
          "restore: w: has 3 elements; expected 2, as many as when the average was applied");
    w.pop_back();
    net.restore();
    CHECK(w == trained);
}
