// Changes of keyed tables as bytes: a replica that gets them is the one that got the changes
// themselves; bytes that are others, cut off or altered are refused.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gradstep/bytes/detail/framed_bytes.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>
#include <gradstep/saved/blob.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

using keys64 = std::vector<std::uint64_t>;
using bytes = std::vector<std::byte>;
constexpr std::size_t width = 5;

gs::exponential const schedule{.rate = 0.25, .decay = 0.5, .steps = 40};

template <class Table> void train(Table& table, int steps) {
    for (int t = 0; t < steps; ++t) {
        std::mt19937_64 random(static_cast<std::uint64_t>(table.clock().step));
        keys64 keys(1 + random() % 12);
        for (auto& key : keys) key = random() % 40 * 0x9e3779b97f4a7c15;
        std::vector<typename Table::storage> g(keys.size() * table.width());
        for (auto& x : g) x = typename Table::storage(static_cast<float>(random() % 9) / 8 - 0.5f);
        table.update(keys, g);
        if (table.clock().step % 16 == 0) table.evict_older_than(table.clock().step - 9);
    }
}
template <class Table> bytes state(Table const& table) {
    bytes out(gs::state_bytes(table));
    gs::save_state(table, out);
    return out;
}
template <class T> bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// A base and its increments, sent as bytes to one replica and as they are to another.
template <class Table> void sends(Table source, gs::row_content content) {
    using changes_type = typename Table::changes_type;
    Table by_bytes = source, as_they_are = source;
    for (int sent = 0; sent < 6; ++sent) {
        train(source, sent == 3 ? 0 : 7);
        auto const changes = source.changed_since(sent == 0 ? 0 : as_they_are.clock().step, content);
        bytes const message = changes.encode();
        REQUIRE(message.size() == changes.encoded_bytes());
        auto const decoded = changes_type::decode(message);
        CHECK(decoded.encode() == message);
        CHECK(decoded.since == changes.since);
        CHECK(decoded.until == changes.until);
        CHECK(decoded.content == content);
        CHECK(decoded.evicted == changes.evicted);
        CHECK(decoded.keys == changes.keys);
        CHECK(same_bits(decoded.values, changes.values));
        CHECK(same_bits(decoded.progress.history, changes.progress.history));
        as_they_are.apply(changes);
        by_bytes.apply(decoded);
        REQUIRE(state(by_bytes) == state(as_they_are));
    }
}
template <class Table> void sends(Table const& source) {
    sends(source, gs::row_content::values);
    sends(source, gs::row_content::state);
}

auto const averaging = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::averaged{gs::adagrad{}, gs::polyak{}}, schedule);
auto const decaying = gs::make_updater<float>(gs::momentum{.mu = 0.9}, gs::l2{0.01}, schedule);

// Writes a number of a message, and the checksum of the rest.
template <class Number> void put(bytes& message, std::size_t at, Number x) {
    std::memcpy(&message[at], &x, sizeof x);
    gs::detail::seal(message);
}

} // namespace

TEST_CASE("changes go to a replica as bytes, bit for bit") {
    SECTION("float, with a history") {
        sends(gs::keyed_table{decaying, width, gs::exact{}, {.max_history = 64, .touch_counts = true}});
    }
    SECTION("values and master copy of bfloat16, two averages' slots") {
        sends(gs::keyed_table{averaging, width, gs::exact{}, {.initial = gs::normal{0, 1, 3}, .max_history = 64}});
    }
    SECTION("stochastic rounding, the steps of each row") {
        auto const adam = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::adam{}, schedule);
        sends(gs::keyed_table{adam, width, gs::touch_only{}, {.row_steps = true, .id = 3}});
    }
    SECTION("one number for each row, double") {
        sends(gs::keyed_table{gs::make_updater<double>(gs::rowwise_adagrad{}, schedule), width});
    }
    SECTION("no state at all") { sends(gs::keyed_table{gs::make_updater<float>(gs::sgd{}, schedule), 1}); }
}

TEST_CASE("changes are written into memory of the caller's") {
    gs::keyed_table source{decaying, width, gs::exact{}};
    train(source, 3);
    auto const changes = source.changed_since(0);
    bytes const message = changes.encode();
    bytes room(message.size() + 8, std::byte{0x5a});
    changes.encode(room);
    CHECK(std::memcmp(room.data(), message.data(), message.size()) == 0);
    CHECK(bytes(room.end() - 8, room.end()) == bytes(8, std::byte{0x5a}));
    CHECK(refusal<gs::size_error>([&] { changes.encode(std::span(room).first(message.size() - 1)); }) ==
          "encode: the memory has " + std::to_string(message.size() - 1) + " bytes; expected at least " +
              std::to_string(message.size()));
    auto cut = changes;
    cut.values.pop_back();
    CHECK(refusal<gs::size_error>([&] { cut.encode(); }) == "encode: values: has " + std::to_string(cut.values.size()) +
                                                                " elements; expected " +
                                                                std::to_string(changes.values.size()));
}

TEST_CASE("bytes that are not those of changes are refused") {
    gs::keyed_table source{decaying, width, gs::exact{}, {.max_history = 16, .touch_counts = true}};
    train(source, 9);
    using changes_type = decltype(source)::changes_type;
    std::string const begin = "changes: the message ";
    auto const refused = [&](std::span<std::byte const> message) {
        std::string const why = refusal<gs::value_error>([&] { changes_type::decode(message); });
        REQUIRE(why.starts_with(begin));
        return why.substr(begin.size());
    };
    for (auto const content : {gs::row_content::values, gs::row_content::state}) {
        bytes const message = source.changed_since(4, content).encode();
        for (std::size_t size = 0; size < message.size(); ++size) {
            // As it is, and with a header that says so.
            bytes cut(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(size));
            refused(cut);
            if (size >= gs::detail::framed_header) {
                put(cut, 16, std::uint64_t{size});
                refused(cut);
            }
        }
        bytes longer = message;
        longer.resize(message.size() + 8);
        put(longer, 16, std::uint64_t{longer.size()});
        CHECK(refused(longer) == "has 8 bytes too many; expected none after its end");
        for (std::size_t at = 0; at < message.size(); ++at) {
            bytes changed = message;
            changed[at] ^= std::byte{0x10};
            refused(changed);
        }
    }
    bytes const good = source.changed_since(4).encode();
    CHECK(refused({}) == "has 0 bytes; expected at least 24, the header");
    bytes other = good;
    other[3] = std::byte{'x'};
    CHECK(refused(other) == "begins with other bytes; expected \"gs-delta\"");
    other = good;
    put(other, 8, std::uint32_t{2});
    CHECK(refused(other) == "is of version 2; expected 1");
    other = good;
    other.back() ^= std::byte{1};
    CHECK(refused(other).ends_with(": its bytes were changed"));

    // Where the numbers are: after the texts "float" and "momentum".
    constexpr std::size_t numbers = 24 + 4 + 5 + 4 + 8, columns = numbers + 2, kind = columns + 7 * 8,
                          keys = kind + 7 * 8;
    auto const with = [&](std::size_t at, auto x) {
        bytes changed = good;
        put(changed, at, x);
        return refused(changed);
    };
    CHECK(with(numbers, std::uint8_t{3}) == "has the number 3; expected at most 2");
    CHECK(with(numbers + 1, std::uint8_t{4}) == "has the number 4; expected at most 3");
    CHECK(with(numbers + 1, std::uint8_t{1}) == "announces touches, and has none; expected touches of its rows");
    CHECK(with(kind, std::uint64_t{4}) == "has the number 4; expected below 4");
    CHECK(with(keys, ~std::uint64_t{0}).find("keys of rows of width 5, and ") != std::string::npos);
    CHECK(with(keys - 8, ~std::uint64_t{0}) == "breaks off; expected all numbers that it announces");  // evicted
    CHECK(with(keys - 16, ~std::uint64_t{0}) == "breaks off; expected all numbers that it announces"); // the history
    CHECK(with(columns, std::uint64_t{1} << 62).find("of width 4611686018427387904") != std::string::npos);

    // Without rows, the width is compared with the table's. In 8 bits, this one plus 8 is 0.
    auto no_rows = source.changed_since(4, gs::row_content::int8);
    no_rows.keys.clear();
    no_rows.values.clear();
    bytes wide = no_rows.encode();
    put(wide, columns, ~std::uint64_t{7});
    auto const decoded = changes_type::decode(wide);
    CHECK(refusal<gs::size_error>([&] { source.apply(decoded); }) ==
          "apply: the changes are of rows of width 18446744073709551608; expected 5");
    changes_type flat; // rows of no values
    flat.content = gs::row_content::int8;
    flat.keys = {1, 2};
    CHECK(changes_type::decode(flat.encode()).keys == flat.keys);
}

TEST_CASE("a replica of another rule, element or width refuses changes in words") {
    gs::keyed_table source{decaying, width, gs::exact{}};
    train(source, 3);
    bytes const message = source.changed_since(0).encode();
    gs::keyed_table other_rule{gs::make_updater<float>(gs::adagrad{}, schedule), width, gs::exact{}};
    gs::keyed_table other_element{gs::make_updater<double>(gs::momentum{.mu = 0.9}, schedule), width, gs::exact{}};
    auto const decode_for = [&]<class Table>(Table const&) {
        return refusal<gs::value_error>([&] { Table::changes_type::decode(message); });
    };
    CHECK(decode_for(other_rule) == "changes: the message is of the rule momentum; expected adagrad");
    CHECK(decode_for(other_element) == "changes: the message is of the element float; expected double");
    gs::keyed_table wide{decaying, width + 1, gs::exact{}};
    auto const changes = decltype(source)::changes_type::decode(message);
    CHECK(refusal<gs::size_error>([&] { wide.apply(changes); }) ==
          "apply: the changes are of rows of width 5; expected 6");
    gs::keyed_table still{decaying, width, gs::touch_only{}};
    CHECK(refusal<gs::value_error>([&] { still.apply(changes); }) != "");
}
