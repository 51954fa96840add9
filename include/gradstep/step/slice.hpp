#pragma once
#include <gradstep/base/fixed_string.hpp>
#include <gradstep/kernel/detail/block_kernel.hpp>
#include <gradstep/memory/buffer.hpp>
#include <gradstep/number/bfloat16.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/decay_factor.hpp>
#include <gradstep/policy/detail/slots.hpp>
#include <gradstep/policy/factored.hpp>
#include <gradstep/policy/shape.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A buffer of a slice: a span, and a reference to the container that the span was made from, if
/// there is one. The slice then looks up the container's memory whenever it is used. If you assign
/// to it, it becomes a span without a container.
template <class T> class slice_buffer : public std::span<T> {
public:
    slice_buffer() = default;
    slice_buffer(std::span<T> elements) : std::span<T>(elements) {}
    slice_buffer(slice_buffer const&) = default;
    /// Refers to the memory that `other` has now, and to no container.
    slice_buffer& operator=(slice_buffer const& other) { return *this = std::span<T>(other); }
    /// Refers to these elements, and to no container.
    slice_buffer& operator=(std::span<T> elements) {
        std::span<T>::operator=(elements);
        container_ = nullptr;
        return *this;
    }

    /// Refers to `container` from now on. For slices.
    template <class B> void refer_to(B& container) { container_ = std::addressof(container); }
    /// Looks up the memory of the container, of type B. Returns true if there is a container and
    /// its memory has not moved.
    template <class Space, class B> GRADSTEP_INLINE bool follow() {
        if constexpr (!detail::is_container<B&>()) {
            return false;
        } else {
            if (container_ == nullptr) return false;
            std::span<T> const now = detail::as_span<T, Space>(*static_cast<B*>(const_cast<void*>(container_)));
            if (now.data() == this->data() && now.size() == this->size()) return true;
            std::span<T>::operator=(now);
            return false;
        }
    }
    /// Whether it refers to a container. For slices.
    bool refers() const { return container_ != nullptr; }
    template <class B> B& container() const { return *static_cast<B*>(const_cast<void*>(container_)); }

private:
    void const* container_ = nullptr;
};
template <class T> struct buffer_traits<slice_buffer<T>> : buffer_traits<std::span<T>> {
    static constexpr bool is_view = true;
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// Shows the rule and its slots, as text, in the error of a call with too few or too many buffers.
template <auto Sentence, bool Right> constexpr bool require_state_buffers() {
    static_assert(Right, "gradstep: state: wrong number of state buffers; expected one for each state slot of the "
                         "rule, in its order, then the master copy if the element keeps one (the template argument of "
                         "require_state_buffers names the rule and its slots)");
    return Right;
}

// Parameter and state of one tensor, as spans.
template <class Updater> struct tensor {
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;
    using memory_space = typename Updater::backend_type::memory_space;

    // Mutable, since the memory of containers is looked up whenever a slice is used, even a const
    // one.
    mutable slice_buffer<storage> weight;
    mutable std::array<slice_buffer<state_type>, Updater::slots> state;

    template <class W, class... S>
    explicit tensor(W& weight_buffer, S&... state_buffers) : weight(as_span<storage, memory_space>(weight_buffer)) {
        if constexpr (require_state_buffers<slots_sentence<Updater>(), sizeof...(S) == Updater::slots>()) {
            state = {slice_buffer<state_type>(as_span<state_type, memory_space>(state_buffers))...};
            std::size_t next = 0; // factors have other lengths than the parameter
            ((Updater::is_factor_slot(next++) ? void() : require_layout(state_buffers, weight_buffer)), ...);
        }
    }

    // Throws size_error or buffer_error unless the buffers exist, have the same length, and do not
    // overlap. For a gradient without memory (0 bytes) only the length is checked. `number` is the
    // tensor's number in a call with several.
    void check(extent const& gradient, std::size_t number = only_tensor, bool has_weight = true) const {
        if constexpr (has_factor_slots<typename Updater::rule_type>) check_factors(shape_of_factors(), number);
        std::array<extent, 2 + Updater::slots> buffers;
        buffers[0] = extent::of<storage>("parameter", weight);
        if (!has_weight) buffers[0] = {Updater::slots == 0 ? "" : Updater::state_names[0], nullptr, weight.size(), 0};
        buffers[1] = gradient;
        std::size_t i = 0;
        for (auto const& slot : state) {
            buffers[2 + i] = extent::of<state_type>(Updater::state_names[i], slot);
            if constexpr (in_blocks<typename Updater::traits>) {
                if (slot.size() != Updater::slot_size(i, weight.size())) refuse_blocks(i, number);
                buffers[2 + i].size = weight.size(); // the required length
            } else if (Updater::is_row_slot(i)) {
                if (slot.size() != 1) refuse_row_slot(i, number);
                buffers[2 + i].size = weight.size();
            } else if (Updater::is_factor_slot(i)) {
                buffers[2 + i].size = weight.size();
            }
            ++i;
        }
        check_extents(buffers, number);
    }

    // For a factored rule: the shape for which the slots have their lengths, or none.
    // `check_factors` throws size_error unless they have the lengths for this shape.
    gradstep::shape shape_of_factors() const {
        constexpr auto slots = factor_slots_of<typename Updater::rule_type>();
        return detail::shape_of_factors(slots, [&](std::size_t i) { return factors(i).size(); });
    }
    void check_factors(gradstep::shape const& of, std::size_t number) const {
        if (of.is_known() && !of.has(weight.size())) refuse_factors(0, of, number);
        for (std::size_t i = 0; i != factor_slot_count<typename Updater::rule_type>; ++i)
            if (factors(i).size() != Updater::slot_size(first_factor + i, weight.size(), of))
                refuse_factors(i, of, number);
    }

    // The same for other memory that the step writes, after the other checks: the copy of the
    // parameter, or the difference.
    template <class T>
    void check_beside(char const* name, std::span<T> other, extent const& gradient, std::size_t number) const {
        std::array<extent, 2 + Updater::slots> buffers{
            {{"parameter", weight.data(), 0, extent::bytes_of<storage>(weight)}, gradient}};
        for (std::size_t i = 0; i != Updater::slots; ++i)
            buffers[2 + i] = {Updater::state_names[i], state[i].data(), 0, extent::bytes_of<state_type>(state[i])};
        detail::check_beside(buffers, extent::of(name, other), weight.size(), number);
    }

private:
    static constexpr std::size_t first_factor = slot_count<typename Updater::rule_type>;
    auto const& factors(std::size_t i) const { return state[first_factor + i]; }
    [[noreturn, gnu::noinline, gnu::cold]] void refuse_factors(std::size_t i, gradstep::shape const& of,
                                                               std::size_t number) const {
        std::size_t const n = weight.size();
        std::string const name = buffer_name(number, Updater::state_names[first_factor + i]);
        if (of.is_known() && !of.has(n)) // the slots have this shape
            detail::fail<size_error>(
                {name},
                {"the slots are those of a matrix of ", text_of(of), ", and the parameter has ", n, " elements"},
                {"slots for the shape of the parameter, or for a tensor without one"});
        detail::fail<size_error>({name}, {"has ", factors(i).size(), " elements"},
                                 {Updater::slot_size(first_factor + i, n, of), ", for a parameter of ", n, " elements ",
                                  of.is_known() ? "and the shape " + text_of(of) : std::string("without a shape")});
    }
    [[noreturn, gnu::noinline, gnu::cold]] void refuse_row_slot(std::size_t i, std::size_t number) const {
        detail::fail<size_error>({buffer_name(number, Updater::state_names[i])}, {"has ", state[i].size(), " elements"},
                                 {"1, the rule keeps one number for the whole tensor"});
    }
    [[noreturn, gnu::noinline, gnu::cold]] void refuse_blocks(std::size_t i, std::size_t number) const {
        detail::fail<size_error>(
            {buffer_name(number, Updater::state_names[i])}, {"has ", state[i].size(), " blocks"},
            {Updater::slot_size(i, weight.size()), " of ", coded_block::length, " elements, for ", weight.size()});
    }
};

// Pointers to the state of a tensor, for kernels: the slots of its elements, its row slots, the
// master copy.
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

// The shape of a parameter, if its container has one (xtensor, Eigen).
template <class B> gradstep::shape shape_of([[maybe_unused]] B const& buffer) {
    if constexpr (requires { traits_of<B>::shape(buffer); }) return traits_of<B>::shape(buffer);
    else return {};
}
// How a slice keeps the shape: not at all if the rule needs none.
template <class Updater>
using shape_in_slice = std::conditional_t<shaped_rule<typename Updater::rule_type>, slice_shape, ignored_shape>;

// For slices that are destroyed before their containers can change.
struct for_one_call {};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// One tensor of a step: parameter, gradient, and one buffer for each state slot. The slots are in
/// the rule's order, then the master copy. You own the memory. A slice refers to containers that
/// are variables (std::vector, xtensor, Eigen), and looks up their memory and length at every use:
/// you can assign, resize and swap them, but you must not move the variable itself. Spans and other
/// views are copied. A temporary that owns its memory does not compile.
template <class Updater> struct basic_slice : detail::tensor<Updater> {
    mutable slice_buffer<typename Updater::traits::storage const> gradient;
    /// Whether the gradient is writable memory, which `zero_gradient` requires.
    bool gradient_is_writable;
    /// Multiplies the rates of l1, l2, elastic_net, decoupled, after_step, cautious_decay and
    /// proximal for this tensor; false or 0 leaves them out. Clipping stays. Finite and >= 0.
    decay_factor decay = 1;
    /// Multiplies the learning rate for this tensor; finite and >= 0.
    double rate_scale = 1;
    /// The id of the tensor for stochastic rounding and noise: its random bits depend on it. By
    /// default it is the position of the tensor in the call, 0 in a call with one tensor.
    std::optional<std::uint64_t> id = {};
    /// The number of this tensor's own step, from 1, if it differs from the clock's count. Rule and
    /// regularizer are prepared for this number; the learning rate is still the step's. By default
    /// it is the step's number. Rules that define their own type of step reject it.
    std::optional<std::int64_t> step = {};
    /// Memory to which the step also writes the new parameter, rounded to bfloat16 (to nearest,
    /// ties to even), for a forward pass in bfloat16. It must have the parameter's length, be in
    /// the memory of the backend, and not overlap any other buffer of the call. Empty: no copy.
    /// Supported for elements whose parameter is float, and rules that send no gradients; others
    /// reject it.
    std::span<bfloat16> bfloat16_copy = {};
    /// The rows and columns of the parameter, for rules that use them: `x.shape = {512, 256}`. If
    /// the parameter is an xtensor or Eigen container, it has the container's shape until you set
    /// another one. Other rules ignore it.
    GRADSTEP_NO_UNIQUE_ADDRESS detail::shape_in_slice<Updater> shape = {};

    template <class W, class G, class... S>
    requires(!std::same_as<std::remove_cvref_t<W>, detail::for_one_call>)
        basic_slice(W&& weight_buffer, G&& gradient_buffer, S&&... state_buffers)
        : basic_slice(detail::for_one_call{}, weight_buffer, gradient_buffer, state_buffers...) {
        detail::require_lasting<W, G, S...>();
        if constexpr (detail::is_container<W>() || detail::is_container<G>() || (detail::is_container<S>() || ...)) {
            std::size_t next = 0;
            refer<W>(this->weight, weight_buffer);
            refer<G>(gradient, gradient_buffer);
            if constexpr (sizeof...(S) == Updater::slots) (refer<S>(this->state[next++], state_buffers), ...);
            follow_ = &follow_containers<std::remove_reference_t<W>, std::remove_reference_t<G>,
                                         std::remove_reference_t<S>...>;
        }
    }
    /// Uses buffers as they are now: for a slice that does not outlive them.
    template <class W, class G, class... S>
    basic_slice(detail::for_one_call, W& weight_buffer, G& gradient_buffer, S&... state_buffers)
        : detail::tensor<Updater>(weight_buffer, state_buffers...),
          gradient(detail::as_span<typename Updater::traits::storage const, typename basic_slice::memory_space>(
              gradient_buffer)),
          gradient_is_writable(detail::is_writable<G>()) {
        detail::require_layout(gradient_buffer, weight_buffer);
        if constexpr (has_shape) shape.follow(detail::shape_of(weight_buffer));
    }
    basic_slice(basic_slice const&) = default;
    /// Refers to another tensor, including its containers. (Assigning a single buffer makes it a
    /// span.)
    basic_slice& operator=(basic_slice const& other) {
        if (this != &other) std::construct_at(this, other);
        return *this;
    }

    /// Whether any buffer refers to a container.
    bool refers() const { return follow_ != nullptr; }
    /// Looks up the current memory of containers. Throws size_error or buffer_error if shapes or
    /// layouts differ now. Returns whether nothing has changed since `check_buffers` passed.
    GRADSTEP_INLINE bool follow() const { return follow_ != nullptr && follow_(*this); }
    /// Looks up the current memory of containers. Throws size_error or buffer_error unless the
    /// buffers exist, have the same length, and do not overlap. `number` is the tensor's number in
    /// a call with several.
    GRADSTEP_INLINE void check_buffers(std::size_t number = detail::only_tensor) const {
        if (follow_ == nullptr) check_as_they_are(number);
        else check_followed(number);
    }

private:
    static constexpr bool has_shape = shaped_rule<typename Updater::rule_type>;

    GRADSTEP_INLINE void check_as_they_are(std::size_t number) const {
        this->check(detail::extent::of<typename Updater::traits::storage const>("gradient", gradient), number);
    }
    // Buffers that passed the checks are checked again only after a container has moved its memory.
    [[gnu::noinline]] void check_followed(std::size_t number) const {
        if (follow_(*this)) return;
        check_as_they_are(number);
        is_checked_ = refers_throughout();
    }
    template <class B, class T> static void refer(slice_buffer<T>& to, std::remove_reference_t<B>& container) {
        if constexpr (detail::is_container<B>()) to.refer_to(container);
    }
    // Writes only changes, so that several threads can read the gradients of one slice.
    template <class W, class G, class... S> static bool follow_containers(basic_slice const& x) {
        bool same = true;
        auto const follow_one = [&]<class B>(auto& buffer, std::type_identity<B>) GRADSTEP_INLINE_LAMBDA {
            if (buffer.template follow<typename basic_slice::memory_space, B>()) return;
            same = false;
            if (x.is_checked_) x.is_checked_ = false;
        };
        std::size_t next = 0;
        follow_one(x.weight, std::type_identity<W>{});
        if constexpr (has_shape && detail::is_container<W&>())
            if (x.weight.refers()) x.shape.follow(detail::shape_of(x.weight.template container<W>()));
        follow_one(x.gradient, std::type_identity<G>{});
        (follow_one(x.state[next++], std::type_identity<S>{}), ...);
        if (same) return x.is_checked_;
        check_layouts<W, G, S...>(x);
        return false;
    }
    // Compares the layouts of containers. Called after the memory of a container has moved.
    template <class W, class G, class... S> static void check_layouts(basic_slice const& x) {
        auto const check_one = [&]<class B>(auto const& buffer, std::type_identity<B>,
                                            [[maybe_unused]] bool is_factor = false) {
            if constexpr (detail::is_container<B&>() && detail::is_container<W&>())
                if (buffer.refers() && x.weight.refers() && !is_factor)
                    detail::require_layout(buffer.template container<B>(), x.weight.template container<W>());
        };
        check_one(x.gradient, std::type_identity<G>{});
        std::size_t next = 0;
        ((check_one(x.state[next], std::type_identity<S>{}, Updater::is_factor_slot(next)), ++next), ...);
    }

    bool refers_throughout() const {
        bool all = this->weight.refers() && gradient.refers();
        for (auto const& slot : this->state) all = all && slot.refers();
        return all;
    }

    bool (*follow_)(basic_slice const&) = nullptr; // null if there is no container
    mutable bool is_checked_ = false;              // the buffers, as they are now
};

/// The slice type of an optimizer. `decltype` of a const optimizer or of a reference works too:
///
///     std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, m, v}, {bias, bias_grad, bias_m, bias_v}};
template <class Optimizer> using slice = basic_slice<std::remove_cvref_t<Optimizer>>;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// The tensors of a step: one slice, or a contiguous range of slices.
template <class Updater> using slice_span = std::span<slice<Updater> const>;
template <class T, class Updater>
concept slices_of = std::same_as<std::remove_cvref_t<T>, slice<Updater>> || std::convertible_to<T, slice_span<Updater>>;
} // namespace gradstep::detail::inline GRADSTEP_ISA
