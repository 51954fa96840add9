// Rows of a table with master copies that other code changes between steps, up to date or not: as
// if their master copies had been changed too.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/saved/blob.hpp>

#include <support/catch.hpp>
#include <support/edited.hpp>
#include <support/numbers.hpp>

namespace gs = gradstep;

namespace {

constexpr std::size_t rows = 53, width = 21;

template <class Updater> std::string difference(gs::row_memory<Updater> const& a, gs::row_memory<Updater> const& b) {
    auto const same = [](auto x, auto y) {
        return same_bits(std::vector(x.begin(), x.end()), std::vector(y.begin(), y.end()));
    };
    if (!same(a.values, b.values)) return "values";
    for (std::size_t i = 0; i < Updater::slots; ++i)
        if (!same(a.state[i], b.state[i])) return Updater::state_names[i];
    return same(a.stamps, b.stamps) ? "" : "stamps";
}

template <class Element, class Rule, class Regularizer, class CatchUp, class Backend>
void goes_on(Rule const& rule, Regularizer const& regularizer, CatchUp catch_up, Backend const& backend,
             gs::table_options const& options) {
    auto const optimizer = gs::make_updater<Element>(rule, regularizer, gs::constant{0.0625}, backend);
    gs::table edited{optimizer, rows, width, catch_up, options}, expected{optimizer, rows, width, catch_up, options};
    using table = decltype(edited);
    using storage = typename table::storage;
    constexpr bool averages = gs::detail::keeps_average<Rule>;
    std::vector<std::int64_t> ids;
    for (std::uint32_t t = 1; t < 30; ++t) {
        ids.clear();
        for (std::uint32_t k = 0; k < 7; ++k) ids.push_back((t * 31 + k * k * 17) % rows); // some twice, some never
        auto const g = numbers<storage>(ids.size() * width, t);
        edited.update(ids, g);
        expected.update(ids, g);
        if (t % 3 == 0) {
            auto const to = edited.memory();
            auto const as = expected.memory();
            edit<storage>(to.values, t, false);
            reseed<storage>(to.values, to.state.back(), as.values, as.state.back());
        }
        for (std::int64_t const id : {0, 5, 52}) {
            CHECK(same_bits(edited.row(id), expected.row(id)));
            if constexpr (averages) CHECK(same_bits(edited.average(id), expected.average(id)));
        }
        if constexpr (averages) {
            auto const shown = edited.apply_average();
            CHECK_THROWS_AS(edited.update(ids, g), gs::sequence_error);
        }
    }
    auto const last = numbers<storage>(width, 99);
    for (std::int64_t id = 0; id < std::int64_t(rows); ++id) { // every row has a step after its last change
        edited.update(std::vector{id}, last);
        expected.update(std::vector{id}, last);
    }
    edited.flush();
    expected.flush();
    CHECK(difference(edited.memory(), expected.memory()) == "");
}
template <class Element, class Rule, class Regularizer, class CatchUp>
void goes_on(Rule const& rule, Regularizer const& regularizer, CatchUp catch_up, double max_norm = 0) {
    gs::table_options const options{.initial = gs::uniform{-1, 1, 3}, .max_history = 16, .max_norm = max_norm};
    goes_on<Element>(rule, regularizer, catch_up, gs::serial_backend{}, options);
    goes_on<Element>(rule, regularizer, catch_up, gs::simd_backend{}, options);
}

} // namespace

TEST_CASE("A row that other code has changed has its next step from there, whatever its catch-up",
          "[rows][master_copy]") {
    using element = gs::mixed<gs::bfloat16>;
    goes_on<element>(gs::adagrad{}, gs::none{}, gs::touch_only{}, 2);
    goes_on<element>(gs::rowwise_adam{}, gs::none{}, gs::touch_only{});
    goes_on<element>(gs::adagrad{}, gs::all_of{gs::decoupled{0.1}}, gs::exact{});
    goes_on<element>(gs::averaged{gs::momentum{}, gs::ema{0.75}}, gs::l2{0.1}, gs::exact{});
    goes_on<element>(gs::rowwise_adagrad{}, gs::decoupled{0.1}, gs::exact{});
    goes_on<gs::mixed<gs::float16>>(gs::momentum{}, gs::l2{0.1}, gs::exact{});
    goes_on<element>(gs::adam{}, gs::decoupled{0.1}, gs::replay{10});
}

TEST_CASE("A table whose state is saved with changed rows goes on from them", "[rows][master_copy]") {
    auto const optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, gs::l2{0.1}, gs::constant{0.0625});
    gs::table saved{optimizer, rows, width, gs::exact{}, {.initial = gs::uniform{-1, 1, 3}}},
        loaded{optimizer, rows, width, gs::exact{}};
    std::vector<std::int64_t> const ids{3, 11, 52};
    auto const g = numbers<gs::bfloat16>(ids.size() * width, 2);
    saved.update(ids, g);
    edit<gs::bfloat16>(saved.memory().values, 1, false);
    std::vector<std::byte> bytes(gs::state_bytes(saved));
    gs::save_state(saved, bytes);
    gs::load_state(loaded, bytes);
    for (auto* table : {&saved, &loaded}) table->update(ids, g);
    CHECK(difference(saved.memory(), loaded.memory()) == "");
    CHECK(gs::bfloat16(loaded.state<"master">()[3 * width]).bits == loaded.memory().values[3 * width].bits);
}
