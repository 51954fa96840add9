#pragma once
/// A pack of one float whose comparisons give a mask that is no bool, as with a SIMD register: a
/// rule that compiles with float because it branches (`if (g < p)`, `g < p ? a : b`) does not
/// compile with this one.

#include <cstddef>
#include <cstdint>

#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/detail/row_wise.hpp>
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/policy/concepts.hpp>

struct probe_pack {
    float value = 0;

    struct mask {
        bool on;
        friend mask operator&(mask a, mask b) { return {a.on && b.on}; }
        friend mask operator|(mask a, mask b) { return {a.on || b.on}; }
        friend mask operator!(mask a) { return {!a.on}; }
    };

    probe_pack() = default;
    explicit probe_pack(float x) : value(x) {}

    friend probe_pack operator+(probe_pack a, probe_pack b) { return probe_pack(a.value + b.value); }
    friend probe_pack operator-(probe_pack a, probe_pack b) { return probe_pack(a.value - b.value); }
    friend probe_pack operator*(probe_pack a, probe_pack b) { return probe_pack(a.value * b.value); }
    friend probe_pack operator-(probe_pack a) { return probe_pack(-a.value); }
    friend mask operator<(probe_pack a, probe_pack b) { return {a.value < b.value}; }
    friend mask operator<=(probe_pack a, probe_pack b) { return {a.value <= b.value}; }
    friend mask operator>(probe_pack a, probe_pack b) { return {a.value > b.value}; }
    friend mask operator>=(probe_pack a, probe_pack b) { return {a.value >= b.value}; }
    friend mask operator==(probe_pack a, probe_pack b) { return {a.value == b.value}; }
    friend mask operator!=(probe_pack a, probe_pack b) { return {a.value != b.value}; }
};

template <> struct gradstep::pack_traits<probe_pack> {
    using V = probe_pack;
    using one = gradstep::pack_traits<float>;
    using value_type = float;
    static constexpr std::size_t size = 1;
    template <class S> static constexpr bool can_mask = false;

    using wide = double;
    static wide to_wide(V x) { return static_cast<double>(x.value); }
    template <class S> static V load(S const* p, gradstep::all_lanes which) { return V(one::load(p, which)); }
    template <class S> static void store(S* p, V x, gradstep::all_lanes which) { one::store(p, x.value, which); }

    static V fma(V a, V b, V c) { return V(one::fma(a.value, b.value, c.value)); }
    static V fnma(V a, V b, V c) { return V(one::fnma(a.value, b.value, c.value)); }
    static V mul(V a, V b) { return V(one::mul(a.value, b.value)); }
    static V div(V a, V b) { return V(one::div(a.value, b.value)); }
    static V sqrt(V a) { return V(one::sqrt(a.value)); }
    static V pow(V a, V b) { return V(one::pow(a.value, b.value)); }
    static V cbrt_estimate(V a) { return V(one::cbrt_estimate(a.value)); }
    template <class Words> static V signed_word(Words const& words, std::uint64_t i) {
        return V(one::signed_word(words, i));
    }
    static V significand(V a) { return V(one::significand(a.value)); }
    static V exponent(V a) { return V(one::exponent(a.value)); }
    static V abs(V a) { return V(one::abs(a.value)); }
    static V copysign(V magnitude, V sign) { return V(one::copysign(magnitude.value, sign.value)); }
    static V multiply_sign(V a, V sign) { return V(one::multiply_sign(a.value, sign.value)); }
    static V min(V a, V b) { return V(one::min(a.value, b.value)); }
    static V max(V a, V b) { return V(one::max(a.value, b.value)); }
    static V select(V::mask mask, V a, V b) { return V(one::select(mask.on, a.value, b.value)); }
};
static_assert(gradstep::pack<probe_pack>);

/// A backend that runs kernels on probe packs: an updater with it compiles only if its rule and
/// regularizer never branch.
struct probe_backend : gradstep::detail::host_buffers {
    template <class Batch> void run(Batch const& batch) const {
        for (std::size_t k = 0; k < batch.count(); ++k)
            batch.visit(k, [n = batch.size(k)](auto const& kernel) {
                for (std::size_t i = 0; i < n; ++i) kernel.template at<probe_pack>(i, gradstep::all_lanes{});
            });
    }
    static constexpr bool sums_models = true;
    template <class Kernel> auto sums_of(gradstep::single<Kernel> const& batch) const {
        return gradstep::detail::block_sums<Kernel>::template of_all<probe_pack>(batch.kernel, batch.elements);
    }
    template <class Kernel, class Row> void run_row_wise(gradstep::single<Kernel> batch, Row const& row) const {
        using sums = gradstep::detail::block_sums<Kernel>;
        auto const total = sums::template of_all<probe_pack>(batch.kernel, batch.elements);
        gradstep::detail::finalize(batch.kernel, total, batch.elements, row);
        run(batch);
    }
};
