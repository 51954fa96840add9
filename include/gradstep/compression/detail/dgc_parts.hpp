#pragma once
#include <gradstep/compression/detail/compress.hpp>
#include <gradstep/compression/detail/merge.hpp>
#include <gradstep/step/prepared_step.hpp>

// The parts of a step of dgc_momentum on tensors that have been checked: dgc_step runs them, and
// updaters chosen at run time.
namespace gradstep::detail::inline GRADSTEP_ISA {
// The first half of a sparse step. `trained` is the parameter, or null for a step without
// regularizer.
template <class Updater, class Storage = typename Updater::traits::storage,
          class State = typename Updater::traits::state>
compression<Updater> compression_of(prepared_step<Updater> const& step, typename Updater::backend_type const& backend,
                                    std::type_identity_t<Storage const*> trained,
                                    std::type_identity_t<State const*> master, std::span<Storage const> g,
                                    std::span<State> u, std::span<State> v, std::uint64_t id) {
    using compute = typename Updater::traits::compute;
    dgc_momentum const& rule = step.rule;
    double const limit = rule.local_grad_clip_norm / std::sqrt(static_cast<double>(rule.num_trainers));
    double const scale = clipped_scale(backend, g, static_cast<double>(step.gradient_scale), limit);
    compress_kernel<typename Updater::element_type, typename Updater::regularizer_type> const kernel{
        step.own.rule,
        step.own.regularizer,
        trained,
        master,
        g.data(),
        step.zero_gradient ? const_cast<Storage*>(g.data()) : nullptr,
        as_compute<compute>("the gradient's scale", scale),
        u.data(),
        v.data(),
        g.size()};
    std::size_t const k = dgc_momentum::entries_of(rule.sparsity_of(step.now.t), g.size());
    return {backend, kernel, rule.selected, k, step.now.t, step.seed, id};
}
template <class Updater>
compression<Updater> compression_of(prepared_step<Updater> const& step, typename Updater::backend_type const& backend,
                                    slice<Updater> const& x) {
    using storage = typename Updater::traits::storage;
    using state = typename Updater::traits::state;
    return compression_of(step, backend, x.decay.is_zero() ? nullptr : x.weight.data(), master_pointer(x),
                          std::span<storage const>(x.gradient), std::span<state>(x.state[0]),
                          std::span<state>(x.state[1]), x.id.value_or(0));
}

// The second half, with the mean of dense messages.
template <class Updater>
void apply_mean(prepared_step<Updater> const& step, typename Updater::backend_type const& backend,
                slice<Updater> const& x, step_scalars<Updater> const& scalars, std::uint64_t id,
                std::vector<typename Updater::traits::storage const*> const& messages) {
    using compute = typename Updater::traits::compute;
    using backend_type = typename Updater::backend_type;
    mean_gradient<typename Updater::traits::storage, compute> const mean{messages.data(), messages.size(),
                                                                         static_cast<compute>(messages.size())};
    auto const update = [&](auto reader) {
        for_regularizer_of(
            scalars, x, [&]<class Regularizer>(std::type_identity<Regularizer>, auto const& regularizer) {
                backend.run(single{make_kernel<Regularizer>(step, scalars, x, regularizer, reader, id, step.now.t),
                                   x.weight.size(), Updater::bytes_per_element});
            });
    };
    if constexpr (std::is_same_v<typename backend_type::memory_space, host_memory>) {
        update(mean);
    } else {
        std::vector<compute> host(x.weight.size());
        for (std::size_t i = 0; i != host.size(); ++i) host[i] = mean.template load<compute>(i, all_lanes{});
        typename backend_type::template buffer<compute> on_device(host.size());
        backend.copy_from_host(std::span<compute const>(host), backend_type::data(on_device));
        update(quiet_plain_gradient<compute>{{backend_type::data(on_device)}});
    }
}

// The second half, with the message of the only trainer. It takes no memory on the host.
template <class Updater>
void apply_message(prepared_step<Updater> const& step, typename Updater::backend_type const& backend,
                   sparse_message const& message, slice<Updater> const& x, typename Updater::traits::compute move) {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    sparse_sgd<typename Updater::element_type> sgd{x.weight.data(), master_pointer(x), compute(1), move, {}};
    if constexpr (traits::is_stochastic) sgd.rounding = element_words::of(step.seed, step.now.t, x.id.value_or(0));
    if constexpr (requires(message_list const& list) {
                      backend.template scatter<storage>(sgd, list, message.size());
                  }) {
        backend.template scatter<storage>(sgd, message_list{&message}, message.size());
    } else {
        std::size_t const bytes = 128 * message.count(), parts = parts_for(backend, bytes);
        auto const run_part = [&](std::size_t p) {
            each_of_one<storage, compute>(
                message, p, parts, [&](std::size_t i) { sgd.fetch(i); },
                [&](std::size_t i, compute sum) { sgd(i, sum); });
        };
        for_each_part(backend, parts, run_part, bytes);
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
