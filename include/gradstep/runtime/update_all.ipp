#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <gradstep/core/apart.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/executor.hpp>
#include <gradstep/core/step_options.hpp>
#include <gradstep/model/norms.hpp>
#include <gradstep/model/pieces.hpp>
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/any_span.hpp>

namespace gradstep {
inline namespace GRADSTEP_RUNTIME_ABI {

GRADSTEP_DEFINE_RUNTIME void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                                        step_options const& options) {
    if (all.size() != gradients.size())
        detail::fail<size_error>({"update_all: ", gradients.size(), " gradients for ", all.size(), " parameters"});
    std::vector<any_parameter*> taken, skipped;
    taken.reserve(all.size());
    detail::executor_reference const* threads = nullptr;
    auto const with_context = [](auto const& number, auto const& f) {
        detail::with_context([&] { return "parameter " + detail::text(static_cast<std::size_t>(number())) + ": "; }, f);
    };
    std::size_t done = 0; // number of prepared parameters in `taken`
    bool have_limits = false;
    detail::rollback_guard back([&] {
        for (std::size_t k = 0; k < done; ++k) taken[k]->withdraw();
        for (any_parameter* const one : all) one->set_taken(false);
    });
    for (std::size_t k = 0; k < all.size(); ++k) {
        detail::fetch(all, k + 4);
        any_parameter& one = *all[k];
        with_context([&] { return k; },
                     [&] {
                         if (one.set_taken(true)) detail::fail<value_error>("is there twice: must be given once");
                         one.take(gradients[k], options, "update");
                         have_limits = have_limits || !one.own_limit().is_none();
                         (one.refused_nonfinite() ? skipped : taken).push_back(&one);
                     });
        if (one.threads() && (threads == nullptr || one.threads()->concurrency() > threads->concurrency()))
            threads = &*one.threads();
    }
    if (all.size() > 1) {
        std::size_t count = 0;
        for (any_parameter const* const one : all) count += one->buffers();
        detail::apart_check& apart = all[0]->overlaps();
        apart.begin(count);
        for (any_parameter const* const one : all) one->add_memory(apart, options.zero_gradient);
        if (auto const found = apart.find()) {
            auto const name = [&](std::size_t i) {
                std::size_t k = 0;
                while (i >= all[k]->buffers()) i -= all[k++]->buffers();
                return "parameter " + detail::text(k) + ": " + all[k]->buffer_name(i);
            };
            detail::fail<buffer_error>(
                {name(found->second), " overlaps ", name(found->first), ": every buffer needs memory of its own"});
        }
    }
    auto const number_of = [&](std::size_t k) { return std::find(all.begin(), all.end(), taken[k]) - all.begin(); };
    detail::gradient_norms norms;
    std::vector<double> const* clips = nullptr;
    if (have_limits)
        clips = &norms.own_clips(taken, threads, options.gradient_scale, [&](std::size_t k, double norm) {
            with_context([&] { return number_of(k); }, [&] { detail::refuse_norm(norm); });
        });
    for (; done < taken.size(); ++done) {
        detail::fetch(taken, done + 4);
        with_context([&] { return number_of(done); },
                     [&] {
                         if (clips == nullptr) return taken[done]->prepare(options);
                         step_options own = options;
                         own.gradient_scale *= (*clips)[done];
                         taken[done]->prepare(own);
                     });
    }
    back.dismiss();
    for (any_parameter* const one : all) one->set_taken(false);
    if (options.zero_gradient)
        for (any_parameter* const one : skipped) one->zero_gradient();
    for (any_parameter* const one : taken) {
        one->begin_step();
        if (!one->in_pieces()) one->run();
    }
    detail::for_each_block_of(taken, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
        if (taken[i]->in_pieces()) taken[i]->run(first, last);
    });
}

} // namespace GRADSTEP_RUNTIME_ABI
} // namespace gradstep
