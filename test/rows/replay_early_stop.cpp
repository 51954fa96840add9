// replay stops where no step still to come moves a weight: not where one step happens not to.
#include <numeric>
#include <span>

#include <rows/catch_up.hpp>

namespace {

// A rule without the bound that tells when to stop.
template <class Rule> struct patient : Rule { void step_bound() const = delete; };

template <class Rule, class Regularizer> std::vector<float> replayed(Rule rule, Regularizer regularizer) {
    auto const optimizer = gs::make_updater<float>(rule, regularizer, gs::external{}, gs::serial_backend{});
    constexpr std::size_t rows = 300, wide = 7;
    gs::table table{optimizer, rows, wide, gs::replay{5000}, {.initial = gs::uniform{-1, 1, 5}}};
    std::vector<std::int32_t> ids(rows);
    std::iota(ids.begin(), ids.end(), 0);
    std::vector<float> g, out;
    for (std::size_t t = 0; t < 2; ++t) {
        g.clear();
        for (std::size_t i = 0; i < rows * wide; ++i) g.push_back(static_cast<float>(dense::gradient(t, i, 1)));
        table.update(ids, g, {.rate = 1e-3});
    }
    for (std::size_t t = 2; t < 700; ++t) {
        // A ramp, so that the first missed steps are not the largest.
        table.update(std::vector<std::int32_t>{}, std::vector<float>{}, {.rate = t < 100 ? 1e-5 * double(t) : 1e-3});
        if (t % 50 != 11) continue;
        out.resize(out.size() + rows * wide);
        table.rows(ids, std::span(out).last(rows * wide));
    }
    table.flush();
    auto const values = table.values();
    out.insert(out.end(), values.begin(), values.end());
    for (auto const& state : table.memory().state) out.insert(out.end(), state.begin(), state.end());
    return out;
}
template <class Regularizer> void stops_early_with_the_same_bits(Regularizer regularizer) {
    CHECK((replayed(gs::adam{}, regularizer) == replayed(patient<gs::adam>{}, regularizer)));
}

} // namespace

TEST_CASE("replay that stops early has the bits of one that does not", "[replay]") {
    stops_early_with_the_same_bits(gs::none{});
    stops_early_with_the_same_bits(gs::decoupled{0.01}); // against the momentum, it can hold a weight for a step
    stops_early_with_the_same_bits(gs::proximal{gs::l2{0.01}});
    stops_early_with_the_same_bits(gs::proximal{gs::l1{0.001}});
    CHECK((replayed(gs::rowwise_adam{}, gs::decoupled{0.01}) ==
           replayed(patient<gs::rowwise_adam>{}, gs::decoupled{0.01})));
    CHECK((replayed(gs::laprop{}, gs::decoupled{0.01}) == replayed(patient<gs::laprop>{}, gs::decoupled{0.01})));
    CHECK((replayed(gs::adopt{}, gs::decoupled{0.01}) == replayed(patient<gs::adopt>{}, gs::decoupled{0.01})));
    CHECK((replayed(gs::qhadam{}, gs::decoupled{0.01}) == replayed(patient<gs::qhadam>{}, gs::decoupled{0.01})));
}
