#pragma once
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/compression/top_k.hpp>
#include <gradstep/kernel/batch.hpp>
#include <gradstep/rules/dgc_momentum.hpp>
#include <gradstep/step/slice.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The pass of a compressed step: the gradient enters u and v, whose elements it makes. A selection
// goes over it (top_k.hpp), or a backend runs it as any kernel.
template <class Element, class Regularizer> struct compress_kernel {
    using traits = element_traits<Element>;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    using gradient_type = void;
    using stored = state_type;
    static constexpr bool reads_weight = requires { Regularizer::is_decay; };
    static constexpr std::size_t bytes = sizeof(storage) + 4 * sizeof(state_type) +
                                         reads_weight * (sizeof(storage) + traits::has_master * sizeof(state_type));

    typename dgc_momentum::template coeffs<compute> rule;
    GRADSTEP_NO_UNIQUE_ADDRESS typename Regularizer::template coeffs<compute> regularizer;
    storage const* trained; // the parameter, and its master copy if there is one; null: without regularizer
    state_type const* master;
    storage const* gradient;
    storage* zeroed; // null, or the gradient
    compute scale;
    state_type* weight; // u: sweep() aligns by it
    state_type* v;
    std::size_t n;

    std::size_t size() const { return n; }

    template <pack V, class Which> GRADSTEP_HD dgc_momentum::state<V> corrected(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V g = math::mul(V(scale), io::load(gradient + i, which));
        if (reads_weight && trained != nullptr) {
            V w = load_trained<traits, V>(trained, master, i, which);
            Regularizer::before(regularizer, w, g);
        }
        dgc_momentum::state<V> s{io::load(weight + i, which), io::load(v + i, which)};
        dgc_momentum::correct(rule, g, s);
        return s;
    }
    template <pack V, class Which> GRADSTEP_HD V at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        auto const s = corrected<V>(i, which);
        io::store(weight + i, s.u, which);
        io::store(v + i, s.v, which);
        if (zeroed != nullptr) io::store(zeroed + i, V(0), which);
        return s.v;
    }
    template <pack V> GRADSTEP_HD V make(std::size_t i) const { return at<V>(i, all_lanes{}); }
    state_type const* made() const { return v; }
    template <class Backend> void make_all(Backend const& backend) const {
        backend.run(single<compress_kernel>{*this, n, bytes});
    }
    GRADSTEP_HD compute foreseen(std::size_t i) const { return corrected<compute>(i, all_lanes{}).v; }
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(trained) && detail::is_aligned<N>(master) && detail::is_aligned<N>(gradient) &&
               detail::is_aligned<N>(weight) && detail::is_aligned<N>(v);
    }
};

// Sends an entry: its value into the message, 0 into u, and into v what rounding has taken
// (Algorithm 4, momentum factor masking). What 16 bits would make infinite is sent as the largest
// number there is.
template <class S, class T> struct send_entry {
    message_writer::entries<S> to;
    T *u, *v;

    GRADSTEP_HD void operator()(std::size_t entry, std::size_t i) const {
        T const all = v[i];
        S const sent = rounded(all);
        to.write(entry, i, sent);
        u[i] = T(0);
        // All of a NaN or an infinity is gone: the rest of it would be NaN for ever.
        if constexpr (std::is_same_v<S, T>) v[i] = T(0);
        else v[i] = math::abs(all) <= largest_number<T> ? all - widen(sent) : T(0);
    }

private:
    GRADSTEP_HD static S rounded(T x) {
        if constexpr (is_half<S>) {
            T const most = largest_stored<S>;
            if (math::abs(x) <= largest_number<T>) return S(math::min(math::max(x, -most), most));
        }
        return S(x);
    }
};

// The number by which a compressed step multiplies its gradient: gradient_scale, and what brings
// the norm down to `limit`. Throws value_error where the norm is not finite.
template <class Backend, class S>
double clipped_scale(Backend const& backend, std::span<S const> gradient, double gradient_scale, double limit) {
    if (!std::isfinite(limit)) return gradient_scale;
    double const norm = std::abs(gradient_scale) * global_norm(backend, gradient);
    if (!std::isfinite(norm))
        fail<value_error>({"dgc_momentum.local_grad_clip_norm"}, {"the gradient's norm: ", norm, " is out of range"},
                          {ranges::non_negative.text, "; a gradient, or its norm, is not finite"});
    return gradient_scale * clip_scale(norm, limit);
}

// A dense message, and its contents: gradient * scale.
template <class S> sparse_message dense_message_of(std::size_t n, std::int64_t step) {
    return message_writer::begin(sent_type<S>(), n, step, true, n);
}
template <class Backend, class S, class T>
void fill_dense_message(Backend const& backend, sparse_message& message, std::span<S const> g, T scale, bool zeroes) {
    S* const to = message_writer::entries_at<S>(message, message_writer::body(message).data()).values;
    if constexpr (std::is_same_v<typename Backend::memory_space, host_memory>) std::copy(g.begin(), g.end(), to);
    else backend.copy_to_host(g, std::span(to, g.size()));
    if (scale != T(1)) {
        auto const multiply = [&](std::size_t) { // subnormals as the backend treats them
            for (std::size_t i = 0; i != g.size(); ++i) to[i] = S(math::mul(scale, T(widen(to[i]))));
        };
        for_each_part(backend, 1, multiply, g.size_bytes());
    }
    if (zeroes) fill(backend, std::span(const_cast<S*>(g.data()), g.size()), S(0));
}

// One tensor's half of a step, up to its message. Everything is checked, and all memory taken, when
// it is made.
template <class Updater> class compression {
    using backend = typename Updater::backend_type;
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;
    using kernel_type = compress_kernel<typename Updater::element_type, typename Updater::regularizer_type>;
    using selection_type = typename selection_on<backend, kernel_type>::type;

public:
    compression(backend const& on, kernel_type const& kernel, selection selected, std::size_t k, std::int64_t step,
                std::uint64_t seed, std::uint64_t id)
        : kernel_(kernel),
          selection_(selected == selection::exact ? selection_type(on, kernel, k)
                                                  : selection_type::by_sample(on, kernel, k, seed, hash_of(step, id))),
          message_(message_writer::begin(sent_type<storage>(), kernel.n, step, false, selection_.most())) {}

    sparse_message run() && {
        message_writer::resize(message_, selection_.run());
        selection_.each_to(message_writer::body(message_), [&](std::byte* body) {
            return send_entry<storage, state_type>{message_writer::entries_at<storage>(message_, body), kernel_.weight,
                                                   kernel_.v};
        });
        return std::move(message_);
    }

private:
    static std::uint64_t hash_of(std::int64_t step, std::uint64_t id) {
        return static_cast<std::uint64_t>(step) ^ fibonacci_hash(id);
    }

    kernel_type kernel_;
    selection_type selection_;
    sparse_message message_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
