#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/model/blocks.hpp>
#include <gradstep/model/norm_limit.hpp>
#include <gradstep/model/step_driver.hpp>
#include <gradstep/model/step_task.hpp>
#include <gradstep/number/random.hpp>
#include <gradstep/runtime/parameter_scratch.hpp>
#include <gradstep/runtime/parameter_task.hpp>

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME void any_parameter::update_all(std::span<any_parameter* const> all,
                                                       std::span<any_span const> gradients,
                                                       step_options const& options) {
    if (all.size() != gradients.size())
        detail::fail<size_error>({"update_all"}, {gradients.size(), " gradients for ", all.size(), " parameters"},
                                 {"one for each parameter"});
    if (all.empty()) return;
    std::vector<detail::step_task*> taken, skipped;
    taken.reserve(all.size());
    detail::executor_reference const* threads = nullptr;
    auto const with_context = [](auto const& number, auto const& f) {
        detail::with_context([&] { return "parameter " + detail::text(static_cast<std::size_t>(number())) + ": "; }, f);
    };
    bool have_limits = false;
    detail::rollback_guard none_taken([&] {
        for (any_parameter* const one : all) one->is_taken_ = false;
    });
    for (std::size_t k = 0; k < all.size(); ++k) {
        detail::fetch(all, k + 4);
        any_parameter& one = *all[k];
        if (one.is_taken_) detail::fail<value_error>({"parameter ", k}, {"is there twice"}, {"each parameter once"});
        with_context([&] { return k; },
                     [&] {
                         one.is_taken_ = true;
                         one.take_gradient(gradients[k], options, "update");
                         have_limits = have_limits || !one.limit_.is_none();
                         (one.refused_nonfinite() ? skipped : taken).push_back(&one);
                     });
        if (one.threads() && (threads == nullptr || one.threads()->concurrency() > threads->concurrency()))
            threads = &*one.threads();
    }
    // A model whose rule is model-wise takes a step as a whole, or not at all.
    for (std::size_t k = 0; k < skipped.size(); ++k)
        if (skipped[k]->is_model_wise())
            std::erase_if(taken, [&](detail::step_task* const one) {
                bool const is_left_out = one->is_model_wise() && one->hash_of_rule() == skipped[k]->hash_of_rule();
                if (is_left_out) skipped.push_back(one);
                return is_left_out;
            });
    detail::step_driver& driver = (*all[0]->memory_).driver;
    if (all.size() > 1) {
        // Those with a skipped step, too: their gradients can be set to zero.
        std::vector<detail::step_task*> tasks;
        std::span<detail::step_task* const> checked = taken;
        if (!skipped.empty()) {
            for (any_parameter* const one : all) tasks.push_back(one);
            checked = tasks;
        }
        if (auto const found = driver.find_overlap(checked, options.zero_gradient)) {
            auto const name = [&](detail::step_driver::task_index const& buffer) {
                return "parameter " + detail::text(buffer.task) + ": " +
                       checked[buffer.task]->buffer_name(buffer.number);
            };
            detail::fail<buffer_error>({name(found->first)}, {"overlaps ", name(found->second)},
                                       {"separate memory for each buffer"});
        }
    }
    auto const number_of = [&](std::size_t k) {
        auto const is_taken = [&](any_parameter const* one) { return one == taken[k]; };
        return std::find_if(all.begin(), all.end(), is_taken) - all.begin();
    };
    driver.clip_none();
    if (have_limits)
        if (auto const found = driver.clip_by_own_limits(taken, threads, options.gradient_scale))
            with_context([&] { return number_of(found->task); },
                         [&] { detail::refuse_norm(found->norm, found->of_weights); });
    separate_ids(all);
    driver.prepare_by(taken, [&](std::size_t k, double clip) {
        with_context([&] { return number_of(k); }, [&] { taken[k]->prepare(options, clip); });
    });
    none_taken.dismiss();
    for (any_parameter* const one : all) one->is_taken_ = false;
    if (options.zero_gradient)
        for (detail::step_task const* const one : skipped) one->zero_gradient();
    driver.run(taken, threads);
}

// The words are a function of seed, step and id. The first one of equal ids keeps its id, and those
// that have taken a step come first: ids do not change at resume. The others get an id of their
// position, of the latest step of the call and of the ids that stay, so that parameters of other
// calls have others. So do new parameters without an id of their own beside trained ones.
GRADSTEP_DEFINE_RUNTIME void any_parameter::separate_ids(std::span<any_parameter* const> all) {
    std::vector<std::uint64_t> ids;
    std::int64_t latest = 0;
    std::uint64_t of_trained = 0;
    for (any_parameter const* const one : all) {
        if (!one->drawing_id()) continue;
        ids.push_back(one->options_.id);
        if (one->clock().step != 0) of_trained += one->options_.id;
        latest = std::max(latest, one->clock().step);
    }
    if (ids.empty()) return;
    auto const is_new = [](any_parameter const& x) { return x.clock().step == 0 && x.options_.id == x.given_id_; };
    auto const is_late = [&](any_parameter const& x) { return latest != 0 && x.given_id_ == 0 && is_new(x); };
    std::sort(ids.begin(), ids.end());
    if (std::adjacent_find(ids.begin(), ids.end()) == ids.end() &&
        std::none_of(all.begin(), all.end(), [&](auto const* x) { return x->drawing_id() && is_late(*x); }))
        return;
    std::unordered_set<std::uint64_t> known;
    for (bool const of_new : {false, true})
        for (std::size_t k = 0; k < all.size(); ++k) {
            any_parameter& one = *all[k];
            if (!one.drawing_id() || is_new(one) != of_new) continue;
            bool const moves = is_late(one);
            for (std::uint32_t attempt = 0; (moves && attempt == 0) || !known.insert(one.options_.id).second;
                 ++attempt) {
                auto const low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
                auto const t = static_cast<std::uint64_t>(latest);
                auto const random = philox4x32({{low(k), attempt, low(t), low(t >> 32)}}, one.given_id_ + of_trained);
                one.options_.id = std::uint64_t{random.word[1]} << 32 | random.word[0];
            }
        }
}

GRADSTEP_DEFINE_RUNTIME void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                                        step_options const& options) {
    any_parameter::update_all(all, gradients, options);
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
