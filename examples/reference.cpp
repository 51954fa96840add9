// The short examples of the C++ reference (docs/reference/cpp), one for each main class.
#include <gradstep/dialects/torch.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/saved/blob.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

namespace gs = gradstep;

namespace {

void show(char const* name, std::span<float const> values) {
    std::printf("%s:", name);
    for (float const x : values) std::printf(" %.4f", x);
    std::printf("\n");
}

void updater() {
    // [updater]
    auto adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{1e-3});
    std::vector<float> w{1, -2, 3}, gradient{0.5, 0.5, -1}, m(3), v(3);
    adamw.initialize(w, m, v);
    auto const step = adamw.next_step(); // counts the step, and computes the rate and the bias corrections
    step(w, gradient, m, v);             // for each tensor of the model
    show("w", w);
    // [updater]
}

void slice() {
    // [slice]
    auto adagrad = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{0.1}, gs::constant{0.1});
    std::vector<float> w{1, 2}, g_w{1, -1}, n_w(2), bias{0.5}, g_bias{-1}, n_bias(1);
    std::vector<gs::slice<decltype(adagrad)>> model{{w, g_w, n_w}, {bias, g_bias, n_bias}};
    model[1].decay = 0; // no weight decay for the bias
    adagrad.initialize(model);
    adagrad.next_step()(model); // one call for all tensors
    show("w", w);
    show("bias", bias);
    // [slice]
}

void parameter() {
    // [parameter]
    std::vector<float> const initial{1, 2}, gradient{1, 1};
    gs::parameter w{gs::make_updater<float>(gs::momentum{.mu = 0.5}, gs::constant{0.1}), initial};
    w.update(gradient);
    w.update(gradient, {.rate_scale = 0.5});
    show("values", w.values());
    show("momentum", w.state("m"));
    std::printf("steps: %d\n", static_cast<int>(w.clock().step));
    // [parameter]
}

void model() {
    // [model]
    std::vector<float> const wide{0, 0}, deep{1, 1}, g_wide{3, 4}, g_deep{0, 0};
    auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    gs::model net{{.clip_norm = 1.0}}; // all gradients together have a norm of at most 1
    net.add("wide", gs::parameter{sgd, wide});
    net.add("deep", gs::parameter{sgd, deep}, {.rate_scale = 0.1});
    net.update({{"wide", g_wide}, {"deep", g_deep}});
    show("wide", net.get<decltype(sgd)>("wide").values());
    // [model]
}

void table() {
    // [table]
    std::vector<std::int64_t> const ids{2, 0, 2};           // the gradients of row 2 are added
    std::vector<float> const gradients{1, 1, 10, 10, 1, 1}; // a row for each id
    gs::table rows{gs::make_updater<float>(gs::sgd{}, gs::constant{0.1}), 1000, 2};
    rows.update(ids, gradients);
    show("row 0", rows.row(0));
    show("row 2", rows.row(2));
    // [table]
}

void element() {
    // [element]
    auto const sgd = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::sgd{}, gs::constant{1e-4});
    std::vector<gs::bfloat16> const initial{gs::bfloat16(1.0f)}, gradient{gs::bfloat16(1.0f)};
    gs::parameter w{sgd, initial};
    for (int t = 0; t < 100; ++t) w.update(gradient); // each step is below the precision of bfloat16
    std::printf("weight %.4f, master copy %.4f\n", static_cast<double>(static_cast<float>(w.values()[0])),
                static_cast<double>(w.state("master")[0]));
    // [element]
}

void average() {
    // [average]
    std::vector<float> const initial{1}, gradient{1};
    gs::parameter w{gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{.decay = 0.5}}, gs::constant{0.1}),
                    initial};
    for (int t = 0; t < 3; ++t) w.update(gradient);
    show("weight", w.values());
    show("average", w.average());
    // [average]
}

void regularizer() {
    // [regularizer]
    std::vector<float> const initial{1}, gradient{100};
    gs::all_of const clip_and_decay{gs::clip_value{1.0}, gs::decoupled{0.5}}; // from left to right
    gs::parameter w{gs::make_updater<float>(gs::sgd{}, clip_and_decay, gs::constant{0.1}), initial};
    w.update(gradient);
    show("w", w.values());
    // [regularizer]
}

void schedule() {
    // [schedule]
    gs::warmup const schedule{gs::cosine{.rate = 1e-3, .steps = 100}, 10}; // 10 steps of warmup, then the cosine
    for (std::int64_t const step : {0, 5, 10, 60, 110}) std::printf("%.6f ", schedule({.step = step}));
    std::printf("\n");
    // [schedule]
}

void clipping() {
    // [clipping]
    auto sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    std::vector<float> w{0, 0}, gradient{3, 4};
    double const norm = gs::global_norm(sgd.backend(), gradient);
    sgd.next_step({.gradient_scale = gs::clip_scale(norm, 1.0)})(w, gradient);
    std::printf("norm %.1f\n", norm);
    show("w", w);
    // [clipping]
}

void backend() {
    // [backend]
    gs::thread_pool pool(4); // the caller's thread is one of the four
    std::vector<float> const initial(1'000'000, 1.0f), gradient(1'000'000, 1.0f);
    gs::parameter w{gs::make_updater<float>(gs::sgd{}, gs::constant{0.1}, gs::simd_backend{pool}), initial};
    w.update(gradient);
    show("the last weight", w.values().last(1));
    // [backend]
}

void preset() {
    // [preset]
    auto const rule = gs::dialects::torch::adamw({.beta2 = 0.98}); // torch's names, defaults and numbers
    gs::parameter w{gs::make_updater<float>(rule, gs::decoupled{0.01}, gs::constant{1e-3}), std::vector<float>{1}};
    w.update(std::vector<float>{0.5});
    show("w", w.values());
    // [preset]
}

void state() {
    // [state]
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.1});
    std::vector<float> const initial{1}, gradient{1};
    gs::parameter w{adam, initial}, resumed{adam, initial};
    w.update(gradient);
    std::vector<std::byte> bytes(gs::state_bytes(w));
    gs::save_state(w, bytes);
    gs::load_state(resumed, bytes);
    w.update(gradient);
    resumed.update(gradient);
    std::printf("%s\n", w.values()[0] == resumed.values()[0] ? "the same bits" : "other bits");
    // [state]
}

void error() {
    // [error]
    auto sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{0.1});
    std::vector<float> w(3), gradient(2);
    try {
        sgd.next_step()(w, gradient);
    } catch (gs::error const& wrong) {
        std::printf("%s\n", wrong.what()); // nothing has been written
    }
    // [error]
}

} // namespace

int main() {
    updater();
    slice();
    parameter();
    model();
    table();
    element();
    average();
    regularizer();
    schedule();
    clipping();
    backend();
    preset();
    state();
    error();
}
