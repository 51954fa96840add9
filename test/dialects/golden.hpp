#pragma once
/// The numbers of other systems, which test/golden/dialects holds, against the rules that the
/// dialects give.
///
/// How far they may be apart is derived from the roundings, in the counting of support/oracle.hpp.
/// The rule's oracle says how far this library may be from the formula. A system does the formula's
/// operations in an order of its own and without fused multiply-adds, as `m + (g - m) * (1 - beta)`
/// for a moving mean, `lr * (m / c1 / (..))` for `(lr / c1) * m / (..)`, a reciprocal root and a
/// product for a division: at most one rounding more next to each of the formula's. So twice what
/// the oracle counts without fused multiply-adds bounds how far the system may be. Where a system
/// has the scalars of a step in the arithmetic of the element, one rounding of the host counts as
/// one of that arithmetic; and a power beta^t of a rounded beta, or a product of t of them, is off
/// by t roundings more, for which the two of the oracle's power are counted 1 + t / 2 times
/// (`powers`). Where even beta is rounded before 1 - beta is taken, the formula of the rounded
/// hyperparameters is the system's; the distance to it is added (`all`).
/// An oracle can give the weight in another form of the formula, which the systems compute
/// (`weight_elsewhere`): the error of that form is added.
/// A numerical derivative of the oracle carries the error of a weight, a gradient or a slot through
/// a step. Such errors come from weight decay before the step and, if the test follows a run, from
/// all earlier steps.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/all.hpp>

#include <support/catch.hpp>
#include <support/oracle.hpp>
#include <support/registry.hpp>

namespace golden {

using oracle::outcome;
using oracle::real;

/// A run of a system, or the input of all of them. The format is explained in
/// test/golden/dialects/common.py.
struct run {
    std::string name, dtype;
    std::map<std::string, double> options; // the rate among them
    std::map<std::string, std::vector<double>> vectors;

    std::vector<double> const& at(std::string const& slot, std::int64_t step) const {
        auto const found = vectors.find(slot + ' ' + std::to_string(step));
        if (found == vectors.end()) throw std::runtime_error(name + " has no " + slot + ' ' + std::to_string(step));
        return found->second;
    }
    double option(std::string const& key, double otherwise) const {
        auto const found = options.find(key);
        return found == options.end() ? otherwise : found->second;
    }
    /// The learning rate of step t, from 1. torch's Adagrad has lr_decay; its ASGD has lambd and
    /// alpha.
    double rate(std::int64_t t) const {
        if (options.count("lambd") == 1) {
            double const lr = options.at("lr"), decay = options.at("lambd") * lr * static_cast<double>(t - 1);
            return lr / std::pow(1 + decay, options.at("alpha"));
        }
        double const lr = options.at("lr"), first = t > 10 ? option("later_lr", lr) : lr;
        return first / (1 + static_cast<double>(t - 1) * option("lr_decay", 0));
    }
};

constexpr std::size_t size = 64;
constexpr std::int64_t steps = 20;

inline std::vector<double> numbers_of(std::string const& text, bool in_float) {
    std::vector<double> out;
    std::istringstream words(text);
    for (std::string word; words >> word;)
        out.push_back(in_float ? static_cast<double>(std::strtof(word.c_str(), nullptr))
                               : std::strtod(word.c_str(), nullptr));
    if (out.size() == 1) out.resize(size, out[0]);
    if (out.size() != size) throw std::runtime_error("not " + std::to_string(size) + " numbers: " + text);
    return out;
}

inline std::vector<run> read(std::string const& system) {
    std::string const path = GOLDEN_FOLDER "/dialects/" + system + ".txt";
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot open " + path);

    std::vector<run> runs;
    std::vector<std::string> numbers(1); // of each line, which count from 1
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string first, second, sign, rest;
        words >> first >> second >> sign;
        if (first == "case") {
            runs.push_back({second, sign, {}, {}});
            for (std::string word; words >> word;) {
                auto const equals = word.find('=');
                runs.back().options[word.substr(0, equals)] = std::strtod(word.c_str() + equals + 1, nullptr);
            }
        } else if (first != "#") {
            std::getline(words, rest);
            if (sign == "=") rest = numbers.at(std::stoul(rest));
            runs.back().vectors[first + ' ' + second] = numbers_of(rest, runs.back().dtype == "float32");
        }
        numbers.push_back(rest);
    }
    return runs;
}

/// Where a system has the scalars of a step in the arithmetic of the element. `points`: powers, and
/// of a schedule-free rule all scalars; it computes x from y and z, then the next x, and y from
/// that.
enum class scalars_in_element { none, powers, points, all };

template <class Rule> using oracle_of = typename decltype(oracle::line_of(Rule{}))::oracle;

/// The weight of an element and its slots.
template <std::size_t Slots> using numbers_of_element = std::array<outcome, 1 + Slots>;

/// An element before a step, and how far each of its numbers may be from those of the system.
template <std::size_t Slots> struct element {
    outcome gradient;
    numbers_of_element<Slots> numbers;
};
/// What becomes of it.
template <std::size_t Slots> struct moved_element {
    numbers_of_element<Slots> numbers;
    bool at_threshold;
};

template <std::size_t Slots> std::array<real, Slots> state_of(element<Slots> const& x) {
    std::array<real, Slots> out;
    std::transform(x.numbers.begin() + 1, x.numbers.end(), out.begin(), [](outcome y) { return y.value; });
    return out;
}
/// A formula without the errors that an element came with.
template <class Formula, std::size_t Slots>
moved_element<Slots> applied(Formula const& formula, element<Slots> const& x) {
    oracle::result<Slots> const to = formula(x.numbers[0].value, x.gradient.value, state_of(x));
    moved_element<Slots> out{{to.weight}, to.at_threshold};
    std::copy(to.state.begin(), to.state.end(), out.numbers.begin() + 1);
    return out;
}
/// With them: for each number that is not exact, how far the formula goes if it is off by its
/// error.
template <class Formula, std::size_t Slots>
moved_element<Slots> carried(Formula const& formula, element<Slots> const& x, real u) {
    auto const middle = applied(formula, x);
    auto out = middle;
    auto const carry = [&](auto const& number) {
        real const error = number(x).error;
        if (error == 0) return;
        numbers_of_element<Slots> furthest{};
        for (real const way : {-u, u}) {
            element<Slots> other = x;
            number(other).value += way * error;
            auto const there = applied(formula, other);
            for (std::size_t i = 0; i <= Slots; ++i) {
                real const distance = abs(there.numbers[i].value - middle.numbers[i].value);
                if (distance > furthest[i].value) furthest[i].value = distance;
            }
            out.at_threshold = out.at_threshold || there.at_threshold;
        }
        for (std::size_t i = 0; i <= Slots; ++i) out.numbers[i].error += furthest[i].value / u;
    };
    carry([](auto& y) -> auto& { return y.gradient; });
    for (std::size_t i = 0; i <= Slots; ++i) carry([i](auto& y) -> auto& { return y.numbers[i]; });
    return out;
}

/// A rule as its hyperparameters are in T.
template <class T, class Rule> Rule rounded(Rule rule) {
    [[maybe_unused]] auto const round = [&](auto const& m) {
        auto& number = rule.*m.at;
        using number_type = std::remove_reference_t<decltype(number)>;
        if constexpr (std::is_same_v<number_type, double>) number = static_cast<double>(static_cast<T>(number));
        else if constexpr (requires { number_type::hyperparameters; }) number = rounded<T>(number);
    };
    if constexpr (requires { Rule::hyperparameters; }) Rule::hyperparameters.for_each(round);
    return rule;
}

// A regularizer before the rule, here and there. A decay is w * (1 - lr * rate), of which the
// second factor and the product are rounded here, both or, in w - lr * (.. + rate * w), five times
// lr * rate * w there.
template <std::size_t Slots> element<Slots> regularized(gs::none, real, element<Slots> x) { return x; }
template <std::size_t Slots> element<Slots> regularized(gs::decoupled decay, real lr, element<Slots> x) {
    auto& [w, error] = x.numbers[0];
    real const pull = lr * decay.rate, rest = 1 - pull;
    error = error * rest + 4 * abs(w * rest) + 5 * abs(pull * w);
    w *= rest;
    return x;
}
// g + rate * w: here and there, the sum, the rate and, unless it is fused, the product are rounded.
template <std::size_t Slots> element<Slots> regularized(gs::l2 l2, real, element<Slots> x) {
    auto const& [w, error] = x.numbers[0];
    real const pull = l2.rate * w, sum = x.gradient.value + pull;
    x.gradient = {sum, l2.rate * error + 2 * abs(sum) + 4 * abs(pull)};
    return x;
}

/// Lets the formula of a row-wise rule see the whole tensor, and returns what becomes of its row.
/// `more` are the roundings of the sum beyond the library's.
template <class Formula, std::size_t Slots, std::size_t RowSlots>
std::array<outcome, RowSlots> finalize(Formula& formula, std::vector<element<Slots>> const& tensor,
                                       std::array<real, RowSlots> const& row, real more, real u) {
    auto const observed = [&](element<Slots> const& x) {
        return formula.accumulate(x.numbers[0].value, x.gradient.value, state_of(x));
    };
    decltype(observed(tensor[0])) sums{};
    for (std::size_t m = 0; m < sums.size(); ++m) {
        std::vector<outcome> parts;
        for (element<Slots> const& x : tensor) {
            element<Slots> other = x;
            other.gradient.value += u * x.gradient.error;
            outcome part = observed(x)[m];
            part.error += abs(observed(other)[m].value - part.value) / u;
            parts.push_back(part);
        }
        sums[m] = oracle::total(parts, 1, formula.at); // other systems sum in T
        sums[m].error += more * sums[m].value;
    }
    return formula.finalize(sums, static_cast<real>(tensor.size()), row);
}

/// One step of this library next to one of the system, in T.
template <class T, class Rule> class step_of_both {
public:
    static constexpr std::size_t slots = gs::slot_count<Rule>, row_slots = gs::row_slot_count<Rule>;
    static constexpr real u = std::numeric_limits<T>::epsilon() / 2;

    /// `after` is the clock after the step.
    step_of_both(Rule const& rule, gs::clock const& after, double rate, scalars_in_element scalars)
        : ours_(rule, oracle::step_in<T>(after.step, rate, after.state)), theirs_(rule, there(after, rate, scalars)),
          unsure_(rule, many(after, rate)) {
        [[maybe_unused]] std::int64_t const t = after.step;
        if constexpr (requires { rule.average.debias; })
            if (rule.average.debias) {
                after_ = of_correction(rule.average.decay, t, there(after, rate, scalars));
                before_ = of_correction(rule.average.decay, t - 1, there(after, rate, scalars));
            }
        if (scalars == scalars_in_element::all) held_.emplace(rounded<T>(rule), there(after, rate, scalars));
    }

    /// What the library makes of the row of the tensor, and how far the system may be from that.
    std::array<outcome, row_slots> see([[maybe_unused]] std::vector<element<slots>> const& tensor,
                                       [[maybe_unused]] std::array<real, row_slots> const& row) {
        std::array<outcome, row_slots> out{};
        if constexpr (gs::row_wise_rule<Rule>) {
            out = finalize(ours_, tensor, row, 0, u);
            auto const theirs = finalize(theirs_, tensor, row, static_cast<real>(tensor.size()), u);
            finalize(unsure_, tensor, row, 0, u);
            auto const held = held_ ? finalize(*held_, tensor, row, 0, u) : theirs;
            for (std::size_t i = 0; i < row_slots; ++i)
                out[i].error += 2 * theirs[i].error + abs(held[i].value - theirs[i].value) / u;
        }
        return out;
    }

    /// What the library makes of an element, and how far the system may be from that.
    moved_element<slots> operator()(element<slots> const& x) const {
        auto out = carried(ours_, x, u);
        auto const theirs = applied(theirs_, x), held = held_ ? applied(*held_, x) : theirs;
        for (std::size_t i = 0; i <= slots; ++i)
            out.numbers[i].error +=
                2 * theirs.numbers[i].error + abs(held.numbers[i].value - theirs.numbers[i].value) / u;
        if constexpr (requires { theirs_.weight_elsewhere(real(), real(), state_of(x)); })
            out.numbers[0].error += theirs_.weight_elsewhere(x.numbers[0].value, x.gradient.value, state_of(x)).error;
        out.at_threshold = out.at_threshold || applied(unsure_, x).at_threshold;
        out.numbers.back().error += after_ * abs(out.numbers.back().value) + before_ * abs(x.numbers.back().value);
        return out;
    }

private:
    // An average that the system divides by 1 - decay^t where it is read, and gradstep by a
    // quotient of two of these as it goes: the relative error of the correction and of the
    // division, of which the average before a step has its own.
    static real of_correction(real decay, std::int64_t t, oracle::now const& at) {
        if (t == 0) return 0;
        outcome const c = oracle::bias(decay, t);
        return oracle::relative(at.held(c).error, c.value) + 1;
    }
    static oracle::now there(gs::clock const& after, double rate, scalars_in_element scalars) {
        oracle::now at = oracle::step_in<T>(after.step, rate, after.state);
        at.product = 1;
        if (scalars != scalars_in_element::none) at.host = 1 + static_cast<real>(after.step) / 2;
        return at;
    }
    // With so many roundings a sign that either side may take for the other is not compared.
    static oracle::now many(gs::clock const& after, double rate) {
        oracle::now at = oracle::step_in<T>(after.step, rate, after.state);
        at.product = 8;
        return at;
    }

    oracle_of<Rule> ours_, theirs_, unsure_;
    std::optional<oracle_of<Rule>> held_;
    real after_ = 0, before_ = 0;
};

struct findings {
    std::size_t compared = 0, at_threshold = 0;
    real worst = 0; // distance / allowed
    std::string first_miss;
};

/// A tensor under the library's updater, with the errors that its numbers have by now.
template <class T, class Rule, class Regularizer> class follower {
public:
    follower(Rule rule, Regularizer regularizer, scalars_in_element scalars, run const& theirs, run const& input)
        : updater_(gs::make_updater<T>(rule, regularizer, gs::constant{1}, gs::serial_backend{})), scalars_(scalars),
          theirs_(theirs), input_(input) {
        load(0);
        on_buffers([&](auto& w, auto&... s) { updater_.initialize(w, s...); });
        for (std::size_t i = 0; i < buffers_.size(); ++i) {
            INFO(names[i]);
            CHECK(buffers_[i] == of_system(i, 0));
        }
    }

    /// The system's numbers after `step` steps.
    void load(std::int64_t step) {
        for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i] = of_system(i, step);
        elements_.assign(size, {});
        updater_.seek(clock_after(step));
    }

    void take_step() {
        std::int64_t const t = updater_.clock().step + 1;
        auto const gradient = in_t(input_.at("g", t));
        double const rate = theirs_.rate(t);

        std::vector<element<slots>> tensor(size);
        for (std::size_t i = 0; i < size; ++i) {
            tensor[i].gradient = oracle::exact(gradient[i]);
            for (std::size_t k = 0; k <= slots; ++k)
                tensor[i].numbers[k] = {buffers_[k][i], elements_[i].numbers[k].error};
            tensor[i] = regularized(updater_.regularizer(), rate, tensor[i]);
        }
        updater ahead = updater_;
        ahead.next_step({.rate = rate});
        step_of_both<T, Rule> both(updater_.rule(), ahead.clock(), rate, scalars_);
        std::array<real, row_slots> row;
        for (std::size_t k = 0; k < row_slots; ++k) row[k] = buffers_[1 + slots + k][0];
        row_ = both.see(tensor, row);
        for (std::size_t i = 0; i < size; ++i) {
            bool const was_at_threshold = elements_[i].at_threshold;
            elements_[i] = both(tensor[i]);
            elements_[i].at_threshold |= was_at_threshold;
            if constexpr (gs::detail::keeps_clock_state<Rule>)
                if (scalars_ == scalars_in_element::points)
                    elements_[i].numbers[0].error += of_points(i, ahead.clock().state[0]);
        }

        auto const step = updater_.next_step({.rate = rate});
        on_buffers([&](auto& w, auto&... s) { step(w, gradient, s...); });
    }

    void compare(findings& found) const {
        for (std::size_t k = 0; k <= slots; ++k) {
            auto const theirs = of_system(k, updater_.clock().step);
            for (std::size_t i = 0; i < size; ++i) {
                if (elements_[i].at_threshold) ++found.at_threshold;
                else compare(names[k], i, buffers_[k][i], theirs[i], elements_[i].numbers[k].error, found);
            }
        }
        for (std::size_t k = 1 + slots; k < buffers_.size(); ++k) {
            auto const theirs = of_system(k, updater_.clock().step);
            compare(names[k], 0, buffers_[k][0], theirs[0], row_[k - 1 - slots].error, found);
        }
        if constexpr (has_sums)
            if (theirs_.vectors.count("average " + std::to_string(updater_.clock().step)) == 1) compare_average(found);
        if constexpr (gs::detail::keeps_clock_state<Rule>) {
            compare_clock(found);
            compare_point(found);
        }
    }

private:
    using updater = decltype(gs::make_updater<T>(std::declval<Rule>(), std::declval<Regularizer>(), gs::constant{1},
                                                 gs::serial_backend{}));
    using numbers = std::vector<T>;
    static constexpr std::size_t slots = gs::slot_count<Rule>, row_slots = gs::row_slot_count<Rule>;
    static constexpr bool has_sums = requires(Rule rule) { rule.average.rate; };
    static constexpr auto names = [] {
        std::array<char const*, 1 + slots + row_slots> out{"w"};
        std::copy(Rule::state_names.begin(), Rule::state_names.end(), out.begin() + 1);
        if constexpr (row_slots != 0)
            std::copy(Rule::row_state_names.begin(), Rule::row_state_names.end(), out.begin() + 1 + slots);
        return out;
    }();

    static numbers in_t(std::vector<double> const& x) {
        numbers out(x.size());
        std::transform(x.begin(), x.end(), out.begin(), [](double y) { return static_cast<T>(y); });
        return out;
    }
    // A slot with one number for the tensor is a vector of that number there.
    numbers of_system(std::size_t slot, std::int64_t step) const {
        auto out = in_t(slot == 0 && step == 0 ? input_.at("w", 0) : theirs_.at(names[slot], step));
        if (slot > slots) out.resize(1);
        return out;
    }
    template <class F> void on_buffers(F const& f) { std::apply(f, buffers_); }

    // The clock after the first steps, at the system's rates.
    gs::clock clock_after(std::int64_t step) const {
        updater by = updater_;
        by.seek({});
        for (std::int64_t t = 1; t <= step; ++t) by.next_step({.rate = theirs_.rate(t)});
        return by.clock();
    }
    // What a rule keeps in the clock. Each step adds a product of two powers, of which one is good
    // to two roundings of double, on either side; the file has the sums in T.
    void compare_clock(findings& found) const {
        std::int64_t const t = updater_.clock().step;
        for (std::size_t i = 0; i != Rule::clock_state_names.size(); ++i) {
            double ours = updater_.clock().state[i], theirs = theirs_.at(Rule::clock_state_names[i], t)[0];
            if (ours == std::numeric_limits<double>::min()) ours = 0; // a highest rate of 0
            real const in_double = 12 * static_cast<real>(t) * oracle::step_in<T>(t, 0).host;
            // In T, a power is good to four roundings, and each sum rounds once.
            real const in_element = scalars_ == scalars_in_element::points && i == 0 ? static_cast<real>(t) + 4 : 0;
            compare(Rule::clock_state_names[i], 0, static_cast<T>(ours), static_cast<T>(theirs),
                    (in_double + in_element + 2) * abs(ours), found);
        }
    }
    // The average of a schedule-free rule, y + b * (z - y): b is 1 - 1 / beta.
    void compare_point(findings& found) const {
        std::int64_t const t = updater_.clock().step;
        numbers ours(size);
        auto buffers = buffers_;
        std::apply([&](auto&... buffer) { updater_.average(ours, buffer...); }, buffers);
        auto const theirs = in_t(theirs_.at("average", t));
        oracle::now at = oracle::step_in<T>(t, 0);
        at.product = 1;
        outcome const b = at.held(updater_.rule().template read<double>(t).beyond);
        for (std::size_t i = 0; i < size; ++i) {
            outcome const y{buffers_[0][i], 0}, z{buffers_[1][i], 0};
            real const apart = abs(1 - b.value) * elements_[i].numbers[0].error + // of y and z
                               abs(b.value) * elements_[i].numbers[1].error;
            real const again = scalars_ == scalars_in_element::points ? of_point(b.value, y.value, z.value) : 0;
            if (elements_[i].at_threshold) ++found.at_threshold;
            else compare("average", i, ours[i], theirs[i], apart + 2 * at.fma(b, z - y, y).error + again, found);
        }
    }

    // The roundings of x = (y - (1 - beta) z) / beta, with b = 1 - 1 / beta: of the two scalars,
    // the product, the difference, and the quotient.
    static real of_point(real b, real y, real z) { return 2 * abs(b * z) + 3 * abs(y + b * (z - y)); }
    // And of a step from there: x' = (1 - c) x + c z', y' = beta x' + (1 - beta) z', w + (y' - w).
    // c is good to t + 4 roundings in its sum, four in its power, and one in the quotient. `W` is
    // the sum of the weights after the step.
    real of_points(std::size_t i, double W) const {
        real const b = updater_.rule().template read<double>(1).beyond, beta = 1 / (1 - b);
        real const t = static_cast<real>(updater_.clock().step + 1);
        real const c = 1 - real(updater_.clock().state[0]) / real(W);
        real const y = buffers_[0][i], z = buffers_[1][i], x = y + b * (z - y);
        real const next_y = elements_[i].numbers[0].value, next_z = elements_[i].numbers[1].value;
        real const next_x = (1 - c) * x + c * next_z;
        real const of_x =
            (1 - c) * of_point(b, y, z) + 3 * (1 - c) * abs(x) + 3 * c * abs(next_z) + c * (t + 9) * abs(next_z - x);
        return beta * of_x + 3 * beta * abs(next_x) + 3 * (1 - beta) * abs(next_z) + 2 * abs(next_y) + abs(y);
    }

    // The mean of three sums, which both sides add and divide in one order.
    void compare_average(findings& found) const {
        std::int64_t const t = updater_.clock().step;
        numbers ours(size);
        auto buffers = buffers_;
        std::apply([&](auto&... buffer) { updater_.average(ours, buffer...); }, buffers);
        auto const theirs = in_t(theirs_.at("average", t));
        window_counters counters;
        while (counters.num_updates < t) counters.count(updater_.rule().average);
        auto const held = static_cast<real>(counters.num_accumulates + counters.old_num_accumulates);
        for (std::size_t i = 0; i < size; ++i) {
            auto const sum = [&](std::size_t k) { return outcome{buffers_[k][i], elements_[i].numbers[k].error}; };
            outcome const mean = (sum(1) + sum(2) + sum(3)) / oracle::exact(held);
            compare("average", i, ours[i], theirs[i], 2 * mean.error, found);
        }
    }

    void compare(char const* name, std::size_t i, T ours, T theirs, real error, findings& found) const {
        constexpr real slack = 1.01L; // oracle.hpp
        real const distance = abs(real(ours) - real(theirs)), allowed = slack * step_of_both<T, Rule>::u * error;
        ++found.compared;
        if (distance != 0) found.worst = std::max(found.worst, distance / allowed);
        if (distance <= allowed || !found.first_miss.empty()) return;
        std::ostringstream out;
        out.precision(17);
        out << name << '[' << i << "] after step " << updater_.clock().step << ": " << ours << ", theirs " << theirs
            << ", which may be " << static_cast<double>(allowed) << " apart";
        found.first_miss = out.str();
    }

    updater updater_;
    scalars_in_element scalars_;
    run const& theirs_;
    run const& input_;
    std::array<numbers, 1 + slots + row_slots> buffers_; // the weights, then the slots
    std::array<outcome, row_slots> row_{};
    std::vector<moved_element<slots>> elements_;
};

/// The runs of a system. Each function of its dialect is followed once, in float and in double.
class system {
public:
    system(std::string const& name, scalars_in_element scalars)
        : runs_(read(name)), inputs_(read("input")), scalars_(scalars) {}

    /// Where the system has the scalars of the functions that follow from here on.
    void has_scalars(scalars_in_element here) { scalars_ = here; }

    /// `make` is a function of the dialect, whose arguments are called as the system's options.
    /// `weight_decay` of a run goes to the regularizer. The first run of a function has the
    /// system's defaults.
    template <class Regularizer = gs::none, class Rule, class Arguments>
    void follow(std::string const& function, Rule (*make)(Arguments)) {
        bool is_first = true;
        std::set<std::string> given;
        for (run const* theirs : runs_of(function)) {
            Arguments arguments{};
            std::set<std::string> known{"lr", "later_lr", "lr_decay"};
            Arguments::hyperparameters.for_each([&](auto const& m) {
                auto& argument = arguments.*m.at;
                using argument_type = std::remove_reference_t<decltype(argument)>;
                argument = static_cast<argument_type>(theirs->option(m.name, static_cast<double>(argument)));
                known.insert(m.name);
                if (theirs->options.count(m.name) == 1) given.insert(m.name);
            });
            if (is_first) CHECK(gs::describe(make(arguments)) == gs::describe(make({})));
            is_first = false;
            follow_one<Regularizer>(make(arguments), *theirs, known);
        }
        INFO(function);
        Arguments::hyperparameters.for_each([&](auto const& m) { CHECK(given.count(m.name) == 1); });
    }
    template <class Regularizer = gs::none, class Rule> void follow(std::string const& function, Rule (*make)()) {
        for (run const* theirs : runs_of(function))
            follow_one<Regularizer>(make(), *theirs, {"lr", "later_lr", "lr_decay"});
    }

    /// The functions of the runs that were not followed.
    std::set<std::string> left() const {
        std::set<std::string> out;
        for (run const& one : runs_) out.insert(one.name);
        for (std::string const& name : followed_) out.erase(name);
        return out;
    }

private:
    std::vector<run const*> runs_of(std::string const& function) {
        followed_.insert(function);
        std::vector<run const*> out;
        for (run const& one : runs_)
            if (one.name == function) out.push_back(&one);
        CHECK(out.size() >= 2);
        return out;
    }

    template <class Regularizer, class Rule>
    void follow_one(Rule const& rule, run const& theirs, std::set<std::string> known) const {
        Regularizer regularizer;
        if constexpr (!std::is_same_v<Regularizer, gs::none>) {
            regularizer.rate = theirs.option("weight_decay", theirs.option("lambd", 0)); // lambd of torch's ASGD
            known.insert("weight_decay");
        }
        std::string text = theirs.dtype;
        for (auto const& [name, value] : theirs.options) {
            text += ' ' + name + '=' + std::to_string(value);
            CHECK(known.count(name) == 1);
        }
        INFO(theirs.name << ' ' << text << ": " << gs::describe(rule));
        if (theirs.dtype == "float32") follow_in<float>(rule, regularizer, theirs);
        else follow_in<double>(rule, regularizer, theirs);
    }

    template <class T, class Rule, class Regularizer>
    void follow_in(Rule const& rule, Regularizer regularizer, run const& theirs) const {
        auto const input =
            std::find_if(inputs_.begin(), inputs_.end(), [&](run const& one) { return one.dtype == theirs.dtype; });
        follower<T, Rule, Regularizer> here(rule, regularizer, scalars_, theirs, *input);
        findings single, whole;
        for (std::int64_t const from : {0, 1, 19}) {
            here.load(from);
            here.take_step();
            here.compare(single);
        }
        check("single steps", single);
        // In float a run may come to a sign or a maximum differently; norms carry the error of each
        // element to all.
        if constexpr (std::is_same_v<T, double> && !gs::row_wise_rule<Rule>) {
            here.load(0);
            for (std::int64_t t = 1; t <= steps; ++t) {
                here.take_step();
                if (t <= 2 || t >= steps - 1) here.compare(whole);
            }
            check("the whole run", whole);
        }
    }

    static void check(std::string const& what, findings const& found) {
        INFO(what << ": " << found.compared << " compared, " << found.at_threshold << " at a threshold, "
                  << static_cast<double>(found.worst) << " of the allowed distance");
        CHECK(found.first_miss == "");
        CHECK(found.at_threshold * 50 <= found.compared);
    }

    std::vector<run> runs_, inputs_;
    scalars_in_element scalars_;
    std::set<std::string> followed_;
};

} // namespace golden
