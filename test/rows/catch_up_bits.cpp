// What catch-up gives has the same bits for every way of asking for it: flush, row, rows, backends
// and threads.
#include <algorithm>
#include <cstring>
#include <numeric>

#include <gradstep/gradstep.hpp>

#include <rows/catch_up.hpp>

namespace {

template <class T> std::vector<unsigned char> bytes_of(std::span<T const> x) {
    std::vector<unsigned char> out(x.size_bytes());
    if (!out.empty()) std::memcpy(out.data(), x.data(), out.size());
    return out;
}
template <class Table> auto memory_bytes(Table& table) {
    auto const memory = table.memory();
    auto out = bytes_of(std::span<typename Table::storage const>(memory.values));
    for (auto const& state : memory.state) {
        auto const more = bytes_of(std::span<typename Table::state_type const>(state));
        out.insert(out.end(), more.begin(), more.end());
    }
    auto const stamps = bytes_of(std::span<std::uint32_t const>(memory.stamps));
    out.insert(out.end(), stamps.begin(), stamps.end());
    return out;
}

// Large enough that a flush and a batch are split among threads; a width with a tail.
constexpr std::size_t rows = 4099, width = 33;

template <class Table> void take_steps(Table& table) {
    for (std::size_t t = 0; t < 40; ++t) {
        std::vector<std::int32_t> ids;
        std::vector<typename Table::storage> g;
        std::size_t const named = t % 10 == 0 ? 2500 : 13;
        for (std::size_t n = 0; n < named; ++n) {
            ids.push_back(static_cast<std::int32_t>((t * 577 + n * n * 31) % rows)); // some of them twice
            for (std::size_t i = 0; i < width; ++i)
                g.push_back(dense::as_storage<typename Table::storage>(dense::gradient(t, n, i)));
        }
        table.update(ids, g);
    }
}

template <class Table> void reads_alike(Table& table) {
    auto const as_stored = memory_bytes(table);
    std::vector<std::int64_t> ids(rows);
    std::iota(ids.begin(), ids.end(), 0);
    std::reverse(ids.begin(), ids.end());
    using storage = typename Table::storage;
    std::vector<storage> read(rows * width);
    table.rows(ids, read);
    std::vector<std::vector<storage>> single;
    for (std::int64_t const id : {0, 17, 2048, 4098}) single.push_back(table.row(id));
    CHECK((memory_bytes(table) == as_stored)); // reading writes nothing

    table.flush();
    auto const flushed = memory_bytes(table);
    CHECK((flushed != as_stored));
    auto const memory = table.memory();
    for (std::uint32_t const stamp : memory.stamps) REQUIRE(stamp == 40);
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < rows; ++k)
        wrong += std::memcmp(&read[(rows - 1 - k) * width], &memory.values[k * width], width * sizeof(storage)) != 0;
    CHECK(wrong == 0);
    for (std::size_t n = 0; n < single.size(); ++n) {
        std::size_t const k = std::array{0u, 17u, 2048u, 4098u}[n];
        CHECK(std::memcmp(single[n].data(), &memory.values[k * width], width * sizeof(storage)) == 0);
    }
    table.flush();
    CHECK((memory_bytes(table) == flushed));
    table.values();
    CHECK((memory_bytes(table) == flushed));
}

template <class Element, class Rule, class Regularizer, class CatchUp>
void same_everywhere(Rule rule, Regularizer regularizer, CatchUp catch_up) {
    gs::cosine const schedule{.rate = 0.1, .steps = 50};
    auto const bytes = [&](auto backend) {
        auto const optimizer = gs::make_updater<Element>(rule, regularizer, schedule, backend);
        gs::table table{optimizer, rows, width, catch_up, {.initial = gs::uniform{-1, 1, 5}, .max_history = 16}};
        take_steps(table);
        auto out = memory_bytes(table);
        reads_alike(table);
        auto const flushed = memory_bytes(table);
        out.insert(out.end(), flushed.begin(), flushed.end());
        return out;
    };
    gs::thread_pool one(1), three(3);
    auto const serial = bytes(gs::serial_backend{});
    CHECK((bytes(gs::simd_backend{one}) == serial));
    CHECK((bytes(gs::simd_backend{three}) == serial));
}

} // namespace

TEST_CASE("reads, flushes and backends give the same bits: shrinking rows", "[catch_up]") {
    same_everywhere<float>(gs::adagrad{.initial_accumulator = 0.1},
                           gs::all_of{gs::decoupled{0.1}, gs::proximal{gs::elastic_net{.l1 = 0.01, .l2 = 0.1}}},
                           gs::exact{});
}
TEST_CASE("reads, flushes and backends give the same bits: moving rows", "[catch_up]") {
    same_everywhere<gs::mixed<gs::bfloat16>>(gs::momentum{}, gs::l2{0.1}, gs::exact{});
}
TEST_CASE("reads, flushes and backends give the same bits: repeated steps", "[catch_up]") {
    same_everywhere<float>(gs::adam{}, gs::decoupled{0.1}, gs::replay{12});
}
