#pragma once
#include <variant>

#include <gradstep/base/error.hpp>
#include <gradstep/base/type_list.hpp>
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/policy.hpp>
#include <gradstep/regularizers/all.hpp>

namespace gradstep {
/// The regularizers that `any_regularizer` can contain, alone or in sequence.
using regularizers = type_list<l1, l2, elastic_net, decoupled, after_step<decoupled>, cautious_decay, proximal<l1>,
                               proximal<l2>, proximal<elastic_net>, clamp_weight, clip_value, zero_nonfinite>;
} // namespace gradstep

namespace gradstep::detail {
// The number of a regularizer in the list. Types that do the same with their numbers share the
// first one's number.
template <class Regularizer>
inline constexpr auto regularizer_kind = static_cast<std::uint32_t>(regularizers::index_of<Regularizer>);
template <class Penalty>
inline constexpr auto
    regularizer_kind<proximal<Penalty>> = static_cast<std::uint32_t>(regularizers::index_of<proximal<l1>>);
} // namespace gradstep::detail

namespace gradstep::inline GRADSTEP_ABI {
/// Regularizers chosen at run time, applied left to right as by `all_of`: 0 to `most` of them.
///
///     gs::any_regularizer regularizer = read ? gs::any_regularizer{gs::l2{1e-4}} : gs::any_regularizer{};
///     auto optimizer = gs::make_updater<float>(gs::adam{}, regularizer, gs::constant{1e-3});
///
/// One type for all combinations, so that one loop is compiled. The bits are the same as with the
/// regularizers themselves. The loop looks up the kinds for every pack of elements. This costs
/// almost nothing if memory is the limit. In cache it slows a step down, more so with several
/// regularizers (docs/explanation/benchmarks.md).
///
/// It does not define its effect on a row without gradient: tables support it with `touch_only`
/// only.
class any_regularizer {
public:
    /// One of the regularizers above. Up to `most` of them can follow each other.
    using part = regularizers::as<std::variant>;
    static constexpr std::size_t most = 6;

    /// Contains no regularizer.
    any_regularizer() = default;
    /// Contains a regularizer of gradstep: one from the list, `none`, or the parts of `all_of`.
    /// Throws value_error for more than `most`.
    any_regularizer(none) {}
    template <class Regularizer>
    requires(regularizers::index_of<Regularizer> != regularizers::size) any_regularizer(Regularizer const& only)
        : size_(1), parts_{part(only)} {}
    template <class... Regularizers> any_regularizer(all_of<Regularizers...> const& several) { append(several); }
    /// Contains several regularizers, from left to right. Throws value_error for more than `most`.
    explicit any_regularizer(std::span<part const> parts) {
        for (part const& one : parts) push_back(one);
    }

    /// The regularizers, from left to right.
    std::span<part const> parts() const { return {parts_.data(), size_}; }

    /// Returns the same without its decaying parts (`without_decay`), for tensors without decay.
    any_regularizer without_decay() const {
        any_regularizer out;
        for (part const& one : parts())
            if (!std::visit(
                    []<class R>(R const&) {
                        return requires { requires R::is_decay; };
                    },
                    one))
                out.push_back(one);
        return out;
    }

    /// Returns the same with decaying parts that are `factor` times as fast.
    any_regularizer decayed_by(double factor) const {
        any_regularizer out;
        for (part const& one : parts())
            out.push_back(std::visit([&](auto const& r) { return part(scaled_decay(r, factor)); }, one));
        return out;
    }

    template <class T> struct coeffs {
        /// The coefficients of one regularizer as numbers; no regularizer has more than two.
        struct step {
            std::uint32_t kind;
            std::array<T, 2> numbers;
        };
        std::uint32_t count, first_after; // the number of parts; the first one that acts after the rule
        std::array<step, most> steps;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        coeffs<T> out{0, most, {}};
        for (part const& one : parts())
            std::visit(
                [&]<class R>(R const& r) {
                    if (detail::acts_after<R> && out.first_after == most) out.first_after = out.count;
                    out.steps[out.count++] = {detail::regularizer_kind<R>, numbers_of<T>(r.template prepare<T>(now))};
                },
                one);
        return out;
    }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const& c, V& w, V& g) {
        for (std::uint32_t i = 0; i < c.count; ++i)
            regularizers::any([&]<class R>() GRADSTEP_INLINE_LAMBDA {
                if constexpr (!detail::acts_before<R>) {
                    return false;
                } else {
                    if (c.steps[i].kind != detail::regularizer_kind<R>) return false;
                    R::before(coeffs_of<R>(c.steps[i].numbers), w, g);
                    return true;
                }
            });
    }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V const& old, V& w) {
        for (std::uint32_t i = c.first_after; i < c.count; ++i)
            regularizers::any([&]<class R>() GRADSTEP_INLINE_LAMBDA {
                if constexpr (!detail::acts_after<R> || detail::regularizer_kind<R> != regularizers::index_of<R>) {
                    return false;
                } else {
                    if (c.steps[i].kind != detail::regularizer_kind<R>) return false;
                    detail::act_after<R>(coeffs_of<R>(c.steps[i].numbers), old, w);
                    return true;
                }
            });
    }

    /// Checks every part, for `check_policy`.
    GRADSTEP_INLINE void check_all(double largest) const {
        for (part const& one : parts()) std::visit([&](auto const& r) { detail::check(r, largest); }, one);
    }
    /// Describes `none`, one part, or `all_of` the parts, for `describe` and `to_json`.
    GRADSTEP_INLINE void describe_to(detail::policy_visitor& to) const {
        if (size_ == 0) return detail::visit_policy(to, none{});
        if (size_ > 1) to.begin_list("all_of");
        for (part const& one : parts()) std::visit([&](auto const& r) { detail::visit_policy(to, r); }, one);
        if (size_ > 1) to.end_list();
    }

private:
    template <class T, class Coeffs> static std::array<T, 2> numbers_of(Coeffs const& c) {
        if constexpr (std::is_empty_v<Coeffs>) return {};
        else if constexpr (sizeof(Coeffs) == sizeof(T)) return {std::bit_cast<T>(c), T(0)};
        else return std::bit_cast<std::array<T, 2>>(c);
    }
    template <class R, class T> GRADSTEP_HD static auto coeffs_of(std::array<T, 2> const& numbers) {
        using type = typename R::template coeffs<T>;
        if constexpr (std::is_empty_v<type>) return type{};
        else if constexpr (sizeof(type) == sizeof(T)) return type{numbers[0]};
        else return type{numbers[0], numbers[1]};
    }

    void push_back(part const& one) {
        if (size_ == most)
            detail::fail<value_error>({"any_regularizer"}, {"more than ", most, " regularizers"}, {"at most ", most});
        parts_[size_++] = one;
    }
    template <class Regularizer> void append(Regularizer const& next) {
        if constexpr (std::is_same_v<Regularizer, none>) return;
        else if constexpr (requires { next.first; }) {
            append(next.first);
            append(next.rest);
        } else if constexpr (!std::is_same_v<Regularizer, all_of<>>) {
            push_back(part(next));
        }
    }

    std::size_t size_ = 0; // inline storage: a step copies it without allocating memory
    std::array<part, most> parts_;
};
} // namespace gradstep::inline GRADSTEP_ABI
