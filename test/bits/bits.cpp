// Prints a hash of weights and state after 20 steps, or as many as its argument says, a line for
// each combination of policies. Built with one set of compiler flags after the other (compare.py):
// the lines must be the same. Within a build all backends must agree, whatever multiply-adds take
// from the divider, or the program fails.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#if defined(BITS_THRUST)
#include <gradstep/thrust.hpp>
#endif

namespace gs = gradstep;

namespace {

constexpr std::size_t size = 4 * 4096 + 37; // several blocks of every backend, and a tail
std::uint32_t steps = 20;                   // the argument of the program, if it has one
int different = 0;

// The serial steps of every rule are compiled where there is no other build to compare with, which
// is half of the time: with multiply-adds test/properties has them, in one build. Some of the other
// builds have none either (compare.py).
#if defined(BITS_WITHOUT_SERIAL) || (defined(BITS_EVERY_RULE) && (defined(__FMA__) || defined(__aarch64__)))
constexpr bool has_serial_steps = false;
#else
constexpr bool has_serial_steps = true;
#endif

// A number that the compiler cannot see through: it must not compute with it while it compiles.
double opaque(double x) {
    double volatile hidden = x;
    return hidden;
}

// FNV-1a.
struct hash {
    std::uint64_t value = 0xcbf29ce484222325u;

    void add(void const* data, std::size_t bytes) {
        auto const* const p = static_cast<unsigned char const*>(data);
        for (std::size_t i = 0; i < bytes; ++i) value = (value ^ p[i]) * 0x100000001b3u;
    }
    template <class T> void add(std::vector<T> const& x) { add(x.data(), x.size() * sizeof(T)); }
};

// Multiples of 2^-12 in [-2, 2), from integers alone; some are zero.
template <class T> void fill(std::vector<T>& x, std::uint32_t seed) {
    for (T& each : x) {
        seed = seed * 1664525u + 1013904223u;
        auto const number = static_cast<std::int32_t>(seed >> 18) - (1 << 13);
        each = T(seed % 16 == 0 ? 0.0f : static_cast<float>(number) / (1 << 12));
    }
}

template <class Element, class Rule, class Regularizer, class Backend>
std::uint64_t hash_of(Rule const& rule, Regularizer const& regularizer, Backend const& backend, double scale,
                      bool copies) {
    gs::warmup const schedule{gs::cosine{.rate = opaque(0.05), .steps = 15, .end = opaque(0.001)}, 3, opaque(0.01)};
    auto optimizer = gs::make_updater<Element>(rule, regularizer, schedule, backend);
    using updater = decltype(optimizer);
    constexpr std::size_t rows = 67, cols = size / rows, n = gs::shaped_rule<Rule> ? rows * cols : size;
    std::vector<typename updater::traits::storage> w(n), g(n);
    std::array<std::vector<typename updater::traits::state>, updater::slots> state;
    for (std::size_t k = 0; k < state.size(); ++k) state[k].resize(updater::slot_size(k, n, {rows, cols}));
    fill(w, 1);
    std::vector<gs::bfloat16> copy(copies ? n : 0);
    auto const run = [&](auto&... slots) {
        optimizer.initialize(w, slots...);
        for (std::uint32_t i = 0; i < steps; ++i) {
            fill(g, i + 2);
            constexpr bool integers = std::is_integral_v<typename updater::traits::compute>; // whole numbers only
            auto const step =
                optimizer.next_step({.gradient_scale = scale * (i % 4 == 3 ? opaque(integers ? 3 : 0.3) : 1),
                                     .rate = integers ? std::optional(2.0) : std::nullopt,
                                     .loss = opaque(1.5)});
            if constexpr (gs::shaped_rule<Rule>) {
                gs::slice<updater> tensor(w, g, slots...);
                tensor.shape = {rows, cols};
                step(tensor);
            } else if constexpr (gs::detail::sends_messages<Rule>) {
                step(w, g, slots...);
            } else { // as step(tensor), which would be all kernels once more to compile
                gs::slice<updater> tensor(w, g, slots...);
                tensor.bfloat16_copy = copy;
                step.begin(tensor)();
            }
        }
    };
    std::apply(run, state);

    hash out;
    out.add(w);
    for (auto const& slot : state) out.add(slot);
    out.add(copy);
    if constexpr (requires(Rule of) { of.average; }) {
        std::vector<typename updater::traits::state> average(n);
        std::apply([&](auto&... slots) { optimizer.average(average, w, slots...); }, state);
        out.add(average);
    }
    return out.value;
}

// What f() gives, of which none may differ, as multiply-adds take more or less from the divider.
template <class F> std::vector<std::uint64_t> by_divider_or_without(F const& f) {
    std::vector<std::uint64_t> out;
#if GRADSTEP_AVX512
    namespace x86 = gs::detail::x86;
    for (auto const newton_mode : {x86::newton_mode::none, x86::newton_mode::quotients, x86::newton_mode::roots}) {
        x86::newton_mode_here = newton_mode;
        out.push_back(f());
    }
#else
    out.push_back(f());
#endif
    return out;
}

// The hashes of a line, which must be one.
void print(std::string const& what, std::vector<std::uint64_t> const& all) {
    std::printf("%-28s %016llx\n", what.c_str(), static_cast<unsigned long long>(all[0]));
    for (std::uint64_t const each : all) {
        if (each == all[0]) continue;
        ++different;
        std::fprintf(stderr, "%s: a backend, or a Newton divider, has other bits than simd\n", what.c_str());
    }
}

template <class Element, class Rule, class Regularizer>
void line(std::string const& what, Rule const& rule, Regularizer const& regularizer, double scale = 1,
          bool copies = false) {
    auto const on = [&](auto const& backend) { return hash_of<Element>(rule, regularizer, backend, scale, copies); };
    auto all = by_divider_or_without([&] { return on(gs::simd_backend{}); });
#if defined(BITS_THRUST)
    if constexpr (!gs::shaped_rule<Rule>) all.push_back(on(gs::thrust_backend{thrust::device}));
#endif
    if constexpr (has_serial_steps) all.push_back(on(gs::serial_backend{}));
    print(what, all);
}

template <class Element, class Rule> void line(std::string const& what, Rule const& rule) {
    line<Element>(what, rule, gs::none{});
}
template <class Element, class Rule> void regularized_line(std::string const& what, Rule const& rule) {
    line<Element>(what, rule,
                  gs::all_of{gs::clip_value{opaque(1.5)}, gs::elastic_net{.l1 = opaque(0.01), .l2 = opaque(0.03)},
                             gs::decoupled{opaque(0.1)},
                             gs::proximal{gs::elastic_net{.l1 = opaque(0.02), .l2 = opaque(0.05)}}});
}

template <class T> [[maybe_unused]] void norm_line(std::string const& what) {
    std::vector<T> g(300'007); // enough to be split
    fill(g, 7);
    auto const bits = [&](auto const& backend) { return std::bit_cast<std::uint64_t>(gs::global_norm(backend, g)); };
    gs::thread_pool pool(3);
    print(what, {
        bits(gs::simd_backend{pool}), bits(gs::serial_backend{}),
#if defined(BITS_THRUST)
            bits(gs::thrust_backend{thrust::device}),
#endif
    });
}

template <class Element, class Rule, class Regularizer, class CatchUp, class Backend>
std::uint64_t hash_of_table(Rule const& rule, Regularizer const& regularizer, CatchUp catch_up,
                            Backend const& backend) {
    gs::cosine const schedule{.rate = opaque(0.1), .steps = 30, .end = opaque(0.01)};
    constexpr std::size_t width = 37, batch = 12;
    gs::table table{gs::make_updater<Element>(rule, regularizer, schedule, backend),
                    200,
                    width,
                    catch_up,
                    {.initial = gs::uniform{opaque(-1), 1, 3}, .max_history = 16}};
    std::vector<std::int64_t> ids(batch);
    std::vector<typename decltype(table)::storage> g(batch * width);
    std::uint32_t seed = 9;
    for (std::uint32_t i = 0; i < 40; ++i) {
        for (auto& id : ids) id = (seed = seed * 1664525u + 1013904223u) >> 27; // of 32 rows, some twice
        fill(g, i + 2);
        table.update(ids, g, {.gradient_scale = i % 4 == 3 ? opaque(0.3) : 1});
    }
    hash out;
    auto const values = table.values();
    out.add(values.data(), values.size_bytes());
    return out.value;
}

template <class Element, class Rule, class Regularizer, class CatchUp>
void table_line(std::string const& what, Rule const& rule, Regularizer const& regularizer, CatchUp catch_up) {
    auto const on = [&](auto const& backend) { return hash_of_table<Element>(rule, regularizer, catch_up, backend); };
    print(what, {on(gs::simd_backend{}), on(gs::serial_backend{})});
}

} // namespace

#if defined(BITS_EVERY_RULE)

// A rule with its defaults, which the compiler does not see.
template <class Rule> Rule opaque_defaults() {
    Rule rule;
    if constexpr (requires { Rule::hyperparameters; })
        Rule::hyperparameters.for_each([&](auto const& member) {
            if constexpr (std::is_same_v<std::remove_reference_t<decltype(rule.*member.at)>, double>)
                rule.*member.at = opaque(rule.*member.at);
        });
    return rule;
}
// Rules whose loops over floats are compiled below alone, in more builds.
using rules_below = gs::type_list<gs::sgd, gs::ftrl, gs::lars, gs::lamb, gs::rowwise_adagrad, gs::rowwise_adam>;

// The other rules, which share the paths of those below, in fewer builds: what differs is their
// arithmetic.
int main(int arguments, char** argument) {
    if (arguments > 1) steps = static_cast<std::uint32_t>(std::stoul(argument[1]));
    gs::rules::any([]<class Rule>() {
        if constexpr (rules_below::index_of<Rule> == rules_below::size)
            line<float>(std::string(gs::detail::type_name<Rule>()), opaque_defaults<Rule>());
        return false;
    });

    using enum gs::epsilon;
    double const eps = opaque(1e-8), beta2 = opaque(0.98), rho = opaque(0.95), mu = opaque(0.9);
    line<float>("momentum inside", gs::momentum{.mu = mu, .rate_place = gs::learning_rate::inside});
    line<float>("nesterov dampened", gs::nesterov{.mu = mu, .dampening = opaque(0.3)});
    line<float>("adagrad inside", gs::adagrad{.epsilon = eps, .epsilon_place = inside});
    line<float>("proximal_adagrad l1 l2", gs::proximal_adagrad{.l1 = opaque(0.01), .l2 = opaque(0.1)});
    line<float>("two_buffer_adagrad period", gs::two_buffer_adagrad{.epsilon = eps, .period = 3});
    line<float>("centered_rmsprop inside", gs::centered_rmsprop{.rho = rho, .epsilon_place = inside});
    line<float>("centered_momentum_rmsprop inside",
                gs::centered_momentum_rmsprop{.rho = rho, .mu = mu, .rate_place = gs::learning_rate::inside});
    line<float>("adam hat", gs::adam{.beta2 = beta2, .epsilon_place = hat});
    line<float>("adam inside", gs::adam{.beta2 = beta2, .epsilon_place = inside});
    line<float>("amsgrad corrected", gs::amsgrad{.beta2 = beta2, .maximum_of = gs::maximum::corrected});
    line<float>("nesterov_adam next_step",
                gs::nesterov_adam{.beta2 = beta2, .momentum_bias = gs::momentum_bias::next_step});
    line<float>("constant_rate_ftrl l1", gs::constant_rate_ftrl{.l1 = opaque(0.1), .l2_shrinkage = opaque(0.01)});
    line<float>("averaged adam", gs::averaged{gs::adam{.beta2 = beta2}, gs::ema{.decay = rho}});
    line<float>("averaged adam debias", gs::averaged{gs::adam{.beta2 = beta2}, gs::ema{rho, true, 2}});
    gs::averaged const polyak{gs::sgd{}, gs::polyak{2}};
    gs::averaged const window{gs::sgd{}, gs::window{.rate = opaque(0.6), .min = 2, .max = 7}};
    line<float>("polyak float", polyak);
    line<gs::mixed<gs::float16>>("polyak mixed float16", polyak);
    line<float>("window float", window);
    line<gs::mixed<gs::float16>>("window mixed float16", window);
    gs::dgc_momentum dgc{.mu = mu, .rampup_begin_step = 3, .rampup_step = 9, .sparsity = {0.7, 0.9, 0.99}};
    line<float>("dgc_momentum float", dgc, gs::l2{opaque(0.01)});
    dgc.nesterov = true;
    dgc.local_grad_clip_norm = opaque(50);
    dgc.selected = gs::selection::sampled;
    line<gs::mixed<gs::bfloat16>>("dgc_momentum nesterov mixed bfloat16", dgc, gs::l2{opaque(0.01)});
    line<std::int32_t>("add_delta int32", gs::add_delta{});
    line<gs::float16>("rmsprop float16", gs::rmsprop{.rho = rho});
    line<gs::mixed<gs::float16>>("rmsprop mixed float16", gs::rmsprop{.rho = rho});
    line<gs::stochastic<gs::bfloat16>>("rmsprop stochastic bfloat16", gs::rmsprop{.rho = rho});
    line<gs::stochastic<gs::float16>>("rmsprop stochastic float16", gs::rmsprop{.rho = rho});
    return different != 0;
}

#elif defined(BITS_TABLES)

// Tables, which take as long to compile as all of the above, in fewer builds: what differs is how
// rows catch up. On Thrust they are the task of test/backends.
int main(int arguments, char** argument) {
    if (arguments > 1) steps = static_cast<std::uint32_t>(std::stoul(argument[1]));
    gs::adam const adam{.beta1 = opaque(0.9), .beta2 = opaque(0.98), .epsilon = opaque(1e-8)};
    gs::proximal const elastic_net{gs::elastic_net{.l1 = opaque(0.02), .l2 = opaque(0.05)}};
    table_line<float>("table adagrad float exact", gs::adagrad{.epsilon = opaque(1e-10)}, elastic_net, gs::exact{});
    table_line<float>("table momentum float exact", gs::momentum{.mu = opaque(0.9)}, gs::l2{opaque(0.05)}, gs::exact{});
    table_line<gs::bfloat16>("table adam bfloat16 replay", adam, gs::decoupled{opaque(0.1)}, gs::replay{10});
    return different != 0;
}

#else

// Every element and regularizer is here, and a rule of every kind; the product is test/properties'
// task, which has one build to do it in.
int main(int arguments, char** argument) {
    if (arguments > 1) steps = static_cast<std::uint32_t>(std::stoul(argument[1]));
    gs::adam const adam{.beta1 = opaque(0.9), .beta2 = opaque(0.98), .epsilon = opaque(1e-8)};
    gs::adagrad const adagrad{.epsilon = opaque(1e-10), .initial_accumulator = opaque(0.1)};
    gs::lamb const lamb{.beta2 = opaque(0.98), .epsilon = opaque(1e-6), .decay = opaque(0.1)};
    gs::ftrl const ftrl{.l1 = opaque(0.1), .l2 = opaque(0.01), .beta = opaque(1)};
    line<float>("sgd float", gs::sgd{});
    line<float>("momentum float", gs::momentum{.mu = opaque(0.9)});
    line<float>("nesterov float", gs::nesterov{.mu = opaque(0.9)});
    line<float>("adagrad float", adagrad);
    line<float>("adam float", adam);
    line<float>("adam float, bfloat16_copy", adam, gs::none{}, 1, true);
    line<float>("ftrl float", ftrl);
    // Gradients around the smallest normal number, and moments that decay below it.
    line<float>("adam float subnormal", adam, gs::none{}, opaque(0x1p-124));
    line<float>("momentum float subnormal", gs::momentum{.mu = opaque(0.9)}, gs::none{}, opaque(0x1p-124));
    line<float>("rowwise_adagrad float", gs::rowwise_adagrad{.epsilon = opaque(1e-10)});
    line<float>("rowwise_adam float", gs::rowwise_adam{.beta2 = opaque(0.98)});
    line<float>("lars float", gs::lars{.trust = opaque(0.25)});
    line<float>("lamb float", lamb);
    regularized_line<float>("sgd float regularized", gs::sgd{});
    regularized_line<double>("adam double regularized", adam);
    regularized_line<float>("lamb float regularized", lamb);
    line<double>("ftrl double", ftrl);
    line<double>("ftrl double subnormal", ftrl, gs::none{}, opaque(0x1p-1020));
    line<double>("lamb double", lamb);
    line<gs::bfloat16>("adam bfloat16", adam);
    line<gs::mixed<gs::bfloat16>>("adam mixed", adam);
    line<gs::block8<float>>("adam block8", adam);
    line<gs::block8<float>>("adagrad block8", adagrad);
    line<gs::bfloat16>("lamb bfloat16", lamb);
    line<gs::mixed<gs::bfloat16>>("lamb mixed", lamb);
    norm_line<float>("global_norm float");
    norm_line<double>("global_norm double");
    norm_line<gs::bfloat16>("global_norm bfloat16");
    return different != 0;
}

#endif
