#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/backends/simd.hpp>
#include <gradstep/compression/step.hpp>
#include <gradstep/core/uninitialized.hpp>
#include <gradstep/runtime/compiled.hpp>
#include <gradstep/runtime/compiled_compression.hpp>
#include <gradstep/schedules/external.hpp>

// How dgc_momentum is compiled for the lists of runtime/compile.hpp, which includes this.
namespace gradstep {
namespace runtime {
inline namespace GRADSTEP_ISA {

/// An executor of the threads of the half that runs.
class erased_executor {
public:
    /// From the next call on.
    void use(erased_threads const& threads) { threads_ = threads; }
    /// As those of every executor.
    std::size_t concurrency() const { return threads_.concurrency; }
    void run(std::size_t parts, task work) const {
        auto const part = [](void const* of, std::size_t p) { (*static_cast<task const*>(of))(p); };
        threads_.run(threads_.of, parts, part, &work, work.bytes());
    }

private:
    erased_threads threads_;
};

/// A step of dgc_momentum on tensors that have been checked. One that was made without decay leaves the regularizer out.
template <class Updater> class unchecked_compressing_step final : public step<Updater> {
    using base = step<Updater>;

public:
    using base::base;

    /// Elements [first, last) of a tensor, with the gradient that all trainers have the mean of.
    void run_part(slice<Updater> const& x, std::size_t first, std::size_t last) const noexcept {
        this->visit_gradient(x, this->prepared_.rule, [&](auto reader) GRADSTEP_INLINE_LAMBDA {
            auto const run = [&](auto const& kernel) GRADSTEP_INLINE_LAMBDA {
                this->backend_.run_part(
                    single<std::remove_cvref_t<decltype(kernel)>>{kernel, x.weight.size(), Updater::bytes_per_element},
                    first, last);
            };
            auto const& scalars = this->prepared_;
            if (this->decays_)
                run(this->template kernel<typename Updater::regularizer_type>(x, scalars.rule, scalars.regularizer,
                                                                              reader, *x.id, this->now_.t));
            else
                run(this->template kernel<typename Updater::undecayed_type>(x, scalars.rule, scalars.undecayed, reader,
                                                                            *x.id, this->now_.t));
        });
    }
    /// The first half, `begun`, of slices whose `decay` is that of the step.
    detail::compression<Updater> begun(slice<Updater> const& x) const { return this->compression_of(x); }
    /// The second half, with the message of a single trainer.
    void apply_own(slice<Updater> const& x, sparse_message const& own) const {
        this->apply_alone(own, x, this->prepared_.rule.move);
    }
    /// The second half, with the mean of what dense messages hold.
    void apply_mean(slice<Updater> const& x,
                    std::vector<typename Updater::traits::storage const*> const& messages) const {
        this->apply_dense(x, this->prepared_, *x.id, messages);
    }
};

/// The updater of dgc_momentum that sweeps are run with.
template <class Element, class Regularizer>
using compressing_type =
    updater<Element, dgc_momentum, Regularizer, external, simd_backend<detail::best_arch, erased_executor>>;

/// dgc_momentum behind the calls of compressing_updater.
template <class Element, class Regularizer>
class compressing : public basic_compiled<compressing_type<Element, Regularizer>, compressing_updater,
                                          unchecked_compressing_step<compressing_type<Element, Regularizer>>> {
    using type = compressing_type<Element, Regularizer>;
    using step_type = unchecked_compressing_step<type>;
    using base = basic_compiled<type, compressing_updater, step_type>;
    using storage = typename type::traits::storage;

public:
    /// Without `decays` as if there were no regularizer.
    compressing(dgc_momentum const& of, Regularizer const& regularizer, bool decays)
        : base(type(of, regularizer, external{}, simd_backend<detail::best_arch, erased_executor>(executor_))),
          decays_(decays) {}

    std::unique_ptr<compiled_updater> copy() const override {
        auto out = std::make_unique<compressing>(this->updater_.rule(), this->updater_.regularizer(), decays_);
        if (this->step_) out->prepare(now_, options_); // by an executor of its own
        return out;
    }
    void prepare(step_info now, step_options const& options) override {
        step_type next(this->updater_, now, options, decays_);
        end_halves();                         // they refer to the step
        this->step_.emplace(std::move(next)); // which owns memory: a copy could throw
        now_ = now;
        options_ = options;
    }

    void begin_message(erased_tensor const& x, erased_threads const& threads) override {
        end_halves();
        begin(x, threads);
        first_.emplace(this->step_->begun(slice()));
    }
    erased_message message() override {
        own_ = std::move(*first_).run();
        first_.reset();
        return {detail::message_writer::body(own_).data(), own_.count()};
    }
    void release_message() noexcept override { detail::message_writer::release_body(own_); }
    void apply_own() override { this->step_->apply_own(slice(), own_); }
    void begin_apply(erased_tensor const& x, std::span<erased_message const> messages, bool dense,
                     erased_threads const& threads) override {
        end_halves();
        begin(x, threads);
        if (dense) {
            values_.reserve(messages.size());
            for (erased_message const& m : messages) values_.push_back(reinterpret_cast<storage const*>(m.body));
            return;
        }
        detail::undo_unless_done none([&] { end_halves(); });
        detail::message_list list;
        list.reserve(messages.size());
        sent_ = detail::uninitialized_array<lent_message>(messages.size());
        for (std::size_t r = 0; r != messages.size(); ++r) {
            sent_[r].message = detail::message_writer::with_body<storage>(x.size, now_.t, messages[r].count,
                                                                          const_cast<std::byte*>(messages[r].body));
            list.push_back(&sent_[r].message);
        }
        second_.emplace(*this->step_, slice(), std::move(list), typename step_type::checked_already{});
        none.dismiss();
    }
    void apply() override {
        if (second_) second_->run();
        else this->step_->apply_mean(slice(), values_);
    }
    void end_halves() noexcept override {
        first_.reset();
        second_.reset();
        own_ = {};
        sent_ = {};
        values_ = {};
    }

private:
    // Its memory stays another's, and is read alone.
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
    gradstep::slice<type> slice() const {
        auto out = this->slice_of(tensor_);
        out.decay = decays_;
        return out;
    }

    erased_executor executor_;
    bool decays_;
    step_info now_ = {};
    step_options options_ = {};
    erased_tensor tensor_; // of the half that has begun, as what follows
    std::optional<detail::compression<type>> first_;
    std::optional<typename step_type::begun_apply> second_;
    sparse_message own_;
    detail::uninitialized_array<lent_message> sent_;
    std::vector<storage const*> values_;
};

/// What `compiled` is of dgc_momentum. Without a regularizer it has the code of l2, which leaves it out: half of the memory of
/// two.
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

} // namespace GRADSTEP_ISA
} // namespace runtime
} // namespace gradstep
