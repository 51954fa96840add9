// What a table allocates: nothing, once it has seen batches of the size; and what a call leaves
// when an allocation of it fails: everything as it was.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/striped.hpp>

#include <support/allocations.hpp>
#include <support/catch.hpp>
#include <support/rows.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;

// The allocations of 20 batches, of plain and pooled steps, after the first two of the size.
template <class Table> std::size_t allocated_by(Table table, bool distinct) {
    constexpr std::size_t k = 3000, bags = 1000;
    std::size_t const num_rows = table.num_rows(), width = table.width();
    std::vector<ids64> batches(22, ids64(k));
    std::mt19937_64 random(1);
    for (auto& ids : batches)
        for (std::size_t p = 0; p < k; ++p)
            ids[p] =
                static_cast<std::int64_t>(distinct ? (p * 7 + random() % 7) % num_rows
                                                   : std::min<std::uint64_t>(random() % num_rows, random() % num_rows));
    ids64 offsets(bags);
    for (std::size_t b = 0; b < bags; ++b) offsets[b] = static_cast<std::int64_t>(b * k / bags);
    std::vector<float> g(k * width, 1);
    auto const step = [&](ids64 const& ids) {
        table.update(ids, g, {.gradient_scale = 0.5, .zero_gradient = true});
        table.update(ids, offsets, std::span(g).first(bags * width));
        table.update(std::span(ids).first(k / 2), std::span(g).first(k / 2 * width));
        table.rows(ids, g);
    };
    step(batches[0]);
    step(batches[1]);
    allocations = 0;
    for (std::size_t i = 2; i < batches.size(); ++i) step(batches[i]);
    return allocations;
}

template <class CatchUp>
std::size_t allocated_by(std::size_t num_rows, std::size_t width, CatchUp const& catch_up,
                         gs::table_options const& options = {}) {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l1{1e-3}}, gs::constant{0.25});
    bool const distinct = options.duplicates == gs::duplicates::unique;
    return allocated_by(gs::table{optimizer, num_rows, width, catch_up, options}, distinct);
}

} // namespace

TEST_CASE("the counter of allocations counts") {
    allocations = 0;
    std::vector<std::vector<int>> const some(3, std::vector<int>(1000, 1));
    std::vector<double, gs::detail::line_allocator<double>> const aligned(some.size() * 10);
#if defined(COUNTS_ALLOCATIONS)
    CHECK(allocations >= 5);
    allocations_until_failure = 0;
    std::unique_ptr<int> const none(new (std::nothrow) int(1)); // fails as well
    allocations_until_failure = SIZE_MAX;
    CHECK(none == nullptr);
#endif
}

TEST_CASE("a batch allocates nothing once the table has seen its size") {
    gs::touch_only const lazy{};
    gs::exact const exact{};
    CHECK(allocated_by(20'000, 16, lazy) == 0);              // by hash
    CHECK(allocated_by(std::size_t{1} << 23, 4, lazy) == 0); // sorted
    CHECK(allocated_by(40'000, 16, lazy, {.duplicates = gs::duplicates::mean}) == 0);
    CHECK(allocated_by(40'000, 16, lazy, {.duplicates = gs::duplicates::unique}) == 0);
    CHECK(allocated_by(20'000, 16, lazy, {.row_steps = true, .ignore_id = 5}) == 0);
    CHECK(allocated_by(40'000, 16, lazy, {.duplicates = gs::duplicates::unique, .ignore_id = 5}) == 0);
    CHECK(allocated_by(20'000, 16, exact, {.max_history = 50}) == 0); // with its rolling sweep
    CHECK(allocated_by(20'000, 16, gs::replay{3}, {.max_history = 50}) == 0);
}

TEST_CASE("striped: a call allocates nothing once it has seen batches of its size") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l1{1e-3}}, gs::constant{0.25});
    CHECK(allocated_by(gs::striped{gs::table{optimizer, 20'000, 16, gs::exact{}, {.max_history = 50}}}, false) == 0);
}

TEST_CASE("striped: an allocation that fails in a call leaves everything as it was") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l1{1e-3}}, gs::constant{0.25});
    ids64 const ids{3, 5, 3, 40}, offsets{0, 1};
    std::vector<float> const g(4 * 8, 1.0f);
    std::vector<float> out(4 * 8);
    auto const call = [&](auto& shared, int which) {
        if (which == 0) shared.update(ids, g);
        if (which == 1) shared.update(ids, offsets, std::span(g).first(2 * 8));
        if (which == 2) shared.rows(ids, out);
    };
    for (int which = 0; which < 3; ++which) {
        std::size_t failures = 0;
        for (bool done = false; !done; failures += !done) {
            gs::striped shared{gs::table{optimizer, 50, 8, gs::exact{}, {.initial = 1.0, .max_history = 4}}};
            for (int s = 0; s < 5; ++s)
                shared.alone([&](auto& table) { table.update(ids64{7}, std::span(g).first(8)); });
            held const before(shared.alone([](auto& table) -> auto& { return table; }));
            allocations_until_failure = failures;
            try {
                call(shared, which);
                done = true;
            } catch (std::bad_alloc const&) {
            } catch (gs::memory_error const&) {
            }
            allocations_until_failure = SIZE_MAX;
            CAPTURE(which, failures);
            shared.alone([&](auto& table) {
                CHECK(table.clock().step == 5 + (done && which < 2));
                if (!done) CHECK(difference(held(table), before) == "");
            });
            if (!done) call(shared, which); // no lock is left held
        }
#if defined(COUNTS_ALLOCATIONS)
        CHECK(failures >= 3);
#endif
    }
}

TEST_CASE("a batch of several threads allocates nothing once the table has seen its size") {
    gs::thread_pool pool(3);
    auto const optimizer =
        gs::make_updater<float>(gs::rowwise_adagrad{}, gs::decoupled{1e-3}, gs::constant{0.25}, gs::simd_backend{pool});
    // A thread's part of the batches varies in size: the largest may come late, and grows seven
    // arrays.
    CHECK(allocated_by(gs::table{optimizer, 20'000, 64, gs::exact{}}, false) <= 3 * 7);
}

#if defined(COUNTS_ALLOCATIONS)
namespace {

// Lets every allocation of call(object) fail in turn, each on a new object of make(), until the
// call has none left. A failed call must leave no trace: `shown(object)` is as before, and the same
// call then does everything that an undisturbed call does. So does a call that manages without the
// memory. Returns how many allocations there were.
template <class Make, class Call, class Shown>
int each_allocation_fails(Make const& make, Call const& call, Shown const& shown) {
    auto undisturbed = make();
    auto const before = shown(undisturbed);
    call(undisturbed);
    auto const after = shown(undisturbed);
    for (std::size_t n = 0;; ++n) {
        auto object = make();
        bool failed = false;
        allocations_until_failure = n;
        try {
            call(object);
        } catch (std::bad_alloc const&) {
            failed = true;
        } catch (gs::memory_error const&) {
            failed = true;
        }
        bool const was_last = allocations_until_failure != SIZE_MAX; // which a failure leaves there
        allocations_until_failure = SIZE_MAX;
        CAPTURE(n);
        if (failed) {
            REQUIRE(shown(object) == before);
            call(object);
        }
        REQUIRE(shown(object) == after);
        if (was_last) return static_cast<int>(n);
    }
}

// Everything of a table, as bytes.
template <class T> void append(std::string& out, std::span<T> from) {
    out.append(reinterpret_cast<char const*>(from.data()), from.size_bytes());
}
template <class Table> std::string contents(Table& table) {
    auto const rows = table.memory();
    auto const at = table.progress();
    std::string out;
    append(out, rows.values);
    for (auto const& slot : rows.state) append(out, slot);
    append(out, rows.stamps);
    append(out, rows.touches);
    append(out, std::span(at.history));
    append(out, std::span(&at.clock.step, 1));
    append(out, std::span(&at.lap_row, 1));
    append(out, std::span(&at.lap_rows, 1));
    append(out, std::span(&at.max_history, 1));
    return out;
}

// Tables of width 64 that `make` returns, after some steps.
template <class Make> struct calls_of {
    static constexpr std::size_t width = 64, k = 200;
    Make make;
    std::size_t num_rows = make().num_rows();
    // Larger batches than before, so that the call allocates memory.
    ids64 few = rows(k, 97), many = rows(1000, 19), offsets = {0, 70, 70};
    std::vector<float> g = std::vector<float>(1000 * width, 0.5f);

    ids64 rows(std::size_t count, std::size_t apart) const {
        ids64 ids(count);
        for (std::size_t p = 0; p < count; ++p) ids[p] = static_cast<std::int64_t>(p * apart % num_rows);
        return ids;
    }
    auto trained() const {
        auto table = make();
        std::span const ids(few);
        std::span const gradient(g);
        table.update(ids.first(50), gradient.first(50 * width));
        table.update(ids, offsets, gradient.first(3 * width));
        for (int t = 0; t < 10; ++t) table.update(ids.last(5), gradient.first(5 * width));
        return table;
    }
    template <class Call> int fail(Call const& call) const {
        return each_allocation_fails([&] { return trained(); }, call, [](auto& table) { return contents(table); });
    }

    void updates() const {
        auto const update = [&](auto& table) { table.update(many, g); };
        // The first of a table takes most.
        CHECK(each_allocation_fails(make, update, [](auto& table) { return contents(table); }) > 0);
        fail(update);
        ids64 each(many.size()); // a bag of its own
        for (std::size_t b = 0; b < each.size(); ++b) each[b] = static_cast<std::int64_t>(b);
        CHECK(fail([&](auto& table) { table.update(many, each, g); }) > 0);
    }
    void others() const {
        std::vector<float> out(many.size() * width), all(num_rows * width);
        fail([&](auto& table) { table.reset(many); });
        fail([&](auto& table) { table.flush(); });
        fail([&](auto& table) { table.row(7); });
        fail([&](auto& table) { table.rows(many, out); });
        fail([&](auto& table) { table.copy_to(all); });
        fail([&](auto& table) { table.values(); });
        fail([&](auto& table) { table.grow(num_rows + 1); });            // within its memory,
        CHECK(fail([&](auto& table) { table.grow(2 * num_rows); }) > 0); // and with more
        fail([&](auto& table) { table.append(g); });
        std::vector<bool> mask(num_rows);
        ids64 backwards(num_rows);
        for (std::size_t i = 0; i < num_rows; ++i)
            mask[i] = i % 3 != 0, backwards[i] = static_cast<std::int64_t>(num_rows - 1 - i);
        CHECK(fail([&](auto& table) { table.keep(mask); }) > 0);
        CHECK(fail([&](auto& table) { table.permute(backwards); }) > 0);
        fail([&](auto& table) { auto const copy = table; });
        fail([&](auto& table) { table.progress(); });
        fail([&](auto& table) { table.restore(table.progress()); });
    }
    void of_segments() const {
        auto const grown = [&] {
            auto table = trained();
            table.grow(2 * num_rows);
            return table;
        };
        auto const show = [](auto& table) { return contents(table); };
        CHECK(each_allocation_fails(
                  grown, [](auto& table) { table.memory(); }, show) > 0);
        each_allocation_fails(
            grown, [&](auto& table) { table.update(many, g); }, show);
    }
};
template <class Make> calls_of(Make) -> calls_of<Make>;

} // namespace

TEST_CASE("an allocation that fails inside update leaves everything as it was") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l1{1e-3}}, gs::constant{0.25});
    gs::table_options const options{.initial = 0.5, .max_history = 64};
    calls_of const small{[&] { return gs::table{optimizer, 500, 64, gs::exact{}, options}; }};
    small.updates();
    small.others();
    calls_of const paged{[&] { return gs::table{optimizer, 17'000, 64, gs::exact{}, options}; }};
    paged.of_segments();
    auto const wise = gs::make_updater<float>(gs::rowwise_adagrad{}, gs::decoupled{1e-3}, gs::constant{0.25});
    gs::table_options const counted{.duplicates = gs::duplicates::mean, .row_steps = true};
    calls_of const row_wise{[&] { return gs::table{wise, 500, 64, gs::touch_only{}, counted}; }};
    row_wise.updates();
    row_wise.others();
}

TEST_CASE("an allocation that fails inside apply_average leaves the rows as they were") {
    auto const optimizer =
        gs::make_updater<float>(gs::averaged{gs::momentum{}, gs::ema{0.5}}, gs::l2{1e-3}, gs::constant{0.25});
    calls_of const averaged{[&] {
        return gs::table{optimizer, 500, 64, gs::exact{}, {.initial = 0.5, .max_history = 64}};
    }};
    averaged.updates();
    CHECK(averaged.fail([](auto& table) { auto const applied = table.apply_average(); }) > 0);
    std::vector<float> out(averaged.many.size() * averaged.width);
    averaged.fail([&](auto& table) { table.averages(averaged.many, out); });
}

TEST_CASE("an allocation that fails inside update of several threads leaves the table as it was") {
    gs::thread_pool pool(3);
    auto const optimizer =
        gs::make_updater<float>(gs::adagrad{}, gs::decoupled{1e-3}, gs::constant{0.25}, gs::simd_backend{pool});
    calls_of const threaded{[&] { return gs::table{optimizer, 500, 64, gs::exact{}, {.initial = 0.5}}; }};
    threaded.updates();
}

TEST_CASE("a callback_executor without memory for its flags runs all parts on the caller's thread") {
    std::size_t calls = 0;
    gs::callback_executor host(3, [&](std::size_t parts, gs::task work) {
        ++calls;
        for (std::size_t part = parts; part-- != 0;) work(part);
    });
    gs::simd_backend const backend{host};
    auto const proximal = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{1e-3}, gs::constant{0.25}, backend);
    calls_of const split{[&] { return gs::table{proximal, 500, 64, gs::exact{}, {.initial = 0.5}}; }};
    split.updates();
    CHECK(calls > 0);

    auto const plain = gs::make_updater<float>(gs::sgd{}, gs::constant{0.25}, backend);
    std::vector<float> const first(200'000, 0.5f), g(200'000, 0.25f);
    CHECK(each_allocation_fails(
              [&] {
                  return gs::parameter{plain, first};
              },
              [&](auto& parameter) { parameter.update(g); },
              [](auto const& parameter) { return std::pair(parameter.clock().step, parameter.values()[199'999]); }) ==
          1);
}

TEST_CASE("an allocation that fails while a table is made fails as memory_error or bad_alloc") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{1e-3}, gs::constant{0.25});
    std::size_t made = 0;
    CHECK(each_allocation_fails([] { return 0; },
                                [&](int) {
                                    gs::table const table{optimizer, 20'000, 64, gs::exact{}};
                                    made = table.segments();
                                },
                                [](int) { return 0; }) > 2);
    CHECK(made == 1);
}

TEST_CASE("an allocation that fails inside a call of a parameter or a model leaves it as it was") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{1e-3}, gs::constant{0.25});
    std::vector<float> const first(5000, 0.5f), g(5000, 0.25f);
    auto const shown = [](auto const& parameter) {
        std::string out;
        append(out, parameter.values());
        append(out, parameter.template state<"m">());
        append(out, parameter.template state<"v">());
        auto const step = parameter.clock().step;
        append(out, std::span(&step, 1));
        return out;
    };
    auto const make = [&] { return gs::parameter{optimizer, first}; };
    each_allocation_fails(
        make, [&](auto& parameter) { parameter.update(g); }, shown);
    each_allocation_fails(
        make, [&](auto& parameter) { auto const copy = parameter; }, shown);
    CHECK(each_allocation_fails([] { return 0; }, [&](int) { auto const made = make(); }, [](int) { return 0; }) > 0);

    using updater = std::remove_const_t<decltype(optimizer)>;
    auto const model_of_two = [&] {
        gs::model net;
        net.add("a", gs::parameter{optimizer, first});
        net.add("b", gs::parameter{optimizer, g});
        return net;
    };
    auto const all_of = [&](gs::model const& net) {
        std::string out;
        for (auto const& name : net.names()) out += name + shown(net.get<updater>(name));
        return out;
    };
    each_allocation_fails(
        model_of_two,
        [&](gs::model& net) {
            net.update({{"a", g}, {"b", g}});
        },
        all_of);
    CHECK(each_allocation_fails(
              model_of_two, [&](gs::model& net) { net.add("c", make()); }, all_of) > 0);
}

TEST_CASE("a row-wise rule without memory for the sums of its parts adds them up on the caller's thread") {
    gs::thread_pool pool(3);
    gs::simd_backend const backend{pool};
    auto const lars = gs::make_updater<float>(gs::lars{}, gs::l2{1e-3}, gs::constant{0.25}, backend);
    auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{0.25}, backend);
    using lars_type = std::remove_const_t<decltype(lars)>;
    using sgd_type = std::remove_const_t<decltype(sgd)>;
    constexpr std::size_t n = 200'000;
    std::vector<float> const g = gradient_numbers<float>(n, 1), w = weight_numbers<float>(n);
    auto const append_parameter = [](std::string& out, auto const& parameter) {
        append(out, parameter.values());
        auto const step = parameter.clock().step;
        append(out, std::span(&step, 1));
    };

    CHECK(each_allocation_fails(
              [&] {
                  return gs::parameter{lars, w};
              },
              [&](auto& parameter) { parameter.update(g); },
              [&](auto const& parameter) {
                  std::string out;
                  append_parameter(out, parameter);
                  return out;
              }) > 0);

    auto const model_of_three = [&] {
        gs::model net;
        net.add("a", gs::parameter{lars, w});
        net.add("b", gs::parameter{lars, g});
        net.add("c", gs::parameter{sgd, w});
        return net;
    };
    CHECK(each_allocation_fails(
              model_of_three,
              [&](gs::model& net) {
                  net.update({{"a", g}, {"b", g}, {"c", g}});
              },
              [&](gs::model const& net) {
                  std::string out;
                  append_parameter(out, net.get<lars_type>("a"));
                  append_parameter(out, net.get<lars_type>("b"));
                  append_parameter(out, net.get<sgd_type>("c"));
                  return out;
              }) > 2);

    struct two_tensors {
        std::vector<float> w[2], velocity[2];
    };
    CHECK(
        each_allocation_fails(
            [&] {
                return two_tensors{{w, g}, {std::vector<float>(n), std::vector<float>(n)}};
            },
            [&](two_tensors& x) {
                std::vector<gs::slice<lars_type>> const slices{{x.w[0], g, x.velocity[0]}, {x.w[1], g, x.velocity[1]}};
                auto optimizer = lars;
                optimizer.next_step()(slices);
            },
            [](two_tensors const& x) {
                std::string out;
                for (auto const* one : {&x.w[0], &x.w[1], &x.velocity[0], &x.velocity[1]}) append(out, std::span(*one));
                return out;
            }) > 2);
}
#endif
