#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <gradstep/config.hpp>
#include <gradstep/core/buffer.hpp>
#include <gradstep/core/step.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// The place of a policy in the list that its variant is made of, and itself.
template <class Variant> std::pair<std::size_t, void const*> place_of(Variant const& policy) {
    return {policy.index(), std::visit([](auto const& p) -> void const* { return &p; }, policy)};
}
template <class List> std::string name_in_list(std::size_t place) {
    std::string name;
    std::size_t i = 0;
    List::any([&]<class Policy>() { return i++ == place && (name = type_name<Policy>(), true); });
    return name;
}
inline std::string name_of_element(scalar storage, element_form form) {
    std::string const name = enumerator(storage);
    return form == element_form::plain ? name : enumerator(form) + "<" + name + ">";
}
// By which regularizer among those that are compiled the parts are meant.
inline std::size_t place_of_regularizer(std::span<runtime::regularizer_part const> parts) {
    if (parts.empty()) return runtime::compiled_regularizers::index_of<none>;
    if (parts.size() > 1) return runtime::any_compiled_regularizer;
    return std::visit(
        []<class Regularizer>(Regularizer const&) {
            return runtime::compiled_regularizers::index_of<Regularizer>; // their number, if it is none of them
        },
        parts[0]);
}

// "; there is ..." for those who asked for what there is not: the nearest that there is, in what differs least.
[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_combination(runtime::combination const& wanted,
                                                                      scalar storage, element_form form,
                                                                      std::size_t regularizer,
                                                                      std::string const& regularizer_name) {
    auto const rule = [](std::size_t i) { return name_in_list<rules>(i); };
    auto const average = [](std::size_t i) {
        return i == 0 ? std::string("no average") : "average " + name_in_list<averages>(i - 1);
    };
    auto const regularizer_of = [](std::size_t i) {
        return i == runtime::any_compiled_regularizer
                   ? std::string("any regularizer")
                   : "regularizer " + name_in_list<runtime::compiled_regularizers>(i);
    };
    std::string of_rule, of_regularizer, of_average, of_element;
    auto const add = [](std::string& to, std::string const& what) {
        if ((", " + to + ",").find(", " + what + ",") == to.npos) to += (to.empty() ? "" : ", ") + what;
    };
    bool same = false;
    for (runtime::compiled_group const* const group : runtime::compiled_groups())
        for (auto const& entry : group->entries) {
            bool const element = group->storage == storage && group->form == form;
            bool const other =
                entry.average == wanted.average &&
                (entry.regularizer == regularizer || entry.regularizer == runtime::any_compiled_regularizer);
            same = same || element;
            if (entry.rule == wanted.rule && element && entry.average == wanted.average)
                add(of_regularizer, regularizer_of(entry.regularizer));
            if (entry.rule == wanted.rule && element) add(of_average, average(entry.average));
            if (entry.rule == wanted.rule && other) add(of_element, name_of_element(group->storage, group->form));
            if (element && other) add(of_rule, rule(entry.rule));
        }
    std::string const what = rule(wanted.rule) + ", " + average(wanted.average) + ", " + regularizer_name + ", " +
                             name_of_element(storage, form) + ": this combination is not compiled into the program; ";
    if (!of_regularizer.empty()) fail<not_compiled_error>({what, "there is this rule with ", of_regularizer});
    if (!of_average.empty()) fail<not_compiled_error>({what, "there is this rule with ", of_average});
    if (!of_element.empty()) fail<not_compiled_error>({what, "there is this rule on elements of ", of_element});
    if (!of_rule.empty()) fail<not_compiled_error>({what, "on these elements there is ", of_rule});
    fail<not_compiled_error>({what, same ? "no rule has it on these elements" : "no rule works on these elements"});
}

// Policies as they are looked for. Throws not_compiled_error for several averages around each other.
[[gnu::noinline]] inline runtime::combination combination_of(configuration const& of) {
    auto const [rule, rule_policy] = place_of(of.rule);
    runtime::combination out{rule, rule_policy, 0, nullptr, of.regularizer.parts()};
    if (of.averages.size() > 1)
        fail<not_compiled_error>({"average: has ", of.averages.size(), " averages around each other: must be one"});
    if (!of.averages.empty()) {
        auto const [average, policy] = place_of(of.averages[0]);
        out.average = 1 + average;
        out.average_policy = policy;
    }
    return out;
}
// What is compiled for policies and an element. Throws not_compiled_error, naming the nearest that is.
[[gnu::noinline]] inline std::unique_ptr<runtime::compiled_updater> find_compiled(configuration const& of,
                                                                                  scalar storage, element_form form) {
    runtime::combination const wanted = combination_of(of);
    std::size_t const regularizer = place_of_regularizer(wanted.regularizers);
    runtime::compiled_entry const* best = nullptr;
    for (runtime::compiled_group const* const group : runtime::compiled_groups()) {
        if (group->storage != storage || group->form != form) continue;
        for (auto const& entry : group->entries) {
            if (entry.rule != wanted.rule || entry.average != wanted.average) continue;
            if (entry.regularizer == regularizer) return entry.make(wanted); // its own is faster
            if (entry.regularizer == runtime::any_compiled_regularizer) best = &entry;
        }
    }
    if (best != nullptr) return best->make(wanted);
    refuse_combination(wanted, storage, form, regularizer, "regularizer " + describe(of.regularizer));
}

} // namespace detail

/// A tensor of whatever elements, as any_updater takes it: the memory stays the caller's. `slots` in the order of the updater's,
/// of its types. Containers that are variables are referred to, as any_span has it.
struct any_tensor {
    any_span values, gradient;
    std::span<any_span const> slots;
    /// Names the tensor in stochastic rounding; of tensors of one step they have to differ.
    std::uint64_t id = 0;
};

/// An updater whose policies are chosen at run time: policies and a clock, all memory the caller's.
///
///     gs::any_updater optimizer{gs::read_configuration(text), gs::scalar::float32};
///     optimizer.initialize({w, {}, slots});
///     optimizer.next_step();
///     optimizer.apply({w, g, slots});         // any number of tensors, from any thread
///
/// The policies have to be among those that are compiled into the program (runtime/compile.hpp), and the step has the bits that
/// `gs::updater` of them has. What is looked up at run time is a call for each tensor.
class any_updater {
public:
    /// Throws value_error for a number that is missing or out of its range, and not_compiled_error, which names the nearest there
    /// is, where the policies are not compiled for elements of `storage` in that form.
    any_updater(configuration policies, scalar storage, element_form form = element_form::plain)
        : policies_(std::move(policies)), form_(form), compiled_(detail::find_compiled(policies_, storage, form)) {
        detail::check(policies_.schedule);
    }
    any_updater(any_updater const& other)
        : policies_(other.policies_), form_(other.form_), compiled_(other.compiled_->copy()), clock_(other.clock_),
          step_(other.step_), prepared_(other.prepared_) {}
    any_updater(any_updater&&) = default;
    /// Policies, clock and prepared step of another one.
    any_updater& operator=(any_updater other) noexcept {
        policies_ = std::move(other.policies_);
        form_ = other.form_;
        compiled_ = std::move(other.compiled_);
        clock_ = other.clock_;
        step_ = other.step_;
        prepared_ = other.prepared_;
        return *this;
    }

    /// The policies; how an element is kept, `form()`; the type of values and gradients, and of the state, in memory, `storage()` and
    /// `state_type()`.
    configuration const& policies() const { return policies_; }
    element_form form() const { return form_; }
    scalar storage() const { return facts().storage; }
    scalar state_type() const { return facts().state; }
    /// The state slots: their number, the name of slot i, `slot_name(i)`, and its length for a tensor of n elements, `slot_size(i, n)`:
    /// 1 where a row-wise rule keeps one number for the whole tensor.
    std::size_t slots() const { return facts().slots; }
    char const* slot_name(std::size_t i) const { return facts().slot_names[i]; }
    std::size_t slot_size(std::size_t i, std::size_t n) const { return facts().is_row_slot(i) ? 1 : n; }
    /// Whether the rule keeps an average of the weights.
    bool keeps_average() const { return facts().keeps_average; }
    /// One line for logs.
    std::string description() const {
        auto const of = [](auto const& policy) { return describe(policy); };
        std::string out = std::visit(of, policies_.rule);
        for (any_average const& one : policies_.averages) out += ", " + std::visit(of, one);
        return out + ", " + describe(policies_.regularizer) + ", " + describe(policies_.schedule) + ", " +
               facts().element + ", " + detail::text(facts().bytes_per_element) + " bytes an element";
    }

    /// For checkpoints, as updater::visit_policies.
    void visit_policies(detail::policy_visitor& to) const { detail::visit_policies(policies_, to); }

    /// Sets the state of a tensor to that of step 0. Throws as `apply`.
    void initialize(any_tensor const& tensor) const { compiled_->initialize(checked(tensor, false)); }
    /// Prepares the next step, as updater::next_step; the clock advances. Throws as that, with the clock where it was.
    void next_step(step_options const& options = {}, member_options const& own = {}) {
        gradstep::clock const now = detail::clock_before(clock_, options, own);
        double const rate = options.rate ? *options.rate : policies_.schedule(now);
        detail::check_rate(rate);
        step_info const next{now.step + 1, rate * options.rate_scale * own.rate_scale};
        compiled_->prepare(next, options);
        step_ = next;
        prepared_ = options.zero_gradient ? prepared::zeroes : prepared::yes;
        clock_ = {now.step + 1, now.samples + options.samples, now.epoch};
    }
    /// That step of one tensor. Throws value_error for other types than its own, size_error, buffer_error for memory that is
    /// missing, misaligned or overlaps, sequence_error without next_step; nothing is written then.
    void apply(any_tensor const& tensor) const { compiled_->run_whole(checked(tensor, true)); }

    /// Where the run stands; `seek` puts it back there, and the next call is then next_step. Throws value_error for a negative count.
    gradstep::clock clock() const { return clock_; }
    void seek(gradstep::clock at) {
        detail::check_counts(at);
        clock_ = at;
        prepared_ = prepared::no;
    }

    /// For those who own the memory (any_parameter): what is compiled; the step that is prepared, `prepared_step()`, and what its type
    /// says, `facts()`.
    runtime::compiled_updater const& compiled() const { return *compiled_; }
    runtime::compiled_updater& compiled() { return *compiled_; }
    step_info prepared_step() const { return step_; }
    runtime::updater_facts const& facts() const { return compiled_->facts(); }

    /// Throws sequence_error unless a step is prepared.
    void require_step(char const* call) const {
        if (prepared_ == prepared::no)
            detail::fail<sequence_error>({call, ": no step is prepared: call next_step first"});
    }
    /// Throws buffer_error or size_error unless the memory of a tensor is there, aligned, and apart from each other; `number` is
    /// the tensor's in a call of several.
    void require(runtime::erased_tensor const& x, bool has_gradient, std::size_t number = detail::only_tensor) const {
        runtime::updater_facts const& of = facts();
        std::size_t const storage_bytes = size_of(of.storage), state_bytes = size_of(of.state);
        std::array<detail::extent, 2 + runtime::most_slots> all;
        all.fill({"", nullptr, x.size, 0});
        auto const bytes = [](std::size_t n, std::size_t each) {
            constexpr std::size_t most = detail::extent::most_bytes;
            return n > most / each ? most + 1 : n * each;
        };
        all[0] = {"parameter", x.weight, x.size, bytes(x.size, storage_bytes)};
        all[1] = {"gradient", x.gradient, x.size, has_gradient ? bytes(x.size, storage_bytes) : 0};
        for (std::size_t i = 0; i < of.slots; ++i)
            all[2 + i] = {of.slot_names[i], x.slots[i], x.size, bytes(slot_size(i, x.size), state_bytes)};
        bool fit = x.size <= detail::extent::most_bytes / 8;
        for (std::size_t i = 0; i < 2 + of.slots; ++i) {
            fit = fit && !all[i].is_missing() && detail::is_aligned(all[i].data, i < 2 ? of.storage : of.state);
            for (std::size_t k = 0; k < i; ++k) fit = fit && !all[i].overlaps(all[k]);
        }
        if (!fit) refuse(all, number);
        if (auto const* const halved = std::get_if<dgc_momentum>(&policies_.rule))
            if (has_gradient && !halved->is_dense(clock_.step, x.size))
                detail::fail<sequence_error>({"apply: the step of a tensor of ", x.size,
                                              " elements is sparse: its halves are those of any_parameter"});
    }

private:
    enum class prepared { no, yes, zeroes };

    [[noreturn, gnu::noinline, gnu::cold]] void refuse(std::array<detail::extent, 2 + runtime::most_slots> const& all,
                                                       std::size_t number) const {
        for (std::size_t i = 0; i < 2 + facts().slots; ++i) {
            scalar const type = i < 2 ? facts().storage : facts().state;
            if (!detail::is_aligned(all[i].data, type))
                detail::refuse_alignment(detail::buffer_name(number, all[i].name), type);
        }
        detail::refuse(all, number);
    }
    runtime::erased_tensor checked(any_tensor const& given, bool has_gradient) const {
        runtime::updater_facts const& of = facts();
        any_span const values = given.values.now(), gradient = given.gradient.now();
        auto const require_type = [](char const* name, any_span const& x, scalar type, std::size_t size) {
            if (x.type != type)
                detail::fail<value_error>(
                    {name, " has elements of ", detail::enumerator(x.type), ": must be ", detail::enumerator(type)});
            if (x.size != size) detail::fail<size_error>({name, " has ", x.size, " elements: must be ", size});
        };
        auto const require_writable = [](char const* name, any_span const& x) {
            if (!x.is_writable) detail::fail<buffer_error>({name, " is const: parameter and state are written"});
        };
        require_type("parameter", values, of.storage, values.size);
        if (has_gradient) require_type("gradient", gradient, of.storage, values.size);
        if (has_gradient) require_writable("parameter", values);
        if (given.slots.size() != of.slots)
            detail::fail<size_error>({"slots: there are ", given.slots.size(), ": must be ", of.slots});
        runtime::erased_tensor out{const_cast<void*>(values.data), gradient.data, values.size, {}, given.id};
        for (std::size_t i = 0; i < of.slots; ++i) {
            any_span const slot = given.slots[i].now();
            require_type(of.slot_names[i], slot, of.state, slot_size(i, values.size));
            require_writable(of.slot_names[i], slot);
            out.slots[i] = const_cast<void*>(slot.data);
        }
        if (has_gradient) {
            require_step("apply");
            if (prepared_ == prepared::zeroes && !gradient.is_writable) detail::refuse_zero_gradient();
        }
        require(out, has_gradient);
        return out;
    }

    configuration policies_;
    element_form form_;
    std::unique_ptr<runtime::compiled_updater> compiled_;
    gradstep::clock clock_ = {};
    step_info step_ = {};
    prepared prepared_ = prepared::no;
};

namespace detail {
// Throws value_error unless two updaters differ in their numbers and regularizers alone.
inline void require_same_types(any_updater const& a, any_updater const& b) {
    auto const types_of = [](any_updater const& of) {
        runtime::combination const all = combination_of(of.policies());
        return std::array{all.rule, all.average, static_cast<std::size_t>(of.form())};
    };
    if (types_of(a) != types_of(b))
        fail<value_error>(
            "the rule, the average or the element is another one; expected other numbers of the same policies");
}
} // namespace detail

} // namespace GRADSTEP_ISA
} // namespace gradstep
