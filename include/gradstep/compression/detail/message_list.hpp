#pragma once
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/memory/buffer.hpp>

// The messages of all trainers in one step of one tensor, and what such a step refuses.
namespace gradstep::detail::inline GRADSTEP_ABI {
using message_list = std::vector<sparse_message const*>;

// A message, or a contiguous range of messages.
template <class T>
concept some_messages = std::same_as<std::remove_cvref_t<T>, sparse_message> ||
    (contiguous_range<std::remove_reference_t<T>>&& requires(T& x) {
        { *std::begin(x) } -> std::convertible_to<sparse_message const&>;
    });

inline void append(message_list& list, sparse_message const& one) { list.push_back(&one); }
template <class Range>
requires(!std::same_as<Range, sparse_message>) void append(message_list& list, Range const& all) {
    for (sparse_message const& one : all) list.push_back(&one);
}

// Throws value_error unless there is a message of each trainer, all for this step and this tensor.
void check_messages(message_list const& messages, std::size_t size, std::int64_t step, std::string_view element,
                    bool dense, std::int64_t trainers);

[[noreturn]] void refuse_own_step(std::size_t tensor);
[[noreturn]] void refuse_alone(std::int64_t trainers);
[[noreturn]] void refuse_dense();
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/compression/detail/message_list.ipp>
#endif
