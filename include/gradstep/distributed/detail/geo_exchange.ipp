#pragma once

#include <gradstep/distributed/collectives.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE geo_exchange::geo_exchange(worker& by, std::string name, gradstep::detail::dense_parameter& local)
    : worker_(by), name_(std::move(name)), local_(local),
      snapshot_(local.values_on_host().begin(), local.values_on_host().end()), scratch_(snapshot_.size()) {
    require_weights(name_, local);
}

GRADSTEP_DEFINE void geo_exchange::require_weights(std::string_view name,
                                                   gradstep::detail::dense_parameter const& local) {
    auto const& of = local.facts();
    if (of.has_master || of.is_integer)
        fail<value_error>({"geo: ", name}, {"the weights are ", of.is_integer ? "integers" : "the copy of a master"},
                          {"float, double, bfloat16 or float16 without a master copy"});
}

GRADSTEP_DEFINE void geo_exchange::run() {
    local_.require_trained("exchange");
    if (local_.values_on_host().size() != snapshot_.size())
        fail<size_error>({"exchange: ", name_}, {"the parameter has ", local_.size(), " elements now"},
                         {worker_.size(name_)});
    gradstep::detail::with_type(local_.facts().storage, [&]<class S>() { run_as<S>(); });
}

template <class S> void geo_exchange::run_as() {
    using real = sum_type<S>;
    auto const wide = [](S x) { return static_cast<real>(gradstep::detail::widen(x)); };
    std::size_t const n = local_.size();
    auto* const local = reinterpret_cast<S*>(const_cast<std::byte*>(local_.values_on_host().data()));
    auto* const snapshot = reinterpret_cast<S*>(snapshot_.data());
    auto* const scratch = reinterpret_cast<S*>(scratch_.data());
    auto const p = static_cast<real>(worker_.num_workers());
    for (std::size_t i = 0; i != n; ++i) scratch[i] = S((wide(local[i]) - wide(snapshot[i])) / p);
    worker_.push(name_, std::span<S const>(scratch, n));
    for (std::size_t i = 0; i != n; ++i) snapshot[i] = S(wide(snapshot[i]) + wide(scratch[i]));
    worker_.pull(name_, std::span(scratch, n));
    bool has_moved = false;
    for (std::size_t i = 0; i != n; ++i) {
        auto const now = S(wide(scratch[i]) + (wide(local[i]) - wide(snapshot[i])));
        has_moved = has_moved || wide(now) != wide(local[i]);
        local[i] = now;
        snapshot[i] = scratch[i];
    }
    if (has_moved) local_.weights_set();
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
