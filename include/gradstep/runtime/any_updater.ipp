#pragma once
#include <map>
#include <mutex>

#include <gradstep/backends/forks.hpp>
#include <gradstep/backends/simd.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/number/reduce.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME std::string name_of_element(scalar storage, element_form form) {
    std::string const name = enumerator(storage);
    return form == element_form::plain ? name : enumerator(form) + "<" + name + ">";
}

GRADSTEP_DEFINE_RUNTIME std::size_t index_of_regularizer(std::span<runtime::regularizer_part const> parts) {
    if (parts.empty()) return runtime::compiled_regularizers::index_of<none>;
    if (parts.size() > 1) return runtime::any_compiled_regularizer;
    return std::visit(
        []<class Regularizer>(Regularizer const&) {
            // Their number, if it is not one of them.
            return runtime::compiled_regularizers::index_of<Regularizer>;
        },
        parts[0]);
}

GRADSTEP_DEFINE_RUNTIME void refuse_combination(runtime::combination const& wanted, scalar storage, element_form form,
                                                std::size_t regularizer, std::string const& regularizer_name) {
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
    bool same = false, of_rule_here = false, of_rule_in_float32 = false, in_float32 = false;
    for (runtime::compiled_group const* const group : runtime::compiled_groups())
        for (auto const& entry : group->entries) {
            bool const element = group->storage == storage && group->form == form;
            bool const other =
                entry.average == wanted.average &&
                (entry.regularizer == regularizer || entry.regularizer == runtime::any_compiled_regularizer);
            same = same || element;
            bool const is_float32 = group->storage == scalar::float32 && entry.rule == wanted.rule;
            of_rule_here = of_rule_here || (entry.rule == wanted.rule && element);
            of_rule_in_float32 = of_rule_in_float32 || is_float32;
            in_float32 = in_float32 || (is_float32 && other);
            if (entry.rule == wanted.rule && element && entry.average == wanted.average)
                add(of_regularizer, regularizer_of(entry.regularizer));
            if (entry.rule == wanted.rule && element) add(of_average, average(entry.average));
            if (entry.rule == wanted.rule && other) add(of_element, name_of_element(group->storage, group->form));
            if (element && other) add(of_rule, rule(entry.rule));
        }
    // numpy's dtype is float64 unless one is given: name the remedy.
    if (storage == scalar::float64 && (in_float32 || (of_rule_in_float32 && !of_rule_here)))
        fail<not_compiled_error>({"float64"},
                                 {rule(wanted.rule), ", ", average(wanted.average), ", ", regularizer_name,
                                  ": this combination is not compiled into the program"},
                                 {float32_text});
    std::string const expected = !of_regularizer.empty() ? "this rule with " + of_regularizer
                                 : !of_average.empty()   ? "this rule with " + of_average
                                 : !of_element.empty()   ? "this rule on elements of " + of_element
                                 : !of_rule.empty()      ? "on these elements " + of_rule
                                 : same                  ? "another average or regularizer on these elements"
                                                         : "other elements";
    fail<not_compiled_error>({rule(wanted.rule), ", ", average(wanted.average), ", ", regularizer_name, ", ",
                              name_of_element(storage, form)},
                             {"this combination is not compiled into the program"}, {expected});
}

GRADSTEP_DEFINE_RUNTIME runtime::combination combination_of(configuration const& of) {
    auto const [rule, rule_policy] = index_of_policy(of.rule);
    runtime::combination out{rule, rule_policy, 0, nullptr, of.regularizer.parts()};
    if (of.averages.size() > 1)
        fail<not_compiled_error>({"average"}, {"has ", of.averages.size(), " averages around each other"}, {"one"});
    if (!of.averages.empty()) {
        auto const [average, policy] = index_of_policy(of.averages[0]);
        out.average = 1 + average;
        out.average_policy = policy;
    }
    return out;
}

GRADSTEP_DEFINE_RUNTIME std::size_t find_nonfinite(scalar type, void const* gradient, std::size_t first,
                                                   std::size_t last) {
    return with_type(type, [&]<class S>() {
        using compute = std::conditional_t<is_half<S>, float, S>;
        using pack = simd_backend<>::pack<compute>;
        return first + detail::find_nonfinite<pack>(std::span(static_cast<S const*>(gradient) + first, last - first));
    });
}

GRADSTEP_DEFINE_RUNTIME std::shared_ptr<thread_pool> shared_pool(std::int64_t count) {
    if (count == 1) return nullptr;
    struct pools {
        std::mutex mutex = {};
        std::map<std::int64_t, std::weak_ptr<thread_pool>> by_count = {};
    };
    pools& all = of_this_process<pools>();
    std::lock_guard const lock(all.mutex);
    std::weak_ptr<thread_pool>& known = all.by_count[count];
    std::shared_ptr<thread_pool> pool = known.lock();
    if (pool == nullptr)
        known = pool = count == 0 ? std::make_shared<thread_pool>() : std::make_shared<thread_pool>(count);
    return pool;
}

GRADSTEP_DEFINE_RUNTIME std::unique_ptr<runtime::compiled_updater> find_compiled(configuration const& of,
                                                                                 scalar storage, element_form form) {
    runtime::combination const wanted = combination_of(of);
    std::size_t const regularizer = index_of_regularizer(wanted.regularizers);
    runtime::compiled_entry const* best = nullptr;
    for (runtime::compiled_group const* const group : runtime::compiled_groups()) {
        if (group->storage != storage || group->form != form) continue;
        for (auto const& entry : group->entries) {
            if (entry.rule != wanted.rule || entry.average != wanted.average) continue;
            // The specific combination is faster.
            if (entry.regularizer == regularizer) return entry.make(wanted);
            if (entry.regularizer == runtime::any_compiled_regularizer) best = &entry;
        }
    }
    if (best != nullptr) return best->make(wanted);
    refuse_combination(wanted, storage, form, regularizer, "regularizer " + describe(of.regularizer));
}

GRADSTEP_DEFINE_RUNTIME void require_limitable(norm_limit const& limit, scalar storage) {
    if (!limit.is_none() && is_integer(storage))
        fail<value_error>({"clip"}, {"integers hold counts, which no norm scales"}, {"none"});
}

GRADSTEP_DEFINE_RUNTIME any_updater updater_of_step(optimizer_configuration const& from, scalar storage) {
    element_form const form = from.options.element;
    auto const explain = [&](not_compiled_error const&) {
        if (!std::holds_alternative<clip_value>(from.options.clip)) return;
        any_updater const without_clip(from.policies, storage, form); // else the error of the policies themselves
        runtime::combination const wanted = combination_of(from.policies);
        std::string others;
        for (runtime::compiled_group const* const group : runtime::compiled_groups())
            for (auto const& entry : group->entries)
                if (group->storage == storage && group->form == form && entry.average == wanted.average &&
                    entry.regularizer == runtime::any_compiled_regularizer)
                    others += (others.empty() ? " or one of the rules " : ", ") + name_in_list<rules>(entry.rule);
        fail<not_compiled_error>(
            {"clip"},
            {"clip_value is not compiled for rule ", name_in_list<rules>(wanted.rule),
             from.policies.averages.empty() ? "" : " with an average", " on ", name_of_element(storage, form)},
            {"clip_norm, clip_global_norm or clip_adaptive,", others.empty() ? " or no clip" : others});
    };
    return rethrow_as<not_compiled_error>([&] { return any_updater(policies_of_step(from), storage, form); }, explain);
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME any_updater::any_updater(configuration policies, scalar storage, element_form form)
    : policies_(std::move(policies)), form_(form), compiled_(detail::find_compiled(policies_, storage, form)) {
    detail::check(policies_.schedule);
    if (policies_.scheduled.empty()) return;
    for (scheduled_number const& one : policies_.scheduled) detail::check(one.schedule);
    if (std::holds_alternative<dgc_momentum>(policies_.rule))
        detail::fail<value_error>({detail::in_quotes(policies_.scheduled[0].path)},
                                  {"follows a schedule, and dgc_momentum is chosen at run time"},
                                  {"a number, or gs::scheduled in C++"});
    whole_ = std::make_shared<configuration const>(policies_);
    move_to({});
}

GRADSTEP_DEFINE_RUNTIME any_updater::any_updater(optimizer_configuration const& from, scalar storage)
    : any_updater(detail::updater_of_step(from, storage)) {
    limit_ = detail::limit_of_step(from.options.clip);
    detail::require_limitable(limit_, storage);
    options_ = from.options;
    use_threads(options_.threads);
}

GRADSTEP_DEFINE_RUNTIME any_updater::any_updater(any_updater const& other)
    : policies_(other.policies_), limit_(other.limit_), form_(other.form_), compiled_(other.compiled_->copy()),
      options_(other.options_), pool_(other.pool_), clock_(other.clock_), step_(other.step_),
      step_options_(other.step_options_), prepared_(other.prepared_), tensors_(other.tensors_), decay_(other.decay_),
      whole_(other.whole_) {}

GRADSTEP_DEFINE_RUNTIME std::string any_updater::description() const {
    detail::policy_text out;
    detail::visit_parts(policies_, out);
    detail::visit_policy(out, policies_.schedule);
    return out.take() + ", " + facts().element + ", " + detail::text(facts().bytes_per_element) + " bytes an element";
}

GRADSTEP_DEFINE_RUNTIME void any_updater::next_step(step_options options, tensor_options const& own) {
    if (options.seed == 0) options.seed = static_cast<std::uint64_t>(options_.seed);
    detail::check_next(clock_.step, clock_.samples, options, own);
    gradstep::clock now = clock_;
    if (options.epoch) now.epoch = *options.epoch;
    double const rate = options.rate ? *options.rate : policies_.schedule(now);
    detail::check_rate(rate);
    runtime::erased_step next{now.step + 1, rate * options.rate_scale, now.state};
    std::optional<configuration> before;
    detail::rollback_guard moved([&] {
        if (!before) return;
        compiled_->change(detail::combination_of(*before));
        policies_ = std::move(*before);
    });
    if (whole_ != nullptr) before = move_to(now);
    if (!facts().clock_state_names.empty()) next.state = compiled_->advance(next);
    next.rate *= own.rate_scale;
    compiled_->prepare(next, options);
    moved.dismiss();
    step_ = next;
    step_options_ = options;
    prepared_ = options.zero_gradient ? prepared::zeroes : prepared::yes;
    tensors_ = {};
    clock_ = {now.step + 1, now.samples + options.samples, now.epoch, next.state};
    if (facts().is_model_wise) // the other entries are for the step alone
        for (std::size_t i = facts().clock_state_names.size(); i != clock_.state.size(); ++i) clock_.state[i] = 0;
}

GRADSTEP_DEFINE_RUNTIME void any_updater::seek(gradstep::clock at) {
    detail::check_clock(at, facts().clock_state_names, facts().clock_state_is_signed);
    clock_ = at;
    prepared_ = prepared::no;
}

// Sets the numbers that follow schedules, for the step after `now`. Returns the policies before.
GRADSTEP_DEFINE_RUNTIME configuration any_updater::move_to(gradstep::clock now) {
    configuration next = *whole_;
    double const largest = detail::with_type(storage(), []<class S>() {
        using compute = std::conditional_t<detail::is_half<S>, float, S>;
        return static_cast<double>(std::numeric_limits<compute>::max());
    });
    detail::move_to(next, now, largest);
    if (decay_ != 1) next = policies_with(std::move(next), decay_);
    compiled_->change(detail::combination_of(next));
    return std::exchange(policies_, std::move(next));
}

GRADSTEP_DEFINE_RUNTIME any_updater any_updater::with_decay(double factor) const {
    configuration scaled = policies_with(policies_, factor);
    std::vector<scheduled_number> scheduled = std::exchange(scaled.scheduled, {}); // `whole_` has all
    any_updater out(std::move(scaled), storage(), form_);
    out.policies_.scheduled = std::move(scheduled);
    out.decay_ = decay_ * factor;
    out.whole_ = whole_;
    out.options_ = options_;
    out.limit_ = limit_;
    out.pool_ = pool_;
    out.clock_ = clock_;
    return out;
}

GRADSTEP_DEFINE_RUNTIME std::uint64_t any_updater::hash_of_rule() const {
    return std::visit([](auto const& rule) { return detail::hash_of_rule(rule); }, policies_.rule);
}

GRADSTEP_DEFINE_RUNTIME void any_updater::require_step(char const* call) const {
    if (prepared_ == prepared::no) detail::fail<sequence_error>({call}, {"no step is prepared"}, {"next_step() first"});
    if (prepared_ == prepared::settled) detail::refuse_settled(step_.t);
}

GRADSTEP_DEFINE_RUNTIME bool any_updater::decays() const {
    return policies_.regularizer.without_decay().parts().size() != policies_.regularizer.parts().size();
}

GRADSTEP_DEFINE_RUNTIME configuration any_updater::policies_with(configuration of, double decay) {
    if (decay == 0 && !of.scheduled.empty()) of.scheduled = detail::schedules_without_decay(of);
    of.regularizer = decay == 0 ? of.regularizer.without_decay() : of.regularizer.decayed_by(decay);
    return of;
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME void require_same_types(any_updater const& a, any_updater const& b) {
    auto const types_of = [](any_updater const& of) {
        runtime::combination const all = combination_of(of.policies());
        return std::array{all.rule, all.average, static_cast<std::size_t>(of.form())};
    };
    if (types_of(a) != types_of(b))
        fail<value_error>({"change_numbers"}, {"the rule, the average or the element is another one"},
                          {"other numbers of the same policies"});
    require_same_constants(b.policies(), a.policies());
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
