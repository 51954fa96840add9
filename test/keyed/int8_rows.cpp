// Rows of tables in 8 bits, by themselves and in changes for a replica. bindings/python/tests
// compares them with the bytes of torch.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/keyed/striped.hpp>
#include <gradstep/rows/int8_rows.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

using keys64 = std::vector<std::uint64_t>;
using bytes = std::vector<std::byte>;
constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

struct coded_row {
    std::vector<std::uint8_t> codes;
    float scale, offset;

    coded_row(bytes const& all, std::size_t row, std::size_t width) : codes(width) {
        std::byte const* const from = all.data() + row * gs::int8_row_bytes(width);
        std::memcpy(codes.data(), from, width);
        std::memcpy(&scale, from + width, sizeof scale);
        std::memcpy(&offset, from + width + sizeof scale, sizeof offset);
    }
};

// The formula, one operation of float at a time.
void check_row(coded_row const& row, std::vector<float> const& values) {
    float const low = *std::min_element(values.begin(), values.end());
    float const high = *std::max_element(values.begin(), values.end());
    float const range = high - low, with_epsilon = range + 1e-8f, inverse = 255.0f / with_epsilon;
    CHECK(row.offset == low);
    CHECK(row.scale == range / 255.0f);
    bytes stored(gs::int8_row_bytes(values.size()));
    std::memcpy(stored.data(), row.codes.data(), values.size());
    std::memcpy(stored.data() + values.size(), &row.scale, sizeof row.scale);
    std::memcpy(stored.data() + values.size() + 4, &row.offset, sizeof row.offset);
    std::vector<float> decoded(values.size());
    gs::decode_int8_row(stored, decoded);
    for (std::size_t i = 0; i < values.size(); ++i) {
        float const above = values[i] - low, scaled = above * inverse;
        REQUIRE(row.codes[i] == std::lrint(scaled));
        float const volatile product = static_cast<float>(row.codes[i]) * row.scale; // g++ would fuse it
        REQUIRE(decoded[i] == product + low);
        // The code is rounded; epsilon shortens the distance from `low` by at most 1e-8; and six
        // operations are rounded.
        double const most = std::max(std::abs(double(low)), std::abs(double(high)));
        double const bound = 0.5 * double(row.scale) + 1e-8 + 6 * double(std::numeric_limits<float>::epsilon()) * most;
        REQUIRE(std::abs(double(decoded[i]) - double(values[i])) <= bound);
    }
}

// Rows of all sizes of numbers, equal numbers, and one of each sign of 0.
std::vector<float> values_of(std::size_t row, std::size_t width) {
    std::mt19937 random(static_cast<unsigned>(row * 977 + width));
    std::vector<float> out(width);
    float const size = std::ldexp(1.0f, static_cast<int>(row % 7) * 6 - 30);
    for (float& x : out)
        x = row % 11 == 3 ? size : size * (static_cast<float>(random()) / 0x1p31f - 1.0f + static_cast<float>(row % 3));
    return out;
}

auto const plain = [](auto element) { return gs::make_updater<decltype(element)>(gs::sgd{}, gs::constant{1}); };

template <class Element> void reads(std::size_t width) {
    using storage = typename gs::element_traits<Element>::storage;
    constexpr std::size_t count = 700;
    gs::table numbered{plain(Element()), count, width};
    gs::keyed_table keyed{plain(Element()), width};
    std::vector<std::vector<float>> expected;
    std::vector<std::int64_t> ids;
    keys64 keys;
    std::vector<storage> all;
    for (std::size_t r = 0; r < count; ++r) {
        ids.push_back(static_cast<std::int64_t>(r));
        keys.push_back(r * 0x9e3779b97f4a7c15);
        expected.emplace_back();
        for (float const x : values_of(r, width)) {
            all.push_back(static_cast<storage>(x));
            expected.back().push_back(static_cast<float>(all.back()));
        }
    }
    numbered.set_rows(ids, all);
    std::vector<storage> gradient;
    for (storage const x : all) gradient.push_back(static_cast<storage>(-static_cast<float>(x)));
    keyed.update(keys, gradient); // 0 - 1 * -x
    bytes of_numbered(count * gs::int8_row_bytes(width)), of_keyed(of_numbered.size()), of_striped(of_numbered.size());
    gs::int8_rows(numbered, ids, of_numbered);
    gs::int8_rows(keyed, keys, of_keyed);
    gs::int8_rows(gs::striped{keyed}, keys, of_striped);
    for (std::size_t r = 0; r < count; ++r) check_row(coded_row(of_numbered, r, width), expected[r]);
    for (std::size_t r = 0; r < count; ++r) {
        coded_row const a(of_keyed, r, width), b(of_numbered, r, width);
        CHECK(std::tie(a.codes, a.scale) == std::tie(b.codes, b.scale));
        CHECK(a.offset == b.offset); // 0 and -0 are equal
    }
    CHECK(of_striped == of_keyed);
}

gs::keyed_table<decltype(plain(0.0f)), gs::touch_only> of_values(std::vector<float> const& values) {
    gs::keyed_table out{plain(0.0f), values.size()};
    std::vector<float> gradient(values);
    for (float& x : gradient) x = -x;
    out.update(keys64{5}, gradient);
    return out;
}

} // namespace

TEST_CASE("rows in 8 bits have the codes, the scale and the offset of the formula") {
    for (std::size_t const width : {1u, 7u, 8u, 64u, 257u}) {
        reads<float>(width);
        reads<double>(width);
        reads<gs::bfloat16>(width);
        reads<gs::mixed<gs::bfloat16>>(width);
    }
}

TEST_CASE("a key without a row has its initial values in 8 bits") {
    gs::keyed_table const table{plain(0.0f), 16, gs::touch_only{}, {.initial = gs::normal{0, 1, 3}}};
    bytes out(2 * gs::int8_row_bytes(16));
    gs::int8_rows(table, keys64{3, 99}, out);
    check_row(coded_row(out, 0, 16), table.row(3));
    check_row(coded_row(out, 1, 16), table.row(99));
}

TEST_CASE("a row that is not finite in float is NaN in 8 bits") {
    float const most = std::numeric_limits<float>::max();
    for (auto const& values : std::vector<std::vector<float>>{
             {1, not_a_number, 2}, {not_a_number}, {1, infinity}, {-infinity, 0}, {-most, most}}) {
        auto const table = of_values(values);
        bytes out(gs::int8_row_bytes(values.size()));
        gs::int8_rows(table, keys64{5}, out);
        std::vector<float> decoded(values.size());
        gs::decode_int8_row(out, decoded);
        for (float const x : decoded) CHECK(std::isnan(x));
        CHECK(coded_row(out, 0, values.size()).codes == std::vector<std::uint8_t>(values.size()));
    }
    auto const table = of_values({-most, 0});
    bytes out(gs::int8_row_bytes(2));
    gs::int8_rows(table, keys64{5}, out);
    check_row(coded_row(out, 0, 2), {-most, 0});
}

TEST_CASE("changes in 8 bits give a replica the decoded rows") {
    constexpr std::size_t width = 24;
    auto const sends = [](auto element) {
        auto const optimizer = gs::make_updater<decltype(element)>(gs::adagrad{}, gs::constant{0.1});
        gs::keyed_table source{optimizer, width}, replica = source, exact = source;
        using storage = typename decltype(source)::storage;
        keys64 keys;
        for (std::size_t k = 0; k < 50; ++k) keys.push_back(k * 77);
        for (int t = 0; t < 3; ++t) {
            std::vector<storage> gradient(keys.size() * width);
            for (std::size_t i = 0; i < gradient.size(); ++i)
                gradient[i] = storage(std::sin(static_cast<float>(i * static_cast<std::size_t>(t + 1))));
            source.update(keys, gradient);
            source.evict([&](auto const& row) { return row.key == 77u * static_cast<unsigned>(t); });
            auto const changes = source.changed_since(replica.clock().step, gs::row_content::int8);
            auto const message = changes.encode();
            auto const whole = source.changed_since(exact.clock().step);
            CHECK(message.size() + whole.keys.size() * (width * (sizeof(storage) - 1) - 8) <=
                  whole.encode().size() + 8);
            auto const decoded = decltype(source)::changes_type::decode(message);
            CHECK(decoded.content == gs::row_content::int8);
            CHECK(decoded.keys == whole.keys);
            CHECK(decoded.evicted == whole.evicted);
            CHECK(changes.values == whole.values); // only bytes are in 8 bits
            replica.apply(decoded);
            exact.apply(whole);
            keys.erase(keys.begin());
            keys.push_back(static_cast<std::uint64_t>(t) + 100'000);
        }
        CHECK(replica.num_rows() == source.num_rows());
        bytes rows(source.num_rows() * gs::int8_row_bytes(width));
        auto const all = source.keys();
        gs::int8_rows(exact, all, rows);
        std::vector<float> of_row(width);
        for (std::size_t r = 0; r < all.size(); ++r) {
            gs::decode_int8_row(std::span(rows).subspan(r * gs::int8_row_bytes(width), gs::int8_row_bytes(width)),
                                of_row);
            std::vector<storage> expected;
            for (float const x : of_row) expected.push_back(storage(x));
            CHECK(replica.row(all[r]) == expected);
        }
    };
    sends(0.0f);
    sends(0.0);
    sends(gs::bfloat16());
}

TEST_CASE("rows in 8 bits refuse integers and memory of another size") {
    gs::keyed_table const table{plain(0.0f), 4};
    bytes out(36);
    CHECK(refusal<gs::size_error>([&] {
              gs::int8_rows(table, keys64{1, 2}, out);
          }) == "out: has 36 bytes; expected 2 x 12");
    gs::keyed_table counters{gs::make_updater<std::int32_t>(gs::add_delta{}, gs::constant{1}), 4};
    CHECK(refusal<gs::value_error>([&] { gs::int8_rows(counters, keys64{1}, std::span(out).first(12)); }) ==
          "int8_rows: the values of the table are int32; expected a table of floating-point values");
    CHECK(refusal<gs::value_error>([&] { counters.changed_since(0, gs::row_content::int8); }) ==
          "changed_since: the content is int8, and the values are integers; expected values or state");
    std::vector<float> row(3);
    CHECK(refusal<gs::size_error>([&] { gs::decode_int8_row(std::span(out).first(12), row); }) ==
          "row: has 12 bytes; expected 11");
    constexpr std::size_t count = 5000, width = 16;
    gs::table const numbered{plain(0.0f), count, width};
    std::vector<std::int64_t> ids(count);
    ids[4321] = count;
    bytes const before(count * gs::int8_row_bytes(width), std::byte{77});
    bytes all = before;
    CHECK(refusal<gs::value_error>([&] { gs::int8_rows(numbered, ids, all); }) ==
          "ids[4321]: 5000 is out of range; expected [0, 5000)");
    CHECK(all == before);
}
