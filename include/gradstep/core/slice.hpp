#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <gradstep/core/bfloat16.hpp>
#include <gradstep/core/block_kernel.hpp>
#include <gradstep/core/buffer.hpp>
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/fixed_string.hpp>
#include <gradstep/core/slots.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// Puts the rule and its slots, as text, into the error of a call with too few or too many buffers.
template <auto Sentence, bool Right> constexpr bool require_state_buffers() {
    static_assert(Right, "gradstep: wrong number of state buffers: give one for each state slot of the rule, in its "
                         "order, then the master copy if the element keeps one (the template argument of "
                         "require_state_buffers names the rule and its slots)");
    return Right;
}

// Parameter and state of one tensor, seen as spans.
template <class Updater> struct tensor {
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;
    using memory_space = typename Updater::backend_type::memory_space;

    std::span<storage> weight;
    std::array<std::span<state_type>, Updater::slots> state;

    template <class W, class... S>
    explicit tensor(W& weight_buffer, S&... state_buffers) : weight(as_span<storage, memory_space>(weight_buffer)) {
        if constexpr (require_state_buffers<slots_sentence<Updater>(), sizeof...(S) == Updater::slots>()) {
            state = {as_span<state_type, memory_space>(state_buffers)...};
            (require_layout(state_buffers, weight_buffer), ...);
        }
    }

    // Throws size_error or buffer_error unless the buffers are there, of one length, and apart from each other. A
    // gradient without memory (0 bytes) is only held to the length. `number` is the tensor's in a call of several.
    void check(extent const& gradient, std::size_t number = only_tensor) const {
        std::array<extent, 2 + Updater::slots> buffers;
        buffers[0] = extent::of("parameter", weight);
        buffers[1] = gradient;
        std::size_t i = 0;
        for (auto const& slot : state) {
            buffers[2 + i] = extent::of(Updater::state_names[i], slot);
            if constexpr (in_blocks<typename Updater::traits>) {
                if (slot.size() != Updater::slot_size(i, weight.size())) refuse_blocks(i, number);
                buffers[2 + i].size = weight.size(); // of the length it has to be of
            } else if (Updater::is_row_slot(i)) {
                if (slot.size() != 1) refuse_row_slot(i, number);
                buffers[2 + i].size = weight.size();
            }
            ++i;
        }
        check_extents(buffers, number);
    }

    // The same for memory that the parameter is copied to, once the others have been checked.
    void check_copy(std::span<bfloat16> copy, extent const& gradient, std::size_t number) const {
        std::array<extent, 2 + Updater::slots> buffers{
            {{"parameter", weight.data(), 0, extent::bytes_of(weight)}, gradient}};
        for (std::size_t i = 0; i != Updater::slots; ++i)
            buffers[2 + i] = {Updater::state_names[i], state[i].data(), 0, extent::bytes_of(state[i])};
        check_beside(buffers, extent::of("bfloat16_copy", copy), weight.size(), number);
    }

private:
    [[noreturn, gnu::noinline, gnu::cold]] void refuse_row_slot(std::size_t i, std::size_t number) const {
        detail::fail<size_error>({buffer_name(number, Updater::state_names[i]), " has ", state[i].size(),
                                  " elements: must be 1, the rule keeps one number for the whole tensor"});
    }
    [[noreturn, gnu::noinline, gnu::cold]] void refuse_blocks(std::size_t i, std::size_t number) const {
        detail::fail<size_error>({buffer_name(number, Updater::state_names[i]), " has ", state[i].size(),
                                  " blocks: must be ", Updater::slot_size(i, weight.size()), " of ",
                                  coded_block::length, " elements, for ", weight.size()});
    }
};

// Where the state of a tensor is, as kernels hold it: the slots of its elements, of the row that it is, the master copy.
template <class Updater> auto state_pointers(tensor<Updater> const& x) {
    using rule = typename Updater::rule_type;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
        typename rule::template state<typename Updater::traits::state*> pointers;
        ((slot<I, rule>(pointers) = x.state[I].data()), ...);
        return pointers;
    }
    (std::make_index_sequence<slot_count<rule>>{});
}
template <class Updater> auto row_pointers(tensor<Updater> const& x) {
    using rule = typename Updater::rule_type;
    constexpr std::size_t count = row_slot_count<rule>;
    row_state<rule, typename Updater::traits::state*> pointers;
    host_each<count>([&](auto i) { nth<i, count>(pointers) = x.state[slot_count<rule> + i].data(); });
    return pointers;
}
template <class Updater> typename Updater::traits::state* master_pointer(tensor<Updater> const& x) {
    if constexpr (Updater::traits::has_master) return x.state[Updater::slots - 1].data();
    else return nullptr;
}

} // namespace detail

/// One tensor of a step: parameter, gradient, one buffer for each state slot (the rule's in order, then the master
/// copy), seen as spans; the memory stays the caller's, who keeps it: a temporary that owns its memory does not compile.
template <class Updater> struct basic_slice : detail::tensor<Updater> {
    std::span<typename Updater::traits::storage const> gradient;
    /// Whether the gradient was given as writable memory, which `zero_gradient` needs.
    bool gradient_is_writable;
    /// false leaves l1, l2, elastic_net, decoupled, after_step and proximal out for this tensor; clipping stays.
    bool decay = true;
    /// Multiplies the learning rate for this tensor; finite and >= 0.
    double rate_scale = 1;
    /// Names the tensor for stochastic rounding, whose random bits differ from name to name. Left out, it is the position
    /// of the tensor in the call, 0 in a call of one.
    std::optional<std::uint64_t> id = {};
    /// Where the step also writes the new parameter, rounded to bfloat16 (to nearest, ties to even), in the same pass: what a
    /// forward pass in bfloat16 reads. Of the parameter's length, in the memory of the backend, apart from all other buffers of
    /// the call; empty: nowhere. For elements whose parameter is float, and rules that send no gradients: others refuse it.
    std::span<bfloat16> bfloat16_copy = {};

    template <class W, class G, class... S>
    basic_slice(W&& weight_buffer, G&& gradient_buffer, S&&... state_buffers)
        : detail::tensor<Updater>(weight_buffer, state_buffers...),
          gradient(detail::as_span<typename Updater::traits::storage const, typename basic_slice::memory_space>(
              gradient_buffer)),
          gradient_is_writable(detail::is_writable<G>()) {
        detail::require_lasting<W, G, S...>();
        detail::require_layout(gradient_buffer, weight_buffer);
    }
};

/// The slice of an optimizer, whose type is given as `decltype` says it, const or a reference too:
///
///     std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, m, v}, {bias, bias_grad, bias_m, bias_v}};
template <class Optimizer> using slice = basic_slice<std::remove_cvref_t<Optimizer>>;

namespace detail {
// What a step takes for tensors: one slice of it, or a contiguous range of them.
template <class Updater> using slice_span = std::span<slice<Updater> const>;
template <class T, class Updater>
concept slices_of = std::same_as<std::remove_cvref_t<T>, slice<Updater>> || std::convertible_to<T, slice_span<Updater>>;
} // namespace detail

} // namespace GRADSTEP_ISA
} // namespace gradstep
