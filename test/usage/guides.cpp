// The C++ of the pages docs/how_to/steps.md, clipping_and_nan.md, mixed_precision.md,
// gradient_accumulation.md, change_the_optimizer.md and docs/reference/dtypes.md that no example
// has.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace gs = gradstep;

namespace {

std::size_t const n = 1003;
void log(std::string const& text) { std::printf("%s\n", text.c_str()); }
void log(double x) { std::printf("%g\n", x); }

bool steps() {
    double const loss_scale = 1024;
    std::vector<float> bias(3), bias_grad(3, 0.5f), bias_m(3), bias_v(3);
    // [make]
    auto optimizer = gs::make_updater<float>(gs::adam{.beta2 = 0.98}, gs::l2{1e-4},
                                             gs::warmup{gs::cosine{.rate = 1e-3, .steps = 10'000}, 500});
    // [make]
    // [memory]
    std::vector<float> w(n), g(n), m(n), v(n);
    optimizer.initialize(w, m, v); // sets the state to its values at step 0
    // [memory]
    {
        // [scheduled]
        auto scheduled = gs::make_updater<float>(
            gs::scheduled{gs::adam{}, gs::moving<"beta1">(gs::one_cycle_momentum{.steps = 1000})},
            gs::scheduled{gs::decoupled{}, gs::moving<"rate">(gs::cosine{.rate = 0.1, .steps = 1000})},
            gs::one_cycle{.rate = 1e-3, .steps = 1000});
        // [scheduled]
        std::vector<float> trained(n), trained_m(n), trained_v(n), gradient(n, 0.5f);
        scheduled.initialize(trained, trained_m, trained_v);
        scheduled.next_step()(trained, gradient, trained_m, trained_v);
        if (scheduled.rule().beta1 != 0.95 || scheduled.regularizer().rate != 0.1) return false;
    }
    g.assign(n, 0.5f);
    optimizer.initialize(bias, bias_m, bias_v);
    {
        // [step]
        auto step = optimizer.next_step(); // the clock advances; learning rate and bias corrections are computed once
        step(w, g, m, v);                  // parameter, gradient, then the state slots in the rule's order
        step(bias, bias_grad, bias_m, bias_v);
        // [step]
    }
    {
        // [options]
        auto step = optimizer.next_step({.gradient_scale = 1.0 / loss_scale, .samples = 128, .zero_gradient = true});
        // [options]
        step(w, g, m, v);
    }
    // [slices]
    std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, m, v}, {bias, bias_grad, bias_m, bias_v}};
    model[1].decay = false;    // no weight decay for the bias
    model[0].rate_scale = 0.1; // a smaller learning rate for the weights
    optimizer.initialize(model);
    optimizer.next_step()(model);
    // [slices]
    // [clock]
    gs::clock const at = optimizer.clock(); // {step, samples, epoch}: save it with parameter and state
    // in the new process:
    optimizer.seek(at); // the next step is step at.step + 1
    // [clock]
    return at.step == 3 && at.samples == 128 && g[0] == 0;
}

bool parameters() {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    std::vector<float> const initial(n, 1.0f), gradient(n, 0.5f);
    // [owning]
    gs::parameter weights{optimizer, initial};       // copies the initial values; the clock starts at 0
    weights.update(gradient);                        // options of a step as second argument
    std::span<float const> now = weights.values();   // on a GPU: weights.copy_to(host)
    std::span<float const> m = weights.state<"m">(); // a slot by name; state("m") at run time
    // [owning]
    bool const moved = now[0] < 1 && m[0] > 0;
    // [skipping]
    gs::parameter skipping{optimizer, initial, {.on_nonfinite = gs::nonfinite::skip}};
    // [skipping]
    return moved && skipping.update(gradient).applied;
}

bool clipping() {
    double const loss_scale = 8;
    std::vector<float> w(n, 1.0f), g(n, 0.5f), m(n), v(n);
    // [clip_value]
    auto optimizer =
        gs::make_updater<float>(gs::adam{}, gs::all_of{gs::clip_value{1.0}, gs::decoupled{0.01}}, gs::constant{1e-3});
    // [clip_value]
    optimizer.initialize(w, m, v);
    std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, m, v}};
    {
        // [global_norm]
        double const norm =
            gs::global_norm(optimizer.backend(), model); // a buffer, a range of buffers, slices, or several
        auto step = optimizer.next_step({.gradient_scale = gs::clip_scale(norm, 1.0)});
        step(model);
        // [global_norm]
    }
    {
        gs::parameter weights{optimizer, w};
        std::vector<gs::named_gradient> const gradients{{"w", g}};
        // [model]
        gs::model net{{.clip_norm = 1.0}};
        net.add("w", weights);
        gs::model_result const result = net.update(gradients, {.gradient_scale = 1.0 / loss_scale});
        log(*result.norm);
        // [model]
    }
    g[5] = std::numeric_limits<float>::quiet_NaN();
    {
        gs::parameter weights{optimizer, w};
        std::vector<gs::named_gradient> const gradients{{"w", g}};
        // [skip]
        gs::model net{{.on_nonfinite = gs::nonfinite::skip}};
        net.add("w", weights);
        gs::model_result const result = net.update(gradients);
        if (!result.applied) {
            auto const& [name, element] = *result.nonfinite;
            log("skipped: the gradient of " + name + " is not finite at " + std::to_string(element));
        }
        // [skip]
        if (result.applied) return false;
    }
    // [first_nonfinite]
    if (auto const found = gs::first_nonfinite(optimizer.backend(), model)) // {tensor, index}
        log("tensor " + std::to_string(found->tensor) + " is not finite at " + std::to_string(found->index));
    else optimizer.next_step()(model);
    // [first_nonfinite]
    return std::all_of(w.begin(), w.end(), [](float x) { return std::isfinite(x); });
}

bool accumulation() {
    double const batch_size = 32;
    std::vector<float> w(n), g(n, 1.0f), m(n), v(n);
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    optimizer.initialize(w, m, v);
    // [accumulated]
    gs::model net{{.clip_norm = 1.0}};
    net.add("weight", optimizer, {w, g, m, v});
    // after the last micro-batch:
    net.update({.gradient_scale = 1.0 / batch_size, .zero_gradient = true});
    // [accumulated]

    std::vector<float> const initial(n, 0.5f);
    std::vector<float> gradient(n);
    auto const backward = [&](auto const& at) { std::copy(at.begin(), at.end(), gradient.begin()); };
    // [sam of a parameter]
    gs::parameter weights{optimizer, initial};
    backward(weights.values());
    weights.ascend(gradient, {.rho = 2, .adaptive = true});
    backward(weights.values());
    weights.descend(gradient);
    // [sam of a parameter]

    gs::table embeddings{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}), 10, 2};
    std::vector<std::int64_t> ids;
    std::vector<float> rows;
    std::vector<std::int64_t> const batch_ids{3, 4};
    std::vector<float> const batch_rows(4, 1.0f);
    // [rows]
    ids.insert(ids.end(), batch_ids.begin(), batch_ids.end()); // for each micro-batch
    rows.insert(rows.end(), batch_rows.begin(), batch_rows.end());
    // after the last micro-batch:
    embeddings.update(ids, rows, {.gradient_scale = 1.0 / batch_size});
    // [rows]
    return g[0] == 0 && embeddings.row(3)[0] < 0;
}

bool sixteen_bits() {
    std::uint64_t const run_seed = 1;
    std::vector<gs::bfloat16> w(n), g(n, gs::bfloat16(0.5f));
    std::vector<float> m(n), v(n), master(n);
    {
        // [bfloat16]
        auto optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::adam{}, gs::decoupled{0.01},
                                                                   gs::cosine{.rate = 1e-3, .steps = 10'000});
        // [bfloat16]
        optimizer.initialize(w, m, v, master);
        optimizer.next_step()(w, g, m, v, master);
    }
    {
        // [changed]
        auto optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::adam{}, gs::constant{1e-3});
        optimizer.initialize(w, m, v, master);
        optimizer.next_step()(w, g, m, v, master);
        std::fill(w.begin(), w.end(), gs::bfloat16(5.0f)); // or load weights, clamp them, copy them from another model
        optimizer.next_step()(w, g, m, v, master);         // a step from 5; master is written anew
        // [changed]
        if (std::fabs(master[0] - 5) > 0.01f) return false;
    }
    {
        // [stochastic]
        auto optimizer = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::adam{}, gs::constant{1e-3});
        auto step = optimizer.next_step({.seed = run_seed});
        step.update(7, w, g, m, v); // 7 is the id of this tensor
        // [stochastic]
    }
    std::vector<float> weights(n), initial(n);
    // [block8]
    auto optimizer = gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{1e-3});
    gs::parameter owned{optimizer, initial};                                            // as with any other dtype
    std::vector<gs::coded_block> m_codes(gs::coded_block::count(n)), v_codes = m_codes; // or in your own memory
    optimizer.initialize(weights, m_codes, v_codes);
    // [block8]
    return owned.size() == n;
}

bool changes() {
    std::vector<float> w(n), g(n, 0.5f), m(n), v(n);
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    optimizer.initialize(w, m, v);
    optimizer.next_step()(w, g, m, v);
    // [types]
    auto next = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.1}, gs::cosine{.rate = 1e-4, .steps = 1000});
    next.seek(optimizer.clock());
    next.next_step()(w, g, m, v); // the buffers of the updater before
    // [types]
    return next.clock().step == 2;
}

bool growing() {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    gs::model net;
    net.add("means", gs::parameter{optimizer, std::vector<float>(6), {.shape = {2, 3}}});
    net.add("colors", gs::parameter{optimizer, std::vector<float>(8), {.shape = {2, 4}}});
    std::vector<float> const new_means(3, 1.0f), new_colors(4, 2.0f), g_colors(8, 0.5f);
    std::vector<bool> mask{true, false, true};
    // [grow_model]
    net.append({{"means", new_means}, {"colors", new_colors}});
    net.keep({"means", "colors"}, mask);
    // [grow_model]
    // [freeze]
    net.freeze({"means"});
    net.update({{"colors", g_colors}});
    net.unfreeze({"means"});
    // [freeze]
    mask.resize(1000);
    std::vector<float> const gradient(3000, 0.5f);
    // [visible]
    gs::table means{optimizer, 1000, 3, gs::touch_only{}, {.row_steps = true}};
    means.update(gs::visible{mask}, gradient); // 1000 x 3; only the visible rows are read
    // [visible]
    bool const sees = means.row(2)[0] < 0 && means.row(1)[0] == 0;
    auto const& kept = mask;
    // [prune]
    means.keep(kept);        // removes rows; row 2 is now row 1
    means.append(new_means); // new rows, which count their steps from zero
    // [prune]
    return net.get<decltype(optimizer)>("means").values()[3] == 1.0f && net.clock("means").step == 0 &&
           net.clock("colors").step == 1 && sees && means.num_rows() == 3 && means.row(1)[0] < 0 &&
           means.row(2)[0] == 1.0f && means.memory().touches[1] == 1 && means.memory().touches[2] == 0;
}

} // namespace

int main() {
    bool const right =
        steps() && parameters() && clipping() && accumulation() && sixteen_bits() && changes() && growing();
    std::printf(right ? "as the pages say\n" : "NOT AS THE PAGES SAY\n");
    return right ? 0 : 1;
}
