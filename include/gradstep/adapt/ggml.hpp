#pragma once
/// Steps on the tensors of ggml: ggml computes the gradients, and gradstep updates the parameters
/// of a graph in their memory. The only header that includes ggml. Tested with ggml 0.25.3.
///
///     auto accumulators = gs::ggml::gradient_accumulators(ctx_static, graph);
///     ggml_build_backward_expand(ctx_compute, graph, accumulators.data());
///     ...                                          // allocate, and ggml_graph_reset(graph) once
///     gs::ggml::optimizer adamw{graph, gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{1e-3})};
///     ...                                          // ggml_backend_graph_compute(backend, graph)
///     adamw.step();
///     adamw.model().save("state.safetensors");
#include <functional>

#include <ggml-backend.h>
#include <ggml.h>

#include <gradstep/base/error.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/model.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/step/slice.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::ggml::inline GRADSTEP_ISA {
/// The elements of a float tensor, in ggml's memory. Throws value_error for a tensor of another
/// type, and buffer_error for a tensor that is not contiguous, has no memory, or lies on a device.
inline std::span<float> elements(ggml_tensor* x) {
    std::string const where = std::string("ggml::elements: ") + ggml_get_name(x);
    if (x->type != GGML_TYPE_F32)
        detail::fail<value_error>({where}, {"has the type ", ggml_type_name(x->type)}, {"f32"});
    if (!ggml_is_contiguous(x))
        detail::fail<buffer_error>({where}, {"is not contiguous"}, {"contiguous elements, as of ggml_cont"});
    if (x->data == nullptr)
        detail::fail<buffer_error>({where}, {"has no memory"},
                                   {"an allocated tensor, as of ggml_backend_alloc_ctx_tensors"});
    ggml_backend_buffer_t const buffer = x->view_src != nullptr ? x->view_src->buffer : x->buffer;
    if (buffer != nullptr && !ggml_backend_buffer_is_host(buffer))
        detail::fail<buffer_error>({where}, {"lies in the buffer ", ggml_backend_buffer_name(buffer)},
                                   {"memory of the host, as of ggml_backend_cpu_buffer_type"});
    return {static_cast<float*>(x->data), static_cast<std::size_t>(ggml_nelements(x))};
}

/// Makes a tensor for the gradient of each parameter and of the loss of a forward graph, for
/// `ggml_build_backward_expand`. Each computation of the graph then adds to these tensors, and they
/// keep their memory from one computation to the next. `ctx` must have room for one tensor for each
/// parameter and one for the loss. If it has no_alloc, allocate its tensors afterwards. In any
/// case, call ggml_graph_reset(graph) once before the first computation: it sets the loss's
/// gradient to 1.
inline std::vector<ggml_tensor*> gradient_accumulators(ggml_context* ctx, ggml_cgraph* graph) {
    std::vector<ggml_tensor*> out(static_cast<std::size_t>(ggml_graph_n_nodes(graph)), nullptr);
    for (std::size_t i = 0; i < out.size(); ++i) {
        ggml_tensor* const node = ggml_graph_node(graph, static_cast<int>(i));
        if ((node->flags & (GGML_TENSOR_FLAG_PARAM | GGML_TENSOR_FLAG_LOSS)) == 0) continue;
        out[i] = ggml_new_tensor(ctx, GGML_TYPE_F32, GGML_MAX_DIMS, node->ne);
        ggml_format_name(out[i], "gradient of %s", node->name);
    }
    return out;
}

/// The optimizer of all parameters of a graph (ggml_set_param): a gs::model over ggml's memory,
/// whose state this object owns. `Updater` has any rule, regularizer and schedule for float.
///
/// The graph needs the tensors of `gradient_accumulators`. Weights and gradients stay where ggml
/// has allocated them, and must not move or be freed before this object. The graph itself can be
/// freed. Parameters have the names of their tensors, which must differ: they are the names in a
/// file.
template <class Updater> class optimizer {
    static_assert(
        std::is_same_v<typename Updater::traits::storage, float>,
        "gradstep: ggml::optimizer: the updater is for another type than ggml's; expected make_updater<float>");

public:
    /// The options of one parameter: gs::tensor_options for a tensor.
    using options_of_tensor = std::function<tensor_options(ggml_tensor const&)>;

    /// Steps on the caller's thread. `of` gives each tensor its options, such as no decay for
    /// biases; without it all have the defaults. Throws value_error for a graph without parameters,
    /// a parameter without an accumulator, and two parameters of one name; and the errors of
    /// `elements`. Nothing of ggml's memory is written.
    explicit optimizer(ggml_cgraph* graph, Updater const& updater, model_options options = {},
                       options_of_tensor const& of = {})
        : model_(options) {
        add(graph, updater, of);
    }
    /// The same on the threads of an executor, which must outlive this object.
    template <class Executor>
    requires(executor<Executor>) optimizer(Executor& threads, ggml_cgraph* graph, Updater const& updater,
                                           model_options options = {}, options_of_tensor const& of = {})
        : model_(threads, options) {
        add(graph, updater, of);
    }

    /// One step of all parameters with the gradients that ggml has added up, and sets these
    /// gradients to zero in the same pass. Throws the errors of gs::model::update. Nothing has
    /// changed then.
    model_result step(step_options options = {}) {
        options.zero_gradient = true;
        return model_.update(options);
    }

    /// The model, to save, load, read clocks and averages: `model().save(file)`.
    gradstep::model& model() { return model_; }
    gradstep::model const& model() const { return model_; }

private:
    using state_type = typename Updater::traits::state;
    struct parameter {
        ggml_tensor* tensor;
        std::span<float> values, gradient;
        std::vector<std::uint64_t> extents; // row-major, as in files
    };

    // All parameters are checked before the first is added.
    void add(ggml_cgraph* graph, Updater const& updater, options_of_tensor const& of) {
        std::vector<parameter> const parameters = parameters_of(graph);
        state_.resize(parameters.size());
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            auto const& [tensor, values, gradient, extents] = parameters[i];
            gradstep::shape const shape = gradstep::shape::of(extents);
            for (std::size_t k = 0; k < Updater::slots; ++k)
                state_[i].emplace_back(Updater::slot_size(k, values.size(), shape));
            auto slice = slice_of(values, gradient, state_[i], std::make_index_sequence<Updater::slots>{});
            slice.shape = shape;
            updater.initialize(slice);
            model_.add(tensor->name, updater, slice, of ? of(*tensor) : tensor_options{});
            model_.set_shape(tensor->name, extents);
        }
    }

    static std::vector<parameter> parameters_of(ggml_cgraph* graph) {
        std::vector<parameter> out;
        for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
            ggml_tensor* const x = ggml_graph_node(graph, i);
            if ((x->flags & GGML_TENSOR_FLAG_PARAM) == 0) continue;
            ggml_tensor* const gradient = ggml_graph_get_grad_acc(graph, x);
            if (gradient == nullptr)
                detail::fail<value_error>({"ggml::optimizer: ", x->name}, {"has no gradient accumulator"},
                                          {"a graph that ggml_build_backward_expand has made with "
                                           "gs::ggml::gradient_accumulators"});
            std::vector<std::uint64_t> extents;
            for (int d = ggml_n_dims(x); d > 0; --d) extents.push_back(static_cast<std::uint64_t>(x->ne[d - 1]));
            out.push_back({x, elements(x), elements(gradient), std::move(extents)});
        }
        if (out.empty())
            detail::fail<value_error>({"ggml::optimizer"}, {"the graph has no parameters"},
                                      {"tensors that ggml_set_param has marked"});
        return out;
    }

    template <std::size_t... Slot>
    static slice<Updater> slice_of(std::span<float> values, std::span<float> gradient,
                                   [[maybe_unused]] std::vector<std::vector<state_type>>& state,
                                   std::index_sequence<Slot...>) {
        return {values, gradient, std::span(state[Slot])...};
    }

    std::vector<std::vector<std::vector<state_type>>> state_; // of each parameter, each slot
    gradstep::model model_;
};
} // namespace gradstep::ggml::inline GRADSTEP_ISA
