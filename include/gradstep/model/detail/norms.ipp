#pragma once
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/model/detail/blocks.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
template <class Task> double gradient_norms<Task>::of_all(tasks all, executor_reference const* threads) {
    return root_of_squares([&](double scale) {
        double total = 0;
        for (double const sum : sums_of(all, threads, scale, numbers::gradients)) total += sum;
        return total;
    });
}

template <class Task>
std::optional<typename gradient_norms<Task>::infinite_norm>
gradient_norms<Task>::own_clips(tasks all, executor_reference const* threads, double scale,
                                std::vector<double>& clips) {
    clips.assign(all.size(), 1);
    if (auto const wrong = find_limits(all, threads)) return wrong;
    for (auto& sums : found_) sums.clear();
    auto const sums_at = [&](double at) -> std::vector<double> const& {
        std::vector<double>& sums = found_[at == 1 ? 0 : at < 1 ? 1 : 2];
        if (sums.empty()) sums = sums_of(all, threads, at, numbers::limited_gradients);
        return sums;
    };
    seen_.assign(all.size(), false);
    for (std::size_t i = 0; i < all.size(); ++i) {
        norm_limit const own = all[i]->own_limit();
        if (own.is_none() || seen_[i]) continue;
        auto const shares = [&](std::size_t k) { // the limit and the norm
            if (!own.of_all) return k == i;
            norm_limit const other = all[k]->own_limit();
            return other.of_all && other.limit == own.limit;
        };
        double const norm = std::abs(scale) * root_of_squares([&](double at) {
                                double total = 0;
                                std::vector<double> const& sums = sums_at(at);
                                for (std::size_t k = i; k < all.size(); ++k)
                                    if (shares(k)) total += sums[k];
                                return total;
                            });
        if (!std::isfinite(norm)) return infinite_norm{i, norm};
        double const limit = own.is_adaptive() ? limits_[i] : own.limit;
        double const clip = limit == 0 ? (norm == 0 ? 1 : 0) : clip_scale(norm, limit);
        for (std::size_t k = i; k < all.size(); ++k) {
            if (!shares(k)) continue;
            clips[k] = clip;
            seen_[k] = true;
        }
    }
    return {};
}

template <class Task>
std::optional<typename gradient_norms<Task>::infinite_norm>
gradient_norms<Task>::find_limits(tasks all, executor_reference const* threads) {
    limits_.assign(all.size(), 0);
    for (auto& sums : found_) sums.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
        norm_limit const own = all[i]->own_limit();
        if (!own.is_adaptive()) continue;
        double const norm = root_of_squares([&](double at) {
            std::vector<double>& sums = found_[at == 1 ? 0 : at < 1 ? 1 : 2];
            if (sums.empty()) sums = sums_of(all, threads, at, numbers::limiting_weights);
            return sums[i];
        });
        if (!std::isfinite(norm)) return infinite_norm{i, norm, true};
        limits_[i] = own.ratio * std::max(norm, own.epsilon);
    }
    return {};
}

template <class Task>
std::vector<double> const& gradient_norms<Task>::sums_of(tasks all, executor_reference const* threads, double scale,
                                                         numbers of) {
    bool const of_weights = of == numbers::limiting_weights;
    auto const wanted = [&](std::size_t i) {
        if (of == numbers::gradients) return true;
        norm_limit const own = all[i]->own_limit();
        return of_weights ? own.is_adaptive() : !own.is_none();
    };
    auto const in_chunks = [&](std::size_t i) { return wanted(i) && all[i]->reads_in_chunks(); };
    first_.resize(all.size() + 1);
    for (std::size_t i = 0; i < all.size(); ++i)
        first_[i + 1] = first_[i] + (in_chunks(i) ? block_count(all[i]->size()) : 0);
    block_sums_.resize(first_.back());
    for_each_block_of(all, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
        if (!in_chunks(i)) return;
        for (std::size_t b = first / block_size; b < block_count(last); ++b)
            block_sums_[first_[i] + b] = of_weights ? all[i]->weight_block_sum(b, scale) : all[i]->block_sum(b, scale);
    });
    sums_.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        double sum = wanted(i) && !in_chunks(i) ? all[i]->sum_of_squares(scale) : 0;
        for (std::size_t b = first_[i]; b < first_[i + 1]; ++b) sum += block_sums_[b];
        sums_[i] = sum;
    }
    return sums_;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
