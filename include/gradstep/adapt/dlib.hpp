#pragma once
/// Lets dlib's trainers use gradstep's rules:
/// `dlib::dnn_trainer<net, gradstep::dlib::solver<rule>>`. The only header that includes dlib.
/// Tested with dlib 19.24 on the CPU.
///
///     #include <gradstep/adapt/dlib.hpp>
///     #include <gradstep/rules/adam.hpp>
///
///     dlib::dnn_trainer<net_type, gradstep::dlib::solver<gradstep::adam>> trainer(net);
#include <istream>
#include <ostream>

#include <dlib/dnn.h>

#include <gradstep/backends/simd.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/policy/describe.hpp>
#include <gradstep/regularizers/l2.hpp>
#include <gradstep/schedules/external.hpp>
#include <gradstep/updater.hpp>

namespace gradstep::detail::dlib::inline GRADSTEP_ISA {
// The number of the last parameters of a layer that are biases, and have their own multipliers. The
// same layers as in dlib's solvers.
template <class Layer> std::size_t bias_count(Layer const&, std::size_t) { return 0; }
template <unsigned long N> std::size_t bias_count(::dlib::fc_<N, ::dlib::FC_HAS_BIAS> const& layer, std::size_t) {
    return layer.bias_is_disabled() ? 0 : layer.get_num_outputs();
}
template <long F, long R, long C, int SY, int SX, int PY, int PX>
std::size_t bias_count(::dlib::con_<F, R, C, SY, SX, PY, PX> const& layer, std::size_t) {
    return layer.bias_is_disabled() ? 0 : static_cast<std::size_t>(layer.num_filters());
}
template <long F, long R, long C, int SY, int SX, int PY, int PX>
std::size_t bias_count(::dlib::cont_<F, R, C, SY, SX, PY, PX> const& layer, std::size_t) {
    return layer.bias_is_disabled() ? 0 : static_cast<std::size_t>(layer.num_filters());
}
template <::dlib::layer_mode Mode> std::size_t bias_count(::dlib::bn_<Mode> const&, std::size_t parameters) {
    return parameters / 2;
}

// How fast the biases of a layer move, as multiples of the layer's rate and decay.
struct bias_multipliers {
    double rate = 1, decay = 1;
};
template <class Layer> bias_multipliers bias_multipliers_of(Layer const& layer) {
    if constexpr (requires { layer.get_bias_learning_rate_multiplier(); })
        return {layer.get_bias_learning_rate_multiplier(), layer.get_bias_weight_decay_multiplier()};
    else return {};
}

// The weight decay of dlib's solvers.
template <class Regularizer> Regularizer default_regularizer() {
    if constexpr (std::is_same_v<Regularizer, l2>) return {.rate = 0.0005};
    else return {};
}
} // namespace gradstep::detail::dlib::inline GRADSTEP_ISA

namespace gradstep::dlib::inline GRADSTEP_ISA {
/// A solver for dlib::dnn_trainer, in place of dlib::sgd and dlib::adam:
///
///     dlib::dnn_trainer<net_type, gradstep::dlib::solver<gradstep::adam, gradstep::decoupled>>
///         trainer(net, {{.beta2 = 0.99}, {0.01}});
///
/// It uses dlib's learning rate, and the multipliers of each layer for the learning rate, the
/// weight decay and the bias, as dlib's solvers do. The trainer makes a copy for each layer, which
/// keeps the layer's state and counts its steps. A layer's parameters are one tensor; if a
/// multiplier of the bias is not 1, the biases are a second tensor, also for the norms of a
/// row-wise rule.
///
/// `Regularizer` is any regularizer or combination. The default is dlib's weight decay, `l2` with a
/// rate of 0.0005: it is added to the gradient. `gradstep::none` has no decay. `Rule` is any
/// elementwise or row-wise rule; rules with noise, model-wise and matrix rules do not compile.
///
/// It works on tensors in host memory: with a dlib that was built for CUDA it does not compile.
template <class Rule, class Regularizer = l2> class solver {
    using updater = gradstep::updater<float, Rule, Regularizer, external, simd_backend<>>;
    using buffer = typename simd_backend<>::template buffer<float>;
    static constexpr std::size_t slots = updater::slots;
    static_assert(
        std::is_same_v<typename updater::step_type, step<updater>>,
        "gradstep::dlib::solver: the rule needs a whole model, the shape of a matrix or several trainers, and "
        "a solver sees one layer at a time; expected an elementwise or row-wise rule");
    static_assert(!noisy_rule<typename updater::rule_type>,
                  "gradstep::dlib::solver: the rule adds noise, and every layer would get the same numbers; expected a "
                  "rule without noise");
#if defined(DLIB_USE_CUDA)
    static_assert(slots == SIZE_MAX, "gradstep::dlib::solver: this dlib was built for CUDA, and keeps tensors on the "
                                     "GPU; expected dlib without DLIB_USE_CUDA");
#endif

public:
    /// Makes the solver. Throws value_error if a number of the rule or the regularizer is out of
    /// range or missing: most regularizers except `l2` have no default rate.
    explicit solver(Rule rule = {}, Regularizer regularizer = detail::dlib::default_regularizer<Regularizer>())
        : updater_(std::move(rule), std::move(regularizer), external{}, simd_backend<>{}) {}

    /// Computes the step of a layer, for dlib's networks, which add it to the parameters. The step
    /// is a difference (`step::difference`). Throws value_error for a rate that is not finite
    /// and >= 0, and size_error if the layer has another number of parameters than at its first
    /// step; the state is then unchanged.
    template <class Layer>
    ::dlib::tensor const& operator()(float rate, Layer const& layer, ::dlib::tensor const& gradient) {
        ::dlib::tensor const& parameters = layer.get_layer_params();
        std::size_t const n = parameters.size();
        require_sizes(n, gradient.size());
        if (parameters_ == 0) initialize(parameters);
        if (step_.size() != n) step_.copy_size(parameters);
        detail::rollback_guard back([this, now = updater_.clock()] { updater_.seek(now); });
        auto const prepared = updater_.next_step({.rate = rate});

        auto const bias = detail::dlib::bias_multipliers_of(layer);
        std::size_t const biases =
            bias.rate == 1 && bias.decay == 1 ? 0 : detail::dlib::bias_count(layer, parameters.size());
        double const rate_scale = ::dlib::get_learning_rate_multiplier(layer);
        double const decay = ::dlib::get_weight_decay_multiplier(layer);
        slice<updater> const weights = part(parameters, gradient, 0, n - biases, rate_scale, decay);
        slice<updater> const rest =
            part(parameters, gradient, n - biases, biases, rate_scale * bias.rate, decay * bias.decay);
        prepared.check(weights);
        prepared.check(rest);
        std::span<float> const out(step_.host_write_only(), n);
        prepared.difference(out.first(n - biases), weights);
        if (biases != 0) prepared.difference(out.last(biases), rest);
        back.dismiss();
        return step_;
    }

    /// The rule.
    Rule const& rule() const { return updater_.rule(); }
    /// The regularizer.
    Regularizer const& regularizer() const { return updater_.regularizer(); }
    /// The number of steps of the layer.
    std::int64_t steps() const { return updater_.clock().step; }

    /// Writes the solver: its policies, its clock and its state. dlib's trainers call it for their
    /// synchronization files.
    friend void serialize(solver const& item, std::ostream& out) {
        using ::dlib::serialize;
        gradstep::clock const at = item.updater_.clock();
        serialize(std::string("gradstep 1"), out);
        serialize(item.policies(), out);
        serialize(at.step, out);
        for (double x : at.state) serialize(x, out);
        serialize(static_cast<std::uint64_t>(item.parameters_), out);
        for (buffer const& slot : item.state_) {
            ::dlib::resizable_tensor numbers;
            numbers.set_size(static_cast<long long>(slot.size()));
            std::copy(slot.begin(), slot.end(), numbers.host_write_only());
            serialize(numbers, out);
        }
    }
    /// Reads what `serialize` wrote. Throws dlib::serialization_error for other bytes, and for a
    /// solver with another rule, regularizer or hyperparameter. The solver is then unchanged.
    friend void deserialize(solver& item, std::istream& in) {
        using ::dlib::deserialize;
        std::string version, policies;
        deserialize(version, in);
        if (version != "gradstep 1")
            throw ::dlib::serialization_error("gradstep::dlib::solver: the data begins with \"" + version +
                                              "\"; expected \"gradstep 1\", from a solver of gradstep");
        deserialize(policies, in);
        if (policies != item.policies() && policies != of_0_1(item.policies()))
            throw ::dlib::serialization_error("gradstep::dlib::solver: the data is of " + policies + "; expected " +
                                              item.policies());
        gradstep::clock at;
        deserialize(at.step, in);
        for (double& x : at.state) deserialize(x, in);
        std::uint64_t parameters = 0;
        deserialize(parameters, in);
        std::array<buffer, slots> state;
        for (std::size_t i = 0; i != slots; ++i) {
            ::dlib::resizable_tensor numbers;
            deserialize(numbers, in);
            if (std::size_t const expected = slot_size(i, parameters); numbers.size() != expected)
                throw ::dlib::serialization_error(
                    "gradstep::dlib::solver: the state " + std::string(updater::state_names[i]) + " has " +
                    detail::text(numbers.size()) + " numbers; expected " + detail::text(expected));
            state[i].assign(numbers.begin(), numbers.end());
        }
        item.updater_.seek(at);
        item.parameters_ = parameters;
        item.state_ = std::move(state);
    }
    /// Describes the solver in one line, for dlib's description of a trainer.
    friend std::ostream& operator<<(std::ostream& out, solver const& item) {
        return out << "gradstep: " << item.policies();
    }

private:
    std::string policies() const { return describe(updater_.rule()) + ", " + describe(updater_.regularizer()); }
    // The same as solvers wrote it when no rule had the option bias_correction.
    static std::string of_0_1(std::string now) {
        std::string_view const added = ", bias_correction = true";
        if (auto const at = now.find(added); at != now.npos) now.erase(at, added.size());
        return now;
    }
    // A row slot has a number for the weights and one for the biases.
    static constexpr std::size_t slot_size(std::size_t i, std::size_t parameters) {
        return updater::is_row_slot(i) && parameters != 0 ? 2 : parameters;
    }
    void require_sizes(std::size_t n, std::size_t gradient) const {
        if (n == 0)
            detail::fail<size_error>({"gradstep::dlib::solver"}, {"the layer has no parameters"},
                                     {"a layer with parameters"});
        if (gradient != n)
            detail::fail<size_error>({"gradstep::dlib::solver"},
                                     {"the gradient has ", gradient, " elements, the layer has ", n, " parameters"},
                                     {"as many elements"});
        if (parameters_ != 0 && parameters_ != n)
            detail::fail<size_error>({"gradstep::dlib::solver"},
                                     {"the layer has ", n, " parameters, and had ", parameters_, " at its first step"},
                                     {"the same number; make a new trainer after you change a layer"});
    }
    void initialize(::dlib::tensor const& parameters) {
        for (std::size_t i = 0; i != slots; ++i) state_[i].assign(slot_size(i, parameters.size()), 0);
        parameters_ = parameters.size();
        if constexpr (slots != 0) {
            updater_.initialize(part(parameters, parameters, 0, parameters.size(), 1, 1));
            for (std::size_t i = 0; i != slots; ++i)
                if (updater::is_row_slot(i)) state_[i][1] = state_[i][0];
        }
    }
    // Elements [first, first + n) of the layer. A difference does not write the parameters.
    slice<updater> part(::dlib::tensor const& parameters, ::dlib::tensor const& gradient, std::size_t first,
                        std::size_t n, double rate_scale, double decay) {
        auto const slot = [&](std::size_t i) {
            return updater::is_row_slot(i) ? std::span(state_[i].data() + (first != 0), 1)
                                           : std::span(state_[i].data() + first, n);
        };
        auto out = [&]<std::size_t... I>(std::index_sequence<I...>) {
            return slice<updater>(std::span(const_cast<float*>(parameters.host()) + first, n),
                                  std::span(gradient.host() + first, n), slot(I)...);
        }
        (std::make_index_sequence<slots>{});
        out.rate_scale = rate_scale;
        out.decay = decay;
        return out;
    }

    updater updater_;
    // Not in tensors of dlib, all of which begin at the same offset of a page, and on small pages.
    std::array<buffer, slots> state_;
    ::dlib::resizable_tensor step_;
    std::size_t parameters_ = 0; // of the layer; 0 before its first step
};
} // namespace gradstep::dlib::inline GRADSTEP_ISA
