#include "all_rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

#include "rules.hpp"
#include "steps.hpp"

namespace {

using measure::interleave, measure::ratio, measure::streams;

constexpr gs::constant rate{1e-3};

/// The streams of 128 MiB and more are made when the first line asks for them.
class large_streams {
public:
    explicit large_streams(options const& o) : size_(o.large) {}
    template <class T = float> streams const& filled() {
        if (!made_) made_.emplace(size_);
        made_->template fill<T>();
        return *made_;
    }

private:
    std::size_t size_;
    std::optional<streams> made_;
};

/// A rule with its first setting. Those that look at the whole tensor read it twice, and have no
/// such limit.
template <class Rule> void against_the_limit(report& out, options const& o, large_streams& memory, Rule const& rule) {
    if constexpr (!gs::settled_rule<Rule>) {
        std::string const name = name_of(rule) + ", " + size_text(o.large) + ": step / memory limit";
        if (!out.wants(name)) return;
        auto const optimizer = gs::make_updater<float>(rule, rate);
        constexpr std::size_t touched = optimizer.slots - gs::detail::rare_slot_count<Rule>; // by its first step
        streams const& s = memory.filled();
        auto const t = interleave({composed(optimizer, s), traffic<touched>(s)}, o.large_rounds);
        out.line(name, ratio(t[0], t[1]), 1.07);
    }
}

/// Adam with an average of the weights against adam without one, whose time is brought to as many
/// bytes.
template <class Average>
void average_of_adam(report& out, options const& o, large_streams& memory, Average const& average) {
    gs::averaged const rule{gs::adam{}, average};
    std::string const name = name_of(rule) + ", " + size_text(o.large) + ": time a byte / adam's";
    if (!out.wants(name)) return;
    auto const with = gs::make_updater<float>(rule, rate);
    auto const without = gs::make_updater<float>(gs::adam{}, rate);
    streams const& s = memory.filled();
    auto const t = interleave({composed(with, s), composed(without, s)}, o.large_rounds);
    constexpr double fewer_bytes = static_cast<double>(without.bytes_per_element) / with.bytes_per_element;
    out.line(name, scaled(ratio(t[0], t[1]), fewer_bytes), 1.05);
}

/// A step by regularizers that are chosen at run time against one by their type: of tensors in
/// cache, and of large ones.
template <class Regularizer>
void chosen_at_run_time(report& out, options const& o, large_streams& memory, Regularizer const& regularizer) {
    auto const compare = [&](std::string const& size, auto const& streams_of, int rounds) {
        std::string const name = "adam, " + gs::describe(regularizer) + ", " + size + ": any_regularizer / its type";
        if (!out.wants(name)) return;
        auto const typed = gs::make_updater<float>(gs::adam{}, regularizer, rate);
        auto const chosen = gs::make_updater<float>(gs::adam{}, gs::any_regularizer(regularizer), rate);
        streams const& s = streams_of();
        auto const t = interleave({composed(chosen, s), composed(typed, s)}, rounds);
        out.line(name, ratio(t[0], t[1]));
    };
    streams const in_cache(4096);
    compare(
        size_text(in_cache.size()), [&]() -> auto& { return in_cache; }, o.rounds);
    compare(
        size_text(o.large), [&]() -> auto& { return memory.filled(); }, o.large_rounds);
}

/// What the random bits cost. There is no bound for float16, whose rounding to nearest is one
/// instruction.
template <class Storage>
void stochastic_rounding(report& out, options const& o, large_streams& memory, char const* storage_name,
                         std::optional<double> bound) {
    std::string const name =
        std::string("adam, ") + storage_name + ", " + size_text(o.large) + ": rounded at random / to nearest";
    if (!out.wants(name)) return;
    auto const at_random = gs::make_updater<gs::stochastic<Storage>>(gs::adam{}, rate);
    auto const to_nearest = gs::make_updater<Storage>(gs::adam{}, rate);
    streams const& s = memory.filled<Storage>();
    auto const t = interleave({composed<Storage>(at_random, s), composed<Storage>(to_nearest, s)}, o.large_rounds);
    out.line(name, ratio(t[0], t[1]), bound);
}

/// State in 8 bits against state in float, of parameters that own their memory: in a cache, where
/// decoding and encoding are all that is more, and in memory, where there are fewer bytes: with one
/// thread, and with two, which share the memory and not the arithmetic.
template <class Rule>
void state_in_8_bits(report& out, options const& o, large_streams& memory, Rule const& rule,
                     std::optional<double> bound = {}) {
    auto const compare = [&](std::string const& of, auto const& streams_of, auto const& backend, int rounds,
                             std::optional<double> at_most) {
        std::string const name = name_of(rule) + ", " + of + ": state in 8 bits / in float";
        if (!out.wants(name)) return;
        streams const& s = streams_of();
        std::span<float const> const initial(s.at(0), s.size()), gradient(s.at(1), s.size());
        gs::parameter blocks{gs::make_updater<gs::block8<float>>(rule, rate, backend), initial};
        gs::parameter floats{gs::make_updater<float>(rule, rate, backend), initial};
        auto const t = interleave({[&] { blocks.update(gradient); }, [&] { floats.update(gradient); }}, rounds);
        out.line(name, ratio(t[0], t[1]), at_most);
    };
    streams const small(64 * 1024);
    auto const in_cache = [&]() -> auto& { return small; };
    auto const in_memory = [&]() -> auto& { return memory.filled(); };
    gs::thread_pool pool(2);
    std::string const large = size_text(o.large);
    compare(size_text(small.size()), in_cache, gs::simd_backend{}, o.rounds, {});
    compare(large, in_memory, gs::simd_backend{}, o.large_rounds, bound);
    compare(large + ", two threads", in_memory, gs::simd_backend{pool}, o.large_rounds, {});
}

/// Tensors of one updater, which a step takes in one call; in memory as a gs::parameter has it.
template <class Updater> class flat_group {
    using buffer = typename Updater::backend_type::template buffer<float>;

public:
    explicit flat_group(Updater optimizer) : optimizer_(std::move(optimizer)) {}

    void add(std::span<float const> initial, std::span<float const> gradient) {
        auto& owned = memory_.emplace_back();
        owned.fill(buffer(initial.size()));
        owned[0].assign(initial.begin(), initial.end());
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            optimizer_.initialize(owned[0], owned[1 + I]...);
            tensors_.emplace_back(owned[0], gradient, owned[1 + I]...);
        }
        (std::make_index_sequence<Updater::slots>{});
    }
    void step() { optimizer_.next_step()(std::span<gs::slice<Updater> const>(tensors_)); }

    Updater const& optimizer() const { return optimizer_; }
    std::span<float const> values(std::size_t tensor) const { return memory_[tensor][0]; }

private:
    Updater optimizer_;
    std::deque<std::array<buffer, 1 + Updater::slots>> memory_;
    std::vector<gs::slice<Updater>> tensors_;
};

/// A thousand small parameters of five updaters, in turn, against one call for each updater.
void model_of_many(report& out, options const& o) {
    std::string const name = "model of 1000 tensors, 5 updaters / 5 flat calls";
    if (!out.wants(name)) return;
    constexpr std::size_t rounds_of_five = 200;
    auto const of = [](auto rule) { return flat_group(gs::make_updater<float>(rule, rate)); };
    auto flat = std::tuple(of(gs::adam{}), of(gs::adagrad{}), of(gs::momentum{}), of(gs::ftrl{}), of(gs::rmsprop{}));
    auto const each = [&](auto const& f) { std::apply([&](auto&... g) { (f(g), ...); }, flat); };

    streams const values(1100); // the same for all
    std::deque<std::string> names;
    std::deque<std::vector<float>> memory;
    std::vector<gs::named_gradient> gradients;
    gs::model net;
    for (std::size_t k = 0; k < rounds_of_five; ++k)
        each([&](auto& group) {
            std::size_t const n = 900 + names.size() * 7919 % 201; // 900 to 1100
            std::span<float const> const initial(values.at(0), n);
            names.push_back("layer" + std::to_string(names.size()) + ".weight");
            std::vector<float> const& gradient = memory.emplace_back(values.at(1), values.at(1) + n);
            gradients.emplace_back(names.back(), gradient);
            net.add(names.back(), gs::parameter{group.optimizer(), initial});
            group.add(initial, gradient);
        });

    auto const t = interleave({[&] { net.update(gradients); }, [&] { each([](auto& g) { g.step(); }); }}, o.rounds);

    std::size_t number = 0;
    each([&](auto& group) {
        using updater = std::remove_cvref_t<decltype(group.optimizer())>;
        if (!std::ranges::equal(net.get<updater>(names[number++]).values(), group.values(0)))
            throw std::runtime_error("a model and flat calls differ in their bits");
    });
    out.line(name, ratio(t[0], t[1]), 1.08);
}

} // namespace

void all_rules(report& out, options const& o) {
    large_streams memory(o);
    out.section("every rule in memory, one thread");
    for_each_line([&](auto const& entry) { against_the_limit(out, o, memory, entry.settings[0]); });

    out.section("averages, rounding, models, one thread");
    average_of_adam(out, o, memory, gs::ema{});
    average_of_adam(out, o, memory, gs::polyak{});
    average_of_adam(out, o, memory, gs::window{.rate = 0.15});
    chosen_at_run_time(out, o, memory, gs::none{});
    chosen_at_run_time(out, o, memory, gs::l2{1e-4});
    chosen_at_run_time(out, o, memory, gs::decoupled{1e-2});
    chosen_at_run_time(out, o, memory, gs::proximal{gs::l1{1e-4}});
    chosen_at_run_time(out, o, memory, gs::all_of{gs::clip_value{1}, gs::l2{1e-4}});
    stochastic_rounding<gs::bfloat16>(out, o, memory, "bfloat16", 1.08);
    stochastic_rounding<gs::float16>(out, o, memory, "float16", {});
    state_in_8_bits(out, o, memory, gs::adam{}, 0.75);
    state_in_8_bits(out, o, memory, gs::momentum{});
    state_in_8_bits(out, o, memory, gs::adagrad{});
    state_in_8_bits(out, o, memory, gs::lion{});
    model_of_many(out, o);
}
