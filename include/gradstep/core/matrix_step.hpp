#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/copying_kernel.hpp>
#include <gradstep/core/kernel.hpp>
#include <gradstep/core/matrix_memory.hpp>
#include <gradstep/core/matrix_work.hpp>
#include <gradstep/core/step.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// What both elementwise passes of a matrix rule read. If a regularizer acts before the rule, it acts
// in both passes, on the same numbers: the first pass needs the gradient that it leaves, and the
// last one the weight.
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
    [[no_unique_address]] rounding_of<Element> rounding = {};

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

} // namespace GRADSTEP_ISA
} // namespace detail

inline namespace GRADSTEP_ISA {
/// The step of a matrix rule (`muon`). You use it like `step`, and every tensor needs a shape: a
/// slice has one, and xtensor and Eigen containers bring theirs. Matrices are updated one after the
/// other, each in three passes, of which each can use all threads of the backend.
///
/// The step needs work memory, which the updater keeps and shares with its copies. It is allocated
/// before anything is written. Gradients must be memory: lazy expressions do not compile.
template <class Updater> class matrix_step {
    using traits = typename Updater::traits;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using rule_type = typename Updater::rule_type;
    using backend_type = typename Updater::backend_type;
    static_assert(std::is_same_v<typename backend_type::memory_space, host_memory>,
                  "gradstep: matrix rule: the backend is a device, and the products of matrices run on the host; "
                  "expected serial_backend or simd_backend");
    static_assert(!detail::in_blocks<traits>, "gradstep: block8: this rule reads a whole tensor before it updates an "
                                              "element; expected a rule that works block by block, or float");

    // The parts of the work memory, in elements of the arithmetic.
    struct memory_plan {
        gradstep::shape shape;
        std::size_t x, rest, panels = 0, parts = 0;

        memory_plan(matrix_step const& of, slice<Updater> const& tensor)
            : shape(tensor.shape), x(on_a_line(tensor.weight.size())), rest(on_a_line(rest_size())) {
            if (!of.rule().matmul.is_built_in()) return;
            using product = detail::plain_matmul<compute, typename backend_type::template pack<compute>>;
            parts = of.backend().parts_for(std::numeric_limits<std::size_t>::max());
            panels = parts * on_a_line(product::panel_size(std::max(shape.rows, shape.cols)));
        }
        std::size_t rest_size() const { return rule_type::work_size(shape.memory_rows(), shape.memory_cols()); }
        std::size_t bytes() const { return (x + rest + panels) * sizeof(compute); }

    private:
        static std::size_t on_a_line(std::size_t n) {
            constexpr std::size_t line = 64 / sizeof(compute);
            return (n + line - 1) / line * line;
        }
    };

public:
    /// Made by `updater::next_step`. Throws value_error if the rule's product does not multiply
    /// matrices of the type of the arithmetic.
    matrix_step(Updater const& from, step_info now, step_options const& options, double decay)
        : checks_(from, now, options, decay), memory_(from.work_memory().memory) {
        if (!rule().matmul.template takes<compute>())
            detail::fail<value_error>({detail::type_name<rule_type>(), ".matmul"},
                                      {"the function takes no matmul_call<", element_traits<compute>::name, ">"},
                                      {"a function that does, or the built-in product"});
    }

    /// The learning rate of the step, rate_scale included.
    double rate() const { return checks_.rate(); }
    /// The number of the step; the first is 1.
    std::int64_t number() const { return checks_.number(); }
    /// The prepared numbers of the step.
    prepared_step<Updater> const& prepared() const { return checks_.prepared(); }
    /// The backend that runs the elementwise passes and the built-in product.
    backend_type const& backend() const { return checks_.backend(); }
    /// Whether a model can split the update of a tensor: never.
    static constexpr bool comes_in_pieces(std::size_t) { return false; }

    /// Updates one tensor, like `step::operator()`. The parameter must be a container with a shape
    /// (xtensor, Eigen); otherwise pass a slice. Throws value_error if there is no shape, and
    /// size_error if it has another number of elements.
    template <class W, class G, class... S> void operator()(W&& weight, G&& gradient, S&&... state) const {
        detail::require_lasting<W, S...>();
        begin(0, weight, gradient, state...)();
    }
    /// The same, with the id `id` for stochastic rounding.
    template <class W, class G, class... S>
    void update(std::uint64_t id, W&& weight, G&& gradient, S&&... state) const {
        detail::require_lasting<W, S...>();
        begin(id, weight, gradient, state...)();
    }
    /// Updates many tensors. All are checked, and all memory is allocated, before any is written.
    void operator()(std::span<slice<Updater> const> tensors) const { update_all(tensors, 0); }
    /// The same for one slice.
    template <std::same_as<slice<Updater>> Slice> void operator()(Slice const& tensor) const {
        update_all({&tensor, 1}, detail::only_tensor);
    }
    /// The same for several slices, with the number of the first one, for errors.
    void update_all(std::span<slice<Updater> const> tensors, std::size_t first) const {
        std::vector<pending_update> all;
        all.reserve(tensors.size());
        for (std::size_t k = 0; k != tensors.size(); ++k) {
            all.emplace_back(*this, tensors[k], first + k);
            if (!tensors[k].id) all.back().set_id(k);
        }
        for (pending_update& each : all) each();
    }
    /// Checks the buffers, allocates all memory, and returns a function without arguments that runs
    /// the step, as `step::begin` does.
    template <class W, class G, class... S> auto begin(std::uint64_t id, W& weight, G& gradient, S&... state) const {
        static_assert(detail::contiguous_buffer<G> || !detail::lazy_buffer<G, W>,
                      "gradstep: matrix rule: the gradient is lazy, and the rule can read it more than once; expected "
                      "memory; evaluate it first");
        slice<Updater> tensor(detail::for_one_call{}, weight, gradient, state...);
        tensor.id = id;
        return pending_update(*this, tensor);
    }
    /// The same for one slice.
    auto begin(slice<Updater> const& tensor) const { return pending_update(*this, tensor); }
    /// Throws the errors that a step on this tensor throws before it writes anything.
    void check(slice<Updater> const& x, std::size_t number = detail::only_tensor) const {
        checks_.check(x, number);
        gradstep::shape const of = x.shape;
        if (!of.is_known() && !x.weight.empty())
            detail::fail<value_error>({detail::buffer_name(number, "parameter")},
                                      {"has no shape, and ", detail::type_name<rule_type>(), " needs a matrix"},
                                      {"rows and columns: .shape of a slice or of parameter_options, or set_shape of a "
                                       "parameter or a model; give vectors to another rule"});
        detail::require_elements(detail::buffer_name(number, "shape").c_str(), of, x.weight.size());
    }

    /// The step of one tensor, after validation, with all memory allocated. It refers to the step.
    class pending_update {
    public:
        pending_update(matrix_step const& of, slice<Updater> const& tensor, std::size_t number = detail::only_tensor)
            : of_(&of), tensor_(of.checked(tensor, number)), plan_(of, tensor_),
              scalars_(of.scalars_of(tensor_, number)) {
            of.memory_->reserve(plan_.bytes());
        }
        /// Sets the id for stochastic rounding.
        void set_id(std::uint64_t id) { tensor_.id = id; }
        void operator()() const {
            if (!tensor_.weight.empty()) of_->run(tensor_, scalars_, plan_);
        }

    private:
        matrix_step const* of_;
        slice<Updater> tensor_;
        typename matrix_step::memory_plan plan_;
        step_scalars<Updater> scalars_;
    };

private:
    rule_type const& rule() const { return prepared().rule; }
    slice<Updater> const& checked(slice<Updater> const& x, std::size_t number) const {
        check(x, number);
        return x;
    }

    step_scalars<Updater> scalars_of(slice<Updater> const& x, std::size_t number) const {
        auto const others = checks_.prepare_others({&x, 1}, number);
        return others.by_number.empty() ? prepared().own : others.by_number[0];
    }

    void run(slice<Updater> const& x, step_scalars<Updater> const& scalars, memory_plan const& plan) const {
        auto memory = memory_->take(plan.bytes());
        detail::rollback_guard back([&] { memory_->give_back(std::move(memory)); });
        auto* const begin = reinterpret_cast<compute*>(memory->data());
        matrix_work<compute, backend_type> work(backend(), rule().matmul, plan.shape, begin,
                                                {begin + plan.x, plan.rest_size()}, begin + plan.x + plan.rest,
                                                plan.parts);
        using step_type = prepared_step<Updater>;
        if constexpr (step_type::has_decay)
            if (x.decay.is_zero())
                return run<typename step_type::undecayed_type>(x, scalars.rule, scalars.undecayed, work);
        run<typename step_type::regularizer_type>(x, scalars.rule, scalars.regularizer, work);
    }
    template <class Regularizer>
    void run(slice<Updater> const& x, typename rule_type::template coeffs<compute> const& rule_scalars,
             typename Regularizer::template coeffs<compute> const& regularizer,
             matrix_work<compute, backend_type>& work) const {
        using element = typename Updater::element_type;
        using gradient = detail::general_gradient<storage, compute>;
        using gather = detail::gather_kernel<element, rule_type, Regularizer, gradient>;
        using move = detail::move_kernel<element, rule_type, Regularizer, gradient>;
        storage const* const g = x.gradient.data();
        typename gather::base pass{
            rule_scalars,
            regularizer,
            x.weight.data(),
            {g, prepared().zero_gradient ? const_cast<storage*>(g) : nullptr, prepared().gradient_scale},
            detail::state_pointers(x),
            detail::master_pointer(x),
            work.x()};
        constexpr std::size_t bytes = Updater::bytes_per_element;
        detail::run_single(backend(), gather{pass}, work.size(), bytes);
        auto const settled = rule().template transform<compute>(rule_scalars, work);
        pass.matrix = work.x();
        move last{pass, settled};
        if constexpr (traits::is_stochastic)
            last.rounding = detail::element_words::of(prepared().seed, x.step.value_or(number()), x.id.value_or(0));
        detail::run_single(backend(), last, work.size(), bytes);
        checks_.write_copy(x);
    }

    step<Updater> checks_; // the numbers of the step, and its checks
    std::shared_ptr<detail::matrix_memory> memory_;
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
