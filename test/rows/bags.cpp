// Embedding bags with means and weights, by their definition: updates, and reads of pooled rows.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/keyed/striped.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>
#include <support/rows.hpp>

namespace {

constexpr std::uint64_t num_rows = 50, padding = 17;
using ids64 = std::vector<std::uint64_t>;
auto const rate = gs::constant{0.125};

// The compute type.
template <class S> using summed = typename gs::element_traits<S>::compute;

// A batch with bags that are empty, long, and of padding alone.
template <class S> struct batch {
    ids64 ids, offsets{0};
    std::vector<summed<S>> weights;

    explicit batch(std::uint64_t salt, bool repeats = true) {
        for (std::size_t const size : {3u, 0u, 40u, 1u, 2u, 0u}) {
            for (std::size_t k = 0; k < size; ++k) {
                std::uint64_t const x = 7 * ids.size() + salt;
                ids.push_back(size == 2 || k % 6 == 5 ? padding : repeats ? x * x % num_rows : x % num_rows);
                if (!repeats && size != 2 && k % 6 != 5 && ids.back() == padding) ids.back() = (padding + 1) % num_rows;
                weights.push_back(static_cast<summed<S>>(std::sin(static_cast<double>(x))));
            }
            offsets.push_back(ids.size());
        }
        if (!repeats) { // distinct, except for padding
            std::vector<bool> seen(num_rows);
            for (auto& id : ids) {
                if (id != padding && seen[id]) id = padding;
                seen[id] = true;
            }
        }
        offsets.pop_back();
    }
    std::size_t bags() const { return offsets.size(); }
    std::size_t end(std::size_t b) const { return b + 1 < bags() ? offsets[b + 1] : ids.size(); }
    std::size_t wanted(std::size_t b) const {
        return static_cast<std::size_t>(std::count_if(ids.begin() + static_cast<std::ptrdiff_t>(offsets[b]),
                                                      ids.begin() + static_cast<std::ptrdiff_t>(end(b)),
                                                      [](auto id) { return id != padding; }));
    }
    gs::bag_options options(gs::bag_mode mode, bool weighted) const {
        return weighted ? gs::bag_options{mode, weights} : gs::bag_options{mode};
    }
    // Each id with a gradient of its own.
    std::vector<S> expanded(std::vector<S> const& g, std::size_t width, gs::bag_mode mode, bool weighted) const {
        std::vector<S> out;
        for (std::size_t b = 0; b < bags(); ++b)
            for (std::size_t p = offsets[b]; p < end(b); ++p) {
                summed<S> factor = weighted ? weights[p] : summed<S>(1);
                if (mode == gs::bag_mode::mean) factor /= static_cast<summed<S>>(wanted(b));
                for (std::size_t i = 0; i < width; ++i) out.push_back(S(factor * summed<S>(g[b * width + i])));
            }
        return out;
    }
    // The pooled rows, from copies of the rows.
    template <class Rows>
    std::vector<S> pooled(Rows const& rows, std::size_t width, gs::bag_mode mode, bool weighted) const {
        std::vector<S> copies(ids.size() * width), out;
        ids64 known = ids;
        std::replace(known.begin(), known.end(), padding, std::uint64_t{0});
        rows(known, copies);
        for (std::size_t b = 0; b < bags(); ++b)
            for (std::size_t i = 0; i < width; ++i) {
                std::optional<summed<S>> sum;
                for (std::size_t p = offsets[b]; p < end(b); ++p) {
                    if (ids[p] == padding) continue;
                    summed<S> x(copies[p * width + i]);
                    if (weighted) x = weights[p] * x;
                    sum = sum ? *sum + x : x;
                }
                if (sum && mode == gs::bag_mode::mean) *sum /= static_cast<summed<S>>(wanted(b));
                out.push_back(S(sum.value_or(summed<S>(0))));
            }
        return out;
    }
};

template <class F> void each_option(F const& f) {
    for (auto const mode : {gs::bag_mode::sum, gs::bag_mode::mean})
        for (bool const weighted : {false, true}) f(mode, weighted);
}

template <class Table> auto values_of(Table& of, std::size_t width, ids64 const& ids) {
    std::vector<typename Table::storage> out(ids.size() * width);
    of.rows(ids, out);
    return out;
}
ids64 all_rows() {
    ids64 out;
    for (std::uint64_t id = 0; id < num_rows; ++id) out.push_back(id);
    return out;
}

// Steps with bags, and with a gradient for each id; and pooled rows after each.
template <class Table> void equals_expanded(Table const& made, std::size_t width, bool repeats = true) {
    using S = typename Table::storage;
    each_option([&](gs::bag_mode mode, bool weighted) {
        Table bags(made), expected(made);
        for (std::uint64_t t = 1; t < 6; ++t) {
            batch<S> const b(t, repeats);
            auto const g = gradient_numbers<S>(b.bags() * width, static_cast<std::int64_t>(t));
            gs::step_options const how{.gradient_scale = t == 3 ? 0.5 : 1};
            bags.update(b.ids, b.offsets, g, how, b.options(mode, weighted));
            expected.update(b.ids, b.expanded(g, width, mode, weighted), how);
            CHECK(values_of(bags, width, all_rows()) == values_of(expected, width, all_rows()));

            std::vector<S> pooled(b.bags() * width, S(7));
            batch<S> const other(t + 20);
            bags.bags(other.ids, other.offsets, pooled, other.options(mode, weighted));
            CHECK(pooled ==
                  other.pooled([&](auto const& ids, auto& to) { bags.rows(ids, to); }, width, mode, weighted));
        }
    });
}

template <class Optimizer, class CatchUp = gs::touch_only>
void equals_expanded(Optimizer const& optimizer, gs::duplicates duplicates, CatchUp catch_up = {}) {
    bool const repeats = duplicates != gs::duplicates::unique;
    for (std::size_t const width : {1u, 7u, 16u, 37u}) {
        gs::table_options const options{
            .initial = gs::uniform{-1, 1, 3}, .duplicates = duplicates, .ignore_id = padding};
        gs::table const table{optimizer, num_rows, width, catch_up, options};
        equals_expanded(table, width, repeats);
    }
    constexpr std::size_t width = 19;
    gs::keyed_table const keyed{optimizer,
                                width,
                                catch_up,
                                {.initial = gs::uniform{-1, 1, 3}, .duplicates = duplicates, .ignore_key = padding}};
    equals_expanded(keyed, width, repeats);
}

template <class T> auto adagrad_of() { return gs::make_updater<T>(gs::adagrad{}, rate); }

} // namespace

TEST_CASE("a bag with a mean or with weights is a batch with a gradient for each id") {
    for (auto const how : {gs::duplicates::sum, gs::duplicates::mean, gs::duplicates::unique, gs::duplicates::last}) {
        equals_expanded(adagrad_of<float>(), how);
        equals_expanded(gs::make_updater<double>(gs::momentum{}, gs::decoupled{0.125}, rate), how, gs::exact{});
    }
}

TEST_CASE("a striped table has the bags of its table") {
    gs::table_options const options{.initial = gs::uniform{-1, 1, 3}, .ignore_id = padding};
    constexpr std::size_t width = 21;
    auto const optimizer = gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.125}, rate);
    gs::table table{optimizer, num_rows, width, gs::exact{}, options};
    gs::striped shared{table};
    gs::keyed_table keyed{optimizer, width, gs::exact{}, {.initial = gs::uniform{-1, 1, 3}, .ignore_key = padding}};
    gs::striped shared_keyed{keyed};
    each_option([&](gs::bag_mode mode, bool weighted) {
        batch<float> const b(static_cast<std::uint64_t>(2 * weighted) + (mode == gs::bag_mode::mean));
        auto const g = gradient_numbers<float>(b.bags() * width, 1);
        auto const compare = [&](auto& one, auto& of_many) {
            one.update(b.ids, b.offsets, g, {}, b.options(mode, weighted));
            of_many.update(b.ids, b.offsets, g, {}, b.options(mode, weighted));
            batch<float> const other(9);
            std::vector<float> x(b.bags() * width), y(x);
            one.bags(other.ids, other.offsets, x, other.options(mode, weighted));
            of_many.bags(other.ids, other.offsets, y, other.options(mode, weighted));
            CHECK(x == y);
            CHECK(values_of(one, width, all_rows()) == values_of(of_many, width, all_rows()));
        };
        compare(table, shared);
        compare(keyed, shared_keyed);
    });
}

TEST_CASE("bags of 16-bit rows are pooled in float") {
    gs::table_options const options{.initial = gs::uniform{-1, 1, 3}, .ignore_id = padding};
    constexpr std::size_t width = 23;
    gs::table bags{gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{1}), num_rows, width, gs::touch_only{},
                   options};
    each_option([&](gs::bag_mode mode, bool weighted) {
        batch<gs::bfloat16> const b(4);
        auto const before = values_of(bags, width, all_rows());
        auto const g = gradient_numbers<gs::bfloat16>(b.bags() * width, 1);
        bags.update(b.ids, b.offsets, g, {}, b.options(mode, weighted));
        std::vector<float> sums(num_rows * width);
        for (std::size_t k = 0; k < b.bags(); ++k)
            for (std::size_t p = b.offsets[k]; p < b.end(k); ++p) {
                float factor = weighted ? b.weights[p] : 1.0f;
                if (mode == gs::bag_mode::mean) factor /= static_cast<float>(b.wanted(k));
                for (std::size_t i = 0; i < width && b.ids[p] != padding; ++i)
                    sums[b.ids[p] * width + i] += factor * float(g[k * width + i]);
            }
        auto const after = values_of(bags, width, all_rows());
        for (std::size_t i = 0; i < sums.size(); ++i)
            CHECK(float(after[i]) == float(gs::bfloat16(float(before[i]) - sums[i])));

        std::vector<gs::bfloat16> pooled(b.bags() * width);
        bags.bags(b.ids, b.offsets, pooled, b.options(mode, weighted));
        auto const expected = b.pooled([&](auto const& ids, auto& to) { bags.rows(ids, to); }, width, mode, weighted);
        for (std::size_t i = 0; i < pooled.size(); ++i) CHECK(float(pooled[i]) == float(expected[i]));
    });
}

TEST_CASE("the sums of bags are those of their definition in double, up to rounding") {
    constexpr std::size_t width = 16;
    gs::table table{
        gs::make_updater<float>(gs::sgd{}, gs::constant{1}), num_rows, width, gs::touch_only{}, {.ignore_id = padding}};
    each_option([&](gs::bag_mode mode, bool weighted) {
        batch<float> const b(6);
        auto const g = gradient_numbers<float>(b.bags() * width, 2);
        std::vector<double> expected(num_rows * width), total(expected);
        auto const before = values_of(table, width, all_rows());
        for (std::size_t k = 0; k < b.bags(); ++k)
            for (std::size_t p = b.offsets[k]; p < b.end(k); ++p)
                for (std::size_t i = 0; i < width && b.ids[p] != padding; ++i) {
                    double const n = mode == gs::bag_mode::mean ? static_cast<double>(b.wanted(k)) : 1,
                                 x = (weighted ? double{b.weights[p]} : 1) * double{g[k * width + i]} / n;
                    expected[b.ids[p] * width + i] -= x;
                    total[b.ids[p] * width + i] += std::abs(x);
                }
        table.update(b.ids, b.offsets, g, {}, b.options(mode, weighted));
        auto const after = values_of(table, width, all_rows());
        // A term is rounded in its factor, its product, and at most 45 sums; then in the step.
        double const unit = std::numeric_limits<float>::epsilon() / 2.0;
        for (std::size_t i = 0; i < after.size(); ++i)
            CHECK(std::abs(double{after[i]} - double{before[i]} - expected[i]) <=
                  48 * unit * total[i] + unit * std::abs(double{after[i]}));
    });
}

TEST_CASE("threads share the bags of a large batch, and get the bits of one thread") {
    constexpr std::size_t width = 33, bags = 300;
    gs::thread_pool pool(3);
    auto const optimizer = [&](auto backend) {
        return gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.125}, rate, backend);
    };
    gs::table_options const options{.initial = gs::uniform{-1, 1, 3}, .ignore_id = -1};
    gs::table one{optimizer(gs::simd_backend{}), 70'000, width, gs::exact{}, options};
    gs::table several{optimizer(gs::simd_backend{pool}), 70'000, width, gs::exact{}, options};
    one.grow(75'000); // in several segments
    several.grow(75'000);
    std::vector<std::int64_t> ids, offsets;
    std::vector<float> weights;
    for (std::size_t b = 0; b < bags; ++b) {
        offsets.push_back(static_cast<std::int64_t>(ids.size()));
        for (std::size_t k = 0; k < b % 200; ++k) {
            ids.push_back(k % 9 == 3 ? -1 : static_cast<std::int64_t>((b * 7919 + k * k * 31) % 75'000));
            weights.push_back(static_cast<float>(k) / 64 - 1);
        }
    }
    auto const g = gradient_numbers<float>(bags * width, 1);
    each_option([&](gs::bag_mode mode, bool weighted) {
        gs::bag_options const how = weighted ? gs::bag_options{mode, weights} : gs::bag_options{mode};
        one.update(ids, offsets, g, {}, how);
        several.update(ids, offsets, g, {}, how);
        std::vector<float> x(bags * width), y(x), expected(x), rows(ids.size() * width);
        one.bags(ids, offsets, x, how);
        several.bags(ids, offsets, y, how);
        CHECK(x == y);
        auto known = ids;
        std::replace(known.begin(), known.end(), std::int64_t{-1}, std::int64_t{0});
        one.rows(known, rows);
        for (std::size_t b = 0; b < bags; ++b)
            for (std::size_t i = 0; i < width; ++i) {
                std::size_t const end = b + 1 < bags ? static_cast<std::size_t>(offsets[b + 1]) : ids.size();
                float sum = 0, count = 0;
                for (auto p = static_cast<std::size_t>(offsets[b]); p < end; ++p) {
                    if (ids[p] == -1) continue;
                    float const term = weighted ? weights[p] * rows[p * width + i] : rows[p * width + i];
                    sum = count == 0 ? term : sum + term;
                    ++count;
                }
                expected[b * width + i] = mode == gs::bag_mode::mean && count > 1 ? sum / count : sum;
            }
        CHECK(x == expected);
    });
    auto const a = one.values(), b = several.values();
    CHECK(std::equal(a.begin(), a.end(), b.begin()));
}

TEST_CASE("threads read bags of a striped table while others update it") {
    constexpr std::size_t width = 5;
    // All gradients are equal, so that all elements of a row always are.
    gs::table table{gs::make_updater<float>(gs::sgd{}, gs::constant{1}), num_rows, width, gs::touch_only{}, {}};
    gs::striped shared{table};
    ids64 const ids{1, 2, 3, 4, 5, 2}, offsets{0, 4};
    std::vector<float> const g(2 * width, -1), weights{1, 2, 1, 2, 1, 2};
    std::atomic<int> torn = 0;
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k)
        threads.emplace_back([&, k] {
            for (int t = 0; t < 200; ++t) {
                if (k % 2 == 0) shared.update(ids, offsets, g, {}, {.weights = weights});
                std::vector<float> out(2 * width);
                shared.bags(ids, offsets, out, {.weights = weights});
                for (std::size_t i = 0; i < out.size(); ++i) torn += out[i] != out[i / width * width];
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(torn == 0);
    std::vector<float> out(2 * width);
    shared.bags(ids, offsets, out);
    CHECK(out[0] == 400 * (1 + 4 + 1 + 2));
    CHECK(out[width] == 400 * (1 + 4));
}

TEST_CASE("a row in memory of the caller has bags, too") {
    constexpr std::size_t width = 3;
    gs::row_updater rows{gs::make_updater<float>(gs::sgd{}, gs::constant{1}), 4, width};
    std::vector<float> values(4 * width, 1), out(2 * width);
    auto const memory = rows.memory(values);
    rows.update(memory, ids64{0, 1, 1}, ids64{0, 2}, std::vector<float>(2 * width, 1), {},
                {.mode = gs::bag_mode::mean, .weights = std::vector<float>{2, 4, 3}});
    CHECK(values == std::vector<float>{0, 0, 0, -4, -4, -4, 1, 1, 1, 1, 1, 1});
    rows.read_bags(memory, ids64{0, 1, 2}, ids64{0, 3}, out, {.weights = std::vector<float>{5, 6, 7}});
    CHECK(out == std::vector<float>{-17, -17, -17, 0, 0, 0});
}

TEST_CASE("a key without a row is in a bag by its initial values, and counts in the mean") {
    gs::keyed_table features{gs::make_updater<float>(gs::sgd{}, gs::constant{1}),
                             2,
                             gs::touch_only{},
                             {.initial = 3.0, .ignore_key = 9, .admit_after = 2}};
    ids64 const keys{1, 9, 2, 1}, offsets{0, 3};
    std::vector<float> out(4);
    features.bags(keys, offsets, out, {.mode = gs::bag_mode::mean});
    CHECK(out == std::vector<float>{3, 3, 3, 3});
    features.update(keys, offsets, std::vector<float>{4, 4, 1, 1}, {}, {.mode = gs::bag_mode::mean});
    CHECK(features.num_rows() == 1); // key 1, of which the second gradient counts
    CHECK(features.row(1) == std::vector<float>{2, 2});
    CHECK(features.counts().turned_away == 2);
    features.update(keys, offsets, std::vector<float>{4, 4, 1, 1}, {}, {.mode = gs::bag_mode::mean});
    CHECK(features.row(1) == std::vector<float>{-1, -1}); // 2 - 4 / 2 - 1
    features.bags(keys, offsets, out, {.mode = gs::bag_mode::mean});
    CHECK(out == std::vector<float>{0, 0, -1, -1}); // (-1 + 1) / 2
}

TEST_CASE("a weight that is not finite is a gradient that is not finite") {
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    auto const options = [](gs::nonfinite how) { return gs::table_options{.ignore_id = 3, .on_nonfinite = how}; };
    ids64 const ids{0, 1, 3, 2}, offsets{0, 3};
    std::vector<float> const g(4, -1), weights{1, nan, nan, 2};
    gs::bag_options const how{.weights = weights};

    gs::table skipping{optimizer, 4, 2, gs::touch_only{}, options(gs::nonfinite::skip)};
    skipping.update(ids, offsets, g, {}, how);
    CHECK(values_of(skipping, 2, {0, 1, 2}) == std::vector<float>{1, 1, 0, 0, 2, 2});
    CHECK(skipping.gradients_left_out() == 1);
    skipping.update(ids, offsets, g, {}, {gs::bag_mode::mean, weights}); // it counts in the mean
    CHECK(values_of(skipping, 2, {0, 1, 2}) == std::vector<float>{1.5, 1.5, 0, 0, 4, 4});

    gs::table raising{optimizer, 4, 2, gs::touch_only{}, options(gs::nonfinite::raise)};
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] { raising.update(ids, offsets, g, {}, how); }) ==
          "ids[1]: the weight of row 1 is not finite, and on_nonfinite is raise: the step is not taken");
    CHECK(raising.clock().step == 0);

    gs::table plain{optimizer, 4, 2, gs::touch_only{}, options(gs::nonfinite::propagate)};
    plain.update(ids, offsets, g, {}, how);
    CHECK(std::isnan(plain.row(1)[0]));
    CHECK(plain.row(2)[0] == 2);

    gs::keyed_table keyed{optimizer, 2, gs::touch_only{}, {.ignore_key = 3, .on_nonfinite = gs::nonfinite::skip}};
    gs::striped shared{keyed};
    keyed.update(ids, offsets, g, {}, how);
    shared.update(ids, offsets, g, {}, how);
    CHECK_FALSE(keyed.contains(1));
    CHECK(keyed.counts().left_out == 1);
    CHECK(values_of(shared, 2, {0, 1, 2}) == std::vector<float>{1, 1, 0, 0, 2, 2});
}

TEST_CASE("calls with bags refuse what is wrong before anything is written") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    gs::table table{optimizer, 4, 2, gs::touch_only{}, {.initial = 1.0}};
    gs::striped shared{table};
    gs::keyed_table keyed{optimizer, 2};
    gs::striped shared_keyed{keyed};
    ids64 const ids{0, 1, 3}, offsets{0, 2};
    std::vector<float> const g(4, 1);
    std::vector<float> out(4, 7);
    auto const refused = [&]<class Error>(Error*, std::string const& said, gs::bag_options const& how) {
        auto const of = [&](auto& x) {
            CHECK(refusal<Error>([&] { x.update(ids, offsets, g, {}, how); }) == said);
            CHECK(refusal<Error>([&] { x.bags(ids, offsets, out, how); }) == said);
            CHECK(x.clock().step == 0);
            CHECK(out == std::vector<float>(4, 7));
        };
        of(table);
        of(shared);
        of(keyed);
        of(shared_keyed);
    };
    std::vector<float> const two{1, 2};
    std::vector<double> const doubles{1, 2, 3};
    refused(static_cast<gs::size_error*>(nullptr), "weights: has 2 elements; expected 3, one for each id",
            {.weights = two});
    refused(static_cast<gs::size_error*>(nullptr), "weights: has 0 elements; expected 3, one for each id",
            {.weights = std::vector<float>()});
    refused(static_cast<gs::value_error*>(nullptr), "weights: has elements of float64; expected float32",
            {.weights = doubles});
    refused(static_cast<gs::buffer_error*>(nullptr), "weights: is null; expected 3 elements of memory",
            {.weights = std::span<float const>(static_cast<float const*>(nullptr), 3)});

    auto const read = [&]<class Error>(Error*, std::string const& said, auto const& which, auto const& begins,
                                       auto& to) {
        CHECK(refusal<Error>([&] { table.bags(which, begins, to); }) == said);
        CHECK(refusal<Error>([&] { shared.bags(which, begins, to); }) == said);
    };
    read(static_cast<gs::value_error*>(nullptr), "ids[2]: 4 is out of range; expected [0, 4)", ids64{0, 1, 4}, offsets,
         out);
    read(static_cast<gs::value_error*>(nullptr), "offsets[1]: 4 is out of range; expected at most 3, the number of ids",
         ids, ids64{0, 4}, out);
    read(static_cast<gs::size_error*>(nullptr), "offsets: has 1 entries; expected 2 or 3, since out has 2 rows", ids,
         ids64{0}, out);
    std::vector<float> five(5);
    read(static_cast<gs::size_error*>(nullptr), "out: has 5 elements; expected 2 bags x width 2", ids, offsets, five);
    table.bags(ids64{}, ids64{0, 0}, out);
    CHECK(out == std::vector<float>(4, 0));
    std::span<float> const own(table.memory().values.data(), 4);
    CHECK_THROWS_AS(table.bags(ids, offsets, own), gs::buffer_error);
    CHECK_THROWS_AS(table.update(ids, offsets, g, {}, {.weights = own.first(3)}), gs::buffer_error);

    gs::table counts{gs::make_updater<std::int32_t>(gs::add_delta{}, gs::constant{1}), 4, 2};
    std::vector<std::int32_t> const deltas{1, 2, 3, 4};
    std::vector<std::int32_t> of_counts(4);
    CHECK(refusal<gs::value_error>([&] { counts.update(ids, offsets, deltas, {}, {gs::bag_mode::mean}); }) ==
          "bag_options: the mean is given for integers; expected the sum without weights");
    CHECK(refusal<gs::value_error>([&] {
              counts.bags(ids, offsets, of_counts, {.weights = std::vector<float>{1, 2, 3}});
          }) == "bag_options: weights are given for integers; expected the sum without weights");
    counts.update(ids, offsets, deltas);
    counts.bags(ids64{0, 0, 3}, offsets, of_counts);
    CHECK(of_counts == std::vector<std::int32_t>{2, 4, 3, 4});
}
