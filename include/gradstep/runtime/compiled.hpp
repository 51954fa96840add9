#pragma once
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/engine/detail/kernels_of.hpp>
#include <gradstep/rows/detail/table_kernels_of.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

// An updater of a type behind the interface compiled_updater.
namespace gradstep::runtime::inline GRADSTEP_ISA {
/// The rule of a combination, which has this type.
template <class Rule> Rule rule_in(combination const& of) {
    if constexpr (requires(Rule const& averaged) { averaged.average; })
        return {*static_cast<decltype(Rule::rule) const*>(of.rule_policy),
                *static_cast<decltype(Rule::average) const*>(of.average_policy)};
    else return *static_cast<Rule const*>(of.rule_policy);
}
/// The regularizer of a combination, which has this type.
template <class Regularizer> Regularizer regularizer_in(combination const& of) {
    if constexpr (std::is_same_v<Regularizer, any_regularizer>) return any_regularizer(of.regularizers);
    else if constexpr (std::is_same_v<Regularizer, none>) return {};
    else return std::get<Regularizer>(of.regularizers[0]);
}

/// Replaces the numbers of an updater's policies, which have the same types.
template <class Updater> void change_numbers(Updater& of, combination const& to) {
    of = Updater(rule_in<typename Updater::rule_type>(to), regularizer_in<typename Updater::regularizer_type>(to),
                 of.schedule(), of.backend());
}
/// Whether two policies have the same numbers, bit for bit; false if some are in containers.
template <class Policy> bool same_numbers(Policy const& a, Policy const& b) {
    bool same = std::is_empty_v<Policy> || (std::is_scalar_v<Policy> && std::memcmp(&a, &b, sizeof a) == 0);
    if constexpr (requires { Policy::hyperparameters; }) {
        same = true;
        Policy::hyperparameters.for_each([&](auto const& one) { same = same && same_numbers(a.*one.at, b.*one.at); });
    }
    return same;
}
/// Returns the state of the clock after a step, for compiled_updater::advance.
template <class Updater> clock_state advanced([[maybe_unused]] Updater const& of, erased_step const& now) {
    if constexpr (detail::keeps_clock_state<typename Updater::rule_type>)
        return of.rule().advance(step_info{now.t, now.rate, now.state});
    else return now.state;
}

/// The gradient of row r of a batch: if it has several, their sum or mean, in batch order, each
/// times its factor.
template <class S> S const* row_gradient(row_batch const& of, std::size_t r, S* staged) {
    std::size_t const width = of.rows.width, first = of.batch.begin == nullptr ? r : of.batch.begin[r],
                      count = of.batch.begin == nullptr ? 1 : of.batch.begin[r + 1] - first;
    auto const gradient = [&](std::size_t j) {
        return static_cast<S const*>(of.gradients) + (of.batch.sources == nullptr ? j : of.batch.sources[j]) * width;
    };
    auto const* const factors = static_cast<S const*>(of.batch.factors);
    if (count == 1 && factors == nullptr) return gradient(first);
    if (factors == nullptr) std::copy_n(gradient(first), width, staged);
    else
        for (std::size_t i = 0; i != width; ++i) staged[i] = math::mul(factors[first], gradient(first)[i]);
    for (std::size_t k = 1; k != count; ++k) {
        S const* const g = gradient(first + k);
        for (std::size_t i = 0; i != width; ++i) {
            if constexpr (std::is_integral_v<S>) staged[i] = math::fma(S(1), staged[i], g[i]);
            else if (factors == nullptr) staged[i] += g[i];
            else staged[i] += math::mul(factors[first + k], g[i]);
        }
    }
    if constexpr (!std::is_integral_v<S>)
        if (of.options.duplicates == duplicates::mean)
            for (std::size_t i = 0; i != width; ++i) staged[i] = math::div(staged[i], S(count));
    return staged;
}

/// One type of updater, behind the interface compiled_updater.
template <class Updater> class compiled final : public detail::step_kernels<Updater, compiled_updater, true> {
    using base = detail::step_kernels<Updater, compiled_updater, true>;

public:
    using base::base;
    std::unique_ptr<compiled_updater> copy() const override { return owned_updater(new compiled(*this)); }
    void change(combination const& to) override { change_numbers(this->updater_, to); }
    clock_state advance(erased_step now) const override { return advanced(this->updater_, now); }
    void prepare(erased_step now, step_options const& options, [[maybe_unused]] compiled_updater const* like) override {
        if constexpr (base::copies_steps)
            if (like != nullptr && &like->facts() == &this->facts()) { // of this type
                auto const& other = static_cast<compiled const&>(*like);
                if (same_numbers(this->updater_.rule(), other.updater_.rule()) &&
                    same_numbers(this->updater_.regularizer(), other.updater_.regularizer()))
                    return this->hold_copy(other);
            }
        this->hold(step_info{now.t, now.rate, now.state}, options);
    }
    void run_rows([[maybe_unused]] row_batch const& of, [[maybe_unused]] std::size_t first,
                  [[maybe_unused]] std::size_t last, [[maybe_unused]] void* staged) const noexcept override {
        using summed = typename traits::compute; // of several gradients
        using pack = typename Updater::backend_type::template pack<summed>;
        if constexpr (shaped_rule<rule> || model_wise_rule<rule> || detail::keeps_clock_state<rule> ||
                      detail::in_blocks<traits>) {
        } else if constexpr (!std::is_same_v<storage, summed>) {
            // The sum of several gradients has more digits than a gradient: a kernel of its own.
            typename detail::no_history<summed>::view_type const none{};
            auto const update = detail::make_row_update(this->updater_, this->prepared(), of.rows, of.batch,
                                                        of.gradients, of.elements, none, of.num_rows, of.options);
            detail::run_rows<pack, true>(update, first, last, static_cast<summed*>(staged));
        } else {
            update_rows(of, first, last, static_cast<storage*>(staged));
        }
    }

    void add_rows([[maybe_unused]] detail::pooled_rows const& of) const noexcept override {
        using pack = typename Updater::backend_type::template pack<typename traits::compute>;
        if constexpr (!shaped_rule<rule> && !model_wise_rule<rule> && !detail::keeps_clock_state<rule> &&
                      !detail::in_blocks<traits>)
            detail::add_rows<pack, storage>(of);
    }

private:
    using rule = typename Updater::rule_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;

    // The rows of a batch, each by the kernel of a tensor.
    void update_rows(row_batch const& of, std::size_t first, std::size_t last, storage* staged) const {
        prepared_step<Updater> step = this->prepared(); // a copy: each row can have its own bias corrections
        detail::rows_at<Updater> const rows = detail::rows_in<Updater>(of.rows);
        auto const& backend = this->updater_.backend();
        for (std::size_t r = first; r < std::min(first + detail::rows_ahead, last); ++r) rows.prefetch(of.batch.ids[r]);
        for (std::size_t r = first; r != last; ++r) {
            if (r + detail::rows_ahead < last) rows.prefetch(of.batch.ids[r + detail::rows_ahead]);
            std::uint64_t const id = of.batch.ids[r], name = rows.name_of(id);
            auto const row = rows.at(id);
            if (row.update_count != nullptr) {
                *row.update_count += *row.update_count != std::numeric_limits<std::uint32_t>::max();
                step.own.rule =
                    this->updater_.rule().template prepare<storage>(step_info{*row.update_count, step.now.rate});
            }
            auto const tensor = row_tensor(row, rows.width, row_gradient(of, r, staged), of.options.id);
            detail::tensor_batch<Updater> const batch{step, tensor, 0, name, rows.width};
            if constexpr (row_wise_rule<rule>)
                batch.visit(0, [&](auto const& kernel) GRADSTEP_INLINE_LAMBDA {
                    single<std::remove_cvref_t<decltype(kernel)>> const one{kernel, rows.width, batch.bytes};
                    backend.run_row_wise(one, detail::row_pointers(tensor));
                });
            else backend.run_part(batch, 0, rows.width);
            if (of.options.max_norm != 0) detail::limit_norm(row, rows.width, of.options.max_norm);
            if (row.last_step != nullptr) *row.last_step = static_cast<std::uint32_t>(step.now.t);
        }
    }
    static slice<Updater> row_tensor(detail::row_addresses<Updater> const& row, std::size_t width,
                                     storage const* gradient, std::uint64_t id) {
        constexpr std::size_t wide = slot_count<rule>, narrow = row_slot_count<rule>;
        erased_tensor x{};
        x.weight = row.weight;
        x.gradient = gradient;
        x.size = width;
        x.id = id;
        detail::host_each<wide>([&](auto i) { x.slots[i] = detail::slot<i, rule>(row.state); });
        detail::host_each<narrow>([&](auto i) { x.slots[wide + i] = detail::nth<i, narrow>(row.row); });
        if constexpr (traits::has_master) x.slots[Updater::slots - 1] = row.master;
        return compiled::slice_of(x);
    }
};
} // namespace gradstep::runtime::inline GRADSTEP_ISA
