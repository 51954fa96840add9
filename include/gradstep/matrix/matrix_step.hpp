#pragma once
#include <gradstep/kernel/detail/copying_kernel.hpp>
#include <gradstep/matrix/detail/matrix_memory.hpp>
#include <gradstep/matrix/detail/matrix_passes.hpp>
#include <gradstep/matrix/factored_work.hpp>
#include <gradstep/step/detail/difference.hpp>
#include <gradstep/step/detail/step_tensors.hpp>
#include <gradstep/step/step_calls.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The step of a rule that uses the shape of a parameter (`muon`, `adafactor`). You use it like
/// `step`. A slice has a shape, and xtensor and Eigen containers bring theirs. A matrix rule needs
/// the shape. A factored rule takes a tensor without a shape for one that is no matrix, unless its
/// state has the lengths of a matrix. Tensors are updated one after the other, each in several
/// passes, of which each can use all threads of the backend.
///
/// The step needs work memory, which the updater keeps and shares with its copies. It is allocated
/// before anything is written. Gradients must be memory: lazy expressions do not compile.
template <class Updater>
class matrix_step : public step_calls<matrix_step<Updater>, Updater>, public detail::without_difference {
    friend step_calls<matrix_step, Updater>;
    using traits = typename Updater::traits;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using rule_type = typename Updater::rule_type;
    using backend_type = typename Updater::backend_type;
    static_assert(std::is_same_v<typename backend_type::memory_space, host_memory>,
                  "gradstep: matrix rule: the backend is a device, and matrices are updated on the host; "
                  "expected serial_backend or simd_backend");
    static_assert(!detail::in_blocks<traits>, "gradstep: block8: this rule reads a whole tensor before it updates an "
                                              "element; expected a rule that works block by block, or float");

    // What runs on a tensor, with its work memory.
    using passes =
        std::conditional_t<factored_rule<rule_type>, detail::factored_passes<Updater>, detail::product_passes<Updater>>;

public:
    /// Made by `updater::next_step`. Throws value_error if the rule's product does not multiply
    /// matrices of the type of the arithmetic.
    matrix_step(Updater const& from, step_info now, step_options const& options, double decay)
        : prepared_(from, now, options, decay), backend_(from.backend()), memory_(from.work_memory().memory) {
        passes::require_step(prepared_.rule);
    }

    /// The prepared numbers of the step.
    prepared_step<Updater> const& prepared() const { return prepared_; }
    /// The backend that runs the elementwise passes and the built-in product.
    backend_type const& backend() const { return backend_; }
    /// Whether a model can split the update of a tensor: never.
    static constexpr bool can_split(std::size_t) { return false; }

    /// Updates many tensors. Error messages number them from `first`.
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
        detail::check_tensor(prepared_, x, number);
        gradstep::shape const of = x.shape;
        if (passes::needs_shape && !of.is_known() && !x.weight.empty())
            detail::fail<value_error>({detail::buffer_name(number, "parameter")},
                                      {"has no shape, and ", detail::type_name<rule_type>(), " needs a matrix"},
                                      {"rows and columns: .shape of a slice or of parameter_options, or set_shape of a "
                                       "parameter or a model; give vectors to another rule"});
        detail::require_elements(detail::buffer_name(number, "shape").c_str(), of, x.weight.size());
        if constexpr (factored_rule<rule_type>)
            if (of.is_known()) x.check_factors(of, number);
    }

    /// The step of one tensor, after validation, with all memory allocated. It refers to the step.
    class pending_update {
    public:
        pending_update(matrix_step const& of, slice<Updater> const& tensor, std::size_t number = detail::only_tensor)
            : of_(&of), tensor_(of.checked(tensor, number)), passes_(of.prepared().rule, of.backend(), tensor_),
              scalars_(of.scalars_of(tensor_, number)) {
            of.memory_->reserve(passes_.bytes());
        }
        /// Sets the id for stochastic rounding.
        void set_id(std::uint64_t id) { tensor_.id = id; }
        void operator()() const {
            if (!tensor_.weight.empty()) of_->run(tensor_, scalars_, passes_);
        }

    private:
        matrix_step const* of_;
        slice<Updater> tensor_;
        passes passes_;
        step_scalars<Updater> scalars_;
    };

private:
    slice<Updater> const& checked(slice<Updater> const& x, std::size_t number) const {
        check(x, number);
        return x;
    }

    step_scalars<Updater> scalars_of(slice<Updater> const& x, std::size_t number) const {
        auto const others = detail::prepare_own_scalars<Updater>(prepared_, {&x, 1}, number);
        return others.by_number.empty() ? prepared().own : others.by_number[0];
    }

    void run(slice<Updater> const& x, step_scalars<Updater> const& scalars, passes const& all) const {
        auto memory = memory_->take(all.bytes());
        detail::rollback_guard back([&] { memory_->give_back(std::move(memory)); });
        for_regularizer_of(
            scalars, x, [&]<class Regularizer>(std::type_identity<Regularizer>, auto const& regularizer) {
                all.template run<Regularizer>(prepared(), backend(), x, scalars.rule, regularizer, memory->data());
            });
        detail::write_copy<Updater>(backend_, x);
    }

    prepared_step<Updater> prepared_;
    backend_type backend_;
    std::shared_ptr<detail::matrix_memory> memory_;
};
} // namespace gradstep::inline GRADSTEP_ISA
