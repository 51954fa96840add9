// Models whose trainers send each other one message a step.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/closing_pool.hpp"
#include "support/model_gradients.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

gs::dgc_momentum const rule{
    .rampup_begin_step = 1, .rampup_step = 4, .sparsity = {0.5, 0.9}, .num_trainers = 2, .dense_below = 1000};
auto const compressing = gs::make_updater<float>(rule, gs::l2{0.1}, gs::constant{0.3});
auto const plain = gs::make_updater<gs::bfloat16>(gs::adam{}, gs::constant{0.1});
using compressing_type = std::remove_const_t<decltype(compressing)>;
using plain_type = std::remove_const_t<decltype(plain)>;

gs::compressed_model model_of(gs::model_options const& options = {}) {
    gs::compressed_model net(options);
    net.add("weight", gs::parameter{compressing, numbers<float>(many, 1)});
    net.add("bias", gs::parameter{compressing, numbers<float>(few, 2)}, {.decay = false});
    net.add("other", gs::parameter{plain, numbers<gs::bfloat16>(few, 3)});
    return net;
}
// Everything that a model holds, as bytes.
std::vector<std::byte> contents(gs::compressed_model& net) {
    std::vector<std::byte> out;
    auto const add = [&](auto const& values) {
        auto const bytes = std::as_bytes(std::span(values));
        out.insert(out.end(), bytes.begin(), bytes.end());
    };
    for (auto const* name : {"weight", "bias"}) {
        auto& parameter = net.get<compressing_type>(name);
        add(parameter.values());
        for (auto const* slot : {"u", "v"}) add(parameter.state(slot));
    }
    auto& parameter = net.get<plain_type>("other");
    add(parameter.values());
    for (auto const* slot : {"m", "v"}) add(parameter.state(slot));
    for (std::string const& name : net.names()) {
        std::int64_t const step = net.clock(name).step;
        add(std::span(&step, 1));
    }
    return out;
}

} // namespace

TEST_CASE("Models of two trainers hold the same bits: those of the steps by hand", "[model][compression]") {
    std::vector<gs::compressed_model> trainers;
    trainers.push_back(model_of());
    trainers.push_back(model_of());
    gs::compressed_model reversed; // the same parameters, added in another order
    reversed.add("other", gs::parameter{plain, numbers<gs::bfloat16>(few, 3)});
    reversed.add("bias", gs::parameter{compressing, numbers<float>(few, 2)}, {.decay = false});
    reversed.add("weight", gs::parameter{compressing, numbers<float>(many, 1)});

    gs::compressed_parameter weight{compressing, numbers<float>(many, 1)}, second = weight;
    auto of_bias = compressing;
    auto of_other = plain;
    std::vector<float> bias = numbers<float>(few, 2), bias_u(few), bias_v(few);
    std::vector<gs::bfloat16> other = numbers<gs::bfloat16>(few, 3);
    std::vector<float> m(few), v(few);
    for (std::uint32_t t = 1; t <= 7; ++t) {
        gs::step_options const options{.gradient_scale = t == 3 ? 0.5 : 1, .rate_scale = t == 4 ? 0.5 : 1};
        std::vector<gradients> g{gradients(10 * t), gradients(10 * t + 5)};
        std::vector<gs::model_message> messages;
        for (std::size_t r = 0; r < 2; ++r) {
            auto const bytes = trainers[r].compress(g[r].named(), options).encode();
            messages.push_back(gs::model_message::decode(bytes));
        }
        CHECK(messages[0].size() == 3);
        CHECK(messages[0].find("weight")->is_dense() == (t == 1));
        CHECK((messages[0].find("bias")->is_dense() && messages[0][2].is_dense()));
        CHECK(messages[0].find("nothing") == nullptr);
        reversed.compress(g[1].named(), options);
        for (gs::compressed_model& net : trainers) net.apply(messages);
        reversed.apply(messages);
        CHECK((contents(trainers[0]) == contents(trainers[1])) == (t == 1)); // v is each one's own

        std::vector<gs::sparse_message> const of_weight{weight.compress(g[0].weight, options),
                                                        second.compress(g[1].weight, options)};
        weight.apply(of_weight);
        second.apply(of_weight);
        std::vector<float> mean(few);
        for (std::size_t i = 0; i < few; ++i) {
            float const s = static_cast<float>(options.gradient_scale);
            mean[i] = (s * g[0].bias[i] + s * g[1].bias[i]) / 2;
            g[0].other[i] = gs::bfloat16((static_cast<float>(gs::bfloat16(s * static_cast<float>(g[0].other[i]))) +
                                          static_cast<float>(gs::bfloat16(s * static_cast<float>(g[1].other[i])))) /
                                         2);
        }
        gs::step_options unscaled = options;
        unscaled.gradient_scale = 1;
        of_bias.next_step(unscaled, {.decay = false})([&] {
            gs::slice<compressing_type> x(bias, mean, bias_u, bias_v);
            x.decay = false;
            return x;
        }());
        of_other.next_step(unscaled)(other, g[0].other, m, v);
        for (gs::compressed_model* net : {&trainers[0], &trainers[1], &reversed}) {
            auto const equals = [&]<class T>(std::span<T const> a, auto const& b) {
                return same_bits(std::vector(a.begin(), a.end()), std::vector(b.begin(), b.end()));
            };
            CHECK(equals(net->get<compressing_type>("weight").values(), weight.values()));
            CHECK(equals(net->get<compressing_type>("bias").values(), bias));
            CHECK(equals(net->get<plain_type>("other").values(), other));
        }
        CHECK(contents(trainers[1]).size() == contents(reversed).size());
    }
}

TEST_CASE("A model of one trainer updates as its parameters do, before the ramp and after it", "[model][compression]") {
    gs::dgc_momentum alone = rule;
    alone.num_trainers = 1;
    auto const optimizer = gs::make_updater<float>(alone, gs::l2{0.1}, gs::constant{0.3});
    using type = std::remove_const_t<decltype(optimizer)>;
    gs::thread_pool pool(2);
    gs::model net(pool);
    net.add("weight", gs::parameter{optimizer, numbers<float>(many, 1)});
    net.add("bias", gs::parameter{optimizer, numbers<float>(few, 2)});
    gs::parameter weight{optimizer, numbers<float>(many, 1)}, bias{optimizer, numbers<float>(few, 2)};
    for (std::uint32_t t = 1; t <= 6; ++t) {
        gradients g(t);
        net.update({{"weight", g.weight}, {"bias", g.bias}});
        weight.update(g.weight);
        bias.update(g.bias);
        auto const same = [](auto const& a, auto const& b) {
            return same_bits(std::vector(a.values().begin(), a.values().end()),
                             std::vector(b.values().begin(), b.values().end()));
        };
        CHECK(same(net.get<type>("weight"), weight));
        CHECK(same(net.get<type>("bias"), bias));
    }
    gs::compressed_model of_two = model_of();
    gradients g(1);
    of_two.update(g.named()); // dense: the mean gradient
    CHECK_THAT((refusal<gs::sequence_error, std::logic_error>([&] { of_two.update(g.named()); })),
               ContainsSubstring("weight: dgc_momentum.num_trainers: 2, and from the ramp on"));
    CHECK(of_two.clock("weight").step == 1);
}

TEST_CASE("A model refuses messages of other models, steps and trainers, and is as it was", "[model][compression]") {
    gs::compressed_model net = model_of();
    auto const sequence = [](auto const& call) { return refusal<gs::sequence_error, std::logic_error>(call); };
    auto const value = [](auto const& call) { return refusal<gs::value_error>(call); };
    gradients g(1);
    using list = std::vector<gs::model_message>;
    CHECK(sequence([&] { net.apply(list(2)); }) == "apply: no step has begun; expected compress() first");
    CHECK(value([&] {
              net.compress({{"weight", g.weight}});
          }) == "compress: the gradient of bias is missing; expected one for each parameter");
    CHECK(value([&] { net.compress({{"wait", g.weight}}); }).starts_with("compress: there is no parameter wait"));
    auto const first = net.compress(g.named());
    net.apply(list{first, first});
    auto const second = net.compress(g.named());
    CHECK(net.awaits_messages());
    auto const before = contents(net);
    CHECK(sequence([&] { net.update(g.named()); }) ==
          "update: the messages of the last step have not been applied; expected apply() first");
    CHECK(sequence([&] { net.compress(g.named()); }).starts_with("compress: the messages of the last step"));
    CHECK(value([&] { net.apply(list{}); }) == "apply: there are no messages; expected one of each trainer");
    CHECK_THAT(value([&] { net.apply(list{second}); }), ContainsSubstring("weight: apply: there are 1 messages"));
    CHECK_THAT(value([&] { net.apply(list{second, first}); }), ContainsSubstring("is of step 1; expected step 2"));
    CHECK_THAT(value([&] {
                   net.apply(list{second, gs::model_message()});
               }),
               ContainsSubstring("messages[1] has 0 parameters, none of them weight; expected the 3"));
    gs::compressed_model smaller;
    smaller.add("weight", gs::parameter{compressing, numbers<float>(many, 1)});
    smaller.seek("weight", {.step = 1});
    auto const other = smaller.compress({{"weight", g.weight}});
    CHECK_THAT(value([&] {
                   net.apply(list{second, other});
               }),
               ContainsSubstring("messages[1] has 1 parameters, one of them weight; expected the 3"));
    CHECK((contents(net) == before));
    net.apply(list{second, second});
    CHECK((contents(net) != before));
    CHECK_FALSE(net.awaits_messages());

    gs::compressed_model counts;
    std::vector<std::int32_t> const counters(4);
    counts.add("counts", gs::parameter{gs::make_updater<std::int32_t>(gs::add_delta{}, gs::constant{1}), counters});
    CHECK(value([&] {
              counts.compress({{"counts", counters}});
          }) == "counts: compress: the parameter is of int32; expected float, double, bfloat16 or float16");
    CHECK(counts.clock("counts").step == 0);
}

TEST_CASE("After a compress that was refused, a model updates as if it had not been called", "[model][compression]") {
    gs::dgc_momentum alone = rule;
    alone.rampup_begin_step = 0;
    alone.num_trainers = 1;
    alone.local_grad_clip_norm = 1;
    auto const optimizer = gs::make_updater<float>(alone, gs::l2{0.1}, gs::constant{0.3});
    using type = std::remove_const_t<decltype(optimizer)>;
    auto const model = [&] {
        gs::compressed_model net;
        for (auto const* name : {"first", "second"}) net.add(name, gs::parameter{optimizer, numbers<float>(many, 1)});
        net.add("other", gs::parameter{plain, numbers<gs::bfloat16>(few, 3)});
        return net;
    };
    gradients const g(1);
    auto const named = [&](std::vector<float> const& first, std::vector<float> const& second) {
        return std::vector<gs::named_gradient>{{"first", first}, {"second", second}, {"other", g.other}};
    };
    gs::compressed_model never = model();
    never.update(named(g.weight, g.weight));
    auto bad = g.weight;
    bad[7] = std::numeric_limits<float>::quiet_NaN();
    for (auto const* name : {"first", "second"}) {
        CAPTURE(name);
        gs::compressed_model net = model();
        bool const is_first = std::string(name) == "first";
        auto const refused = named(is_first ? bad : g.weight, is_first ? g.weight : bad);
        CHECK_THAT(refusal<gs::value_error>([&] { net.compress(refused); }),
                   ContainsSubstring(std::string(name) + ": dgc_momentum.local_grad_clip_norm"));
        CHECK_FALSE(net.awaits_messages());
        net.update(named(g.weight, g.weight));
        for (auto const* of : {"first", "second"}) {
            auto const values = net.get<type>(of).values(), expected = never.get<type>(of).values();
            CHECK(std::equal(values.begin(), values.end(), expected.begin(), expected.end()));
            CHECK(net.clock(of).step == 1);
        }
    }
}

TEST_CASE("Where an executor fails, a model counts the step if a parameter has its gradient, and goes on",
          "[model][compression]") {
    std::size_t const n = 200'000;
    closing_pool host;
    auto const optimizer =
        gs::make_updater<float>(gs::dgc_momentum{.sparsity = {0.9}, .local_grad_clip_norm = 1, .dense_below = 0},
                                gs::l2{0}, gs::constant{1}, gs::simd_backend{host.threads});
    using type = std::remove_const_t<decltype(optimizer)>;
    auto const initial = numbers<float>(n, 1), g = numbers<float>(n, 2);
    std::vector<gs::named_gradient> const named{{"first", g}, {"second", g}};
    int refused = 0, begun = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        gs::compressed_model net;
        for (auto const* name : {"first", "second"}) net.add(name, gs::parameter{optimizer, initial});
        if (!host.stops(allowed, [&] { net.compress(named); })) break;
        CAPTURE(allowed);
        auto const v = net.get<type>("first").state<"v">();
        bool const has_gradient = std::any_of(v.begin(), v.end(), [](float x) { return x != 0; });
        CHECK_FALSE(net.awaits_messages());
        for (auto const* name : {"first", "second"}) CHECK(net.clock(name).step == (has_gradient ? 1 : 0));
        net.update(named);
        net.apply(std::vector{net.compress(named)});
        CHECK(net.clock("second").step == (has_gradient ? 3 : 2));
        ++(has_gradient ? begun : refused);
    }
    CHECK((refused >= 1 && begun >= 1));

    // In apply some parameters may have moved: the same messages would move them twice.
    int failed = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        gs::compressed_model net;
        for (auto const* name : {"first", "second"}) net.add(name, gs::parameter{optimizer, initial});
        std::vector const messages{net.compress(named)};
        if (!host.stops(allowed, [&] { net.apply(messages); })) break;
        CAPTURE(allowed);
        ++failed;
        CHECK_FALSE(net.awaits_messages());
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { net.apply(messages); }) ==
              "apply: no step has begun; expected compress() first");
        net.apply(std::vector{net.compress(named)});
        CHECK(net.clock("second").step == 2);
    }
    CHECK(failed >= 2);
}

TEST_CASE("A model takes averages in the place of its weights between whole steps alone", "[model][compression]") {
    auto const averaging = gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{0.9}}, gs::constant{0.1});
    gs::dgc_momentum alone = rule;
    alone.num_trainers = 1;
    auto const optimizer = gs::make_updater<float>(alone, gs::l2{0.1}, gs::constant{0.3});
    auto const g = numbers<float>(many, 1), initial = numbers<float>(many, 2);
    gs::compressed_model net;
    net.add("compressed", gs::parameter{optimizer, initial});
    net.add("averaged", gs::parameter{averaging, initial});
    std::vector<gs::named_gradient> const named{{"compressed", g}, {"averaged", g}};
    auto const sequence = [](auto const& call) { return refusal<gs::sequence_error, std::logic_error>(call); };
    std::string const sentence = ": the average is in the place of the weights; expected restore() first";
    net.update(named);
    {
        auto const applied = net.apply_average();
        CHECK(sequence([&] { net.compress(named); }) == "compress" + sentence);
        CHECK(sequence([&] { net.update(named); }) == "averaged: as_slice" + sentence);
        for (std::string const& name : net.names()) CHECK(net.clock(name).step == 1);
    }
    std::vector const messages{net.compress(named)};
    CHECK(sequence([&] { net.apply_average().dismiss(); }) ==
          "apply_average: the messages of the last step have not been applied; expected apply() first");
    {
        auto& own = net.get<std::remove_const_t<decltype(optimizer)>>("compressed");
        auto const applied = own.apply_average(initial);
        CHECK(sequence([&] { net.apply(messages); }) == "apply" + sentence);
        CHECK(net.awaits_messages());
    }
    net.apply(messages);
    net.apply_average().dismiss();
    net.restore();
}

TEST_CASE("A gradient that is not finite is left out of a model's message, with all others", "[model][compression]") {
    gs::compressed_model net = model_of({.on_nonfinite = gs::nonfinite::skip});
    gradients g(1);
    std::vector<gs::model_message> const first(2, net.compress(g.named()));
    net.apply(first);
    g.bias[3] = std::numeric_limits<float>::infinity();
    auto const message = net.compress(g.named(), {.zero_gradient = true});
    CHECK(message.find("weight")->count() == 0);
    auto const values = message.find("bias")->values<float>();
    CHECK(std::all_of(values.begin(), values.end(), [](float x) { return x == 0; }));
    CHECK(std::all_of(g.weight.begin(), g.weight.end(), [](float x) { return x == 0; }));
    net.apply(std::vector(2, message));
    CHECK(net.clock("weight").step == 2);
}

TEST_CASE("You can move a compressed model between the halves of a step", "[model][compression]") {
    static_assert(!std::is_convertible_v<gs::compressed_model&, gs::model&>);
    static_assert(!std::is_constructible_v<gs::model, gs::compressed_model>);
    gs::compressed_model stays = model_of(), moves = model_of();
    gradients g(1);
    std::vector<gs::model_message> const messages(2, moves.compress(g.named()));
    CHECK(stays.compress(g.named()).encode() == messages[0].encode());
    gs::compressed_model constructed = std::move(moves);
    CHECK(constructed.awaits_messages());
    gs::compressed_model assigned;
    assigned.add("gone", gs::parameter{plain, numbers<gs::bfloat16>(few, 3)});
    assigned = std::move(constructed);
    CHECK(assigned.awaits_messages());
    CHECK((refusal<gs::sequence_error, std::logic_error>([&] { assigned.update(g.named()); })) != "");
    assigned.apply(messages);
    stays.apply(messages);
    CHECK(contents(assigned) == contents(stays));
    CHECK(assigned.compress(g.named()).encode() == stays.compress(g.named()).encode());
    CHECK(assigned.as_model().size() == 3);
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("Where memory ends, a model that compresses or applies is as it was", "[model][compression]") {
    gs::compressed_model net = model_of();
    gradients g(1);
    std::vector<gs::model_message> messages(2, net.compress(g.named()));
    net.apply(messages);
    int failures = 0;
    auto const until_it_works = [&](auto const& call) {
        for (std::size_t allowed = 0;; ++allowed) {
            auto const before = contents(net);
            bool failed = false;
            allocations_until_failure = allowed;
            try {
                call();
            } catch (std::bad_alloc const&) {
                failed = true;
            }
            allocations_until_failure = SIZE_MAX;
            if (!failed) return;
            ++failures;
            CAPTURE(allowed);
            bool const is_as_it_was = contents(net) == before;
            REQUIRE(is_as_it_was);
        }
    };
    auto const named = g.named();
    until_it_works([&] { messages[0] = net.compress(named); });
    CHECK(messages[0].find("weight")->count() == many / 2);
    messages[1] = messages[0];
    until_it_works([&] { net.apply(messages); });
    CHECK(failures >= 10);
}
#endif

TEST_CASE("A message of a model with any one bit changed, or cut anywhere, is refused", "[model][compression]") {
    gs::compressed_model net;
    net.add("weight", gs::parameter{gs::make_updater<float>(gs::dgc_momentum{.dense_below = 5}, gs::constant{1}),
                                    numbers<float>(9, 1)});
    net.add("other", gs::parameter{plain, numbers<gs::bfloat16>(3, 3)});
    auto const w = numbers<float>(9, 2);
    auto const o = numbers<gs::bfloat16>(3, 2);
    std::vector<std::byte> const bytes = net.compress({{"weight", w}, {"other", o}}).encode();
    auto const is_refused = [](std::span<std::byte const> given) {
        try {
            gs::model_message::decode(given);
        } catch (gs::value_error const&) {
            return true;
        }
        return false;
    };
    CHECK_FALSE(is_refused(bytes));
    CHECK(gs::model_message::decode(bytes).encode() == bytes);
    for (std::size_t bit = 0; bit != 8 * bytes.size(); ++bit) {
        auto changed = bytes;
        changed[bit / 8] ^= std::byte(1) << static_cast<int>(bit % 8);
        CHECK(is_refused(changed));
    }
    for (std::size_t size = 0; size != bytes.size(); ++size) CHECK(is_refused(std::span(bytes).first(size)));
    auto const checked = [](std::vector<std::byte> changed) { // with a checksum that is right
        std::uint32_t const sum =
            gs::detail::crc32c(gs::detail::crc32c(0, changed.data(), 12), &changed[16], changed.size() - 16);
        std::memcpy(&changed[12], &sum, 4);
        return refusal<gs::value_error>([&] { gs::model_message::decode(changed); });
    };
    auto changed = bytes;
    changed[8] = std::byte(3);
    CHECK_THAT(checked(changed), ContainsSubstring("breaks off after 2 parameters; expected 3"));
    changed[8] = std::byte(1);
    CHECK_THAT(checked(changed), ContainsSubstring("bytes too many"));
    changed = bytes;
    for (std::size_t i = 24; i < 32; ++i) changed[i] = std::byte(0xff);
    CHECK_THAT(checked(changed), ContainsSubstring("has a message of 18446744073709551615 bytes; expected at most "));
    changed = bytes;
    changed.back() = std::byte(1);
    CHECK_THAT(checked(changed), ContainsSubstring("has a byte that is not 0 in the padding before byte " +
                                                   std::to_string(changed.size())));
}
