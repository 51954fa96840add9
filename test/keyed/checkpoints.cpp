// Keyed tables in files: they go on where they stood, and take nothing in of a file that is not
// theirs.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>

#include <support/catch.hpp>
#include <support/folder.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

using keys64 = std::vector<std::uint64_t>;
using floats = std::vector<float>;
constexpr std::size_t width = 4;

auto table_of(gs::keyed_options const& options) {
    auto const optimizer = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::adagrad{}, gs::constant{0.25});
    return gs::keyed_table{optimizer, width, gs::touch_only{}, options};
}
auto decaying_table_of(gs::keyed_options const& options) {
    auto const optimizer = gs::make_updater<float>(gs::momentum{.mu = 0.9}, gs::l2{0.01},
                                                   gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 40});
    return gs::keyed_table{optimizer, width, gs::exact{}, options};
}
template <class Table> void train(Table& table, int first, int last) {
    for (int t = first; t < last; ++t) {
        std::mt19937_64 random(static_cast<std::uint64_t>(t));
        keys64 keys(1 + random() % 20);
        for (auto& key : keys) key = random() % 64 * 0x9e3779b97f4a7c15;
        std::vector<typename Table::storage> g(keys.size() * width);
        for (auto& x : g) x = typename Table::storage(static_cast<float>(random() % 9) / 8 - 0.5f);
        if (t % 10 == 3)
            g[0] = typename Table::storage(std::numeric_limits<float>::infinity()); // left out, and counted
        table.update(keys, g);
        if (t % 30 == 29) table.evict_older_than(t - 20);
    }
}
template <class Table> bool same(Table const& a, Table const& b) {
    if (!(a.counts() == b.counts()) || a.keys() != b.keys() || a.clock().step != b.clock().step) return false;
    for (std::uint64_t const key : a.keys())
        if (a.row(key) != b.row(key)) return false;
    return true;
}

// Changes `size` bytes of a tensor of a file.
void overwrite(std::string const& file, std::string const& tensor, std::size_t at, void const* with, std::size_t size) {
    std::uint64_t end = 0, begin = 0;
    {
        gs::safetensors_reader const reader(file);
        for (auto const& x : reader.tensors()) {
            end = std::max(end, x.end);
            if (x.name == tensor) begin = x.begin;
        }
    }
    std::fstream open(file, std::ios::in | std::ios::out | std::ios::binary);
    open.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file) - end + begin + at));
    open.write(static_cast<char const*>(with), static_cast<std::streamsize>(size));
}

template <class Table> void goes_on(Table table, Table other) {
    folder const in;
    std::string const file = in / "table.safetensors";
    train(table, 0, 70);
    table.save(file);
    Table copy = table;
    train(table, 70, 140);
    other.load(file);
    CHECK(same(other, copy));
    train(other, 70, 140);
    CHECK(same(other, table));
    auto const a = table.changed_since(75), b = other.changed_since(75);
    CHECK(a.keys == b.keys);
    CHECK(a.evicted == b.evicted);
}

} // namespace

TEST_CASE("a keyed table goes on from its checkpoint") {
    gs::keyed_options const options{.initial = gs::normal{0, 1, 3},
                                    .on_nonfinite = gs::nonfinite::skip,
                                    .id = 8,
                                    .admit_after = 2,
                                    .touch_counts = true};
    auto other = options;
    other.initial = 0.25; // what new rows begin with comes from the file
    other.id = 0;
    goes_on(table_of(options), table_of(other));
    auto aging = options;
    aging.admit_after = 4;
    aging.sketch_half_life = 9; // 70 is between two halvings
    goes_on(table_of(aging), table_of(aging));
    auto used = decaying_table_of(options);
    train(used, 300, 350);
    goes_on(decaying_table_of(options), used);
}

TEST_CASE("a keyed table is as it was where a file is not its own") {
    folder const in;
    std::string const good = in / "good.safetensors", bad = in / "bad.safetensors";
    auto table = decaying_table_of({.on_nonfinite = gs::nonfinite::skip, .admit_after = 2}),
         other = decaying_table_of(table.options());
    train(table, 0, 70);
    train(other, 0, 40);
    auto const before = other;
    table.save(good);
    auto const refused = [&](auto& to) {
        std::string const why = refusal<gs::value_error>([&] { to.load(bad); });
        CHECK(why.starts_with(bad + ": \"values\": "));
        return why.substr(bad.size() + 12);
    };
    auto const copied = [&] {
        std::filesystem::copy_file(good, bad, std::filesystem::copy_options::overwrite_existing);
    };
    std::uint64_t const key = table.keys()[2];
    copied();
    overwrite(bad, "values/keys", 5 * 8, &key, 8);
    CHECK(refused(other) == "keys[5] = " + std::to_string(key) + " appears before, at 2; expected distinct keys");
    copied();
    std::int64_t const late = 71;
    overwrite(bad, "values/evictions", 0, &late, 8);
    CHECK(refused(other).find("was evicted at step 71; expected in order, and at most 70") != std::string::npos);
    for (std::int64_t const since : {std::int64_t{-1}, std::int64_t{72}, std::numeric_limits<std::int64_t>::max()}) {
        copied();
        overwrite(bad, "values/remembered_since", 0, &since, 8);
        CHECK(refused(other) == "remembered_since: " + std::to_string(since) +
                                    " is out of range; expected from 0 to 71, one after its step");
    }
    copied();
    std::uint8_t const full = 9;
    overwrite(bad, "values/sketch", 100, &full, 1);
    CHECK(refusal<gs::value_error>([&] { other.load(bad); }).find("expected below admit_after = 2") !=
          std::string::npos);
    CHECK(same(other, before));

    auto untracked = decaying_table_of({.last_touches = false});
    untracked.save(bad);
    CHECK(refused(other) == "the slot last_touches is missing; expected every slot of this parameter");
    gs::table by_number{table.optimizer(), 3, width, gs::exact{}};
    by_number.save(bad);
    CHECK(refused(other) == "the slot keys is missing; expected every slot of this parameter");
    CHECK(same(other, before));
}

TEST_CASE("a table that has forgotten evictions of its last step goes on from its checkpoint") {
    folder const in;
    std::string const file = in / "table.safetensors";
    auto table = table_of({}), other = table_of({});
    keys64 keys(80'000); // more than the 2^16 evictions that are remembered
    for (std::size_t k = 0; k < keys.size(); ++k) keys[k] = k;
    table.update(keys, std::vector<gs::bfloat16>(keys.size() * width, gs::bfloat16(1.0f)));
    table.evict_to(40'000);
    table.evict_to(1);
    table.save(file);
    other.load(file);
    CHECK(same(other, table));
    CHECK(refusal<gs::value_error>([&] { other.changed_since(1); }) ==
          "changed_since: step 1, and evictions are remembered from step 2 on; expected that step or a later one, or "
          "0 for all rows");
}

TEST_CASE("a row stays old in a job that is started again and again") {
    folder const in;
    std::string const file = in / "table.safetensors";
    auto table = table_of({});
    auto const step = [&](std::uint64_t key) {
        table.update(keys64{key}, std::vector<gs::bfloat16>(width, gs::bfloat16(1.0f)));
    };
    step(1);
    constexpr std::int64_t run = (std::int64_t{1} << 30) - 8;
    for (std::int64_t k = 1; k <= 5; ++k) { // more than 2^32 steps in all, of which the last of each run is made
        auto none = table.changed_since(table.clock().step);
        none.keys.clear();
        none.values.clear();
        none.until = none.progress.clock.step = k * run - 1;
        table.apply(none);
        step(2);
        table.save(file);
        table = table_of({});
        table.load(file);
    }
    REQUIRE(table.clock().step > std::int64_t{1} << 32);
    CHECK(table.evict_older_than(table.clock().step - run) == 1);
    CHECK(table.keys() == keys64{2});
}

TEST_CASE("the keys of a file were admitted by its admit_seed") {
    folder const in;
    std::string const file = in / "table.safetensors", old = in / "old.safetensors";
    gs::keyed_options const options{.on_nonfinite = gs::nonfinite::skip, .admit_after = 2, .admit_seed = 5};
    auto table = decaying_table_of(options);
    train(table, 0, 40);
    table.save(file);
    auto other = options;
    other.admit_seed = 6;
    auto refusing = decaying_table_of(other);
    train(refusing, 0, 20);
    auto const before = refusing;
    CHECK(refusal<gs::value_error>([&] { refusing.load(file); }) ==
          file + ": \"values\": its keys were admitted by admit_seed = 5; expected 6");
    CHECK(same(refusing, before));
    // Files that do not say it are taken as they were.
    gs::row_progress at;
    gs::detail::saved_state state = gs::detail::state_from(table, "save", at);
    REQUIRE(std::erase_if(state.tensors, [](auto const& x) { return x.slot == "admit_seed"; }) == 1);
    gs::detail::checkpoint_files::save(old, std::span(&state, 1));
    auto taking = decaying_table_of(options);
    taking.load(old);
    CHECK(same(taking, table));
    // Where all keys are admitted there is nothing that a seed decides.
    auto all = options;
    all.admit_after = 1;
    auto every = decaying_table_of(all);
    train(every, 0, 10);
    every.save(file);
    all.admit_seed = 6;
    auto too = decaying_table_of(all);
    too.load(file);
    CHECK(same(too, every));
}
