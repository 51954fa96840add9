// Texts of configurations: what is read and written again reads equal, and an optimizer made of it
// trains or says why not.
#include <gradstep/gradstep.hpp>

#include <gradstep/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "fuzz.hpp"

namespace gs = gradstep;

namespace {

// What is read of a text, if it is taken.
template <class Policies, class Read> std::optional<Policies> round_trip(std::string_view text, Read const& read) {
    std::optional<Policies> out;
    if (!fuzz::takes([&] { out.emplace(read(text)); })) return out;
    std::string const once = gs::to_json(*out);
    fuzz::require(gs::to_json(read(once)) == once, "what is written reads otherwise");
    fuzz::require(gs::to_json(read(gs::to_json(*out, 2))) == once, "what is written in lines reads otherwise");
    return out;
}
template <class Policy> std::optional<Policy> policy(std::string_view text) {
    return round_trip<Policy>(text, [](std::string_view x) { return gs::read_policy<Policy>(x); });
}

// Steps at any time of a run.
void train(gs::any_regularizer const& regularizer, gs::any_schedule const& schedule) {
    constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    static constexpr std::array<gs::clock, 6> times{
        {{0, 0, 0}, {1, 32, 0}, {99, 100, 7}, {5'000'000'000, 7, largest}, {largest - 1, largest, 1}, {largest, 0, 0}}};
    std::array<float, 3> const values{0.5f, -0.0f, 1e30f}, gradient{-0.25f, 1e-30f, 3.0f};
    fuzz::takes([&] {
        auto const optimizer = gs::make_updater<float>(gs::sgd{}, regularizer, schedule, gs::serial_backend{});
        gs::configuration const same{gs::sgd{}, {}, regularizer, schedule};
        fuzz::require(gs::to_json(gs::read_configuration(gs::to_json(optimizer))) == gs::to_json(same),
                      "an updater is written otherwise than its policies");
        gs::parameter weights{optimizer, values};
        for (gs::clock const at : times) {
            weights.optimizer().seek(at);
            fuzz::takes([&] { weights.update(gradient, {.samples = 3}); });
        }
    });
}

} // namespace

std::vector<std::pair<std::string, std::string>> fuzz::written_seeds() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    auto const read = round_trip<gs::configuration>(text, [](std::string_view x) { return gs::read_configuration(x); });
    if (read) train(read->regularizer, read->schedule);
    auto const regularizer = policy<gs::any_regularizer>(text);
    auto const schedule = policy<gs::any_schedule>(text);
    if (regularizer) train(*regularizer, gs::constant{0.5});
    if (schedule) train({}, *schedule);
    bool const rule = policy<gs::any_rule>(text).has_value(), average = policy<gs::any_average>(text).has_value(),
               catch_up = policy<gs::any_catch_up>(text).has_value();
    all.count(read || regularizer || schedule || rule || average || catch_up);
    return 0;
}
