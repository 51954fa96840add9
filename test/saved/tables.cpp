// Tables that are saved and gone on with: the same bits as without.
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/rewritten_file.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t width = 3;

// Steps of a few rows, of which some come often and most seldom.
template <class Table> void train(Table& table, int steps) {
    using storage = typename Table::storage;
    for (int k = 0; k < steps; ++k) {
        auto const t = static_cast<std::uint32_t>(table.clock().step);
        std::vector<std::int64_t> ids;
        for (std::uint32_t i = 0; i < 5; ++i)
            ids.push_back(static_cast<std::int64_t>((t * 7919u + i * i * 31u) % (i == 0 ? 3 : table.num_rows())));
        table.update(ids, numbers<storage>(ids.size() * width, t + 1), {.samples = 2});
    }
}
template <class Table> std::string state(folder const& in, Table const& table) {
    table.save(in / "state");
    return bytes_of(in / "state");
}

// make(): a table as a run begins with; grown: it has more rows when it is saved.
template <class Make> void require_same_run(Make const& make, bool grows) {
    folder const in;
    auto trained = make();
    train(trained, 21); // laps are under way
    if (grows) trained.grow(1'200'000), train(trained, 6);
    CHECK((trained.segments() > 1) == grows);
    trained.save(in / "rows");
    std::string const saved = bytes_of(in / "rows");
    auto resumed = make();
    train(resumed, 3);
    resumed.load(in / "rows");
    CHECK(resumed.num_rows() == trained.num_rows());
    bool const same = state(in, resumed) == saved;
    CHECK(same);
    train(trained, 15);
    train(resumed, 15);
    trained.grow(trained.num_rows() + 9);
    resumed.grow(resumed.num_rows() + 9);
    trained.reset(std::vector<std::int64_t>{1});
    resumed.reset(std::vector<std::int64_t>{1});
    bool const same_later = state(in, resumed) == state(in, trained);
    CHECK(same_later);
}

auto const adagrad = gs::make_updater<float>(
    gs::adagrad{}, gs::decoupled{0.125}, gs::exponential{.rate = 0.5, .decay = 0.5, .steps = 9}, gs::serial_backend{});

} // namespace

TEST_CASE("A table that is saved, and loaded by another, goes on with the same bits", "[saved][checkpoint]") {
    gs::table_options const options{.initial = gs::uniform{-1, 1, 5}, .max_history = 8};
    SECTION("exact") {
        require_same_run([&] { return gs::table{adagrad, 40, width, gs::exact{}, options}; }, false);
    }
#if GRADSTEP_TEST_EVERYTHING // two more types of tables take as long to compile as all the rest, and a large one as long to run
    SECTION("exact, after it has grown") {
        auto seldom_swept = options; // what takes nearly all of the time
        seldom_swept.max_history = 256;
        require_same_run([&] { return gs::table{adagrad, 600'000, width, gs::exact{}, seldom_swept}; }, true);
    }
    SECTION("replay") {
        auto const momentum =
            gs::make_updater<gs::bfloat16>(gs::momentum{}, gs::l2{0.25}, gs::constant{0.125}, gs::serial_backend{});
        require_same_run([&] { return gs::table{momentum, 40, width, gs::replay{100}, options}; }, false);
    }
    SECTION("touch_only, with steps of rows and numbers for each") {
        auto with_steps = options;
        with_steps.row_steps = true;
        auto const rowwise =
            gs::make_updater<gs::mixed<gs::bfloat16>>(gs::rowwise_adam{}, gs::constant{0.125}, gs::serial_backend{});
        require_same_run([&] { return gs::table{rowwise, 40, width, gs::touch_only{}, with_steps}; }, false);
    }
#endif
}

TEST_CASE("A file of another table is refused by the first difference, and nothing has changed",
          "[saved][checkpoint]") {
    folder const in;
    gs::table_options const options{.initial = 0.5, .max_history = 8};
    gs::table table{adagrad, 40, width, gs::exact{}, options};
    train(table, 21);
    table.save(in / "good");
    train(table, 2);
    std::string const now = state(in, table);
    auto const refused = [&]<class Error>(std::type_identity<Error>, std::string const& file) {
        std::string const said = refusal<Error>([&] { table.load(file); });
        CHECK(state(in, table) == now);
        CHECK(table.num_rows() == 40);
        return said;
    };
    std::type_identity<gs::value_error> const value;
    std::type_identity<gs::size_error> const size;
    auto const said_of = [&](auto const error, std::string const& what, std::string const& by) {
        rewrite(in / "good", in / "bad",
                [&](auto&, auto& metadata) { replace(metadata["gradstep.parameter.values"], what, by); });
        return refused(error, in / "bad");
    };
    CHECK_THAT(said_of(size, "\"num_rows\":40", "\"num_rows\":41"),
               ContainsSubstring("has 40 x 3 elements; expected 41 x 3"));
    CHECK_THAT(said_of(size, "\"num_rows\":40", "\"num_rows\":1152921504606846976"), ContainsSubstring("elements"));
    CHECK_THAT(said_of(value, "\"num_rows\":40", "\"num_rows\":9223372036854775808"),
               ContainsSubstring("expected < 2^63"));
    CHECK_THAT(said_of(value, "\"history\":\"factors\"", "\"history\":\"rates\""),
               ContainsSubstring("expected factors"));
    CHECK_THAT(said_of(value, "\"history\":\"factors\"", "\"history\":\"other\""),
               ContainsSubstring("history is \"other\"; expected one of none, factors, products, rates"));
    CHECK_THAT(said_of(value, "\"max_history\":8", "\"max_history\":7"), ContainsSubstring("a power of two"));
    CHECK_THAT(said_of(size, "\"max_history\":8", "\"max_history\":16"),
               ContainsSubstring("row_progress.history: has"));
    CHECK_THAT(said_of(value, "\"lap_rows\":40", "\"lap_rows\":41"), ContainsSubstring("at most num_rows = 40"));
    CHECK_THAT(said_of(value, "\"step\":21", "\"step\":17"), ContainsSubstring("stamps["));
    CHECK_THAT(said_of(value, "\"rate\":", "\"rate\":-"), ContainsSubstring("row_progress.rate"));
    CHECK_THAT(said_of(value, "\"first\":0.5", "\"first\":1e300"), ContainsSubstring("initial"));
    CHECK_THAT(said_of(value, "\"constant\"", "\"uniform\""), ContainsSubstring("uniform.low"));
    CHECK_THAT(said_of(value, "\"rows\":{", "\"row\":{"), ContainsSubstring("is a parameter; expected a table"));
    rewrite(in / "good", in / "bad", [](auto& entries, auto&) {
        for (auto& x : entries)
            if (x.name == "values/stamps") x.dtype = "I32";
    });
    CHECK_THAT(refused(value, in / "bad"), ContainsSubstring("the slot stamps is of I32; expected U32"));

    std::string bytes = bytes_of(in / "good");
    gs::safetensors_reader const good(in / "good");
    std::uint64_t const data_at = bytes.size() - good.tensors().back().end;
    std::string const nan(7, '\xff');
    bytes.replace(data_at + good.find("values/history")->begin + 1, nan.size(), nan);
    std::ofstream(in / "bad", std::ios::binary) << bytes;
    CHECK_THAT(refused(value, in / "bad"), ContainsSubstring("nan; expected finite"));

    gs::table{adagrad, 40, width + 1, gs::exact{}, options}.save(in / "other");
    CHECK_THAT(refused(size, in / "other"), ContainsSubstring("has 40 x 4 elements; expected 40 x 3"));
    gs::table{adagrad, 39, width, gs::exact{}, options}.save(in / "other");
    CHECK_THAT(refused(size, in / "other"), ContainsSubstring("has 39 rows; expected at least the 40 of the table"));
    gs::parameter{adagrad, numbers<float>(120, 1)}.save(in / "other");
    CHECK_THAT(refused(value, in / "other"), ContainsSubstring("is a parameter; expected a table"));
    gs::parameter weights{adagrad, numbers<float>(120, 1)};
    CHECK_THAT(refusal<gs::value_error>([&] { weights.load(in / "good"); }), ContainsSubstring("is a table; expected"));
    table.load(in / "good");
    CHECK(state(in, table) == bytes_of(in / "good"));
}

TEST_CASE("To save and to load a table takes no copy of its rows", "[saved][checkpoint]") {
#if !COUNTS_ALLOCATIONS
    SUCCEED("allocations are the sanitizer's");
#else
    folder const in;
    gs::table table{adagrad, 200'000, width, gs::exact{}, {.initial = 1.0, .max_history = 8}};
    bytes_allocated = 0;
    table.save(in / "file");
    CHECK(bytes_allocated < 100'000); // of 5.6 MB
    bytes_allocated = 0;
    table.load(in / "file");
    CHECK(bytes_allocated < 400'000); // 2^16 stamps at a time
#endif
}
