// Tables of keys of the C library beside the typed tables of C++, from several threads, and what
// they refuse.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>

#include "c/handles.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t width = 3;
using keys64 = std::vector<std::uint64_t>;

std::string text_of(std::string const& rule, std::string const& of_table) {
    return R"({"schedule": {"name": "constant", "rate": 0.25}, "rule": {"name": ")" + rule +
           R"("}, "keyed_table": {"width": 3, "initial": {"name": "uniform", "low": -1, "high": 1, "seed": 5})" +
           of_table + "}}";
}
gradstep_table* made(std::string const& config) {
    gradstep_table* out = nullptr;
    ok([&](gradstep_error* e) { return gradstep_table_create(config.data(), config.size(), &out, e); });
    return out;
}
struct c_table {
    gradstep_table* handle;
    explicit c_table(std::string const& config) : handle(made(config)) {}
    c_table(c_table const&) = delete;
    c_table& operator=(c_table const&) = delete;
    ~c_table() { gradstep_table_release(handle); }

    void update(keys64 const& keys, std::vector<float> const& g) const {
        ok([&](gradstep_error* e) {
            return gradstep_table_update(handle, keys.data(), GRADSTEP_UINT64, keys.size(), g.data(), g.size(), nullptr,
                                         e);
        });
    }
    void update(keys64 const& keys, keys64 const& offsets, std::vector<float> const& g, gs::step_options const& = {},
                gs::bag_options const& how = {}) const {
        ok([&](gradstep_error* e) {
            gradstep_bag_options const bags = bag_options_of(how);
            return gradstep_table_update_bags(handle, keys.data(), GRADSTEP_UINT64, keys.size(), offsets.data(),
                                              offsets.size(), g.data(), g.size(), &bags, nullptr, e);
        });
    }
    void bags(keys64 const& keys, keys64 const& offsets, std::vector<float>& out, gs::bag_options const& how) const {
        ok([&](gradstep_error* e) {
            gradstep_bag_options const bags = bag_options_of(how);
            return gradstep_table_bags(handle, keys.data(), GRADSTEP_UINT64, keys.size(), offsets.data(),
                                       offsets.size(), &bags, out.data(), out.size(), e);
        });
    }
    void rows(keys64 const& keys, std::vector<float>& out) const {
        ok([&](gradstep_error* e) {
            return gradstep_table_rows(handle, keys.data(), GRADSTEP_UINT64, keys.size(), out.data(), out.size(), e);
        });
    }
    bool contains(std::uint64_t key) const {
        std::int32_t out = -1;
        ok([&](gradstep_error* e) { return gradstep_table_contains(handle, key, &out, e); });
        return out == 1;
    }
    // Page by page.
    keys64 keys() const {
        keys64 out;
        std::uint64_t page[4], written = 4;
        for (; written == 4; out.insert(out.end(), page, page + written))
            ok([&](gradstep_error* e) { return gradstep_table_keys(handle, out.size(), page, 4, &written, e); });
        return out;
    }
    gradstep_key_counts counts() const {
        gradstep_key_counts out = GRADSTEP_KEY_COUNTS_INIT;
        ok([&](gradstep_error* e) { return gradstep_table_key_counts(handle, &out, e); });
        return out;
    }
    std::uint64_t evict_older_than(std::int64_t step) const {
        std::uint64_t out = 77;
        ok([&](gradstep_error* e) { return gradstep_table_evict_older_than(handle, step, &out, e); });
        return out;
    }
    std::uint64_t evict_to(std::uint64_t rows) const {
        std::uint64_t out = 77;
        ok([&](gradstep_error* e) { return gradstep_table_evict_to(handle, rows, nullptr, nullptr, &out, e); });
        return out;
    }
    std::vector<std::byte> int8_rows(keys64 const& keys) const {
        std::vector<std::byte> out(keys.size() * gs::int8_row_bytes(width));
        ok([&](gradstep_error* e) {
            return gradstep_table_int8_rows(handle, keys.data(), GRADSTEP_UINT64, keys.size(), out.data(), out.size(),
                                            e);
        });
        return out;
    }
    std::vector<std::byte> changed_since(std::int64_t step, std::int32_t content) const {
        gradstep_bytes* bytes = nullptr;
        void const* data = nullptr;
        std::uint64_t size = 0;
        ok([&](gradstep_error* e) { return gradstep_table_changed_since(handle, step, content, &bytes, e); });
        ok([&](gradstep_error* e) { return gradstep_bytes_view(bytes, &data, &size, e); });
        auto const* const first = static_cast<std::byte const*>(data);
        std::vector<std::byte> out(first, first + size);
        gradstep_bytes_release(bytes);
        return out;
    }
    void apply(std::vector<std::byte> const& changes) const {
        ok([&](gradstep_error* e) { return gradstep_table_apply_changes(handle, changes.data(), changes.size(), e); });
    }
    std::vector<std::byte> state() const {
        std::uint64_t bytes = 0;
        ok([&](gradstep_error* e) { return gradstep_table_state_bytes(handle, &bytes, e); });
        std::vector<std::byte> out(bytes);
        ok([&](gradstep_error* e) { return gradstep_table_save(handle, out.data(), bytes, &bytes, e); });
        return out;
    }
};
keys64 batch_of(std::uint64_t t) {
    keys64 out;
    for (std::uint64_t k = 0; k < 9; ++k) out.push_back((t * 7 + k * k) % 23 << (k % 3 * 20)); // some several times
    return out;
}

} // namespace

TEST_CASE("A table of keys of the C library has the bits, the files and the changes of a typed table",
          "[c][bits_of_cpp]") {
    gs::keyed_options const options{.initial = gs::uniform{-1, 1, 5}, .admit_after = 2, .touch_counts = true};
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.25});
    gs::keyed_table expected{optimizer, width, gs::touch_only{}, options};
    std::string const text = text_of("adagrad", R"(, "admit_after": 2, "touch_counts": true)");
    c_table const table(text);
    auto const step = [&](std::uint64_t t) {
        keys64 const keys = batch_of(t), bags{0, 3, 4};
        auto const g = numbers<float>(keys.size() * width, static_cast<std::uint32_t>(t)),
                   pooled = numbers<float>(bags.size() * width, static_cast<std::uint32_t>(100 + t));
        expected.update(keys, g);
        table.update(keys, g);
        expected.update(keys, bags, pooled);
        table.update(keys, bags, pooled);
        std::span const weights = std::span(g).first(keys.size());
        expected.update(keys, bags, pooled, {}, {gs::bag_mode::mean, weights});
        table.update(keys, bags, pooled, {}, {gs::bag_mode::mean, weights});
        std::vector<float> a(bags.size() * width), b(a);
        expected.bags(keys, bags, a, {.weights = weights});
        table.bags(keys, bags, b, {.weights = weights});
        CHECK(a == b);
    };
    auto const compare = [&] {
        keys64 const some{0, 7, 5ull << 40, 7};
        std::vector<float> a(some.size() * width), b(a);
        expected.rows(some, a);
        table.rows(some, b);
        CHECK(a == b);
        CHECK(table.keys() == expected.keys());
        CHECK(table.contains(some[1]) == expected.contains(some[1]));
        auto const counts = expected.counts();
        auto const given = table.counts();
        CHECK(given.admitted == counts.admitted);
        CHECK(given.turned_away == counts.turned_away);
        CHECK(given.evicted == counts.evicted);
    };
    for (std::uint64_t t = 0; t < 6; ++t) step(t);
    compare();
    CHECK(table.evict_older_than(6) == expected.evict_older_than(6));
    compare();
    CHECK(table.evict_to(8) == expected.evict_to(8));
    compare();
    CHECK(expected.num_rows() == 8);
    for (std::uint64_t t = 6; t < 9; ++t) step(t);

    // Changes go both ways, with state and without, and in 8 bits.
    keys64 const those = expected.keys();
    std::vector<float> of_table(those.size() * width), of_replica(of_table);
    table.rows(those, of_table);
    std::vector<std::byte> in_int8(those.size() * gs::int8_row_bytes(width));
    gs::int8_rows(expected, those, in_int8);
    CHECK(table.int8_rows(those) == in_int8);
    for (std::int32_t const content : {GRADSTEP_CHANGES_VALUES, GRADSTEP_CHANGES_STATE, GRADSTEP_CHANGES_INT8}) {
        auto const changes = table.changed_since(5, content);
        CHECK(changes == expected.changed_since(5, static_cast<gs::row_content>(content)).encode());
        c_table const replica(text);
        replica.apply(table.changed_since(0, content));
        replica.rows(those, of_replica);
        if (content != GRADSTEP_CHANGES_INT8) CHECK(of_replica == of_table);
        else CHECK(of_replica != of_table);
    }
    folder const in;
    expected.save(in / "expected");
    ok([&](gradstep_error* e) { return gradstep_table_save_file(table.handle, (in / "table").c_str(), e); });
    CHECK(bytes_of(in / "table") == bytes_of(in / "expected"));
    c_table const loaded(text), copied(text);
    ok([&](gradstep_error* e) {
        return gradstep_table_load_file(loaded.handle, (in / "expected").c_str(), nullptr, nullptr, e);
    });
    auto const state = table.state();
    CHECK(loaded.state() == state);
    ok([&](gradstep_error* e) { return gradstep_table_load(copied.handle, state.data(), state.size(), e); });
    CHECK(copied.state() == state);
    step(9);
    compare();
}

TEST_CASE("A host judges rows of a C table of keys, and holds some", "[c]") {
    c_table const table(text_of("momentum", R"(, "touch_counts": true)"));
    keys64 const keys{1, 2, 3, 4, 5}, twice{4, 5}, held{1};
    table.update(keys, std::vector<float>(keys.size() * width, 1.0f));
    table.update(twice, std::vector<float>(twice.size() * width, 1.0f));
    struct seen_rows {
        std::vector<gradstep_row> rows;
        std::vector<float> values, momentum;
    } seen;
    auto const judge = [](void* host, gradstep_row const* row) -> std::int32_t {
        auto& all = *static_cast<seen_rows*>(host);
        all.rows.push_back(*row);
        all.values.push_back(static_cast<float const*>(row->values)[1]);
        all.momentum.push_back(static_cast<float const*>(row->state[0])[1]);
        return row->key == 2;
    };
    std::uint64_t evicted = 0;
    auto const fails = [](void*, gradstep_row const* row) -> std::int32_t { return row->key == 3 ? -2 : 1; };
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_table_evict(table.handle, fails, nullptr, &evicted, e);
          }) == "test: returned -2; expected 0, or 1 to evict the row");
    CHECK(table.keys().size() == keys.size());
    ok([&](gradstep_error* e) { return gradstep_table_evict(table.handle, judge, &seen, &evicted, e); });
    CHECK(evicted == 1);
    CHECK_FALSE(table.contains(2));
    REQUIRE(seen.rows.size() == 5);
    for (std::size_t k = 0; k < 5; ++k) {
        bool const is_twice = seen.rows[k].key > 3;
        CHECK(seen.rows[k].struct_size == sizeof(gradstep_row));
        CHECK(seen.rows[k].age == (is_twice ? 0 : 1));
        CHECK(seen.rows[k].touch_count == (is_twice ? 2 : 1));
        CHECK(seen.rows[k].width == width);
        CHECK(seen.rows[k].slots == 1);
        CHECK(seen.momentum[k] != 0);
        keys64 const one{seen.rows[k].key};
        std::vector<float> row(width);
        if (one[0] == 2) continue;
        table.rows(one, row);
        CHECK(seen.values[k] == row[1]);
    }

    auto const hold = [&](auto* f) {
        ok([&](gradstep_error* e) { return f(table.handle, held.data(), GRADSTEP_UINT64, held.size(), e); });
    };
    hold(gradstep_table_hold);
    auto const by_key = [](void*, gradstep_row const* row) { return static_cast<double>(row->key); };
    ok([&](gradstep_error* e) { return gradstep_table_evict_to(table.handle, 2, by_key, nullptr, &evicted, e); });
    CHECK(evicted == 2);
    auto left = table.keys();
    std::sort(left.begin(), left.end());
    CHECK(left == keys64{1, 5});
    hold(gradstep_table_unhold);
    CHECK(table.evict_to(0) == 2);
    auto const nothing = [](void*, gradstep_row const*) { return std::numeric_limits<double>::quiet_NaN(); };
    table.update(keys, std::vector<float>(keys.size() * width, 1.0f));
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_table_evict_to(table.handle, 2, nothing, nullptr, &evicted, e); });
    CHECK(table.keys().size() == keys.size());
}

TEST_CASE("Several threads of C update a concurrent table of keys, and one evicts", "[c]") {
    std::string const more = R"(, "concurrent": true)";
    c_table const alone(text_of("sgd", "")), shared(text_of("sgd", more));
    // Equal gradients: the rows are the same in every order of the batches.
    keys64 const keys{std::uint64_t{3} << 40, 9, 9, 21}, offsets{0, 3};
    std::vector<float> const g(keys.size() * width, 0.5f), pooled(offsets.size() * width, 0.5f);
    constexpr std::size_t threads = 4, steps = 50;
    for (std::size_t k = 0; k < threads * steps; ++k) alone.update(keys, g);
    std::vector<int> failures(threads);
    std::vector<std::thread> all;
    for (std::size_t k = 0; k < threads; ++k)
        all.emplace_back([&, k] {
            std::vector<float> seen(keys.size() * width);
            std::uint64_t evicted = 0;
            for (std::size_t t = 0; t < steps; ++t) {
                auto const updated =
                    t % 2 == 0 ? gradstep_table_update(shared.handle, keys.data(), GRADSTEP_UINT64, keys.size(),
                                                       g.data(), g.size(), nullptr, nullptr)
                               : gradstep_table_update_bags(shared.handle, keys.data(), GRADSTEP_UINT64, keys.size(),
                                                            offsets.data(), offsets.size(), pooled.data(),
                                                            pooled.size(), nullptr, nullptr, nullptr);
                auto const read = gradstep_table_rows(shared.handle, keys.data(), GRADSTEP_UINT64, keys.size(),
                                                      seen.data(), seen.size(), nullptr);
                auto const tidied = gradstep_table_evict_to(shared.handle, 10, nullptr, nullptr, &evicted, nullptr);
                failures[k] += updated != GRADSTEP_OK || read != GRADSTEP_OK || tidied != GRADSTEP_OK;
            }
        });
    for (std::thread& one : all) one.join();
    CHECK(failures == std::vector<int>(threads));
    std::vector<float> a(keys.size() * width), b(a);
    alone.rows(keys, a);
    shared.rows(keys, b);
    CHECK(a == b);
    CHECK(shared.keys().size() == 3);
}

TEST_CASE("Functions of C for tables of the other kind are refused, and so are texts of both", "[c]") {
    c_table const keyed(text_of("sgd", "")),
        numbered(
            R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "table": {"rows": 4, "width": 3}})");
    gradstep_table_info info = GRADSTEP_TABLE_INFO_INIT;
    ok([&](gradstep_error* e) { return gradstep_table_describe(keyed.handle, &info, e); });
    CHECK(info.keyed == 1);
    ok([&](gradstep_error* e) { return gradstep_table_describe(numbered.handle, &info, e); });
    CHECK(info.keyed == 0);
    std::int32_t has = -1;
    CHECK(refused(GRADSTEP_BAD_HANDLE, [&](gradstep_error* e) {
              return gradstep_table_contains(numbered.handle, 1, &has, e);
          }) == "table: its rows have no keys; expected a table made with \"keyed_table\"");
    CHECK(refused(GRADSTEP_BAD_HANDLE, [&](gradstep_error* e) { return gradstep_table_grow(keyed.handle, 9, e); }) ==
          "table: its rows have keys; expected a table made with \"table\"");
    std::int32_t const ids[] = {1};
    std::vector<float> const g(width);
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_table_update(keyed.handle, ids, GRADSTEP_INT32, 1, g.data(), g.size(), nullptr, e);
          }) == "keys: has elements of int32; expected uint64, or int64 with the same bits");
    gradstep_table* out = nullptr;
    auto const create = [&](std::string const& text) {
        return [&, text](gradstep_error* e) { return gradstep_table_create(text.data(), text.size(), &out, e); };
    };
    std::string const both = R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1},
                                 "table": {"rows": 4, "width": 3}, "keyed_table": {"width": 3}})";
    CHECK(refused(GRADSTEP_BAD_CONFIG, create(both)).starts_with("table: "));
    refused(GRADSTEP_BAD_CONFIG, create("[]"));
    CHECK(out == nullptr);
    std::vector<std::byte> room(23);
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
        std::uint64_t const keys[] = {1, 2};
        return gradstep_table_int8_rows(keyed.handle, keys, GRADSTEP_UINT64, 2, room.data(), room.size(), e);
    });
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
        gradstep_bytes* changes = nullptr;
        return gradstep_table_changed_since(keyed.handle, 0, 3, &changes, e);
    });
    auto damaged = keyed.changed_since(0, 0);
    damaged[9] ^= std::byte(1);
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
        return gradstep_table_apply_changes(keyed.handle, damaged.data(), damaged.size(), e);
    });
}

TEST_CASE("Integers of every kind take deltas in a C table, which wrap around", "[c]") {
    for (std::string const type : {"int32", "uint32", "int64", "uint64"}) {
        INFO(type);
        c_table const table(
            R"({"rule": {"name": "add_delta"}, "schedule": {"name": "constant", "rate": 1}, "type": ")" + type +
            R"(", "table": {"rows": 4, "width": 1}})");
        gradstep_table_info info = GRADSTEP_TABLE_INFO_INIT;
        ok([&](gradstep_error* e) { return gradstep_table_describe(table.handle, &info, e); });
        CHECK(info.state_dtype == info.dtype);
        CHECK(info.dtype == (type == "int32"    ? GRADSTEP_INT32
                             : type == "uint32" ? GRADSTEP_UINT32
                             : type == "int64"  ? GRADSTEP_INT64
                                                : GRADSTEP_UINT64));
        std::int64_t const ids[] = {2};
        auto const wraps = [&]<class T>(T delta) {
            T row = 0;
            for (int k = 0; k < 2; ++k)
                ok([&](gradstep_error* e) {
                    return gradstep_table_update(table.handle, ids, GRADSTEP_INT64, 1, &delta, 1, nullptr, e);
                });
            ok([&](gradstep_error* e) {
                return gradstep_table_rows(table.handle, ids, GRADSTEP_INT64, 1, &row, 1, e);
            });
            CHECK(row == static_cast<T>(2 * delta));
        };
        if (type.ends_with("32")) wraps(std::uint32_t{0x90000001});
        else wraps(std::uint64_t{0x9000000000000001});
    }
}

TEST_CASE("A C table describes the slots of a row", "[c]") {
    std::string const rows = R"({"rule": {"name": "rowwise_adam"}, "schedule": {"name": "constant", "rate": 1},
                                 "table": {"rows": 4, "width": 3}})";
    for (std::string const& text : {text_of("rowwise_adam", ""), rows}) {
        c_table const table(text);
        std::uint64_t slots = 0;
        ok([&](gradstep_error* e) { return gradstep_table_slot_count(table.handle, &slots, e); });
        REQUIRE(slots == 2);
        for (std::uint64_t i = 0; i < slots; ++i) {
            gradstep_slot slot = GRADSTEP_SLOT_INIT;
            ok([&](gradstep_error* e) { return gradstep_table_slot(table.handle, i, &slot, e); });
            CHECK(slot.name == std::string(i == 0 ? "m" : "v"));
            CHECK(slot.dtype == GRADSTEP_FLOAT32);
            CHECK(slot.count == (i == 0 ? width : 1));
        }
        refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
            gradstep_slot slot = GRADSTEP_SLOT_INIT;
            return gradstep_table_slot(table.handle, 2, &slot, e);
        });
    }
}

TEST_CASE("The C library hashes texts and integers to the keys of C++", "[c]") {
    std::string const prefix = "site=", texts("news\0mail", 9);
    std::uint64_t const begins[] = {0, 4, 5, 0}, ends[] = {4, 4, 9, 9};
    keys64 keys(4);
    ok([&](gradstep_error* e) {
        return gradstep_hash_texts(prefix.data(), prefix.size(), texts.data(), texts.size(), begins, ends, 4,
                                   keys.data(), e);
    });
    CHECK(keys == keys64{gs::stable_hash("site=news"), gs::stable_hash("site="), gs::stable_hash("site=mail"),
                         gs::stable_hash("site=" + texts)});
    std::uint64_t const key = gs::stable_hash("news"); // the formula of the header, computed elsewhere
    ok([&](gradstep_error* e) { return gradstep_hash_texts(nullptr, 0, "news", 4, begins, ends, 1, keys.data(), e); });
    CHECK(keys[0] == key);
    CHECK(key == 0xf2d3fb1a158dd4f2);

    auto const hashes = [&]<class T>(T, std::int32_t dtype) {
        std::vector<T> const integers{0, 17, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
        ok([&](gradstep_error* e) {
            return gradstep_hash_integers(prefix.data(), prefix.size(), integers.data(), dtype, 4, keys.data(), e);
        });
        for (std::size_t i = 0; i < 4; ++i) CHECK(keys[i] == gs::stable_hash(prefix + std::to_string(integers[i])));
    };
    hashes(std::int32_t(), GRADSTEP_INT32);
    hashes(std::uint32_t(), GRADSTEP_UINT32);
    hashes(std::int64_t(), GRADSTEP_INT64);
    hashes(std::uint64_t(), GRADSTEP_UINT64);

    auto const before = keys;
    std::uint64_t const wrong[] = {4, 4, 10, 9};
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_hash_texts(nullptr, 0, texts.data(), 9, begins, wrong, 4, keys.data(), e);
          }) == "text 2: begins at 5 and ends at 10; expected begins <= ends <= 9, the bytes of the texts");
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_hash_texts(nullptr, 0, texts.data(), 9, ends, begins, 4, keys.data(), e);
          }).starts_with("text 0: begins at 4 and ends at 0;"));
    CHECK(refused(GRADSTEP_UNSUPPORTED_TYPE, [&](gradstep_error* e) {
              return gradstep_hash_integers(nullptr, 0, begins, GRADSTEP_FLOAT32, 1, keys.data(), e);
          }) == "dtype: 4 is no type of integers; expected GRADSTEP_INT32, UINT32, INT64 or UINT64");
    CHECK(keys == before);
}

TEST_CASE("A function that judges rows of a C table cannot call the table, also if it is concurrent", "[c]") {
    for (auto const* const concurrent : {"false", "true"}) {
        c_table const table(text_of("sgd", R"(, "concurrent": )" + std::string(concurrent)));
        keys64 const keys{1, 2, 3};
        table.update(keys, std::vector<float>(keys.size() * width, 1.0f));
        struct calls {
            gradstep_table* table;
            std::vector<std::string> refusals;
        } seen{table.handle, {}};
        auto const calling = [](void* host, gradstep_row const*) -> std::int32_t {
            auto& own = *static_cast<calls*>(host);
            std::uint64_t const key = 2;
            std::uint64_t evicted = 77;
            std::vector<float> row(width, 5);
            auto const refusal = [&](auto const& call) {
                own.refusals.push_back(refused(GRADSTEP_BAD_SEQUENCE, call));
            };
            refusal([&](gradstep_error* e) {
                return gradstep_table_rows(own.table, &key, GRADSTEP_UINT64, 1, row.data(), width, e);
            });
            refusal([&](gradstep_error* e) { return gradstep_table_evict_older_than(own.table, 9, &evicted, e); });
            refusal([&](gradstep_error* e) { return gradstep_table_flush(own.table, e); });
            CHECK((evicted == 77 && row == std::vector<float>(width, 5)));
            return 0;
        };
        std::uint64_t evicted = 77;
        ok([&](gradstep_error* e) { return gradstep_table_evict(table.handle, calling, &seen, &evicted, e); });
        CHECK(evicted == 0);
        CHECK(seen.refusals == std::vector<std::string>(9, "table: is called by your function of a row; expected calls "
                                                           "after it has returned"));
        CHECK(table.evict_to(1) == 2);
    }
}
