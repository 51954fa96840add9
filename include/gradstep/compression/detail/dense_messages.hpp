#pragma once
#include <gradstep/compression/detail/compress.hpp>
#include <gradstep/compression/detail/merge.hpp>
#include <gradstep/engine/detail/dense_parameter.hpp>
#include <gradstep/engine/detail/kernels_of.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// How a parameter whose rule does not compress sends its whole gradient: the functions for its type
// and backend.
struct dense_messages {
    // Writes the gradient times a scale to a dense message, and then zeros to the gradient, if
    // `zeroes`.
    void (*fill)(dense_parameter const&, sparse_message&, double scale, bool zeroes);
    // Writes the mean of dense messages, rounded to the type of the values, to memory of the
    // backend, which is allocated if it has another size.
    void (*mean)(dense_parameter const&, message_list const&, memory_block& to);
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ISA {
// The same for values of type S. The scale must fit into the compute type.
template <class S, class Backend>
void fill_by(Backend const& by, dense_parameter const& of, sparse_message& to, double scale, bool zeroes) {
    given_gradient const& g = of.gradient();
    fill_dense_message(by, to, std::span(static_cast<S const*>(g.data), g.size),
                       static_cast<decltype(widen(S()))>(scale), zeroes);
}
template <class S, class Backend>
void mean_by(Backend const& by, dense_parameter const& of, message_list const& messages, memory_block& to) {
    std::size_t const bytes = of.size() * sizeof(S);
    if (to.bytes() != bytes) to = memory_block(of.code().memory(), bytes);
    if constexpr (std::is_same_v<typename Backend::memory_space, host_memory>) {
        write_mean(by, messages, std::span(static_cast<S*>(to.data()), of.size()));
    } else {
        std::vector<S> on_host(of.size());
        write_mean(by, messages, std::span(on_host));
        of.code().copy_from_host(on_host.data(), to.data(), bytes);
    }
}

// Null if the rule compresses, or no message can contain the type.
template <class Updater> dense_messages const* dense_messages_of() {
    using storage = typename Updater::traits::storage;
    if constexpr (sends_messages<typename Updater::rule_type> || !is_sent<storage>) {
        return nullptr;
    } else {
        static constexpr auto backend = [](dense_parameter const& of) -> auto const& {
            return static_cast<typed_stepper<Updater> const&>(of.by()).updater().backend();
        };
        static constexpr dense_messages of_type{
            [](dense_parameter const& of, sparse_message& to, double scale, bool zeroes) {
                fill_by<storage>(backend(of), of, to, scale, zeroes);
            },
            [](dense_parameter const& of, message_list const& messages, memory_block& to) {
                mean_by<storage>(backend(of), of, messages, to);
            }};
        return &of_type;
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
