// A translation unit that uses everything of the library that the host's compiler sees; symbols.py
// reads the names of its functions.
#include <gradstep/compression.hpp>
#include <gradstep/dialects/keras.hpp>
#include <gradstep/dialects/torch.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>
#include <gradstep/runtime/compile_catch_up.hpp>
#include <gradstep/striped.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gs = gradstep;

// Everything in this file must have internal linkage.
namespace {

template <class Element, class Rule, class Regularizer, class Schedule, class Backend>
std::string train(Rule rule, Regularizer regularizer, Schedule schedule, Backend const& backend) {
    auto optimizer = gs::make_updater<Element>(rule, regularizer, schedule, backend);
    using storage = typename decltype(optimizer)::traits::storage;
    std::vector<storage> g(1000, storage(1.0f));
    gs::parameter weights{optimizer, g};
    weights.update(g, {.gradient_scale = gs::clip_scale(gs::global_norm(backend, g), 1), .zero_gradient = true});
    for (char const* name : decltype(optimizer)::state_names) weights.state(name);
    std::vector<storage> host(weights.size());
    weights.copy_to(host);
    optimizer.seek(weights.clock());
    return describe(optimizer);
}

template <class Id, class Rule, class Regularizer, class CatchUp, class Backend>
void embed(Rule rule, Regularizer regularizer, CatchUp catch_up, Backend const& backend, gs::table_options options) {
    gs::table table{gs::make_updater<float>(rule, regularizer, gs::constant{0.5}, backend), 100, 8, catch_up, options};
    std::vector<Id> const ids{1, 2, 3}, offsets{0, 2};
    std::vector<float> const gradient(3 * 8, 1.0f), bags(2 * 8, 1.0f);
    table.update(ids, gradient);
    table.update(ids, offsets, bags);
    table.grow(200);
    table.reset(ids);
    auto other = table;
    other.restore(table.progress());
    std::vector<float> out = table.row(5);
    out.resize(3 * 8);
    table.rows(ids, out);
    std::vector<float> whole(200 * 8);
    table.copy_to(whole);
    (void)table.values();
    (void)table.stale_rows();
    if constexpr (!std::is_same_v<CatchUp, gs::replay>) {
        gs::striped shared{std::move(table)};
        shared.update(ids, gradient);
        (void)shared.row(3);
    }
}

std::string grouped(gs::thread_pool& pool) {
    gs::model net{pool, {.clip_norm = 1, .on_nonfinite = gs::nonfinite::raise}};
    std::vector<float> const w(8, 1.0f);
    net.add("a", gs::parameter{gs::make_updater<float>(gs::dialects::keras::rmsprop({}), gs::constant{0.5}), w});
    net.add("b", gs::parameter{gs::make_updater<float>(gs::lamb{}, gs::constant{0.5}), w});
    net.update({{"a", w}, {"b", w}});
    return net.description();
}

std::string compressed(gs::thread_pool& pool) {
    gs::dgc_momentum const rule{.local_grad_clip_norm = 1, .dense_below = 4, .selected = gs::selection::sampled};
    auto optimizer = gs::make_updater<float>(rule, gs::l2{1}, gs::constant{0.5}, gs::simd_backend{pool});
    std::vector<float> w(8, 1.0f), g = w, u(8), v(8);
    auto const step = optimizer.next_step();
    std::vector<gs::sparse_message> messages{gs::sparse_message::decode(step.compress(w, g, u, v).encode())};
    step.apply(w, messages);
    step.apply(w, u, v, messages);
    gs::compressed_model net;
    net.add("a", gs::parameter{optimizer, w});
    std::vector<gs::model_message> const all{gs::model_message::decode(net.compress({{"a", g}}).encode())};
    net.apply(all);
    return gs::describe(rule) + std::to_string(gs::top_k(gs::simd_backend{}, w, 3)[0]);
}

std::string everything() {
    gs::thread_pool pool(2);
    gs::callback_executor host(2, [](std::size_t parts, gs::task work) {
        for (std::size_t part = 0; part < parts; ++part) work(part);
    });
    gs::warmup const warmup{gs::poly{.rate = 1, .a = 1, .b = 1}, 3, 0.5, gs::ramp::exponential};
    gs::exponential const exponential{.rate = 1, .decay = 0.5, .steps = 9, .staircase = true};
    std::string out;
    out +=
        train<float>(gs::adam{}, gs::all_of{gs::clip_value{1}, gs::all_of{gs::decoupled{0.1}}, gs::proximal{gs::l1{1}}},
                     warmup, gs::simd_backend{pool});
    out += train<gs::bfloat16>(gs::ftrl{}, gs::elastic_net{1, 1}, exponential,
                               gs::simd_backend{host, gs::subnormals::keep});
    out += train<gs::mixed<gs::bfloat16>>(gs::adagrad{}, gs::proximal{gs::elastic_net{1, 1}},
                                          gs::warmup{gs::warmup{gs::cosine{.rate = 1, .steps = 9}, 2}, 2},
                                          gs::serial_backend{});
    out += train<double>(gs::nesterov{}, gs::l2{1}, gs::constant{0.5}, gs::simd_backend{});
    out += train<float>(gs::momentum{}, gs::none{}, gs::external{}, gs::serial_backend{});
    out += train<float>(gs::sgd{}, gs::l1{1}, gs::constant{0.5}, gs::simd_backend{});
    out += train<float>(gs::rowwise_adagrad{}, gs::none{}, gs::constant{0.5}, gs::simd_backend{pool});
    out += train<float>(gs::rowwise_adam{}, gs::none{}, gs::constant{0.5}, gs::serial_backend{});
    out += train<double>(gs::lars{}, gs::l2{1}, gs::constant{0.5}, gs::simd_backend{});
    out += train<gs::mixed<gs::bfloat16>>(gs::lamb{}, gs::none{}, gs::constant{0.5}, gs::simd_backend{});
    gs::chain const chained{gs::one_cycle{.rate = 1, .steps = 9}, 9, gs::piecewise{{2, 4}, {1, 0.5, 0.25}}};
    out += train<gs::stochastic<gs::bfloat16>>(gs::averaged{gs::nadam{}, gs::ema{}}, gs::zero_nonfinite{}, chained,
                                               gs::simd_backend{});
    out += train<gs::float16>(gs::constant_rate_ftrl{.lr_power = -0.75}, gs::none{}, gs::by_samples{gs::noam{1, 8, 9}},
                              gs::simd_backend{pool});
    out += train<float>(gs::adam{}, gs::any_regularizer{gs::all_of{gs::clip_value{1}, gs::l2{1}}}, gs::constant{0.5},
                        gs::simd_backend{});
    out += train<gs::block8<float>>(gs::adam{}, gs::none{}, gs::constant{0.5}, gs::simd_backend{});
    gs::dialects::torch::presets.for_each([&](auto preset) {
        gs::check_policy(typename decltype(preset)::arguments_type{});
        out += std::string(preset.name()) + gs::describe(preset.make());
    });
    out += grouped(pool);
    out += compressed(pool);
    gs::table_options const uniform{.initial = gs::uniform{-1, 1, 5}};
    embed<std::int32_t>(gs::adagrad{}, gs::proximal{gs::elastic_net{1, 1}}, gs::exact{}, gs::simd_backend{pool},
                        uniform);
    embed<std::uint64_t>(gs::adam{}, gs::decoupled{1}, gs::replay{5}, gs::serial_backend{},
                         {.initial = gs::normal{0, 1, 5}});
    return out;
}

using compiled = gs::runtime::compiled_list<float, gs::type_list<gs::momentum>, gs::type_list<gs::l2>>;
using compiled_rows =
    gs::runtime::compiled_catch_up_list<float, gs::exact, gs::type_list<gs::momentum>, gs::type_list<gs::l2>>;

} // namespace

// Two units with other names for this, so that it is no symbol that they share.
#if defined(__AVX512F__)
std::string everything_avx512() { return everything(); }
std::array<gs::runtime::compiled_group const*, 2> compiled_avx512() {
    return {&compiled::group, &compiled_rows::group};
}
#else
std::string everything_avx2() { return everything(); }
std::array<gs::runtime::compiled_group const*, 2> compiled_avx2() { return {&compiled::group, &compiled_rows::group}; }
#endif
