#pragma once
#include <map>
#include <mutex>

#include <gradstep/backends/simd.hpp>
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/model/detail/norms.hpp>
#include <gradstep/model/detail/norms.ipp>
#include <gradstep/runtime/detail/erased_gradient.hpp>
#include <gradstep/step/step.hpp>

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
            bool const is_float32 =
                group->storage == scalar::float32 && group->form == form && entry.rule == wanted.rule;
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

GRADSTEP_DEFINE_RUNTIME void refuse_blocks(char const* call, char const* expected) {
    fail<value_error>({call}, {"\"element\": \"block8\" keeps the state in blocks of 256 elements"}, {expected});
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

// Throws nonfinite_error for element `at` of a gradient.
[[noreturn, gnu::cold]] inline void refuse_nonfinite(std::size_t number, std::size_t at) {
    fail<nonfinite_error>({buffer_name(number, "gradient")},
                          {"is not finite at element ", at, ", and on_nonfinite is raise: no step is taken"});
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME any_updater::any_updater(configuration policies, scalar storage, element_form form)
    : compiled_(detail::find_compiled(policies, storage, form)), form_(form), policies_(std::move(policies)) {
    use(*compiled_);
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
    : stepper(other), compiled_(other.compiled_->copy()), clock_(other.clock_), step_(other.step_),
      step_options_(other.step_options_), prepared_(other.prepared_), form_(other.form_), tensors_(other.tensors_),
      whole_(other.whole_), options_(other.options_), policies_(other.policies_), limit_(other.limit_),
      pool_(other.pool_), decay_(other.decay_) {
    use(*compiled_);
}

GRADSTEP_DEFINE_RUNTIME std::string any_updater::description() const {
    detail::policy_text out;
    detail::visit_parts(policies_, out);
    detail::visit_policy(out, policies_.schedule);
    return out.take() + ", " + facts().element + ", " + detail::text(facts().bytes_per_element) + " bytes an element";
}

GRADSTEP_DEFINE_RUNTIME void any_updater::next_step(step_options const& given, tensor_options const& own,
                                                    any_updater const* like) {
    step_options options = given;
    if (options.seed == 0) options.seed = static_cast<std::uint64_t>(options_.seed);
    if (like != nullptr && (like->step_.t - 1 != clock_.step || like->step_options_ != options ||
                            like->clock_.samples - options.samples != clock_.samples))
        like = nullptr;
    if (like == nullptr) detail::check_next(clock_.step, clock_.samples, options, own);
    gradstep::clock now = clock_;
    if (options.epoch) now.epoch = *options.epoch;
    double const rate = options.rate ? *options.rate : policies_.schedule(now);
    detail::check_rate(rate);
    runtime::erased_step next{now.step + 1, rate * options.rate_scale, now.state};
    // Not an optional, which every step would fill with zeros.
    std::unique_ptr<configuration> const before(whole_ == nullptr ? nullptr : new configuration(move_to(now)));
    detail::rollback_guard moved([&] {
        if (before == nullptr) return;
        compiled_->change(detail::combination_of(*before));
        policies_ = std::move(*before);
    });
    if (!facts().clock_state_names.empty()) next.state = compiled_->advance(next);
    next.rate *= own.rate_scale;
    bool const is_same = like != nullptr && std::memcmp(&like->step_, &next, sizeof next) == 0; // bit for bit
    compiled_->prepare(next, options, is_same ? like->compiled_.get() : nullptr);
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

template <class Pointers>
void any_updater::run_all(Pointers const& all, detail::executor_reference const* threads) const {
    if (facts().is_whole()) {
        for (tensor_of_call const* const one : all) one->by->run_whole(one->memory);
        return;
    }
    detail::for_each_block_of(all, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
        if (first == 0 && last == all[i]->size()) all[i]->by->run_whole(all[i]->memory);
        else all[i]->by->run(all[i]->memory, first, last);
    });
}

GRADSTEP_DEFINE_RUNTIME void any_updater::settle(std::span<tensor_of_call const* const> all,
                                                 detail::executor_reference const* threads) const {
    std::vector<std::size_t> first_blocks;
    std::size_t blocks = 0;
    for (tensor_of_call const* const one : all) {
        first_blocks.push_back(blocks);
        blocks += detail::block_count(one->size());
    }
    std::vector<detail::model_sums> each(blocks);
    prepared_ = prepared::settled;
    detail::for_each_block_of(all, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
        for (std::size_t b = first / detail::block_size; b < detail::block_count(last); ++b)
            each[first_blocks[i] + b] = all[i]->by->sums_of_block(all[i]->memory, b);
    });
    detail::model_sums sums{};
    for (std::size_t i = 0; i < all.size(); ++i)
        detail::add_sums(
            sums, detail::total_of(std::span(each).subspan(first_blocks[i], detail::block_count(all[i]->size()))));
    clock_state const after = compiled_->settled(sums);
    clock_.state = compiled_->finalize(after);
    for (tensor_of_call const* const one : all) one->by->finalize(after);
}

GRADSTEP_DEFINE_RUNTIME void any_updater::settle(std::span<runtime::erased_tensor const> tensors,
                                                 detail::executor_reference const* threads) const {
    std::vector<tensor_of_call> all;
    std::vector<tensor_of_call const*> pointers;
    for (runtime::erased_tensor const& x : tensors) all.push_back({x, compiled_.get()});
    for (tensor_of_call const& x : all) pointers.push_back(&x);
    settle(pointers, threads);
}

GRADSTEP_DEFINE_RUNTIME void any_updater::settle(std::span<any_updater* const> by,
                                                 std::span<runtime::erased_tensor const> tensors,
                                                 detail::executor_reference const* threads) {
    if (by.empty()) return;
    any_updater const& first = *by[0];
    std::vector<tensor_of_call> all;
    std::vector<tensor_of_call const*> pointers;
    for (std::size_t k = 0; k < by.size(); ++k) {
        any_updater const& own = *by[k];
        auto const name = [&](char const* what) { return detail::buffer_name(k, what); };
        if (!own.limit_.is_none())
            detail::fail<value_error>({name("clip")},
                                      {"limits a norm, and the tensors of several updaters are settled together"},
                                      {"no clip; give gradient_scale to next_step"});
        if (own.hash_of_rule() != first.hash_of_rule())
            detail::fail<value_error>({name("rule")}, {"differs from the rule of tensor 0, with which it is settled"},
                                      {"the same rule with the same numbers"});
        if (own.step_.t != first.step_.t || own.clock_.state != first.clock_.state)
            detail::fail<value_error>({name("clock")},
                                      {"step = ", own.step_.t, " and its state differ from those of tensor 0, step = ",
                                       first.step_.t, ", with which it is settled"},
                                      {"the same clock; seek it"});
        if (own.step_.state != first.step_.state)
            detail::fail<value_error>({name("rate")},
                                      {"differs from the learning rate of tensor 0, and the rule, which is settled "
                                       "once for both, depends on it"},
                                      {"the same rate"});
        all.push_back({tensors[k], own.compiled_.get()});
    }
    for (tensor_of_call const& x : all) pointers.push_back(&x);
    first.settle(pointers, threads);
    for (any_updater* const one : by) {
        one->clock_.state = first.clock_.state;
        one->prepared_ = prepared::settled;
    }
}

GRADSTEP_DEFINE_RUNTIME std::optional<nonfinite_element> any_updater::apply(any_tensor const& tensor) const {
    detail::executor_reference const threads = own_threads();
    if (tensor.rate_scale != 1 || tensor.decay != 1 || tensor.step || !applies_directly())
        return apply_all({&tensor, 1}, &threads, detail::only_tensor);
    runtime::erased_tensor const x = checked(tensor, true);
    compiled_->require_step(x, detail::only_tensor);
    return apply_checked(x, &threads, !tensor.id);
}

GRADSTEP_DEFINE_RUNTIME std::optional<nonfinite_element> any_updater::apply(std::span<any_tensor const> tensors) const {
    detail::executor_reference const threads = own_threads();
    return apply_all(tensors, &threads, 0);
}

GRADSTEP_DEFINE_RUNTIME void any_updater::require(runtime::erased_tensor const& x, bool has_gradient,
                                                  std::size_t number) const {
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
        all[2 + i] = {of.slot_names[i], x.slots[i], x.size, bytes(slot_size(i, x.size, x.shape), state_bytes)};
    bool fit = x.size <= detail::extent::most_bytes / 8;
    for (std::size_t i = 0; i < 2 + of.slots; ++i) {
        fit = fit && !all[i].is_missing() && detail::is_aligned(all[i].data, i < 2 ? of.storage : of.state);
        for (std::size_t k = 0; k < i; ++k) fit = fit && !all[i].overlaps(all[k]);
    }
    if (!fit) refuse(all, number);
    if (auto const* const halved = std::get_if<dgc_momentum>(&policies_.rule))
        if (has_gradient && !halved->is_dense(clock_.step, x.size))
            detail::fail<sequence_error>({"apply"}, {"the step of a tensor of ", x.size, " elements is sparse"},
                                         {"compress() and apply() of any_parameter"});
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor any_updater::checked_memory(any_tensor const& x) const {
    if (!x.values.is_writable)
        detail::fail<buffer_error>({"parameter"}, {"is const, and a step writes parameter and state"},
                                   {"writable memory"});
    return checked(x, false);
}

GRADSTEP_DEFINE_RUNTIME std::size_t any_updater::refused_element(runtime::erased_tensor const& x,
                                                                 std::size_t number) const {
    if (options_.on_nonfinite == nonfinite::propagate) return x.size;
    std::size_t const found = compiled_->find_nonfinite(x.gradient, 0, x.size);
    if (found != x.size && options_.on_nonfinite == nonfinite::raise) detail::refuse_nonfinite(number, found);
    return found;
}

template <class Pointers>
void any_updater::find_nonfinite(Pointers const& all, detail::executor_reference const* threads, std::size_t number,
                                 std::atomic<std::size_t>* found) const {
    for (std::size_t k = 0; k < all.size(); ++k) found[k] = all[k]->size();
    if (options_.on_nonfinite == nonfinite::propagate) return;
    detail::for_each_block_of(all, threads, [&](std::size_t k, std::size_t first, std::size_t last) {
        std::size_t const at = compiled_->find_nonfinite(all[k]->memory.gradient, first, last);
        std::size_t before = found[k];
        while (at != last && at < before && !found[k].compare_exchange_weak(before, at)) {
        }
    });
    if (options_.on_nonfinite == nonfinite::raise)
        for (std::size_t k = 0; k < all.size(); ++k)
            if (found[k] != all[k]->size()) detail::refuse_nonfinite(number + k, found[k]);
}

GRADSTEP_DEFINE_RUNTIME void any_updater::zero_gradient(runtime::erased_tensor const& x) const {
    if (x.size != 0) std::memset(const_cast<void*>(x.gradient), 0, x.size * size_of(facts().storage));
}

GRADSTEP_DEFINE_RUNTIME std::size_t any_updater::other_steps::of(own_step const& own, std::size_t number) {
    if (!ranges::non_negative.contains(own.rate_scale))
        detail::fail<value_error>({detail::buffer_name(number, "rate_scale")}, {own.rate_scale, " is out of range"},
                                  {ranges::non_negative.text});
    detail::check_own(number, own.decay, own.step);
    if (own.step && std::holds_alternative<dgc_momentum>(of_.policies_.rule)) detail::refuse_own_step(number);
    if (own.step && (!of_.facts().clock_state_names.empty() || of_.facts().is_model_wise))
        detail::refuse_own_number(number, *own.step);
    double const decay = of_.decays() ? static_cast<double>(own.decay) : 1;
    std::int64_t const t = own.step.value_or(of_.step_.t);
    if (own.rate_scale == 1 && decay == 1 && t == of_.step_.t) return 0;
    auto const [known, is_new] = numbers_.of(own.rate_scale, decay, t);
    if (is_new) {
        auto made = decay == 1 ? of_.compiled_->copy()
                               : detail::find_compiled(policies_with(of_.policies_, decay), of_.storage(), of_.form_);
        runtime::erased_step const now{t, of_.step_.rate * own.rate_scale, of_.step_.state};
        made->prepare(now, of_.step_options_, nullptr);
        steps_.push_back({std::move(made), now});
    }
    return known; // these are the first steps
}

GRADSTEP_DEFINE_RUNTIME std::size_t any_updater::other_steps::clipped(std::size_t step, double clip) {
    std::size_t const last = step == 0 ? last_clipped_ : steps_[step - 1].last_clipped;
    if (last != 0 && steps_[last - 1].clip == clip) return last;
    auto made = (*this)[step]->copy();
    runtime::erased_step const now = step == 0 ? of_.step_ : steps_[step - 1].now;
    step_options options = of_.step_options_;
    options.gradient_scale *= clip;
    made->prepare(now, options, nullptr);
    steps_.push_back({std::move(made), now, clip});
    return (step == 0 ? last_clipped_ : steps_[step - 1].last_clipped) = steps_.size();
}

GRADSTEP_DEFINE_RUNTIME detail::executor_reference any_updater::own_threads() const {
    static serial_executor callers; // it has no state
    return pool_ != nullptr ? detail::executor_reference(*pool_) : detail::executor_reference(callers);
}

GRADSTEP_DEFINE_RUNTIME std::optional<nonfinite_element>
any_updater::apply_all(std::span<any_tensor const> tensors, detail::executor_reference const* threads,
                       std::size_t number) const {
    require_step("apply");
    checked_tensors all(*this, tensors.size(), number);
    for (std::size_t k = 0; k < tensors.size(); ++k)
        all.add(checked(tensors[k], true, number + k), {tensors[k].rate_scale, tensors[k].decay, tensors[k].step},
                !tensors[k].id);
    return all.apply(threads);
}

GRADSTEP_DEFINE_RUNTIME std::optional<nonfinite_element>
any_updater::apply_checked(runtime::erased_tensor const& x, detail::executor_reference const* threads,
                           bool is_counted) const {
    tensor_of_call one{x, compiled_.get()};
    std::array const all{static_cast<tensor_of_call const*>(&one)};
    std::atomic<std::size_t> found;
    find_nonfinite(all, threads, detail::only_tensor, &found);
    if (is_counted) one.memory.id = take_ids(1);
    if (found == x.size) {
        run_all(all, threads);
        return {};
    }
    if (step_options_.zero_gradient) zero_gradient(x);
    return nonfinite_element{0, found};
}

GRADSTEP_DEFINE_RUNTIME any_updater::checked_tensors::checked_tensors(any_updater const& of, std::size_t count,
                                                                      std::size_t number)
    : of_(&of), number_(number), steps_(of), found_(of.options_.on_nonfinite == nonfinite::propagate ? 0 : count) {
    all_.reserve(count);
    taken_.reserve(count);
}

GRADSTEP_DEFINE_RUNTIME void any_updater::checked_tensors::add(runtime::erased_tensor const& x, own_step const& own,
                                                               bool is_counted) {
    std::size_t const number = number_ + all_.size(), step = steps_.of(own, number);
    steps_[step]->require_step(x, number);
    all_.push_back({x, steps_[step], step, is_counted});
    taken_.push_back(&all_.back());
}

GRADSTEP_DEFINE_RUNTIME void any_updater::checked_tensors::clip(detail::executor_reference const* threads) {
    std::vector<detail::erased_gradient> gradients;
    std::vector<detail::erased_gradient const*> pointers;
    gradients.reserve(taken_.size());
    pointers.reserve(taken_.size());
    for (tensor_of_call const* const one : taken_)
        pointers.push_back(&gradients.emplace_back(one->memory, *one->by, of_->limit_));
    std::vector<double> clips;
    detail::gradient_norms<detail::erased_gradient const> norms;
    if (auto const found = norms.own_clips(pointers, threads, of_->step_options_.gradient_scale, clips)) {
        auto const refuse = [&] { detail::refuse_norm(found->norm, found->of_weights); };
        if (number_ == detail::only_tensor || of_->limit_.of_all) refuse();
        detail::with_context([&] { return "tensor " + detail::text(number_of(taken_[found->task])) + ": "; }, refuse);
    }
    for (std::size_t i = 0; i < taken_.size(); ++i) {
        tensor_of_call& one = all_[number_of(taken_[i])];
        if (clips[i] == 1) continue;
        one.step = steps_.clipped(one.step, clips[i]);
        one.by = steps_[one.step];
        one.by->require_step(one.memory, number_ + number_of(taken_[i]));
    }
}

GRADSTEP_DEFINE_RUNTIME std::optional<nonfinite_element>
any_updater::checked_tensors::apply(detail::executor_reference const* threads, model_step model) {
    std::optional<nonfinite_element> first;
    if (!found_.empty()) of_->find_nonfinite(taken_, threads, number_, found_.data());
    for (std::size_t k = 0; k < found_.size() && !first; ++k)
        if (found_[k] != all_[k].size()) first = {k, found_[k]};
    // If the rule is model-wise, no tensor of the model takes the step.
    bool const is_model_wise = of_->facts().is_model_wise,
               takes_none = model == model_step::is_skipped || (is_model_wise && first);
    auto const is_skipped = [&](tensor_of_call const* one) {
        return takes_none || (first && found_[number_of(one)] != one->size());
    };
    std::erase_if(taken_, is_skipped);
    if (!of_->limit_.is_none() && !taken_.empty()) clip(threads);
    if (of_->step_options_.zero_gradient)
        for (tensor_of_call const& one : all_)
            if (is_skipped(&one)) of_->zero_gradient(one.memory);
    if (is_model_wise && model == model_step::settles && !first) of_->settle(taken_, threads);
    std::uint64_t id = of_->take_ids(all_.size());
    for (tensor_of_call& one : all_) {
        if (one.is_counted) one.memory.id = id;
        ++id;
    }
    of_->run_all(taken_, threads);
    return first;
}

GRADSTEP_DEFINE_RUNTIME void any_updater::refuse(std::array<detail::extent, 2 + runtime::most_slots> const& all,
                                                 std::size_t number) const {
    for (std::size_t i = 0; i < 2 + facts().slots; ++i) {
        scalar const type = i < 2 ? facts().storage : facts().state;
        if (!detail::is_aligned(all[i].data, type))
            detail::refuse_alignment(detail::buffer_name(number, all[i].name), type);
    }
    detail::refuse(all.data(), all.size(), number);
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor any_updater::checked(any_tensor const& given, bool has_gradient,
                                                                    std::size_t number) const {
    runtime::updater_facts const& of = facts();
    if (of.in_blocks) detail::refuse_blocks("slots", "an any_parameter, which owns its state");
    any_span const values = given.values.now(), gradient = given.gradient.now();
    auto const named = [&](char const* name) { return detail::buffer_name(number, name); };
    auto const require_type = [&](char const* name, any_span const& x, scalar type, std::size_t size) {
        if (x.type != type)
            detail::fail<value_error>({named(name)}, {"has elements of ", detail::enumerator(x.type)},
                                      {detail::enumerator(type)});
        if (x.size != size) detail::fail<size_error>({named(name)}, {"has ", x.size, " elements"}, {size});
    };
    auto const require_writable = [&](char const* name, any_span const& x) {
        if (!x.is_writable)
            detail::fail<buffer_error>({named(name)}, {"is const, and a step writes parameter and state"},
                                       {"writable memory"});
    };
    require_type("parameter", values, of.storage, values.size);
    if (has_gradient) require_type("gradient", gradient, of.storage, values.size);
    if (has_gradient) require_writable("parameter", values);
    if (given.slots.size() != of.slots)
        detail::fail<size_error>({named("slots")}, {"there are ", given.slots.size()}, {of.slots});
    runtime::erased_tensor out{const_cast<void*>(values.data),
                               gradient.data,
                               values.size,
                               {},
                               given.id.value_or(static_cast<std::uint64_t>(options_.id)),
                               given.shape};
    if (!of.factor_slots.empty()) detail::require_elements(named("shape").c_str(), out.shape, values.size);
    for (std::size_t i = 0; i < of.slots; ++i) {
        any_span const slot = given.slots[i].now();
        require_type(of.slot_names[i], slot, of.state, slot_size(i, values.size, out.shape));
        require_writable(of.slot_names[i], slot);
        out.slots[i] = const_cast<void*>(slot.data);
    }
    if (has_gradient) {
        require_step("apply");
        if (prepared_ == prepared::zeroes && !gradient.is_writable) detail::refuse_zero_gradient(number);
    }
    require(out, has_gradient, number);
    return out;
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
