#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/memory/detail/apart.hpp>
#include <gradstep/memory/detail/extent.hpp>
#include <gradstep/model/detail/blocks.hpp>
#include <gradstep/model/detail/norms.hpp>
#include <gradstep/model/detail/norms.ipp>
#include <gradstep/policy/catch_up.hpp>
#include <gradstep/runtime/detail/erased_gradient.hpp>

#include "support.hpp"

using namespace gradstep::c;
using gradstep::any_updater, gradstep::optimizer_configuration, gradstep::runtime::erased_tensor;

namespace {

struct held_updater {
    optimizer_configuration config;
    any_updater updater;
    std::shared_ptr<threads> pool, given = nullptr; // from the configuration; from set_executor
    bool zeroes = false;                            // zero_gradient of the prepared step
    // Another value after gradstep_updaters_settle.
    any_updater::model_step model = any_updater::model_step::settles;

    // Several threads may apply the same step. The thread with the lock remembers the buffers that
    // it has found apart.
    mutable std::mutex lock = {};
    mutable gradstep::detail::apart_check remembered = {};
};

// The number of elements of a tensor, and its shape if it is a matrix.
struct tensor_extent {
    std::size_t count;
    gradstep::shape shape = {};
};
// A tensor without columns is no matrix.
tensor_extent extent_of(std::uint64_t rows, std::uint64_t columns, std::size_t number = gradstep::detail::only_tensor) {
    if (columns == 0) return {rows};
    if (rows > SIZE_MAX / columns)
        gradstep::detail::fail<gradstep::size_error>({gradstep::detail::buffer_name(number, "shape")},
                                                     {rows, " x ", columns, " elements are more than memory can have"},
                                                     {"a smaller matrix"});
    return {rows * columns, {rows, columns}};
}

erased_tensor tensor_of(any_updater const& of, void const* parameter, void const* gradient, void* const* slots,
                        tensor_extent const& extent) {
    erased_tensor out{const_cast<void*>(parameter), gradient, extent.count, {}, 0, extent.shape};
    std::size_t const n = of.slots();
    require(slots, "slots", n);
    for (std::size_t i = 0; i < n; ++i) {
        require(slots[i], "a slot", of.slot_size(i, extent.count, extent.shape));
        out.slots[i] = slots[i];
    }
    return out;
}

// The updater itself runs on the caller's thread, because the handle holds the threads.
any_updater updater_of(optimizer_configuration config, gradstep::scalar storage) {
    config.options.threads = 1;
    return any_updater(config, storage);
}

// Throws buffer_error if two tensors of a call overlap in memory that a step writes.
void require_apart(any_updater const& of, any_updater::checked_tensors const& tensors, bool zeroes,
                   gradstep::detail::apart_check& check) {
    auto const& facts = of.facts();
    std::size_t const each = 2 + facts.slots, storage = size_of(facts.storage), state = size_of(facts.state);
    check.begin(tensors.size() * each);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        erased_tensor const& x = tensors[k];
        check.add(x.weight, x.size * storage, true);
        check.add(x.gradient, x.size * storage, zeroes);
        for (std::size_t i = 0; i < facts.slots; ++i)
            check.add(x.slots[i], of.slot_size(i, x.size, x.shape) * state, true);
    }
    if (auto const found = check.find()) {
        auto const name = [&](std::size_t i) {
            char const* const buffer = i % each == 0   ? "parameter"
                                       : i % each == 1 ? "gradient"
                                                       : facts.slot_names[i % each - 2];
            return gradstep::detail::buffer_name(i / each, buffer);
        };
        gradstep::detail::fail<gradstep::buffer_error>({name(found->second)}, {"overlaps ", name(found->first)},
                                                       {"separate memory for each buffer"});
    }
}

// Calls f(threads) with the updater's threads, or null.
template <class F> void with_threads(held_updater const& of, F const& f) {
    auto const& shared = of.given != nullptr ? of.given : of.pool;
    std::optional<gradstep::detail::executor_reference> own;
    if (shared != nullptr) own.emplace(shared->reference());
    f(own ? &*own : nullptr);
}

// Several calls may apply a step that gradstep_updaters_settle has settled.
void require_step(held_updater const& by, char const* call) {
    if (by.model == any_updater::model_step::settles) by.updater.require_step(call);
}
// For calls that have no rows and columns.
void refuse_without_shape(char const* call, char const* expected) {
    gradstep::detail::fail<gradstep::value_error>({call}, {"the rule needs the rows and columns of each tensor"},
                                                  {expected});
}
void require_no_shape(held_updater const& by, char const* call) {
    if (by.updater.facts().uses_shape) refuse_without_shape(call, "gradstep_updater_apply_matrices");
}
// A tensor for a call that takes no gradient.
erased_tensor checked_tensor(any_updater const& of, void const* parameter, void* const* slots,
                             tensor_extent const& extent) {
    require(parameter, "parameter", extent.count);
    erased_tensor const tensor = tensor_of(of, parameter, nullptr, slots, extent);
    of.require(tensor, false);
    return tensor;
}
void initialize(any_updater const& of, void const* parameter, void* const* slots, tensor_extent const& extent) {
    of.compiled().initialize(checked_tensor(of, parameter, slots, extent), of.clock().step);
}
// Applies the step to n tensors; extent(k) is the extent of tensor k.
template <class Extent>
void apply_all(held_updater const& own, char const* call, void* const* parameters, void const* const* gradients,
               void* const* const* slots, std::uint64_t n, Extent const& extent,
               gradstep_tensor_options const& options = GRADSTEP_TENSOR_OPTIONS_INIT) {
    require(parameters, "parameters", n);
    require(gradients, "gradients", n);
    if (own.updater.slots() != 0) require(slots, "slots", n);
    require_step(own, call);
    any_updater::checked_tensors tensors(own.updater, n, n == 1 ? gradstep::detail::only_tensor : 0);
    for (std::size_t k = 0; k < n; ++k) {
        tensor_extent const of = extent(k);
        require(parameters[k], "a parameter", of.count);
        require(gradients[k], "a gradient", of.count);
        erased_tensor added =
            tensor_of(own.updater, parameters[k], gradients[k], slots == nullptr ? nullptr : slots[k], of);
        if (options.ids != nullptr) added.id = own.updater.first_id() + options.ids[k];
        own.updater.require(added, true, k);
        any_updater::own_step step;
        if (options.rate_scales != nullptr) step.rate_scale = options.rate_scales[k];
        if (options.decays != nullptr) step.decay = options.decays[k];
        if (options.steps != nullptr && options.steps[k] != 0) step.step = options.steps[k];
        tensors.add(added, step, options.ids == nullptr);
    }
    if (n > 1) {
        if (std::unique_lock const have(own.lock, std::try_to_lock); have) {
            require_apart(own.updater, tensors, own.zeroes, own.remembered);
        } else {
            gradstep::detail::apart_check check;
            require_apart(own.updater, tensors, own.zeroes, check);
        }
    }
    if (n != 0) with_threads(own, [&](auto const* threads) { tensors.apply(threads, own.model); });
}

// The gradients of a call without an updater.
class gradients_of_call {
public:
    gradients_of_call(std::int32_t dtype, void const* const* gradients, std::uint64_t const* counts, std::uint64_t n,
                      gradstep_executor const* threads)
        : type_(scalar_of(dtype, "dtype")) {
        if (gradstep::detail::is_integer(type_))
            refuse(GRADSTEP_UNSUPPORTED_TYPE, {"dtype"}, {gradstep::detail::info_of(type_).name, " is an integer"},
                   {"float32, float64, float16 or bfloat16"});
        require(gradients, "gradients", n);
        require(counts, "counts", n);
        for (std::size_t k = 0; k < n; ++k) {
            auto const count = static_cast<std::size_t>(counts[k]);
            auto const name = [&] { return gradstep::detail::buffer_name(k, "gradient"); };
            require(gradients[k], "a gradient", count);
            if (count > gradstep::detail::extent::most_bytes / size_of(type_))
                refuse(GRADSTEP_BAD_SIZE, {name()}, {"has ", count, " elements"},
                       {"at most ", gradstep::detail::extent::most_bytes, " bytes"});
            if (!gradstep::detail::is_aligned(gradients[k], type_)) gradstep::detail::refuse_alignment(name(), type_);
            memory_.push_back({nullptr, gradients[k], count});
        }
        if (threads != nullptr) threads_.emplace((*shells<gradstep_executor>::get(threads, "executor")).reference());
    }
    double norm() const {
        auto const by = compiled();
        std::vector<gradstep::detail::erased_gradient> all;
        for (erased_tensor const& x : memory_) all.emplace_back(x, *by);
        std::vector<gradstep::detail::erased_gradient const*> pointers;
        for (auto const& x : all) pointers.push_back(&x);
        return gradstep::detail::gradient_norms<gradstep::detail::erased_gradient const>().of_all(pointers, executor());
    }
    // The first tensor with a non-finite element, else their number, and the element.
    std::pair<std::size_t, std::size_t> first_nonfinite() const {
        struct gradient {
            erased_tensor const* of;
            std::size_t bytes;
            std::size_t size() const { return of->size; }
            std::size_t bytes_per_element() const { return bytes; }
        };
        std::pair first(memory_.size(), std::size_t{0});
        if (gradstep::detail::is_integer(type_)) return first;
        auto const by = compiled();
        std::vector<gradient> all;
        for (erased_tensor const& x : memory_) all.push_back({&x, size_of(type_)});
        std::vector<gradient const*> pointers;
        for (auto const& x : all) pointers.push_back(&x);
        std::mutex lock;
        gradstep::detail::for_each_block_of(pointers, executor(), [&](std::size_t k, std::size_t from, std::size_t to) {
            std::size_t const at = by->find_nonfinite(all[k].of->gradient, from, to);
            if (at == to) return;
            std::lock_guard const alone(lock);
            first = std::min(first, std::pair(k, at));
        });
        return first;
    }

private:
    // What reads numbers of the gradients' type.
    std::unique_ptr<gradstep::runtime::compiled_updater> compiled() const {
        return gradstep::detail::find_compiled({gradstep::sgd{}}, type_, gradstep::element_form::plain);
    }
    gradstep::detail::executor_reference const* executor() const { return threads_ ? &*threads_ : nullptr; }

    gradstep::scalar type_;
    std::vector<erased_tensor> memory_;
    std::optional<gradstep::detail::executor_reference> threads_;
};

} // namespace

gradstep_status gradstep_global_norm(int32_t dtype, const void* const* gradients, const uint64_t* counts, uint64_t n,
                                     gradstep_executor* threads, double* norm, gradstep_error* error) {
    return guarded(error, [&] {
        require(norm, "norm");
        *norm = gradients_of_call(dtype, gradients, counts, n, threads).norm();
    });
}

gradstep_status gradstep_first_nonfinite(int32_t dtype, const void* const* gradients, const uint64_t* counts,
                                         uint64_t n, gradstep_executor* threads, uint64_t* tensor, uint64_t* element,
                                         gradstep_error* error) {
    return guarded(error, [&] {
        require(tensor, "tensor");
        require(element, "element");
        auto const [k, at] = gradients_of_call(dtype, gradients, counts, n, threads).first_nonfinite();
        *tensor = k;
        *element = at;
    });
}

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
            refuse(GRADSTEP_NOT_COMPILED, {"rule"}, {"dgc_momentum sends messages, and an updater does not"},
                   {"another rule, or gradstep_parameter_create"});
        if (!std::holds_alternative<gradstep::touch_only>(read.policies.catch_up))
            refuse(GRADSTEP_BAD_CONFIG, {"catch_up"}, {"an updater has no rows"},
                   {"touch_only, or gradstep_parameter_create"});
        if (read.options.element == gradstep::element_form::block8)
            refuse(GRADSTEP_BAD_CONFIG, {"element"},
                   {"block8 keeps the state in blocks, and an updater uses your memory"},
                   {"plain, or gradstep_parameter_create"});
        any_updater updater = of_config([&] { return updater_of(read, storage); });
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

gradstep_status gradstep_updater_slot_size(const gradstep_updater* updater, uint64_t index, uint64_t rows,
                                           uint64_t columns, uint64_t* count, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& of = held(updater).updater;
        require(count, "count");
        slot_of(of, index); // throws if there is no such slot
        tensor_extent const extent = extent_of(rows, columns);
        *count = of.slot_size(static_cast<std::size_t>(index), extent.count, extent.shape);
    });
}

gradstep_status gradstep_updater_initialize(const gradstep_updater* updater, const void* parameter, void* const* slots,
                                            uint64_t count, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& of = held(updater).updater;
        if (!of.facts().factor_slots.empty()) refuse_without_shape("initialize", "gradstep_updater_initialize_matrix");
        initialize(of, parameter, slots, {static_cast<std::size_t>(count)});
    });
}

gradstep_status gradstep_updater_initialize_matrix(const gradstep_updater* updater, const void* parameter,
                                                   void* const* slots, uint64_t rows, uint64_t columns,
                                                   gradstep_error* error) {
    return guarded(error, [&] { initialize(held(updater).updater, parameter, slots, extent_of(rows, columns)); });
}

gradstep_status gradstep_updater_weights_set(const gradstep_updater* updater, const void* parameter, void* const* slots,
                                             uint64_t rows, uint64_t columns, gradstep_error* error) {
    return guarded(error, [&] {
        any_updater const& of = held(updater).updater;
        of.compiled().weights_set(checked_tensor(of, parameter, slots, extent_of(rows, columns)), of.clock().step);
    });
}

gradstep_status gradstep_updater_next_step(gradstep_updater* updater, const gradstep_step_options* options,
                                           gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(updater);
        auto const step = options_of(options, static_cast<std::uint64_t>(own.config.options.seed));
        own.updater.next_step(step);
        own.zeroes = step.zero_gradient;
        own.model = any_updater::model_step::settles;
    });
}

gradstep_status gradstep_updater_clock(const gradstep_updater* updater, gradstep_clock* clock, gradstep_error* error) {
    return guarded(error, [&] { write_known_part(clock_of(held(updater).updater.clock()), clock, "gradstep_clock"); });
}

gradstep_status gradstep_updater_seek(gradstep_updater* updater, const gradstep_clock* clock, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(updater);
        own.updater.seek(clock_of(clock));
        own.model = any_updater::model_step::settles;
    });
}

gradstep_status gradstep_updater_set_numbers(gradstep_updater* updater, const char* const* paths, const double* values,
                                             uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(updater);
        auto next = with_numbers(own.config, paths, values, n);
        any_updater with_next = of_config([&] { return updater_of(next, own.updater.storage()); });
        of_config([&] { gradstep::detail::require_same_constants(next.policies, own.config.policies); });
        with_next.seek(own.updater.clock());
        own.updater = std::move(with_next);
        own.model = any_updater::model_step::settles;
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
        require_no_shape(own, "apply");
        require_step(own, "apply");
        erased_tensor const tensor =
            tensor_of(own.updater, parameter, gradient, slots, {static_cast<std::size_t>(count)});
        own.updater.require(tensor, true);
        with_threads(own, [&](auto const* threads) {
            if (own.updater.applies_directly()) {
                own.updater.apply_checked(tensor, threads, true);
                return;
            }
            any_updater::checked_tensors one(own.updater, 1, gradstep::detail::only_tensor);
            one.add(tensor, {}, true);
            one.apply(threads, own.model);
        });
    });
}

gradstep_status gradstep_updater_apply_many(const gradstep_updater* updater, void* const* parameters,
                                            const void* const* gradients, void* const* const* slots,
                                            const uint64_t* counts, uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(updater);
        require(counts, "counts", n);
        require_no_shape(own, "apply_many");
        apply_all(own, "apply_many", parameters, gradients, slots, n,
                  [&](std::size_t k) { return tensor_extent{static_cast<std::size_t>(counts[k])}; });
    });
}

gradstep_status gradstep_updater_apply_matrices(const gradstep_updater* updater, void* const* parameters,
                                                const void* const* gradients, void* const* const* slots,
                                                const uint64_t* rows, const uint64_t* columns, uint64_t n,
                                                gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(updater);
        require(rows, "rows", n);
        require(columns, "columns", n);
        apply_all(own, "apply_matrices", parameters, gradients, slots, n,
                  [&](std::size_t k) { return extent_of(rows[k], columns[k], k); });
    });
}

gradstep_status gradstep_updater_apply_with(const gradstep_updater* updater, void* const* parameters,
                                            const void* const* gradients, void* const* const* slots,
                                            const uint64_t* rows, const uint64_t* columns, uint64_t n,
                                            const gradstep_tensor_options* options, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(updater);
        require(rows, "rows", n);
        if (columns == nullptr) require_no_shape(own, "apply_with without columns");
        gradstep_tensor_options const given =
            known_part(options, gradstep_tensor_options(GRADSTEP_TENSOR_OPTIONS_INIT), "gradstep_tensor_options");
        if (given.reserved != 0) refuse(GRADSTEP_BAD_VALUE, {"tensor_options.reserved"}, {"not 0"}, {"0"});
        auto const extent = [&](std::size_t k) { return extent_of(rows[k], columns == nullptr ? 0 : columns[k], k); };
        apply_all(own, "apply_with", parameters, gradients, slots, n, extent, given);
    });
}

gradstep_status gradstep_updaters_settle(gradstep_updater* const* updaters, void* const* parameters,
                                         const void* const* gradients, void* const* const* slots,
                                         const uint64_t* counts, uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        require(updaters, "updaters", n);
        require(parameters, "parameters", n);
        require(gradients, "gradients", n);
        require(counts, "counts", n);
        std::vector<held_updater*> all;
        std::vector<any_updater*> by;
        std::vector<erased_tensor> tensors;
        std::optional<gradstep::detail::executor_reference> threads;
        bool is_skipped = false;
        for (std::size_t k = 0; k < n; ++k) {
            held_updater& own = held(updaters[k]);
            require(parameters[k], "a parameter", counts[k]);
            require(gradients[k], "a gradient", counts[k]);
            if (own.updater.slots() != 0) require(slots, "slots");
            void* const* const of_tensor = slots == nullptr ? nullptr : slots[k];
            if (!own.updater.facts().is_model_wise)
                gradstep::detail::fail<gradstep::value_error>({gradstep::detail::buffer_name(k, "rule")},
                                                              {"does not add sums over a model, which settle a step"},
                                                              {"a model-wise rule, such as prodigy"});
            tensors.push_back(
                tensor_of(own.updater, parameters[k], gradients[k], of_tensor, {static_cast<std::size_t>(counts[k])}));
            own.updater.require_step("settle");
            own.updater.require(tensors.back(), true, k);
            all.push_back(&own);
            by.push_back(&own.updater);
            auto const& given = own.given != nullptr ? own.given : own.pool;
            if (given != nullptr && (!threads || given->reference().concurrency() > threads->concurrency()))
                threads.emplace(given->reference());
        }
        for (std::size_t k = 0; k < n; ++k)
            is_skipped = is_skipped || by[k]->refused_element(tensors[k], k) != tensors[k].size;
        if (!is_skipped) any_updater::settle(by, tensors, threads ? &*threads : nullptr);
        for (held_updater* const own : all)
            own->model = is_skipped ? any_updater::model_step::is_skipped : any_updater::model_step::is_settled;
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
