#pragma once
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/engine/detail/compression_kernels.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Adds the two halves of a step to the kernels of an updater. `Base` holds the prepared step, and
// has the interface compression_kernels.
template <class Updater, class Base> class step_halves : public Base {
    using step_type = typename Updater::step_type;
    using storage = typename Updater::traits::storage;

public:
    using Base::Base;
    bool is_dense(std::size_t n) const noexcept final { return this->held().is_dense(n); }
    std::int64_t trainers() const noexcept final { return this->prepared().rule.num_trainers; }

    void begin_message(erased_tensor const& x) final {
        end_half();
        pending_.first.emplace(this->held(), this->slice_in_step(x));
    }
    erased_message message() final {
        sparse_message made = pending_.first->run();
        pending_.first.reset();
        std::size_t const count = made.count();
        return {message_writer::release_body(made), count};
    }
    void begin_apply(erased_tensor const& x, std::span<erased_message const> messages) final {
        end_half();
        rollback_guard none([&] { end_half(); });
        pending_.sent = uninitialized_array<lent_message>(messages.size());
        message_list list;
        list.reserve(messages.size());
        for (std::size_t r = 0; r != messages.size(); ++r) {
            sparse_message& one = pending_.sent[r].message;
            one = message_writer::with_body(sent_type<storage>(), x.size, this->held().number(), is_dense(x.size),
                                            messages[r].count, const_cast<std::byte*>(messages[r].body));
            list.push_back(&one);
        }
        pending_.second.emplace(this->held(), this->slice_in_step(x), std::move(list));
        none.dismiss();
    }
    void apply() final { pending_.second->run(); }
    void end_half() noexcept final { pending_ = pending(); }

private:
    // A message over borrowed memory, for reading only.
    struct lent_message {
        sparse_message message;
        lent_message() = default;
        lent_message(lent_message const&) = delete;
        ~lent_message() { message_writer::release_body(message); }
    };
    // It refers to the step, so a copy of the kernels begins without.
    struct pending {
        std::optional<typename step_type::pending_message> first = {};
        uninitialized_array<lent_message> sent = {};
        std::optional<typename step_type::pending_apply> second = {};
        pending() = default;
        pending(pending const&) noexcept {}
        pending& operator=(pending const&) noexcept {
            second.reset();
            sent = {};
            first.reset();
            return *this;
        }
    };
    pending pending_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
