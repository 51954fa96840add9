#pragma once
#include <gradstep/backends/simd.hpp>
#include <gradstep/base/detail/uninitialized.hpp>
#include <gradstep/compression/dgc_step.hpp>
#include <gradstep/runtime/compiled.hpp>
#include <gradstep/runtime/compiled_compression.hpp>
#include <gradstep/schedules/external.hpp>

// How dgc_momentum is compiled for the lists of runtime/compile.hpp, which includes this header.
namespace gradstep::runtime::inline GRADSTEP_ISA {
/// An executor that runs on the threads of the current half of a step.
class erased_executor {
public:
    /// Uses these threads from the next call on.
    void use(erased_threads const& threads) { threads_ = threads; }
    /// See the concept executor.
    std::size_t concurrency() const { return threads_.concurrency; }
    void run(std::size_t parts, task work) const {
        auto const part = [](void const* of, std::size_t p) { (*static_cast<task const*>(of))(p); };
        threads_.run(threads_.of, parts, part, &work, work.bytes());
    }

private:
    erased_threads threads_;
};

/// The updater of dgc_momentum for dense steps.
template <class Element, class Regularizer>
using compressing_type =
    updater<Element, dgc_momentum, Regularizer, external, simd_backend<detail::best_arch, erased_executor>>;

/// An updater of dgc_momentum, behind the interface compressing_updater. It prepares a `dgc_step`,
/// and calls its halves with erased tensors. Between the halves it refers to the messages of the
/// first one. `any_compression` uses it.
template <class Element, class Regularizer>
class compressing : public detail::kernels_of<compressing_type<Element, Regularizer>, compressing_updater> {
    using type = compressing_type<Element, Regularizer>;
    using step_type = dgc_step<type>;
    using base = detail::kernels_of<type, compressing_updater>;
    using storage = typename type::traits::storage;

public:
    /// Leaves the regularizer out unless `decays`.
    compressing(dgc_momentum const& of, Regularizer const& regularizer, bool decays)
        : base(type(of, regularizer, external{}, simd_backend<detail::best_arch, erased_executor>(executor_))),
          decays_(decays) {}

    std::unique_ptr<compiled_updater> copy() const override {
        auto out = std::make_unique<compressing>(this->updater_.rule(), this->updater_.regularizer(), decays_);
        if (step_) out->prepare(now_, options_); // with its own executor
        return out;
    }
    void change(combination const& to) override { change_numbers(this->updater_, to); }
    clock_state advance(erased_step now) const override { return advanced(this->updater_, now); }
    void prepare(erased_step now, step_options const& options) override {
        step_type next(this->updater_, step_info{now.t, now.rate}, options, decays_);
        end_two_phase();                // they refer to the step
        step_.emplace(std::move(next)); // it owns memory: a copy could throw
        now_ = now;
        options_ = options;
    }

    void run(erased_tensor const& x, std::size_t first, std::size_t last) const noexcept override {
        auto const tensor = slice_of(x);
        step_->backend().run_part(step_batch<type>{step_->prepared(), {&tensor, 1}}, first, last);
    }
    bool runs_in_chunks(std::size_t) const noexcept override { return true; }
    void run_whole(erased_tensor const& x) const override { run(x, 0, x.size); }
    void run_rows(row_batch const&, std::size_t, std::size_t, void*) const noexcept override {} // it has none

    void begin_message(erased_tensor const& x, erased_threads const& threads) override {
        end_two_phase();
        begin(x, threads);
        first_.emplace(detail::compression_of(step_->prepared(), step_->backend(), slice_of(tensor_)));
    }
    erased_message message() override {
        own_ = std::move(*first_).run();
        first_.reset();
        return {detail::message_writer::body(own_).data(), own_.count()};
    }
    void release_message() noexcept override { detail::message_writer::release_body(own_); }
    void apply_own() override {
        auto const& step = *step_;
        detail::apply_message(step.prepared(), step.backend(), own_, slice_of(tensor_), step.prepared().own.rule.move);
    }
    void begin_apply(erased_tensor const& x, std::span<erased_message const> messages, bool dense,
                     erased_threads const& threads) override {
        end_two_phase();
        begin(x, threads);
        if (dense) {
            values_.reserve(messages.size());
            for (erased_message const& m : messages) values_.push_back(reinterpret_cast<storage const*>(m.body));
            return;
        }
        detail::rollback_guard none([&] { end_two_phase(); });
        detail::message_list list;
        list.reserve(messages.size());
        sent_ = detail::uninitialized_array<lent_message>(messages.size());
        for (std::size_t r = 0; r != messages.size(); ++r) {
            sent_[r].message =
                detail::message_writer::with_body(detail::sent_type<storage>(), x.size, now_.t, false,
                                                  messages[r].count, const_cast<std::byte*>(messages[r].body));
            list.push_back(&sent_[r].message);
        }
        second_.emplace(*step_, slice_of(tensor_), std::move(list), typename step_type::checked_already{});
        none.dismiss();
    }
    void apply() override {
        if (second_) second_->run();
        else
            detail::apply_mean(step_->prepared(), step_->backend(), slice_of(tensor_), step_->prepared().own,
                               tensor_.id, values_);
    }
    void end_two_phase() noexcept override {
        first_.reset();
        second_.reset();
        own_ = {};
        sent_ = {};
        values_ = {};
    }

private:
    // A message over borrowed memory, for reading only.
    struct lent_message {
        sparse_message message;
        lent_message() = default;
        lent_message(lent_message const&) = delete;
        ~lent_message() { detail::message_writer::release_body(message); }
    };
    void begin(erased_tensor const& x, erased_threads const& threads) {
        executor_.use(threads);
        tensor_ = x;
    }
    gradstep::slice<type> slice_of(erased_tensor const& x) const {
        auto out = base::slice_of(x);
        out.decay = decays_;
        return out;
    }

    erased_executor executor_;
    std::optional<step_type> step_;
    bool decays_;
    erased_step now_ = {};
    step_options options_ = {};
    erased_tensor tensor_; // of the pending half, like the following members
    std::optional<detail::compression<type>> first_;
    std::optional<typename step_type::pending_apply> second_;
    sparse_message own_;
    detail::uninitialized_array<lent_message> sent_;
    std::vector<storage const*> values_;
};

/// The specialisation of `compiled` for dgc_momentum. Without a regularizer it uses the code of l2,
/// which leaves it out: half as much code as with two.
template <class Element, class Regularizer, class Schedule, class Backend>
class compiled<updater<Element, dgc_momentum, Regularizer, Schedule, Backend>> final
    : public compressing<Element, std::conditional_t<std::is_same_v<Regularizer, none>, l2, Regularizer>> {
    using base = compressing<Element, std::conditional_t<std::is_same_v<Regularizer, none>, l2, Regularizer>>;

public:
    explicit compiled(updater<Element, dgc_momentum, Regularizer, Schedule, Backend> const& of)
        : base(of.rule(), regularizer_of(of.regularizer()), !std::is_same_v<Regularizer, none>) {}

private:
    static auto regularizer_of(Regularizer const& of) {
        if constexpr (std::is_same_v<Regularizer, none>) return l2{0};
        else return of;
    }
};
} // namespace gradstep::runtime::inline GRADSTEP_ISA
