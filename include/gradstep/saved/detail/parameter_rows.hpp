#pragma once
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/step/detail/tensor_state.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A parameter whose bfloat16_copy is in memory of the application.
[[noreturn]] inline void refuse_copied_rows() {
    fail<value_error>({"parameter_options.bfloat16_copy"}, {"is set, and its memory does not follow the rows"},
                      {"none"});
}

// A name that is the name of no slot.
[[noreturn, gnu::cold]] inline void refuse_slot(std::string_view name, std::span<char const* const> names) {
    std::string known;
    for (char const* slot : names) known += (known.empty() ? "" : ", ") + std::string(slot);
    fail<value_error>({"state(\"", name, "\")"}, {"no such slot"},
                      {known.empty() ? "a slot of the rule, which has none" : "one of " + known});
}

// The memory of a parameter.
template <class Updater> struct parameter_memory {
    template <class T> using buffer = typename Updater::backend_type::template buffer<T>;
    buffer<typename Updater::traits::storage> values;
    std::array<buffer<typename Updater::traits::state>, Updater::slots> state;

    tensor<Updater> whole() {
        return [&]<std::size_t... I>(std::index_sequence<I...>) { return tensor<Updater>(values, state[I]...); }
        (std::make_index_sequence<Updater::slots>{});
    }
};
// The same after a change of its rows, and the shape.
template <class Updater> struct rearranged_memory : parameter_memory<Updater> { gradstep::shape shape; };

// The numbers of state slot i for a row of `width` elements. 0: the slot does not depend on the
// number of rows, and stays as it is.
template <class Updater>
std::size_t state_width(std::size_t i, std::size_t width, [[maybe_unused]] gradstep::shape const& of) {
    using rule = typename Updater::rule_type;
    if constexpr (factor_slot_count<rule> != 0)
        if (Updater::is_factor_slot(i)) return rule::factor_slots[i - slot_count<rule>].width_of_row(width, of);
    return Updater::is_row_slot(i) ? 0 : width;
}

// The values that a call adds, on the host. Throws buffer_error for memory that is null.
template <class Storage, class Own, class Backend, class Values>
auto values_on_host([[maybe_unused]] Backend const& by, Values const& values) {
    using space = std::conditional_t<lives_in<Values, Own>, Own, host_memory>;
    auto const from = as_span<Storage const, space>(values);
    if (from.data() == nullptr && !from.empty())
        fail<buffer_error>({"append"}, {"values is null"}, {from.size(), " elements of memory"});
    require_layout(values, from);
    if constexpr (std::is_same_v<space, host_memory>) {
        return from;
    } else {
        std::vector<Storage> copy(from.size());
        by.copy_to_host(from, std::span<Storage>(copy));
        return copy;
    }
}

// Copies rows of `width` elements. What a device has goes through the host; `added` is on the host.
template <class Backend, class T>
void put_rows([[maybe_unused]] Backend const& by, std::span<std::size_t const> sources, std::size_t before,
              std::size_t width, std::span<T const> from, std::span<T const> added, std::span<T> to) {
    static_assert(std::is_trivially_copyable_v<T>);
    auto const move = [&](std::span<T const> own, std::span<T> target) {
        move_rows(sources, before, width * sizeof(T), reinterpret_cast<std::byte const*>(own.data()),
                  reinterpret_cast<std::byte const*>(added.data()), reinterpret_cast<std::byte*>(target.data()));
    };
    if constexpr (std::is_same_v<typename Backend::memory_space, host_memory>) {
        move(from, to);
    } else {
        std::vector<T> own(from.size()), target(to.size());
        by.copy_to_host(from, std::span<T>(own));
        by.copy_to_host(std::span<T const>(to), std::span<T>(target));
        move(own, target);
        by.copy_from_host(std::span<T const>(target), to.data());
    }
}

// The memory of a parameter with shape `of` after a change of its rows; `added` is on the host.
// Changes nothing.
template <class Updater>
rearranged_memory<Updater> rearranged(Updater const& by, parameter_memory<Updater>& now, shape const& of,
                                      row_order const& order,
                                      std::span<typename Updater::traits::storage const> added) {
    using memory = parameter_memory<Updater>;
    using backend = typename Updater::backend_type;
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;
    std::size_t const width = of.is_known() ? of.cols : 1, n = order.after() * width;
    rearranged_memory<Updater> out{{typename memory::template buffer<storage>(n), {}}, with_rows(of, order.after())};
    put_rows<backend, storage>(by.backend(), order.values, order.before, width,
                               {backend::data(now.values), now.values.size()}, added, {backend::data(out.values), n});
    for (std::size_t i = 0; i != Updater::slots; ++i)
        out.state[i] = typename memory::template buffer<state_type>(Updater::slot_size(i, n, out.shape));
    if constexpr (Updater::slots != 0 && in_blocks<typename Updater::traits>) {
        auto const first = initial_state(by.rule(), 0.0f);
        host_each<Updater::slots>([&](auto i) {
            move_blocks<map_of<typename Updater::rule_type, i>>(
                order.state, width, slot<i, typename Updater::rule_type>(first),
                {backend::data(now.state[i]), now.state[i].size()}, {backend::data(out.state[i]), out.state[i].size()});
        });
    } else if constexpr (Updater::slots != 0) {
        if (order.has_new_state()) begin_state(by, out.whole(), by.clock().step);
        std::size_t const everything[] = {0};
        for (std::size_t i = 0; i != Updater::slots; ++i) {
            std::size_t const each = state_width<Updater>(i, width, of);
            std::span<state_type const> const from(backend::data(now.state[i]), now.state[i].size());
            std::span<state_type> const to(backend::data(out.state[i]), out.state[i].size());
            if (each != 0) put_rows<backend, state_type>(by.backend(), order.state, order.before, each, from, {}, to);
            else put_rows<backend, state_type>(by.backend(), everything, 1, to.size(), from, {}, to);
        }
    }
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
