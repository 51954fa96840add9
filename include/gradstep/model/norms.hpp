#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/core/executor.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/model/norm_limit.hpp>
#include <gradstep/model/pieces.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// The norms of the gradients of parameters, given as pointers: members of a model, or parameters of
// run time. The same sums of the same blocks as gs::global_norm has, whoever computes them. It
// keeps its memory, so that the next step takes none.
class gradient_norms {
public:
    // Of all together.
    template <class Pointers> double of_all(Pointers const& all, executor_reference const* threads) {
        return root_of_squares([&](double scale) {
            double total = 0;
            for (double const sum : sums_of(all, threads, scale, [](auto const&) { return true; })) total += sum;
            return total;
        });
    }
    // What each has to be scaled by to keep its own limit, 1 where it has none; `scale` is what the
    // gradients are scaled by. refuse(i, norm) where a norm is not finite.
    template <class Pointers, class Refuse>
    std::vector<double> const& own_clips(Pointers const& all, executor_reference const* threads, double scale,
                                         Refuse const& refuse) {
        clips_.assign(all.size(), 1);
        for (auto& sums : found_) sums.clear();
        auto const limit_of = [&](std::size_t i) { return all[i]->own_limit(); };
        auto const has_limit = [](auto const& one) { return !one->own_limit().is_none(); };
        auto const sums_at = [&](double at) -> std::vector<double> const& {
            std::vector<double>& sums = found_[at == 1 ? 0 : at < 1 ? 1 : 2];
            if (sums.empty()) sums = sums_of(all, threads, at, has_limit);
            return sums;
        };
        auto const clip_of = [&](std::size_t i, double norm_of_gradients) {
            double const norm = std::abs(scale) * norm_of_gradients;
            if (!std::isfinite(norm)) refuse(i, norm);
            return clip_scale(norm, limit_of(i).limit);
        };
        seen_.assign(all.size(), false);
        for (std::size_t i = 0; i < all.size(); ++i) {
            norm_limit const own = limit_of(i);
            if (own.is_none() || seen_[i]) continue;
            if (!own.of_all) {
                clips_[i] = clip_of(i, root_of_squares([&](double at) { return sums_at(at)[i]; }));
                continue;
            }
            for (std::size_t k = i; k < all.size(); ++k)
                seen_[k] = seen_[k] || (limit_of(k).of_all && limit_of(k).limit == own.limit);
            auto const is_other = [&](std::size_t k) { return !limit_of(k).of_all || limit_of(k).limit != own.limit; };
            double const clip = clip_of(i, root_of_squares([&](double at) {
                                            double total = 0;
                                            std::vector<double> const& sums = sums_at(at);
                                            for (std::size_t k = i; k < all.size(); ++k)
                                                if (!is_other(k)) total += sums[k];
                                            return total;
                                        }));
            for (std::size_t k = i; k < all.size(); ++k)
                if (!is_other(k)) clips_[k] = clip;
        }
        return clips_;
    }

private:
    // Of each that is wanted: the sum of the squares of its gradient times `scale`. The block sums
    // of all[i] are first_[i] and those that follow.
    template <class Pointers, class Wanted>
    std::vector<double> const& sums_of(Pointers const& all, executor_reference const* threads, double scale,
                                       Wanted const& wanted) {
        auto const in_pieces = [&](std::size_t i) { return wanted(all[i]) && all[i]->reads_in_pieces(); };
        first_.resize(all.size() + 1);
        for (std::size_t i = 0; i < all.size(); ++i)
            first_[i + 1] = first_[i] + (in_pieces(i) ? block_count(all[i]->size()) : 0);
        block_sums_.resize(first_.back());
        for_each_block_of(all, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
            if (!in_pieces(i)) return;
            for (std::size_t b = first / block_size; b < block_count(last); ++b)
                block_sums_[first_[i] + b] = all[i]->block_sum(b, scale);
        });
        sums_.resize(all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            double sum = wanted(all[i]) && !in_pieces(i) ? all[i]->sum_of_squares(scale) : 0;
            for (std::size_t b = first_[i]; b < first_[i + 1]; ++b) sum += block_sums_[b];
            sums_[i] = sum;
        }
        return sums_;
    }

    std::vector<std::size_t> first_;
    std::vector<double> block_sums_, sums_, clips_;
    std::array<std::vector<double>, 3> found_; // of one step: as they are, and times powers of two
    std::vector<bool> seen_;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
