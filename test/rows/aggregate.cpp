#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/rows/detail/aggregate.hpp>
#include <gradstep/rows/detail/table_kernels.hpp>

#include <support/allocations.hpp>
#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;
using gs::detail::aggregator;
using gs::detail::batch_rows;
using gs::detail::check_ids;
using gs::detail::duplicate_check;
using gs::detail::expand_offsets;
using gs::detail::given_ids;
using gs::detail::id_partition;

namespace {

using position = std::uint32_t;
constexpr std::optional<std::int64_t> none_ignored = std::nullopt;

// Rows with the gradient rows of each, in the order in which they are given.
template <class Id> using row_list = std::vector<std::pair<Id, std::vector<position>>>;

template <class Id> struct batch {
    std::vector<Id> ids;
    std::uint64_t num_rows;
    std::optional<std::int64_t> ignore_id;
    std::vector<position> bag_of; // empty: gradient row p belongs to ids[p]

    std::span<Id const> span() const { return ids; }
    position const* sources_of() const { return bag_of.empty() ? nullptr : bag_of.data(); }
    position source(std::size_t p) const { return bag_of.empty() ? static_cast<position>(p) : bag_of[p]; }
    bool ignores(std::size_t p) const { return ignore_id && static_cast<std::int64_t>(ids[p]) == *ignore_id; }

    batch_rows<Id> by_hash(aggregator& a) const { return a.by_hash(compact(a)); }
    batch_rows<Id> by_radix(aggregator& a) const { return a.by_radix(compact(a), num_rows); }
    batch_rows<Id> compact(aggregator& a) const { return a.compact(span(), sources_of(), ignore_id); }
    /// The ids of one part of several.
    batch_rows<Id> part(aggregator& a, id_partition<Id>& by, std::size_t part, std::size_t parts) const {
        by.begin(span(), sources_of(), ignore_id, parts);
        for (std::size_t chunk = parts; chunk-- > 0;) by.sort(chunk); // in any order
        return a.collect(by, part);
    }
};

template <class Id> row_list<Id> listed(batch_rows<Id> const& rows) {
    row_list<Id> list;
    for (std::size_t r = 0; r < rows.count; ++r) {
        list.emplace_back(rows.ids[r], std::vector<position>{});
        std::size_t const first = rows.begin ? rows.begin[r] : r, end = rows.begin ? rows.begin[r + 1] : r + 1;
        for (std::size_t i = first; i < end; ++i)
            list.back().second.push_back(rows.sources ? rows.sources[i] : static_cast<position>(i));
    }
    return list;
}

// The model, in order of first occurrence.
template <class Id> row_list<Id> expected(batch<Id> const& b) {
    std::map<Id, std::size_t> row_of;
    row_list<Id> list;
    for (std::size_t p = 0; p < b.ids.size(); ++p) {
        if (b.ignores(p)) continue;
        auto const [at, fresh] = row_of.emplace(b.ids[p], list.size());
        if (fresh) list.emplace_back(b.ids[p], std::vector<position>{});
        list[at->second].second.push_back(b.source(p));
    }
    return list;
}

template <class Id> row_list<Id> ascending(row_list<Id> list) {
    std::ranges::sort(list, {}, &std::pair<Id, std::vector<position>>::first);
    return list;
}

// The rows of one list that another list also contains.
template <class Id> row_list<Id> those_in(row_list<Id> const& part, row_list<Id> const& whole) {
    std::set<Id> ids;
    for (auto const& row : part) ids.insert(row.first);
    row_list<Id> list;
    for (auto const& row : whole)
        if (ids.contains(row.first)) list.push_back(row);
    return list;
}

enum class shape { few_popular, uniform, all_equal, all_distinct, equal_low_halves, at_the_edges };
constexpr shape shapes[] = {shape::few_popular,  shape::uniform,          shape::all_equal,
                            shape::all_distinct, shape::equal_low_halves, shape::at_the_edges};

template <class Id> constexpr std::uint64_t most_rows() {
    return static_cast<std::uint64_t>(std::numeric_limits<Id>::max()); // the largest id is one less
}

template <class Id> batch<Id> make_batch(shape kind, std::size_t k, std::mt19937_64& random) {
    batch<Id> b{{}, 1000, none_ignored, {}};
    switch (kind) {
    case shape::few_popular:
        for (std::size_t p = 0; p < k; ++p)
            b.ids.push_back(static_cast<Id>(std::pow(1000.0, std::uniform_real_distribution<>{}(random)) - 1));
        break;
    case shape::uniform:
        b.num_rows = 2 * k + 1;
        for (std::size_t p = 0; p < k; ++p) b.ids.push_back(static_cast<Id>(random() % b.num_rows));
        break;
    case shape::all_equal:
        b.ids.assign(k, Id(random() % 1000));
        break;
    case shape::all_distinct:
        b.num_rows = 3 * k + 1;
        b.ids.resize(k);
        std::iota(b.ids.begin(), b.ids.end(), Id(random() % (2 * k + 1)));
        std::ranges::shuffle(b.ids, random);
        break;
    case shape::equal_low_halves: // of 64 bits; of 32 bits the numbers below 16
        b.num_rows = most_rows<Id>();
        for (std::size_t p = 0; p < k; ++p)
            b.ids.push_back(static_cast<Id>(sizeof(Id) == 4 ? random() % 16 : random() % 16 << 32 | 5));
        break;
    case shape::at_the_edges:
        b.num_rows = most_rows<Id>();
        for (std::size_t p = 0; p < k; ++p)
            b.ids.push_back(static_cast<Id>(random() % 2 ? random() % 9 : b.num_rows - 1 - random() % 9));
        break;
    }
    return b;
}

// The number whose product with an odd number is 1, modulo 2^64.
std::uint64_t inverse(std::uint64_t odd) {
    std::uint64_t x = odd; // three bits are right, and twice as many after each round
    for (int round = 0; round < 5; ++round) x *= 2 - odd * x;
    return x;
}
constexpr std::uint64_t first_factor = 0x9e3779b97f4a7c15u, second_factor = 0xd6e8feb86659fd93u; // of aggregator

// Where an id stands in a hash table of 2^bits entries, if that place is free.
std::uint64_t place_of(std::uint64_t id, int bits) {
    std::uint64_t const h = id * first_factor;
    return (h ^ h >> 32) * second_factor >> (64 - bits);
}

// Distinct ids that collide in the hash table of a batch, as an attacker who has read the header
// chooses them: with 64 bits by inverting the hash, with 32 bits by search.
template <class Id> batch<Id> colliding(std::size_t k) {
    batch<Id> b{{}, most_rows<Id>(), none_ignored, {}};
    int const bits = std::countr_zero(std::bit_ceil((k <= 1u << 14 ? 4 : 2) * k));
    for (std::uint64_t x = 0; b.ids.size() < k; ++x) {
        std::uint64_t id = x;
        if constexpr (sizeof(Id) == 8) {
            std::uint64_t const h = ((std::uint64_t(1) << (64 - bits)) + x) * inverse(second_factor);
            id = (h ^ h >> 32) * inverse(first_factor);
        }
        if (id < b.num_rows && place_of(id, bits) == 1) b.ids.push_back(static_cast<Id>(id));
    }
    return b;
}

} // namespace

static_assert(gs::row_id<std::int32_t> && gs::row_id<std::int64_t> && gs::row_id<std::uint64_t>);
static_assert(gs::row_id<long long> && gs::row_id<unsigned long long>);
static_assert(!gs::row_id<std::uint32_t> && !gs::row_id<short> && !gs::row_id<float> && !gs::row_id<bool>);
static_assert(std::is_trivially_copyable_v<batch_rows<std::int64_t>>);

TEMPLATE_TEST_CASE("every batch is aggregated like the model", "", std::int32_t, std::int64_t, std::uint64_t) {
    std::mt19937_64 random(7);
    aggregator a; // one for all: what a batch leaves behind must not show in the next
    id_partition<TestType> by;
    for (std::size_t const k : {0u, 1u, 2u, 3u, 17u, 255u, 1000u, 5000u})
        for (shape const kind : shapes)
            for (bool const with_bags : {false, true})
                for (bool const with_padding : {false, true}) {
                    auto b = make_batch<TestType>(kind, k, random);
                    if (with_padding) {
                        b.ignore_id = -1;
                        for (auto& id : b.ids)
                            if (random() % 4 == 0) id = static_cast<TestType>(-1);
                    }
                    if (with_bags)
                        for (std::size_t p = 0; p < k; ++p) b.bag_of.push_back(static_cast<position>(p / 3));
                    CAPTURE(k, static_cast<int>(kind), with_bags, with_padding);

                    auto const wanted = expected(b);
                    REQUIRE(listed(b.by_hash(a)) == wanted);
                    REQUIRE(listed(b.by_radix(a)) == ascending(wanted));
                    for (std::size_t const parts : {2u, 3u, 7u}) {
                        row_list<TestType> hashed, sorted;
                        for (std::size_t part = 0; part < parts; ++part) {
                            auto const h = listed(a.by_hash(b.part(a, by, part, parts))),
                                       s = listed(a.by_radix(b.part(a, by, part, parts), b.num_rows));
                            REQUIRE(h == those_in(h, wanted)); // whole rows, in order of first occurrence
                            REQUIRE(s == ascending(h));
                            hashed.insert(hashed.end(), h.begin(), h.end());
                        }
                        REQUIRE(ascending(hashed) == ascending(wanted));
                    }
                }
}

// They took 640 times as long as others: 640 ms for 32 Ki of them.
TEMPLATE_TEST_CASE("ids that are chosen to collide are aggregated like the model, by sorting", "", std::int32_t,
                   std::int64_t, std::uint64_t) {
    aggregator a;
    id_partition<TestType> by;
    for (std::size_t const k : {200u, 3000u}) {
        auto b = colliding<TestType>(k);
        std::vector<position> row_of(4 * k);
        CHECK(!a.find_rows(batch_rows<TestType>{b.ids.data(), nullptr, nullptr, k}, row_of.data()));
        REQUIRE(listed(b.by_hash(a)) == expected(b));

        std::mt19937_64 random(1); // each of them some times, bags and padding
        for (std::size_t p = 0; p < 3 * k; ++p) b.ids.push_back(b.ids[random() % k]);
        for (std::size_t p = 0; p < 4 * k; ++p) b.bag_of.push_back(static_cast<position>(p / 3));
        REQUIRE(listed(b.by_hash(a)) == expected(b));
        b.ignore_id = static_cast<std::int64_t>(b.ids[k / 2]);
        auto const wanted = expected(b);
        REQUIRE(listed(b.by_hash(a)) == wanted);
        row_list<TestType> of_parts;
        for (std::size_t part = 0; part < 3; ++part) {
            auto const rows = listed(a.by_hash(b.part(a, by, part, 3)));
            REQUIRE(rows == those_in(rows, wanted));
            of_parts.insert(of_parts.end(), rows.begin(), rows.end());
        }
        REQUIRE(ascending(of_parts) == ascending(wanted));
    }
}

TEMPLATE_TEST_CASE("ids that nobody chose are aggregated without sorting", "", std::int32_t, std::int64_t,
                   std::uint64_t) {
    std::mt19937_64 random(13);
    aggregator a;
    for (std::size_t const k : {1u, 17u, 255u, 4096u, 40'000u})
        for (shape const kind : shapes)
            for (int again = 0; again < 5; ++again) {
                auto const b = make_batch<TestType>(kind, k, random);
                std::vector<position> row_of(k);
                CAPTURE(k, static_cast<int>(kind));
                CHECK(a.find_rows(batch_rows<TestType>{b.ids.data(), nullptr, nullptr, k}, row_of.data()) ==
                      expected(b).size());
            }
    // Ids at a stride: every stride's highest bits go through both products.
    for (int bit = 0; bit < (sizeof(TestType) == 4 ? 16 : 48); ++bit) {
        std::vector<TestType> ids;
        for (std::size_t p = 0; p < 30'000; ++p) ids.push_back(static_cast<TestType>(p << bit));
        std::vector<position> row_of(ids.size());
        CAPTURE(bit);
        CHECK(a.find_rows(batch_rows<TestType>{ids.data(), nullptr, nullptr, ids.size()}, row_of.data()) == ids.size());
    }
}

TEMPLATE_TEST_CASE("ignored by their value, in range or not", "", std::int32_t, std::int64_t, std::uint64_t) {
    using ids = std::vector<TestType>;
    aggregator a;
    batch<TestType> b{ids{4, 0, 7, 4, 0}, 8, 0, {}};
    CHECK(listed(b.by_hash(a)) == row_list<TestType>{{TestType(4), {0, 3}}, {TestType(7), {2}}});
    CHECK(listed(b.by_radix(a)) == row_list<TestType>{{TestType(4), {0, 3}}, {TestType(7), {2}}});
    b.ids.assign(5, 0);
    CHECK(b.by_hash(a).count == 0);
    CHECK(b.by_radix(a).count == 0);
    CHECK(b.compact(a).count == 0);
}

TEST_CASE("an ignore_id that the ids cannot hold ignores none of them") {
    aggregator a;
    std::vector<std::int32_t> const ids{0, 5, 0};
    std::int64_t const other = std::int64_t(1) << 32; // whose low half is an id
    CHECK(check_ids<std::int32_t>(ids, 6, other) == 0);
    CHECK(a.by_hash(a.compact(std::span(ids), nullptr, other)).count == 2);
}

TEST_CASE("rows that are distinct take the cheap form") {
    std::vector<std::int64_t> const ids{5, 3, 9};
    std::vector<position> const bags{0, 0, 1};
    aggregator a;

    auto const whole = a.by_hash(a.compact(std::span(ids), nullptr, none_ignored));
    CHECK(whole.ids == ids.data());
    CHECK(whole.begin == nullptr);
    CHECK(whole.sources == nullptr);
    CHECK(whole.count == 3);
    CHECK(a.by_hash(a.compact(std::span(ids), bags.data(), none_ignored)).sources == bags.data());
    CHECK(a.by_hash(a.compact(std::span(ids), nullptr, -1)).ids == ids.data()); // none of them is padding

    auto const padded = a.by_hash(a.compact(std::span(ids), nullptr, 3));
    CHECK(padded.begin == nullptr);
    CHECK(listed(padded) == row_list<std::int64_t>{{5, {0}}, {9, {2}}});

    auto const sorted = a.by_radix(a.compact(std::span(ids), nullptr, none_ignored), 10);
    CHECK(sorted.begin == nullptr);
    CHECK(listed(sorted) == row_list<std::int64_t>{{3, {1}}, {5, {0}}, {9, {2}}});
}

TEMPLATE_TEST_CASE("ids in ascending order take the cheap form, and only these", "", std::int32_t, std::int64_t,
                   std::uint64_t) {
    aggregator a;
    std::vector<position> const bags{0, 0, 1, 2};
    std::vector<TestType> const ascending{0, 3, 5, 9};
    for (auto const& rows : {a.by_hash(a.compact(std::span(ascending), bags.data(), none_ignored)),
                             a.by_radix(a.compact(std::span(ascending), bags.data(), none_ignored), 10)}) {
        CHECK(rows.ids == ascending.data());
        CHECK(rows.begin == nullptr);
        CHECK(rows.sources == bags.data());
        CHECK(rows.count == 4);
    }
    // The last id breaks the order.
    row_list<TestType> const once{{0, {0}}, {3, {1}}, {5, {2, 3}}};
    std::vector<TestType> const twice{0, 3, 5, 5};
    CHECK(listed(a.by_hash(a.compact(std::span(twice), nullptr, none_ignored))) == once);
    CHECK(listed(a.by_radix(a.compact(std::span(twice), nullptr, none_ignored), 10)) == once);
    std::vector<TestType> const back{1, 3, 5, 1};
    row_list<TestType> const first_twice{{1, {0, 3}}, {3, {1}}, {5, {2}}};
    CHECK(listed(a.by_hash(a.compact(std::span(back), nullptr, none_ignored))) == first_twice);
    CHECK(listed(a.by_radix(a.compact(std::span(back), nullptr, none_ignored), 10)) == first_twice);
}

TEST_CASE("compact leaves the order and drops what is ignored") {
    std::vector<std::int32_t> const ids{5, -1, 3, -1, 9};
    std::vector<position> const bags{0, 0, 1, 1, 1};
    aggregator a;
    CHECK(a.compact(std::span(ids), nullptr, none_ignored).ids == ids.data());

    auto const positions = a.compact(std::span(ids), nullptr, -1);
    CHECK(positions.begin == nullptr);
    CHECK(listed(positions) == row_list<std::int32_t>{{5, {0}}, {3, {2}}, {9, {4}}});
    CHECK(listed(a.compact(std::span(ids), bags.data(), -1)) == row_list<std::int32_t>{{5, {0}}, {3, {1}}, {9, {1}}});
}

TEST_CASE("parts share the rows evenly, whatever the stride of the ids") {
    constexpr std::size_t k = 40000, parts = 4;
    // Each row falls to a part with probability 1/4: 6 standard deviations of a binomial.
    double const mean = k / 4.0, bound = 6 * std::sqrt(mean * 3 / 4);
    for (std::uint64_t const stride : {1u, 2u, 64u, 1000u, 1u << 20}) {
        std::vector<std::int64_t> ids;
        for (std::uint64_t p = 0; p < k; ++p) ids.push_back(static_cast<std::int64_t>(p * stride));
        aggregator a;
        id_partition<std::int64_t> by;
        by.begin(ids, nullptr, none_ignored, parts);
        for (std::size_t chunk = 0; chunk < parts; ++chunk) by.sort(chunk);
        for (std::size_t part = 0; part < parts; ++part) {
            CAPTURE(stride, part);
            CHECK(std::abs(double(a.collect(by, part).count) - mean) < bound);
        }
    }
}

TEST_CASE("after the first batches of a size nothing is allocated") {
    std::mt19937_64 random(3);
    std::vector<batch<std::int64_t>> batches;
    for (int i = 0; i < 8; ++i)
        for (shape const kind : shapes) batches.push_back(make_batch<std::int64_t>(kind, 3000, random));
    aggregator a;
    id_partition<std::int64_t> by;
    duplicate_check distinct;
    std::vector<position> bag_of;
    std::vector<std::int32_t> const offsets{0, 100, 2000};
    std::size_t rows = 0;
    auto const run = [&](std::size_t first, std::size_t end) {
        for (std::size_t i = first; i < end; ++i) {
            auto const& b = batches[i];
            rows += b.part(a, by, 0, 1).count; // the largest part that there can be
            rows += b.by_hash(a).count + a.by_hash(b.part(a, by, 1, 2)).count + b.by_radix(a).count;
            rows += check_ids(b.span(), b.num_rows, none_ignored);
            expand_offsets(given_ids(offsets), 3000, 3, bag_of);
            if (shapes[i % 6] == shape::all_distinct) distinct(b.span(), b.num_rows, none_ignored);
        }
    };
    run(0, 6);
    allocations = 0;
    run(6, batches.size());
    CHECK(allocations == 0);

    for (auto& b : batches) b.ids.resize(2000);
    allocations = 0;
    for (auto const& b : batches) rows += b.by_hash(a).count + b.by_radix(a).count; // fewer ids: the same memory
    CHECK(allocations == 0);
    CHECK(rows != 0);
}

TEST_CASE("a growing batch allocates seldom") {
    std::vector<std::int32_t> ids;
    aggregator a;
    a.by_hash(a.compact(std::span(std::as_const(ids)), nullptr, none_ignored));
    ids.reserve(4000);
    allocations = 0;
    while (ids.size() < 4000) {
        ids.push_back(static_cast<std::int32_t>(ids.size() / 2));
        a.by_hash(a.compact(std::span(std::as_const(ids)), nullptr, none_ignored));
    }
    // Five arrays, each grown by at least half each time: log(4000) / log(3/2) = 20.5 times, and
    // the first few that round down to one more element.
    CHECK(allocations <= 5 * 24);
}

TEST_CASE("a copy works with memory of its own") {
    std::vector<std::int32_t> const ids{1, 1, 2}, others{7, 8, 8, 8};
    aggregator a;
    auto const rows = a.by_hash(a.compact(std::span(ids), nullptr, none_ignored));
    aggregator copy = a;
    auto const of_copy = copy.by_hash(copy.compact(std::span(others), nullptr, none_ignored));
    CHECK(listed(rows) == row_list<std::int32_t>{{1, {0, 1}}, {2, {2}}});
    CHECK(listed(of_copy) == row_list<std::int32_t>{{7, {0}}, {8, {1, 2, 3}}});
    copy = a;
    CHECK(listed(of_copy) == row_list<std::int32_t>{{7, {0}}, {8, {1, 2, 3}}});
}

TEMPLATE_TEST_CASE("ids outside the table are refused by name and position", "", std::int32_t, std::int64_t,
                   std::uint64_t) {
    std::mt19937_64 random(5);
    for (std::size_t const k : {1u, 63u, 64u, 65u, 128u, 200u})
        for (std::size_t const at : {0u, 1u, 62u, 63u, 64u, 127u, 128u, 199u}) {
            if (at >= k) continue;
            std::vector<TestType> ids(k, 999);
            CHECK(check_ids<TestType>(ids, 1000, none_ignored) == 0);
            ids[at] = 1000;
            ids[k - 1] = std::max<TestType>(ids[k - 1], 1000); // the first of two is named
            std::string const named = "ids[" + std::to_string(at) + "]: 1000 is out of range; expected [0, 1000)";
            CHECK(refusal<gs::value_error>([&] { check_ids<TestType>(ids, 1000, none_ignored); }) == named);
            CHECK(refusal<gs::value_error>([&] { check_ids<TestType>(ids, 1000, -1); }) ==
                  named + " or ignore_id = -1");
        }
}

TEST_CASE("negative ids, and the largest") {
    std::vector<std::int32_t> const small{3, 1, 2, -5};
    CHECK(refusal<gs::value_error>([&] { check_ids<std::int32_t>(small, 1000, none_ignored); }) ==
          "ids[3]: -5 is out of range; expected [0, 1000)");
    CHECK(refusal<gs::value_error>([&] { check_ids<std::int32_t>(small, 1000, -1); }) ==
          "ids[3]: -5 is out of range; expected [0, 1000) or ignore_id = -1");
    CHECK(check_ids<std::int32_t>(small, 1000, -5) == 1);

    std::int32_t const most32 = std::numeric_limits<std::int32_t>::max(), least32 = -most32 - 1;
    for (std::uint64_t const num_rows : {std::uint64_t(1) << 31, std::uint64_t(1) << 32, ~std::uint64_t(0)}) {
        CHECK(check_ids<std::int32_t>(std::vector{most32}, num_rows, none_ignored) == 0);
        CHECK_THROWS_AS(check_ids<std::int32_t>(std::vector{least32}, num_rows, none_ignored), gs::value_error);
    }
    CHECK_THROWS_AS(check_ids<std::int32_t>(std::vector{most32}, most32, none_ignored), gs::value_error);

    std::int64_t const most64 = std::numeric_limits<std::int64_t>::max();
    CHECK(check_ids<std::int64_t>(std::vector{most64}, std::uint64_t(1) << 63, none_ignored) == 0);
    CHECK_THROWS_AS(check_ids<std::int64_t>(std::vector{-most64 - 1}, ~std::uint64_t(0), none_ignored),
                    gs::value_error);

    std::uint64_t const beyond = (std::uint64_t(1) << 63) + 5;
    CHECK(check_ids<std::uint64_t>(std::vector{beyond}, beyond + 1, none_ignored) == 0);
    CHECK(refusal<gs::value_error>([&] { check_ids<std::uint64_t>(std::vector{beyond}, beyond, none_ignored); }) ==
          "ids[0]: 9223372036854775813 is out of range; expected [0, 9223372036854775813)");
    CHECK(check_ids<std::uint64_t>(std::vector{~std::uint64_t(0)}, 10, -1) == 1); // padding of -1, as uint64

    CHECK_THROWS_AS(check_ids<std::int32_t>(std::vector{0}, 0, none_ignored), gs::value_error);
    CHECK(check_ids<std::int32_t>({}, 0, none_ignored) == 0);
}

TEMPLATE_TEST_CASE("ignored ids are counted", "", std::int32_t, std::int64_t, std::uint64_t) {
    for (std::size_t const k : {0u, 5u, 64u, 1000u}) {
        std::vector<TestType> ids(k);
        std::size_t padding = 0;
        for (std::size_t p = 0; p < k; ++p) {
            ids[p] = static_cast<TestType>(p % 3 == 0 ? std::size_t(-1) : p);
            padding += p % 3 == 0;
        }
        CHECK(check_ids<TestType>(ids, 1000, -1) == padding);
    }
}

TEST_CASE("more ids than can be counted are refused") {
    std::int32_t const one = 0;
    std::span<std::int32_t const> const ids(&one, std::size_t(1) << 32); // never read
    std::string const said = "ids: there are 4294967296 in one batch; expected at most 4294967295";
    aggregator a;
    CHECK(refusal<gs::size_error>([&] { check_ids(ids, 10, none_ignored); }) == said);
    CHECK(refusal<gs::size_error>([&] { a.by_hash(a.compact(std::span(ids), nullptr, none_ignored)); }) == said);
    CHECK(refusal<gs::size_error>([&] { a.by_radix(a.compact(std::span(ids), nullptr, none_ignored), 10); }) == said);
    CHECK(refusal<gs::size_error>([&] { a.compact(ids, nullptr, none_ignored); }) == said);
    std::vector<position> bag_of;
    CHECK(refusal<gs::size_error>([&] { expand_offsets(given_ids(), ids.size(), 1, bag_of); }) == said);
    CHECK(refusal<gs::size_error>([&] { expand_offsets(given_ids(), 0, ids.size(), bag_of); }) ==
          "bags: there are 4294967296 in one batch; expected at most 4294967295");
}

TEMPLATE_TEST_CASE("a duplicate is refused, and leaves no trace", "", std::int32_t, std::int64_t, std::uint64_t) {
    duplicate_check check;
    // A small table clears all bits, a large table only the bits of the ids.
    for (std::uint64_t const num_rows : {std::uint64_t(100), std::uint64_t(1'000'000)}) {
        std::vector<TestType> ids{7, 0, 63, 42, 64, 99, 1, 42, 99};
        CAPTURE(num_rows);
        for (int again = 0; again < 2; ++again)
            CHECK(refusal<gs::value_error>([&] { check(std::span<TestType const>(ids), num_rows, none_ignored); }) ==
                  "ids[7]: 42 appears before, at position 3; expected distinct ids, since duplicates is "
                  "unique; sum adds their gradients");
        // Every id that the refused batch had before the duplicate, and after it, is new again.
        ids = {42, 99, 1, 64, 63, 0, 7};
        for (int again = 0; again < 2; ++again)
            CHECK_NOTHROW(check(std::span<TestType const>(ids), num_rows, none_ignored));

        ids = {static_cast<TestType>(-1), 0, static_cast<TestType>(-1), static_cast<TestType>(num_rows - 1)};
        for (int again = 0; again < 2; ++again) CHECK_NOTHROW(check(std::span<TestType const>(ids), num_rows, -1));
        ids.push_back(0);
        CHECK_THROWS_AS(check(std::span<TestType const>(ids), num_rows, -1), gs::value_error);
        ids.pop_back();
        CHECK_NOTHROW(check(std::span<TestType const>(ids), num_rows, -1));
    }
}

TEST_CASE("duplicates are found in tables of every size, in any order of sizes") {
    duplicate_check check;
    std::mt19937_64 random(11);
    for (std::uint64_t const num_rows : {2u, 64u, 65u, 1000u, 63u, 100'000u, 128u}) {
        std::vector<std::int64_t> ids(std::min<std::uint64_t>(num_rows, 500));
        std::iota(ids.begin(), ids.end(), std::int64_t(num_rows - ids.size()));
        std::ranges::shuffle(ids, random);
        CHECK_NOTHROW(check(std::span<std::int64_t const>(ids), num_rows, none_ignored));
        ids.push_back(ids[random() % ids.size()]);
        CHECK_THROWS_AS(check(std::span<std::int64_t const>(ids), num_rows, none_ignored), gs::value_error);
        ids.pop_back();
        CHECK_NOTHROW(check(std::span<std::int64_t const>(ids), num_rows, none_ignored));
    }
}

TEMPLATE_TEST_CASE("offsets become the bag of every id", "", std::int32_t, std::int64_t, std::uint64_t) {
    using offsets = std::vector<TestType>;
    std::vector<position> bag_of(3, 9);
    auto const expand = [&](offsets const& given, std::size_t ids, std::size_t bags) {
        expand_offsets(given_ids(given), ids, bags, bag_of);
        return bag_of;
    };
    using bags = std::vector<position>;
    CHECK(expand({0, 2, 2, 5}, 6, 4) == bags{0, 0, 2, 2, 2, 3}); // bag 1 is empty
    CHECK(expand({0, 2, 2, 5, 6}, 6, 4) == bags{0, 0, 2, 2, 2, 3});
    CHECK(expand({0, 0, 0}, 2, 3) == bags{2, 2});
    CHECK(expand({0, 2, 2}, 2, 3) == bags{0, 0}); // the last two are empty
    CHECK(expand({0}, 0, 1).empty());
    CHECK(expand({0}, 3, 1) == bags{0, 0, 0});
    CHECK(expand({}, 0, 0).empty());
    CHECK(expand({0}, 0, 0).empty());

    bag_of.assign(3, 9);
    auto const refused = [&]<class Error>(Error*, offsets const& given, std::size_t ids, std::size_t count) {
        auto const said = refusal<Error>([&] { expand(given, ids, count); });
        CHECK(bag_of == bags{9, 9, 9});
        return said;
    };
    gs::value_error* const value = nullptr;
    gs::size_error* const size = nullptr;
    CHECK(refused(size, {0, 1}, 6, 4) == "offsets: has 2 entries; expected 4 or 5, since bag_rows has 4 rows");
    CHECK(refused(size, {0, 1, 2, 3, 4, 6}, 6, 4) ==
          "offsets: has 6 entries; expected 4 or 5, since bag_rows has 4 rows");
    CHECK(refused(size, {}, 6, 0) == "ids: has 6 elements, and there is no bag; expected 0 elements");
    CHECK(refused(value, {1, 2}, 6, 2) == "offsets[0]: 1 is out of range; expected 0");
    CHECK(refused(value, {0, 4, 3}, 6, 3) == "offsets[2]: 3 is out of range; expected at least offsets[1] = 4");
    CHECK(refused(value, {0, 7}, 6, 2) == "offsets[1]: 7 is out of range; expected at most 6, the number of ids");
    CHECK(refused(value, {0, 3, 5}, 6, 2) == "offsets[2]: 5 is out of range; expected 6, the number of ids");
    if constexpr (std::is_signed_v<TestType>)
        CHECK(refused(value, {0, -2}, 6, 2) == "offsets[1]: -2 is out of range; expected at least offsets[0] = 0");
}
