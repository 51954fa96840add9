#pragma once
#include <gradstep/backends/simd.hpp>
#include <gradstep/compression/dgc_step.hpp>
#include <gradstep/runtime/detail/sent_type.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME void fill_dense_message(sparse_message& message, any_span const& g, double scale, bool zeroes) {
    with_sent_type(g.type, [&]<class S>() {
        using compute = decltype(widen(S()));
        detail::fill_dense_message(simd_backend<>{}, message, std::span<S const>(static_cast<S const*>(g.data), g.size),
                                   static_cast<compute>(scale), zeroes);
    });
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_threads erased(std::optional<executor_reference> const& threads) {
    if (!threads) return {};
    auto const run = [](void const* of, std::size_t parts, void (*work)(void const*, std::size_t), void const* on,
                        std::size_t bytes) {
        auto const part = [&](std::size_t p) { work(on, p); };
        static_cast<executor_reference const*>(of)->run(parts, task(part, bytes));
    };
    return {&*threads, threads->concurrency(), run};
}

GRADSTEP_DEFINE_RUNTIME runtime::compressing_updater* two_phase::compiled(any_updater& of) {
    return rule_of(of) == nullptr ? nullptr : static_cast<runtime::compressing_updater*>(&of.compiled());
}

GRADSTEP_DEFINE_RUNTIME void two_phase::require(any_updater const& of, char const* call) {
    if (rule_of(of) == nullptr) fail<value_error>({call}, {"the rule compresses no gradients"}, {"dgc_momentum"});
}

GRADSTEP_DEFINE_RUNTIME void two_phase::begin(any_updater& of, runtime::erased_tensor const& x,
                                              std::optional<executor_reference> const& threads) {
    auto const& rule = *rule_of(of);
    runs_ = half::none;
    if (rule.is_dense(of.clock().step, x.size)) return;
    if (rule.num_trainers != 1) refuse_alone(rule.num_trainers);
    compiled(of)->begin_message(x, erased(threads));
    runs_ = half::both;
}

GRADSTEP_DEFINE_RUNTIME void two_phase::begin_message(any_updater& of, runtime::erased_tensor const& x,
                                                      step_options const& options,
                                                      std::optional<executor_reference> const& threads) {
    auto const& rule = *rule_of(of);
    std::int64_t const number = of.clock().step;
    bool const dense = rule.is_dense(number, x.size);
    runs_ = half::none;
    fills_ = x.gradient != nullptr;
    if (!fills_) {
        message_ = message_writer::without_gradient(of.storage(), x.size, number, dense);
    } else if (dense) {
        message_ = message_writer::begin(of.storage(), x.size, number, true, x.size);
    } else {
        compiled(of)->begin_message(x, erased(threads));
    }
    dense_ = dense;
    size_ = x.size;
    scale_ = options.gradient_scale;
    zeroes_ = options.zero_gradient;
    number_ = number;
}

GRADSTEP_DEFINE_RUNTIME sparse_message two_phase::message(any_updater& of, any_span const& gradient) {
    if (fills_ && dense_) {
        fill_dense_message(message_, gradient, scale_, zeroes_);
    } else if (fills_) {
        runtime::erased_message const made = compiled(of)->message();
        message_ = message_writer::with_body(of.storage(), size_, number_, false, made.count,
                                             const_cast<std::byte*>(made.body));
        compiled(of)->release_message();
        compiled(of)->end_two_phase();
    }
    return std::move(message_);
}

GRADSTEP_DEFINE_RUNTIME std::size_t two_phase::most_bytes(any_updater const& of, std::size_t n) {
    auto const& rule = *rule_of(of);
    std::int64_t const done = of.clock().step,
                       number = done == std::numeric_limits<std::int64_t>::max() ? done : done + 1;
    return message_writer::encoded_bytes(of.storage(), n, rule.is_dense(number, n), most_entries(rule, number, n));
}

GRADSTEP_DEFINE_RUNTIME void two_phase::begin_apply(any_updater& of, runtime::erased_tensor const& x,
                                                    message_list const& messages,
                                                    std::optional<executor_reference> const& threads) {
    if (!awaits_messages()) fail<sequence_error>({"apply"}, {"no step has begun"}, {"compress() first"});
    auto const& rule = *rule_of(of);
    bool const dense = rule.is_dense(number_, x.size);
    check_messages(messages, x.size, number_, info_of(of.storage()).element, dense, rule.num_trainers);
    std::vector<runtime::erased_message> bodies;
    bodies.reserve(messages.size());
    for (sparse_message const* m : messages) bodies.push_back({message_writer::body(*m).data(), m->count()});
    compiled(of)->begin_apply(x, bodies, dense, erased(threads));
    runs_ = half::second;
}

GRADSTEP_DEFINE_RUNTIME void two_phase::run(any_updater& of) const {
    auto* const on = compiled(of);
    if (runs_ == half::second) return on->apply();
    rollback_guard const memory_back([&] { on->end_two_phase(); });
    on->message();
    on->apply_own();
}

GRADSTEP_DEFINE_RUNTIME void two_phase::end(any_updater& of) {
    if (auto* const on = compiled(of)) on->end_two_phase();
    *this = {};
}

GRADSTEP_DEFINE_RUNTIME std::size_t two_phase::most_entries(dgc_momentum const& rule, std::int64_t number,
                                                            std::size_t n) {
    if (rule.is_dense(number, n)) return n;
    std::size_t const k = dgc_momentum::entries_of(rule.sparsity_of(number), n);
    return rule.selected == selection::exact ? k : std::min(n, 2 * k);
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
