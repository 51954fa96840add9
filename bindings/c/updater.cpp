#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "support.hpp"

using namespace gradstep::c;
using gradstep::any_updater, gradstep::optimizer_configuration, gradstep::runtime::erased_tensor;

namespace {

struct held_updater {
    optimizer_configuration config;
    any_updater updater;
    std::shared_ptr<threads> pool, given = nullptr; // of the configuration, of the host
};

// A tensor as for_each_piece_of takes it.
struct tensor_of_call {
    erased_tensor memory;
    std::size_t bytes;
    std::size_t size() const { return memory.size; }
    std::size_t bytes_per_element() const { return bytes; }
};

erased_tensor tensor_of(any_updater const& of, void const* parameter, void const* gradient, void* const* slots,
                        std::uint64_t count) {
    erased_tensor out{const_cast<void*>(parameter), gradient, static_cast<std::size_t>(count)};
    std::size_t const n = of.slots();
    require(slots, "slots", n);
    for (std::size_t i = 0; i < n; ++i) {
        require(slots[i], "a slot", of.facts().is_row_slot(i) ? 1 : count);
        out.slots[i] = slots[i];
    }
    return out;
}

template <class Tensors> void apply_to(held_updater const& by, Tensors const& tensors) {
    auto const& shared = by.given != nullptr ? by.given : by.pool;
    std::optional<gradstep::detail::executor_reference> threads;
    if (shared != nullptr) threads.emplace(shared->reference());
    auto const& compiled = by.updater.compiled();
    if (compiled.facts().is_row_wise) {
        for (auto const* tensor : tensors) compiled.run_whole(tensor->memory);
        return;
    }
    gradstep::detail::for_each_piece_of(
        tensors, threads ? &*threads : nullptr,
        [&](std::size_t i, std::size_t first, std::size_t last) { compiled.run(tensors[i]->memory, first, last); });
}

} // namespace

struct gradstep_updater : shell<held_updater> {
    static constexpr std::uint64_t living = 0x6772616473746575;
    static constexpr char const* kind = "updater";
};

namespace {
held_updater& held(gradstep_updater const* updater) { return shells<gradstep_updater>::get(updater, "updater"); }
} // namespace

gradstep_status gradstep_updater_create(const char* config, size_t config_bytes, int32_t dtype, gradstep_updater** out,
                                        gradstep_error* error) {
    return guarded(error, [&] {
        require(out, "out");
        auto read = read_config(config, config_bytes);
        auto const storage = storage_of(dtype, read.policies);
        if (std::holds_alternative<gradstep::dgc_momentum>(read.policies.rule))
            refuse(GRADSTEP_NOT_COMPILED,
                   "rule dgc_momentum: an updater sends no messages: use gradstep_parameter_create");
        any_updater updater = of_config([&] {
            optimizer_configuration on_caller = read; // the threads are those of the host, see below
            on_caller.options.threads = 1;
            return any_updater(on_caller, storage);
        });
        auto pool = threads_for(read.options.threads);
        *out = shells<gradstep_updater>::add(
            std::make_unique<held_updater>(std::move(read), std::move(updater), std::move(pool)));
    });
}

gradstep_status gradstep_updater_slot_count(const gradstep_updater* updater, uint64_t* count, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(updater);
        require(count, "count");
        *count = own.updater.slots();
    });
}

gradstep_status gradstep_updater_slot(const gradstep_updater* updater, uint64_t index, gradstep_slot* info,
                                      gradstep_error* error) {
    return guarded(error, [&] { write_known_part(slot_of(held(updater).updater, index), info, "gradstep_slot"); });
}

gradstep_status gradstep_updater_initialize(const gradstep_updater* updater, const void* parameter, void* const* slots,
                                            uint64_t count, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& of = held(updater).updater;
        require(parameter, "parameter", count);
        erased_tensor const tensor = tensor_of(of, parameter, nullptr, slots, count);
        of.require(tensor, false);
        of.compiled().initialize(tensor);
    });
}

gradstep_status gradstep_updater_next_step(gradstep_updater* updater, const gradstep_step_options* options,
                                           gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(updater);
        own.updater.next_step(options_of(options, static_cast<std::uint64_t>(own.config.options.seed)));
    });
}

gradstep_status gradstep_updater_clock(const gradstep_updater* updater, gradstep_clock* clock, gradstep_error* error) {
    return guarded(error, [&] { write_known_part(clock_of(held(updater).updater.clock()), clock, "gradstep_clock"); });
}

gradstep_status gradstep_updater_seek(gradstep_updater* updater, const gradstep_clock* clock, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(updater);
        own.updater.seek(clock_of(clock));
    });
}

gradstep_status gradstep_updater_set_numbers(gradstep_updater* updater, const char* const* paths, const double* values,
                                             uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(updater);
        auto next = with_numbers(own.config, paths, values, n);
        any_updater with_next = of_config([&] {
            return any_updater(gradstep::detail::policies_of_step(next), own.updater.storage(), next.options.element);
        });
        with_next.seek(own.updater.clock());
        own.updater = std::move(with_next);
        std::swap(own.config, next);
    });
}

gradstep_status gradstep_updater_config(const gradstep_updater* updater, char* buffer, uint64_t bytes,
                                        uint64_t* written, gradstep_error* error) {
    return guarded(error, [&] { write_text(gradstep::to_json(held(updater).config), buffer, bytes, written); });
}

gradstep_status gradstep_updater_apply(const gradstep_updater* updater, void* parameter, const void* gradient,
                                       void* const* slots, uint64_t count, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(updater);
        require(parameter, "parameter", count);
        require(gradient, "gradient", count);
        own.updater.require_step("apply");
        tensor_of_call tensor{tensor_of(own.updater, parameter, gradient, slots, count),
                              own.updater.facts().bytes_per_element};
        tensor.memory.id = static_cast<std::uint64_t>(own.config.options.id);
        own.updater.require(tensor.memory, true);
        apply_to(own, std::array<tensor_of_call const*, 1>{&tensor});
    });
}

gradstep_status gradstep_updater_apply_many(const gradstep_updater* updater, void* const* parameters,
                                            const void* const* gradients, void* const* const* slots,
                                            const uint64_t* counts, uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(updater);
        require(parameters, "parameters", n);
        require(gradients, "gradients", n);
        require(counts, "counts", n);
        if (own.updater.slots() != 0) require(slots, "slots", n);
        own.updater.require_step("apply_many");
        std::vector<tensor_of_call> tensors;
        std::vector<tensor_of_call const*> all;
        tensors.reserve(n);
        all.reserve(n);
        for (std::size_t k = 0; k < n; ++k) {
            require(parameters[k], "a parameter", counts[k]);
            require(gradients[k], "a gradient", counts[k]);
            tensors.push_back(
                {tensor_of(own.updater, parameters[k], gradients[k], slots == nullptr ? nullptr : slots[k], counts[k]),
                 own.updater.facts().bytes_per_element});
            tensors.back().memory.id = static_cast<std::uint64_t>(own.config.options.id) + k;
            own.updater.require(tensors.back().memory, true, k);
            all.push_back(&tensors.back());
        }
        apply_to(own, all);
    });
}

gradstep_status gradstep_updater_set_executor(gradstep_updater* updater, gradstep_executor* executor,
                                              gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(updater);
        own.given = executor == nullptr ? nullptr : shells<gradstep_executor>::get(executor, "executor");
    });
}

void gradstep_updater_release(gradstep_updater* updater) { shells<gradstep_updater>::release(updater); }
