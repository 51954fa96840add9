// One step of gradstep against one of ggml's operation, and what gradstep::ggml rejects.
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include <gradstep/adapt/ggml.hpp>
#include <gradstep/gradstep.hpp>

#include "network.hpp"

namespace gs = gradstep;

namespace {

using namespace example;

int failures = 0;

void check(bool right, char const* what) {
    if (right) return;
    ++failures;
    std::printf("wrong: %s\n", what);
}

template <class F> void check_refused(F const& f, std::string const& expected) {
    try {
        f();
        check(false, ("not refused: " + expected).c_str());
    } catch (gs::error const& e) {
        check(e.what() == expected, e.what());
    }
}

auto adamw_of(double rate, double decay) {
    return gs::make_updater<float>(gs::adam{.beta1 = 0.75, .beta2 = 0.9375}, gs::decoupled{decay}, gs::constant{rate});
}

// sum(w * x) as a graph, whose gradient for w is x.
struct problem {
    context fixed = make_context(16), computed = make_context(64, true);
    ggml_tensor *w, *x, *loss;
    ggml_cgraph* graph;

    explicit problem(bool with_accumulators = true, ggml_type type = GGML_TYPE_F32, bool is_parameter = true) {
        w = ggml_new_tensor_2d(fixed.get(), type, 32, 3);
        x = ggml_new_tensor_2d(fixed.get(), GGML_TYPE_F32, 32, 3);
        ggml_set_name(w, "w");
        if (is_parameter) ggml_set_param(w);
        ggml_context* const c = computed.get();
        ggml_tensor* const values = type == GGML_TYPE_F32 ? w : ggml_cast(c, w, GGML_TYPE_F32);
        loss = ggml_sum(c, ggml_mul(c, values, x));
        ggml_set_loss(loss);
        graph = ggml_new_graph_custom(c, GGML_DEFAULT_GRAPH_SIZE, true);
        ggml_build_forward_expand(graph, loss);
        if (!is_parameter) return; // ggml stops the program then
        auto accumulators = gs::ggml::gradient_accumulators(fixed.get(), graph);
        ggml_build_backward_expand(c, graph, with_accumulators ? accumulators.data() : nullptr);
    }
};

// rate and decay are powers of two, and the betas' complements are exact: without state, each side
// rounds the product, the root (half of g^2's rounding as well), its sum with epsilon, the
// quotient, the product with the rate, the decayed weight, and the difference.
void compare_a_step() {
    constexpr double rate = 0.25, decay = 0.125;
    problem here;
    backend const cpu = make_backend();
    buffer const memory(ggml_backend_alloc_ctx_tensors(here.fixed.get(), cpu.get()));
    auto* const allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_alloc_graph(allocator, here.graph);
    ggml_graph_reset(here.graph);
    numbers next(3);
    for (float& value : gs::ggml::elements(here.w)) value = next();
    for (float& value : gs::ggml::elements(here.x)) value = next();
    auto const before = gs::ggml::elements(here.w), gradient = gs::ggml::elements(here.x);
    std::size_t const n = before.size();

    problem there;
    context const slots = make_context(8);
    ggml_context* const c = slots.get();
    ggml_tensor *const m = ggml_dup_tensor(c, there.w), *const v = ggml_dup_tensor(c, there.w),
                       *const parameters = ggml_new_tensor_1d(c, GGML_TYPE_F32, 7);
    buffer const there_memory(ggml_backend_alloc_ctx_tensors(there.fixed.get(), cpu.get())),
        slot_memory(ggml_backend_alloc_ctx_tensors(c, cpu.get()));
    set(there.w, before);
    set(there.x, gradient);
    ggml_set_zero(m);
    ggml_set_zero(v);
    set(parameters, std::vector<float>{rate, 0.75f, 0.9375f, 1e-8f, decay, 4, 16});
    ggml_context* const k = there.computed.get();
    ggml_cgraph* const graph = ggml_new_graph(k);
    ggml_build_forward_expand(graph, ggml_opt_step_adamw(k, there.w, there.x, m, v, parameters));
    auto* const there_allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_alloc_graph(there_allocator, graph);
    std::vector<float> const start(before.begin(), before.end());
    ggml_backend_graph_compute(cpu.get(), graph);

    gs::thread_pool pool;
    gs::ggml::optimizer adamw{pool, here.graph, adamw_of(rate, decay), {.clip_norm = 1e6}, [](ggml_tensor const& x) {
                                  return gs::tensor_options{.decay = x.ne[1] > 1};
                              }};
    ggml_backend_graph_compute(cpu.get(), here.graph);
    ggml_backend_graph_compute(cpu.get(), here.graph); // gradients add up
    adamw.step({.gradient_scale = 0.5});

    bool near = true, moved = false;
    auto const ours = gs::ggml::elements(here.w), theirs = gs::ggml::elements(there.w);
    for (std::size_t i = 0; i < n; ++i) {
        double const kept = start[i] * (1 - rate * decay), step = std::fabs(static_cast<double>(ours[i]) - kept);
        double const roundings = 5.5 * step + std::fabs(kept) + std::fabs(static_cast<double>(ours[i]));
        double const u = std::numeric_limits<float>::epsilon() / 2;
        near = near && std::fabs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])) <= 2.01 * u * roundings;
        moved = moved || ours[i] != start[i];
    }
    check(near && moved, "a step is not ggml's");
    for (float const g : gs::ggml::elements(ggml_graph_get_grad_acc(here.graph, here.w)))
        check(g == 0, "a gradient is left");
    check(adamw.model().clock("w").step == 1 && adamw.model().size() == 1, "the clock");
    ggml_gallocr_free(allocator);
    ggml_gallocr_free(there_allocator);
}

void refusals() {
    auto const optimizer_of = [](ggml_cgraph* graph) { gs::ggml::optimizer{graph, adamw_of(0.25, 0)}; };
    problem const without_memory, without_accumulators(false), half(true, GGML_TYPE_F16),
        without_parameters(true, GGML_TYPE_F32, false);
    check_refused(
        [&] { optimizer_of(without_memory.graph); },
        "ggml::elements: w: has no memory; expected an allocated tensor, as of ggml_backend_alloc_ctx_tensors");
    check_refused(
        [&] { optimizer_of(without_accumulators.graph); },
        "ggml::optimizer: w: has no gradient accumulator; expected a graph that ggml_build_backward_expand has made "
        "with gs::ggml::gradient_accumulators");
    check_refused([&] { optimizer_of(half.graph); }, "ggml::elements: w: has the type f16; expected f32");
    check_refused([&] { optimizer_of(without_parameters.graph); },
                  "ggml::optimizer: the graph has no parameters; expected tensors that ggml_set_param has marked");

    backend const cpu = make_backend();
    problem nameless;
    ggml_tensor* const transposed = ggml_transpose(nameless.computed.get(), nameless.w);
    buffer const memory(ggml_backend_alloc_ctx_tensors(nameless.fixed.get(), cpu.get()));
    ggml_set_name(transposed, "transposed");
    check_refused([&] { gs::ggml::elements(transposed); },
                  "ggml::elements: transposed: is not contiguous; expected contiguous elements, as of ggml_cont");
    ggml_set_name(nameless.w, "");
    check_refused([&] { optimizer_of(nameless.graph); }, "add: the name is empty; expected at least one character");
}

} // namespace

int main() {
    compare_a_step();
    refusals();
    std::printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
