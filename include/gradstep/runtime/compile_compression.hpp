#pragma once
#include <gradstep/backends/simd.hpp>
#include <gradstep/compression/dgc_step.hpp>
#include <gradstep/engine/detail/kernels_of.hpp>
#include <gradstep/runtime/compiled.hpp>
#include <gradstep/schedules/external.hpp>

// How dgc_momentum is compiled for the lists of runtime/compile.hpp, which includes this header.
namespace gradstep::runtime::inline GRADSTEP_ISA {
/// An executor that runs on the threads of the current call.
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
/// whose calls run on the threads of any_parameter.
template <class Element, class Regularizer>
class compressing
    : public detail::step_halves<compressing_type<Element, Regularizer>,
                                 detail::step_kernels<compressing_type<Element, Regularizer>, compressing_updater>> {
    using type = compressing_type<Element, Regularizer>;
    using base = detail::step_halves<type, detail::step_kernels<type, compressing_updater>>;

public:
    /// Leaves the regularizer out unless `decays`.
    compressing(dgc_momentum const& of, Regularizer const& regularizer, bool decays)
        : base(type(of, regularizer, external{}, simd_backend<detail::best_arch, erased_executor>(executor_))),
          decays_(decays) {}

    std::unique_ptr<compiled_updater> copy() const override {
        auto out = std::make_unique<compressing>(this->updater_.rule(), this->updater_.regularizer(), decays_);
        if (now_.t != 0) out->prepare(now_, options_, nullptr); // with its own executor
        return out;
    }
    void change(combination const& to) override { change_numbers(this->updater_, to); }
    clock_state advance(erased_step now) const override { return advanced(this->updater_, now); }
    void prepare(erased_step now, step_options const& options, compiled_updater const*) override {
        this->end_half(); // it refers to the step
        dgc_step<type> next(this->updater_, step_info{now.t, now.rate}, options, decays_);
        this->hold(options, [&] { return next; });
        executor_.use({});
        now_ = now;
        options_ = options;
    }
    void run_rows(row_batch const&, std::size_t, std::size_t, void*) const noexcept override {} // it has none
    void add_rows(gradstep::detail::pooled_rows const&) const noexcept override {}
    void use_threads(erased_threads const& threads) noexcept override { executor_.use(threads); }

private:
    erased_executor executor_;
    bool decays_;
    erased_step now_ = {};
    step_options options_ = {};
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
