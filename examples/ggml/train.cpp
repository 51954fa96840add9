// Trains a network with ggml's forward and backward pass: once with ggml's own AdamW, once with
// gradstep's, which saves its state in the middle, and once from that file. Prints the losses; the
// weights of the last two must be equal bit for bit.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <ggml-opt.h>

#include <gradstep/adapt/ggml.hpp>
#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>

#include "network.hpp"

namespace gs = gradstep;

namespace {

using namespace example;

constexpr int steps = 500, saved_after = 250;
constexpr float rate = 1e-3f, decay = 0.01f;

std::vector<float> weights_of(network const& net) {
    std::vector<float> out;
    for (ggml_tensor* p : net.parameters) {
        auto const values = gs::ggml::elements(p);
        out.insert(out.end(), values.begin(), values.end());
    }
    return out;
}

struct run {
    std::vector<float> losses, weights;
};

run with_ggml() {
    network net;
    ggml_set_input(net.x);
    ggml_set_output(net.logits);
    backend const cpu = make_backend();
    buffer const memory(ggml_backend_alloc_ctx_tensors(net.fixed.get(), cpu.get()));
    net.initialize();
    ggml_backend_t one = cpu.get();
    auto* const scheduler = ggml_backend_sched_new(&one, nullptr, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);

    ggml_opt_optimizer_params numbers = ggml_opt_get_default_optimizer_params(nullptr);
    numbers.adamw.alpha = rate;
    numbers.adamw.wd = decay;
    ggml_opt_params options = ggml_opt_default_params(scheduler, GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
    options.ctx_compute = net.computed.get();
    options.inputs = net.x;
    options.outputs = net.logits;
    options.get_opt_pars = ggml_opt_get_constant_optimizer_params;
    options.get_opt_pars_ud = &numbers;
    ggml_opt_context_t const optimizer = ggml_opt_init(options);

    run out;
    points data;
    for (int t = 0; t < steps; ++t) {
        data.draw(static_cast<std::uint32_t>(t));
        set(net.x, data.x);
        ggml_opt_alloc(optimizer, true);
        set(ggml_opt_labels(optimizer), data.label);
        ggml_opt_eval(optimizer, nullptr);
        out.losses.push_back(number_in(ggml_opt_loss(optimizer)));
    }
    out.weights = weights_of(net);
    ggml_opt_free(optimizer);
    ggml_backend_sched_free(scheduler);
    return out;
}

// Starts at `from` if that is a file, and saves to `to` after the first half.
run with_gradstep(std::string const& from, std::string const& to) {
    network net;
    ggml_context* const c = net.computed.get();
    ggml_tensor* const labels = ggml_new_tensor_2d(net.fixed.get(), GGML_TYPE_F32, classes, batch);
    ggml_tensor* const loss = ggml_cross_entropy_loss(c, net.logits, labels);
    ggml_set_loss(loss);
    ggml_set_output(loss);

    // [backward]
    ggml_cgraph* const graph = ggml_new_graph_custom(c, GGML_DEFAULT_GRAPH_SIZE, true);
    ggml_build_forward_expand(graph, loss);
    auto accumulators = gs::ggml::gradient_accumulators(net.fixed.get(), graph);
    ggml_build_backward_expand(c, graph, accumulators.data());
    // [backward]

    backend const cpu = make_backend();
    buffer const memory(ggml_backend_alloc_ctx_tensors(net.fixed.get(), cpu.get()));
    auto* const allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_alloc_graph(allocator, graph);
    ggml_graph_reset(graph);
    net.initialize();

    // [optimizer]
    auto const updater = gs::make_updater<float>(gs::adam{}, gs::decoupled{decay}, gs::constant{rate});
    gs::ggml::optimizer adamw{graph, updater};
    if (std::filesystem::exists(from)) adamw.model().load(from);
    // [optimizer]

    run out;
    points data;
    auto const step_of = [&] { return static_cast<int>(adamw.model().clock("out.bias").step); };
    while (step_of() < steps) {
        data.draw(static_cast<std::uint32_t>(step_of()));
        set(net.x, data.x);
        set(labels, data.label);
        // [step]
        ggml_backend_graph_compute(cpu.get(), graph);
        adamw.step();
        // [step]
        out.losses.push_back(number_in(loss));
        if (step_of() == saved_after && !to.empty()) adamw.model().save(to);
    }
    out.weights = weights_of(net);
    ggml_gallocr_free(allocator);
    return out;
}

} // namespace

int main() {
    std::string const file = "ggml_train.safetensors";
    std::filesystem::remove(file);
    run const theirs = with_ggml(), ours = with_gradstep("", file), resumed = with_gradstep(file, "");

    std::printf("loss at step    ggml    gradstep    from the file\n");
    for (int t : {1, 2, 10, 50, 100, 250, 251, 300, 400, 500}) {
        auto const i = static_cast<std::size_t>(t - 1);
        std::printf("%12d  %.5f     %.5f", t, static_cast<double>(theirs.losses[i]),
                    static_cast<double>(ours.losses[i]));
        if (t > saved_after) std::printf("          %.5f", static_cast<double>(resumed.losses[i - saved_after]));
        std::printf("\n");
    }
    bool const same =
        ours.weights.size() == resumed.weights.size() &&
        std::memcmp(ours.weights.data(), resumed.weights.data(), ours.weights.size() * sizeof(float)) == 0;
    std::printf("the run from the file has %s weights\n", same ? "the same" : "OTHER");
    std::filesystem::remove(file);
    bool const learned = ours.losses.back() < ours.losses.front() / 2, alike = ours.losses[0] == theirs.losses[0];
    return same && learned && alike ? 0 : 1;
}
