// Exact catch-up where a weight without gradient shrinks or stands, against a dense sweep in long
// double.
#include <rows/catch_up.hpp>

namespace {

using dense::penalties, dense::rule;

gs::proximal const elastic_net{gs::elastic_net{.l1 = 0.004, .l2 = 0.05}};
gs::all_of const all_of{gs::clip_value{0.5}, gs::decoupled{0.025},
                        gs::proximal{gs::elastic_net{.l1 = 0.002, .l2 = 0.025}}};
gs::all_of const nested{gs::all_of{gs::proximal{gs::elastic_net{.l1 = 0.002, .l2 = 0.025}}, gs::clip_value{0.5}},
                        gs::decoupled{0.025}}; // the same: decay comes before the rule, the proximal map after it
constexpr penalties of_none, of_decoupled{.decoupled = 0.05},
    of_decay_last{.decoupled = 0.0005, .decay_is_last = true, .decay_by_one = true}, of_l1{.prox_l1 = 0.004},
    of_l2{.prox_l2 = 0.05}, of_elastic_net{.prox_l1 = 0.004, .prox_l2 = 0.05},
    of_all{.clip = 0.5, .decoupled = 0.025, .prox_l1 = 0.002, .prox_l2 = 0.025}, of_cautious{.cautious = 0.05};

dense::script const many_gaps{.gaps = {1, 2, 3, 10, 1000, 1999}, .flush_at = 1234};
// 100 000 steps in one history, so that a row is away for all of them.
dense::script const long_gap{.gaps = {1000, 100'000}, .read_every = 20'000, .odd_steps = false, .max_history = 1 << 17};

template <class Rule> void under_every_regularizer(Rule policy, dense::settings of) {
    auto const under = [&](auto const& regularizer, penalties const& what) {
        of.penalties = what;
        auto const optimizer = gs::make_updater<double>(policy, regularizer, gs::external{}, gs::serial_backend{});
        dense::follow_schedules(optimizer, of, many_gaps, 2001);
    };
    under(gs::none{}, of_none);
    under(gs::decoupled{0.05}, of_decoupled);
    under(gs::after_step{gs::decoupled{0.0005, gs::decay_scale::one}}, of_decay_last);
    under(gs::proximal{gs::l1{0.004}}, of_l1);
    under(gs::proximal{gs::l2{0.05}}, of_l2);
    under(gs::cautious_decay{0.05}, of_cautious);
    under(elastic_net, of_elastic_net);
    under(all_of, of_all);
    under(nested, of_all);
}

gs::adagrad const adagrad{.initial_accumulator = 0.1};
gs::rowwise_adagrad const rowwise_adagrad{.initial_accumulator = 0.1};
constexpr dense::settings of_sgd{.rule = rule::sgd}, of_adagrad{.rule = rule::adagrad, .initial = 0.1},
    of_rowwise_adagrad{.rule = rule::rowwise_adagrad, .initial = 0.1};

} // namespace

TEST_CASE("exact is the dense sweep: sgd", "[catch_up]") { under_every_regularizer(gs::sgd{}, of_sgd); }
TEST_CASE("exact is the dense sweep: adagrad", "[catch_up]") { under_every_regularizer(adagrad, of_adagrad); }
TEST_CASE("exact is the dense sweep: rowwise_adagrad", "[catch_up]") {
    under_every_regularizer(rowwise_adagrad, of_rowwise_adagrad);
}

TEST_CASE("exact takes the rates of the schedule inside as it takes those of a host", "[catch_up]") {
    // The same run twice: with the rates given, which the oracle has checked, and with the schedule
    // inside.
    gs::cosine const schedule{.rate = 0.02, .steps = 3000, .end = 0.0002};
    auto const inside = gs::make_updater<double>(adagrad, all_of, schedule, gs::serial_backend{});
    auto const given = gs::make_updater<double>(adagrad, all_of, gs::external{}, gs::serial_backend{});
    gs::table_options const options{.initial = gs::uniform{-1, 1, 5}};
    gs::table a{inside, 4, 3, gs::exact{}, options};
    gs::table b{given, 4, 3, gs::exact{}, options};
    std::vector<std::int64_t> const one{2};
    std::vector<double> const rows{0.5, -0.25, 1};
    for (std::int64_t t = 0; t < 2000; ++t) {
        double const rate = schedule(gs::clock{.step = t});
        bool const touches = t % 700 == 3;
        auto const named = std::span(one).first(touches ? 1 : 0);
        auto const gradient = std::span(rows).first(touches ? 3 : 0);
        double const scale = t % 3 == 0 ? 0.5 : 1;
        a.update(named, gradient, {.rate_scale = scale, .samples = 7});
        b.update(named, gradient, {.rate_scale = scale, .rate = rate});
    }
    for (std::int64_t k = 0; k < 4; ++k) CHECK(a.row(k) == b.row(k));
}
