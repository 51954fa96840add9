#pragma once
#include <gradstep/matrix/matrix_work.hpp>
#include <gradstep/step/prepared_step.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// What both elementwise passes of a matrix rule read. If a regularizer acts before the rule, it
// acts in both passes, on the same numbers: the first pass needs the gradient that it leaves, and
// the last one the weight.
template <class Element, class Rule, class Regularizer, class Gradient> struct matrix_pass {
    using traits = element_traits<Element>;
    using gradient_type = void;
    using compute = typename traits::compute;
    using state_type = typename traits::state;
    static constexpr bool regularizes_before = acts_before<Regularizer>;

    typename Rule::template coeffs<compute> rule;
    typename Regularizer::template coeffs<compute> regularizer;
    typename traits::storage* weight;
    Gradient gradient;
    typename Rule::template state<state_type*> state;
    state_type* master; // null unless the element keeps a master copy
    compute* matrix;

    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && gradient.template is_aligned<N>() && detail::is_aligned<N>(master) &&
               detail::is_aligned<N>(matrix) &&
               slots_are_aligned<N, Rule>(state, std::make_index_sequence<slot_count<Rule>>{});
    }
};

// The gradient of a tensor in the passes of a step, and the random words of its rounding.
template <class Updater> auto gradient_of(prepared_step<Updater> const& now, slice<Updater> const& x) {
    using storage = typename Updater::traits::storage;
    storage const* const g = x.gradient.data();
    return general_gradient<storage, typename Updater::traits::compute>{
        g, now.zero_gradient ? const_cast<storage*>(g) : nullptr, now.gradient_scale};
}
template <class Updater> element_words words_of(prepared_step<Updater> const& now, slice<Updater> const& x) {
    return element_words::of(now.seed, x.step.value_or(now.now.t), x.id.value_or(0));
}

// The first pass: changes the state and writes the matrix, and not the weight.
template <class Element, class Rule, class Regularizer, class Gradient>
struct gather_kernel : matrix_pass<Element, Rule, Regularizer, Gradient> {
    using base = matrix_pass<Element, Rule, Regularizer, Gradient>;
    using slots = std::make_index_sequence<slot_count<Rule>>;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        V w = load_trained<typename base::traits, V>(this->weight, this->master, i, which);
        V g = read<V>(i, which);
        typename Rule::template state<V> s;
        load_slots<Rule, V, true>(this->state, s, i, which, slots{});
        if constexpr (base::regularizes_before) Regularizer::before(this->regularizer, w, g);
        pack_traits<V>::store(this->matrix + i, Rule::gather(this->rule, w, g, s), which);
        store_slots<Rule, V, true>(this->state, s, i, which, slots{});
    }

private:
    // The last pass to read a gradient sets it to zero, if the step does so.
    template <pack V, class Which> GRADSTEP_HD V read(std::size_t i, Which which) const {
        if constexpr (base::regularizes_before) return this->gradient.template peek<V>(i, which);
        else return this->gradient.template load<V>(i, which);
    }
};

// The last pass: moves the weight.
template <class Element, class Rule, class Regularizer, class Gradient>
struct move_kernel : matrix_pass<Element, Rule, Regularizer, Gradient> {
    using base = matrix_pass<Element, Rule, Regularizer, Gradient>;
    using io_traits = typename base::traits;

    settled<Rule, typename base::compute> of_matrix;
    GRADSTEP_NO_UNIQUE_ADDRESS rounding_of<Element> rounding = {};

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V w = load_trained<io_traits, V>(this->weight, this->master, i, which);
        if constexpr (base::regularizes_before) {
            V g = this->gradient.template load<V>(i, which);
            Regularizer::before(this->regularizer, w, g);
        }
        [[maybe_unused]] V const old = w;
        Rule::apply(this->rule, of_matrix, w, io::load(this->matrix + i, which));
        act_after<Regularizer>(this->regularizer, old, w);
        if constexpr (io_traits::is_stochastic) w = stochastically_rounded<typename io_traits::storage>(w, rounding, i);
        io::store(this->weight + i, w, which);
        if constexpr (io_traits::has_master) io::store(this->master + i, w, which);
    }
};

// The passes of a matrix rule over one checked tensor, and the parts of their work memory, in
// elements of the arithmetic.
template <class Updater> class product_passes {
    using compute = typename Updater::traits::compute;
    using storage = typename Updater::traits::storage;
    using rule_type = typename Updater::rule_type;
    using backend_type = typename Updater::backend_type;

public:
    static constexpr bool needs_shape = true;

    product_passes(rule_type const& rule, backend_type const& backend, slice<Updater> const& tensor)
        : shape_(tensor.shape), x_(on_a_line(tensor.weight.size())), rest_(on_a_line(rest_size())) {
        if (!rule.matmul.is_built_in()) return;
        using product = plain_matmul<compute, typename backend_type::template pack<compute>>;
        parts_ = backend.parts_for(std::numeric_limits<std::size_t>::max());
        panels_ = parts_ * on_a_line(product::panel_size(std::max(shape_.rows, shape_.cols)));
    }
    std::size_t bytes() const { return (x_ + rest_ + panels_) * sizeof(compute); }

    // Throws value_error if the rule's product does not multiply matrices of the type of the
    // arithmetic.
    static void require_step(rule_type const& rule) {
        if (!rule.matmul.template takes<compute>())
            fail<value_error>({type_name<rule_type>(), ".matmul"},
                              {"the function takes no matmul_call<", element_traits<compute>::name, ">"},
                              {"a function that does, or the built-in product"});
    }

    template <class Regularizer>
    void run(prepared_step<Updater> const& now, backend_type const& backend, slice<Updater> const& x,
             typename rule_type::template coeffs<compute> const& rule_scalars,
             typename Regularizer::template coeffs<compute> const& regularizer, std::byte* memory) const {
        auto* const begin = reinterpret_cast<compute*>(memory);
        matrix_work<compute, backend_type> work(backend, now.rule.matmul, shape_, begin, {begin + x_, rest_size()},
                                                begin + x_ + rest_, parts_);
        using element = typename Updater::element_type;
        using gradient = general_gradient<storage, compute>;
        using gather = gather_kernel<element, rule_type, Regularizer, gradient>;
        using move = move_kernel<element, rule_type, Regularizer, gradient>;
        typename gather::base pass{rule_scalars,      regularizer,       x.weight.data(), gradient_of(now, x),
                                   state_pointers(x), master_pointer(x), work.x()};
        constexpr std::size_t bytes = Updater::bytes_per_element;
        run_single(backend, gather{pass}, work.size(), bytes);
        auto const settled = now.rule.template transform<compute>(rule_scalars, work);
        pass.matrix = work.x();
        move last{pass, settled};
        if constexpr (Updater::traits::is_stochastic) last.rounding = words_of(now, x);
        run_single(backend, last, work.size(), bytes);
    }

private:
    std::size_t rest_size() const { return rule_type::work_size(shape_.memory_rows(), shape_.memory_cols()); }
    static std::size_t on_a_line(std::size_t n) {
        constexpr std::size_t line = 64 / sizeof(compute);
        return (n + line - 1) / line * line;
    }

    gradstep::shape shape_;
    std::size_t x_, rest_, panels_ = 0, parts_ = 0;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
