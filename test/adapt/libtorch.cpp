// gradstep::torch_optim against torch::optim, on the torch that `./dev test python-torch` installs.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <gradstep/adapt/libtorch.hpp>
#undef CHECK // torch's, which has glog's names

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace ours = gradstep::torch_optim;
namespace theirs = torch::optim;
using torch::Tensor;
using tensors = std::vector<Tensor>;

namespace {

constexpr char const* adamw_text =
    R"({"rule": {"dialect": "torch", "name": "adamw"}, "regularizer": {"name": "decoupled", "rate": 0.01}})";

// Numbers in [low, high), always the same for a seed.
Tensor numbers(at::IntArrayRef sizes, double low, double high, std::int64_t seed, at::ScalarType type = at::kFloat) {
    std::int64_t n = 1;
    for (std::int64_t const size : sizes) n *= size;
    Tensor const steps = (torch::arange(n, at::kDouble) + 1) * 0.6180339887498949 + 0.37 * static_cast<double>(seed);
    return (low + (high - low) * (steps - steps.floor())).reshape(sizes).to(type);
}
Tensor leaf(Tensor const& x) { return x.detach().requires_grad_(); }
// Contiguous, transposed, strided, 0-dim, empty, and without gradient. Weights are > 0.
tensors parameters(at::ScalarType type) {
    return {leaf(numbers({70}, 0.5, 2, 1, type)),
            leaf(numbers({4, 3}, 0.5, 2, 2, type).t()),
            leaf(numbers({3, 10}, 0.5, 2, 3, type).slice(1, 0, 10, 2)),
            leaf(numbers({}, 0.5, 2, 4, type)),
            leaf(numbers({0, 3}, 0.5, 2, 5, type)),
            leaf(numbers({5}, 0.5, 2, 6, type))};
}
// Gradients are > 0 too. The second and the third one have other strides than their parameters.
void set_gradients(tensors& of, std::int64_t step) {
    for (std::size_t i = 0; i + 1 < of.size(); ++i)
        of[i].mutable_grad() =
            numbers(of[i].sizes(), 0.5, 1.5, 10 * step + static_cast<std::int64_t>(i), of[i].scalar_type());
}
double unit_roundoff(at::ScalarType type) {
    return std::ldexp(1, type == at::kDouble ? -53 : type == at::kFloat ? -24 : type == at::kHalf ? -11 : -8);
}

// A step from equal weights and states. Weights, gradients and states are > 0, so no sum cancels,
// and relative errors add up. With the unit roundoff u of the dtype, each of the two systems
// computes
//     w - update with an error <= 3 u max(w) + 16 u |update|:
// the weight is rounded by the product with 1 - lr * decay, by that factor, and by the subtraction.
// AdamW's m has <= 4 roundings, v <= 7, its root half of them and one more, the denominator 3 more,
// the quotient and the step size 3: 4 + 4.5 + 3 + 3 <= 16. SGD's update has fewer. The systems
// differ by at most twice that.
void check_step(tensors const& our, tensors const& their, tensors const& before, double decay) {
    for (std::size_t i = 0; i < our.size(); ++i) {
        CAPTURE(i);
        if (our[i].numel() == 0) continue;
        double const u = unit_roundoff(our[i].scalar_type());
        Tensor const a = our[i].detach().to(at::kDouble), b = their[i].detach().to(at::kDouble);
        Tensor const from = before[i].to(at::kDouble);
        Tensor const update = (from * (1 - decay) - b).abs();
        Tensor const bound = 2 * u * (3 * from + 16 * (update + 3 * u * from));
        CHECK((a - b).abs().le(bound).all().item<bool>());
    }
}
tensors copies(tensors const& of) {
    tensors out;
    for (Tensor const& x : of) out.push_back(x.detach().clone());
    return out;
}
void assign(tensors& to, tensors const& from) {
    torch::NoGradGuard const no_gradients;
    for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}
bool equal(tensors const& a, tensors const& b) {
    bool same = a.size() == b.size();
    for (std::size_t i = 0; same && i < a.size(); ++i) same = torch::equal(a[i].detach(), b[i].detach());
    return same;
}

template <class From, class To> void pass_state(From const& from, To& to) {
    std::stringstream text;
    torch::serialize::OutputArchive out;
    from.save(out);
    out.save_to(text);
    torch::serialize::InputArchive in;
    in.load_from(text);
    to.load(in);
}

// Steps of both, each from the weights of torch. Half of them continue from the other one's
// archive.
template <class Ours, class Theirs, class Options>
void check_family(at::ScalarType type, Options const& options, double rate_decay) {
    tensors our = parameters(type), their = parameters(type);
    auto const groups_of = [&](tensors const& x) {
        Options second = options; // with another rate
        second.lr(options.lr() * 2).weight_decay(0);
        std::vector<theirs::OptimizerParamGroup> groups;
        groups.emplace_back(tensors{x[0], x[1], x[2]});
        groups.emplace_back(tensors{x[3], x[4], x[5]}, std::make_unique<Options>(second));
        return groups;
    };
    Ours ours_(groups_of(our), options);
    Theirs theirs_(groups_of(their), options);
    // The group inherits what it has in common with the defaults in some versions of torch.
    for (auto* const of : {static_cast<theirs::Optimizer*>(&ours_), static_cast<theirs::Optimizer*>(&theirs_)})
        static_cast<Options&>(of->param_groups()[1].options()).lr(options.lr() * 2).weight_decay(0);
    for (std::int64_t step = 1; step <= 6; ++step) {
        CAPTURE(type, step);
        if (step == 3) pass_state(theirs_, ours_);
        if (step == 5) pass_state(ours_, theirs_);
        tensors const before = copies(their);
        set_gradients(our, step);
        set_gradients(their, step);
        ours_.step();
        theirs_.step();
        check_step({our.begin(), our.begin() + 3}, {their.begin(), their.begin() + 3}, before, rate_decay);
        check_step({our.begin() + 3, our.end()}, {their.begin() + 3, their.end()}, {before.begin() + 3, before.end()},
                   0);
        CHECK(torch::equal(our[5].detach(), before[5]));
        assign(our, copies(their));
        pass_state(theirs_, ours_);
    }
}

} // namespace

TEST_CASE("AdamW takes torch's steps, and exchanges archives with torch's class") {
    for (at::ScalarType const type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
        for (bool const amsgrad : {false, true})
            check_family<ours::AdamW, theirs::AdamW>(
                type, theirs::AdamWOptions(0.02).betas({0.8, 0.9}).weight_decay(0.1).amsgrad(amsgrad), 0.02 * 0.1);
}

TEST_CASE("SGD takes torch's steps, and exchanges archives with torch's class") {
    for (at::ScalarType const type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
        for (theirs::SGDOptions const& options :
             {theirs::SGDOptions(0.02), theirs::SGDOptions(0.02).weight_decay(0.1),
              theirs::SGDOptions(0.02).momentum(0.9).dampening(0.5).weight_decay(0.1),
              theirs::SGDOptions(0.02).momentum(0.9).nesterov(true)})
            check_family<ours::SGD, theirs::SGD>(type, options, 0);
}

TEST_CASE("Adam takes torch's steps, and exchanges archives with torch's class") {
    for (at::ScalarType const type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
        for (bool const amsgrad : {false, true})
            check_family<ours::Adam, theirs::Adam>(
                type, theirs::AdamOptions(0.02).betas({0.8, 0.9}).weight_decay(0.1).amsgrad(amsgrad), 0);
}

TEST_CASE("RMSprop takes torch's steps, and exchanges archives with torch's class") {
    for (at::ScalarType const type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
        for (theirs::RMSpropOptions const& options :
             {theirs::RMSpropOptions(0.02).alpha(0.9), theirs::RMSpropOptions(0.02).alpha(0.9).weight_decay(0.1),
              theirs::RMSpropOptions(0.02).alpha(0.9).momentum(0.9)})
            check_family<ours::RMSprop, theirs::RMSprop>(type, options, 0);
    // The difference of a centered step cancels: the bits of the rule, which has torch's numbers.
    for (double const momentum : {0.0, 0.5}) {
        tensors named = parameters(at::kFloat), by_text = parameters(at::kFloat), their = parameters(at::kFloat);
        auto const options = theirs::RMSpropOptions(0.02).alpha(0.75).centered(true).momentum(momentum);
        ours::RMSprop a(named, options);
        theirs::RMSprop b(their, options);
        std::string const rule = momentum == 0 ? R"("rmsprop_centered", "alpha": 0.75)"
                                               : R"("rmsprop_centered_momentum", "alpha": 0.75, "momentum": 0.5)";
        ours::Optimizer c(by_text, {R"({"rule": {"dialect": "torch", "name": )" + rule + "}}", 0.02});
        for (std::int64_t step = 1; step <= 3; ++step) {
            for (tensors* const all : {&named, &by_text, &their}) set_gradients(*all, step);
            a.step();
            b.step();
            c.step();
        }
        CHECK(equal(named, by_text));
        for (std::size_t i = 0; i < named.size(); ++i) CHECK(torch::allclose(named[i], their[i], 1e-4));
        pass_state(a, b);
    }
}

TEST_CASE("Adagrad takes torch's steps, and exchanges archives with torch's class") {
    for (at::ScalarType const type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
        for (theirs::AdagradOptions const& options :
             {theirs::AdagradOptions(0.02), theirs::AdagradOptions(0.02).lr_decay(0.5).weight_decay(0.1),
              theirs::AdagradOptions(0.02).initial_accumulator_value(0.5)})
            check_family<ours::Adagrad, theirs::Adagrad>(type, options, 0);
    // Sparse gradients, and a parameter whose steps have other numbers than the other one's.
    Tensor const indices = torch::tensor({3, 0, 3}, at::kLong).unsqueeze(0);
    auto const run = [&]<class Of>(Of* /*kind*/) {
        tensors all{leaf(numbers({5, 2}, 0.5, 2, 1)), leaf(torch::ones({3}))};
        Of optimizer({theirs::OptimizerParamGroup(all)}, theirs::AdagradOptions(0.25).lr_decay(1));
        for (std::int64_t step = 0; step < 3; ++step) {
            Tensor const values = torch::full({3, 2}, static_cast<double>(step + 1), at::kFloat);
            all[0].mutable_grad() = torch::sparse_coo_tensor(indices, values, {5, 2});
            if (step == 2) all[1].mutable_grad() = torch::ones({3});
            optimizer.step();
        }
        return all;
    };
    tensors const our = run(static_cast<ours::Adagrad*>(nullptr)), their = run(static_cast<theirs::Adagrad*>(nullptr));
    CHECK(torch::allclose(our[0], their[0], 1e-6));
    CHECK(torch::allclose(our[1], their[1], 1e-6));
    CHECK(torch::allclose(our[1].detach(), torch::full({3}, 0.75f))); // its first step
}

TEST_CASE("A group inherits every option that it does not set from the defaults") {
    std::string const sgd = R"({"rule": {"name": "sgd"}})", lion = R"({"rule": {"name": "lion"}})";
    using options = ours::OptimizerOptions;
    struct line {
        options given;
        double step; // of a gradient of 2 with the defaults' rate 0.5 and sgd
    };
    Tensor const sparse =
        torch::sparse_coo_tensor(torch::zeros({1, 1}, at::kLong), torch::full({1}, 2.0f), {1}).coalesce();
    for (line const& each : {line{options(), 1}, line{options(lion), 0.5}, line{options(lion, 0.25), 0.25},
                             line{options(0.25), 0.5}, line{options(1e-3), 2e-3}, line{options(sgd, 1e-3), 2e-3},
                             line{options().lr(0.125), 0.25}, line{options().config(lion), 0.5}})
        for (bool const is_added : {false, true}) {
            Tensor first = leaf(torch::ones({1})), own = leaf(torch::ones({1}));
            own.mutable_grad() = sparse; // sparse_rows of the defaults
            theirs::OptimizerParamGroup const group({own}, std::make_unique<options>(each.given));
            std::vector<theirs::OptimizerParamGroup> groups{theirs::OptimizerParamGroup({first})};
            if (!is_added) groups.push_back(group);
            ours::Optimizer optimizer(groups, options(sgd, 0.5).sparse_rows(true));
            if (is_added) optimizer.add_param_group(group);
            optimizer.step();
            CHECK(std::abs(own.item<double>() - (1 - each.step)) < 1e-6);
        }
    Tensor own = leaf(torch::ones({1}));
    own.mutable_grad() = sparse;
    theirs::OptimizerParamGroup const dense({own}, std::make_unique<options>(options().sparse_rows(false)));
    ours::Optimizer optimizer(std::vector{dense}, options(sgd, 0.5).sparse_rows(true));
    CHECK_THROWS_AS(optimizer.step(), gradstep::buffer_error);
    // By torch's rule for its own options: the same rates as torch's class.
    auto const rates = []<class Of>(Of* /*kind*/) {
        theirs::OptimizerParamGroup const group({leaf(torch::ones({1}))},
                                                std::make_unique<theirs::AdamOptions>(theirs::AdamOptions().eps(0.5)));
        Of of(std::vector{group}, theirs::AdamOptions(0.5));
        auto const& found = static_cast<theirs::AdamOptions const&>(of.param_groups()[0].options());
        return std::pair(found.lr(), found.eps());
    };
    CHECK(rates(static_cast<ours::Adam*>(nullptr)) == rates(static_cast<theirs::Adam*>(nullptr)));
}

namespace {

// Rows that leave and join while a tensor trains, beside a tensor that always has all rows: a row
// whose gradients were zero has the state of a row that joins.
template <class Of, class Options> void check_rows(Options const& options) {
    Tensor const first = numbers({6, 3}, 0.5, 2, 1), added = numbers({2, 3}, 0.5, 2, 2);
    Tensor const mask = torch::tensor({1, 0, 1, 1, 0, 1}, at::kByte).to(at::kBool);
    Tensor changing = leaf(first.clone()), beside = leaf(numbers({6}, 0.5, 2, 3)),
           whole = leaf(torch::cat({first, added})), untouched = leaf(torch::ones({2}));
    Of ours_(tensors{untouched, changing, beside}, options), reference(tensors{whole}, options);
    Tensor const kept = torch::cat({mask.nonzero().view({-1}), torch::tensor({6, 7}, at::kLong)});
    for (std::int64_t step = 1; step <= 5; ++step) {
        Tensor g = numbers({8, 3}, -1, 1, step);
        if (step <= 3) g.narrow(0, 6, 2).zero_();
        whole.mutable_grad() = g.clone();
        // By autograd, whose node has the old shape before the change.
        Tensor const of_rows = step <= 3 ? g.narrow(0, 0, 6) : g.index_select(0, kept);
        ((changing * of_rows).sum() + beside.sum()).backward();
        ours_.step();
        ours_.zero_grad();
        reference.step();
        if (step != 3) continue;
        Tensor const in_module = changing;
        ours_.keep({changing, beside}, mask);
        ours_.append({{changing, added}});
        CHECK(in_module.sizes() == at::IntArrayRef({6, 3}));
        CHECK(beside.sizes() == at::IntArrayRef({4}));
        CHECK(!changing.grad().defined());
    }
    CHECK(torch::equal(changing.detach(), whole.detach().index_select(0, kept)));
}

} // namespace

TEST_CASE("The state moves with the rows of a parameter that come and go") {
    check_rows<ours::Adam>(theirs::AdamOptions(0.02));
    check_rows<ours::Adam>(theirs::AdamOptions(0.02).amsgrad(true));
    check_rows<ours::AdamW>(theirs::AdamWOptions(0.02).weight_decay(0));
    check_rows<ours::SGD>(theirs::SGDOptions(0.02).momentum(0.5));
    check_rows<ours::SGD>(theirs::SGDOptions(0.02));
    check_rows<ours::RMSprop>(theirs::RMSpropOptions(0.02).momentum(0.5).centered(true));
    check_rows<ours::Adagrad>(theirs::AdagradOptions(0.02));
    check_rows<ours::Optimizer>(ours::OptimizerOptions(R"({"rule": {"name": "lion"}})", 0.02));
    check_rows<ours::Optimizer>(
        ours::OptimizerOptions(R"({"rule": {"name": "adam"}, "average": {"name": "ema", "decay": 0.5}})", 0.02));

    // adafactor keeps one number for each row and one for each column. The row numbers move with their
    // rows, and the column numbers stay. Slots that the present step does not use move too.
    Tensor matrix = leaf(numbers({4, 3}, 0.5, 2, 1));
    Tensor const mask = torch::tensor({1, 0, 0, 1}, at::kByte).to(at::kBool), rows = numbers({3, 3}, 0.5, 2, 2);
    ours::Optimizer factored(tensors{matrix}, {R"({"rule": {"name": "adafactor"}})", 0.02});
    matrix.mutable_grad() = numbers({4, 3}, 0.5, 2, 3);
    factored.step();
    auto& slots = static_cast<ours::OptimizerParamState&>(*factored.state().begin()->second).slots();
    Tensor const r = slots.at("r").clone(), c = slots.at("c").clone();
    factored.keep({matrix}, mask);
    CHECK(torch::equal(slots.at("r"), r.index_select(0, torch::tensor({0, 3}, at::kLong))));
    CHECK(torch::equal(slots.at("c"), c));
    factored.append({{matrix, rows}});
    CHECK(torch::equal(slots.at("r").narrow(0, 2, 3), torch::zeros({3})));
    matrix.mutable_grad() = torch::ones({5, 3});
    factored.step();

    factored.keep({matrix}, torch::zeros({5}, at::kBool)); // no row is left
    factored.append({{matrix, numbers({5, 3}, 0.5, 2, 2)}});
    matrix.mutable_grad() = torch::ones({5, 3});
    factored.step();
    CHECK(slots.at("r").sizes() == at::IntArrayRef({5}));

    // The sums of `window` equal the sums of rows that always stood there.
    Tensor grown = leaf(torch::ones({2, 3})), always = leaf(torch::cat({torch::ones({2, 3}), rows}));
    ours::OptimizerOptions const averaged(R"({"rule": {"name": "sgd"}, "average": {"name": "window", "rate": 0.5}})",
                                          0.02);
    ours::Optimizer grows(tensors{grown}, averaged), stands(tensors{always}, averaged);
    for (int step = 0; step < 3; ++step) {
        grown.mutable_grad() = torch::ones({2, 3});
        always.mutable_grad() = torch::cat({torch::ones({2, 3}), torch::zeros({3, 3})});
        grows.step();
        stands.step();
    }
    grows.append({{grown, rows}});
    auto const slots_of = [](ours::Optimizer& of) {
        return static_cast<ours::OptimizerParamState&>(*of.state().begin()->second).slots();
    };
    for (auto const& [name, values] : slots_of(stands)) CHECK(torch::equal(slots_of(grows).at(name), values));

    ours::Adam adam(tensors{matrix}, theirs::AdamOptions(0.02).amsgrad(true));
    adam.step();
    static_cast<theirs::AdamOptions&>(adam.param_groups()[0].options()).amsgrad(false);
    adam.append({{matrix, rows}});
    auto const& state = static_cast<theirs::AdamParamState const&>(*adam.state().begin()->second);
    CHECK(state.max_exp_avg_sq().sizes() == at::IntArrayRef({8, 3}));
    CHECK(state.step() == 1);
}

TEST_CASE("A change of rows that is refused changes nothing") {
    Tensor a = leaf(torch::ones({3, 2})), b = leaf(torch::ones({4})), number = leaf(torch::ones({})),
           stranger = leaf(torch::ones({3})), view = leaf(b.detach().slice(0, 0, 2));
    ours::Adam optimizer({theirs::OptimizerParamGroup({a, b}), theirs::OptimizerParamGroup({number})},
                         theirs::AdamOptions(0.1));
    for (Tensor* const x : {&a, &b, &number}) x->mutable_grad() = torch::ones_like(*x);
    optimizer.step();
    tensors const before = copies({a, b});
    auto const mask = [](std::int64_t n) { return torch::ones({n}, at::kBool); };
    auto const bad_value = [&](auto const& f) { return refusal<gradstep::value_error>(f); };
    auto const bad_size = [&](auto const& f) { return refusal<gradstep::size_error>(f); };
    CHECK(
        bad_size([&] {
            optimizer.append({{a, torch::ones({1, 2})}, {b, torch::ones({1, 2})}});
        }) ==
        "parameter 1 of group 0: append: the new rows have the shape (1, 2); expected that of the tensor, (4), besides "
        "the number of rows");
    CHECK(bad_size([&] {
              optimizer.keep({a, b}, mask(3));
          }) == "parameter 1 of group 0: keep: the mask has 3 elements; expected 4");
    CHECK(bad_size([&] {
              optimizer.append({{number, torch::ones({1})}});
          }) == "parameter 0 of group 1: append: the tensor has the shape (), which has no rows; expected one "
                "dimension at least");
    CHECK(bad_value([&] {
              optimizer.append({{a, torch::ones({1, 2}, at::kDouble)}});
          }) == "parameter 0 of group 0: append: the new rows are of Double; expected Float");
    CHECK(bad_value([&] {
              optimizer.keep({a, stranger}, mask(3));
          }) == "keep: tensor 1 is no parameter of the optimizer; expected a tensor of a parameter group");
    CHECK(bad_value([&] {
              optimizer.keep({a, a}, mask(3));
          }) == "parameter 0 of group 0: keep: is given twice; expected each parameter once");
    CHECK(bad_value([&] { optimizer.keep({a}, torch::ones({3})); }) ==
          "parameter 0 of group 0: keep: the mask is not a list of bools on the CPU; expected a bool for each row");
    CHECK(bad_value([&] {
              optimizer.append({{a, Tensor()}});
          }) == "parameter 0 of group 0: append: the new rows are undefined; expected a tensor");
    optimizer.add_param_group(theirs::OptimizerParamGroup({view}));
    CHECK(
        refusal<gradstep::buffer_error>([&] { optimizer.keep({b}, mask(4)); }) ==
        "parameter 1 of group 0: keep: the tensor shares memory with parameter 0 of group 2; expected separate memory "
        "for each");
    CHECK(equal({a, b}, before));
    CHECK(a.grad().defined());
    CHECK_THAT(bad_value([&] {
                   ours::Optimizer(tensors{a},
                                   {R"({"rule": {"name": "sgd"}, "clip": {"name": "clip_norm", "limit": 1}})"});
               }),
               ContainsSubstring("expected none or clip_value; torch::nn::utils::clip_grad_norm_ clips by a norm"));
}

TEST_CASE("A closure, a scheduler, a new group and zero_grad work as in torch") {
    Tensor a = leaf(torch::ones({3})), b = leaf(torch::ones({2}));
    ours::SGD optimizer(tensors{a}, theirs::SGDOptions(0.5));
    theirs::StepLR scheduler(optimizer, 1, 0.5);
    auto const closure = [&] {
        optimizer.zero_grad();
        Tensor loss = a.sum() + b.sum();
        loss.backward();
        return loss;
    };
    CHECK(optimizer.step(closure).item<float>() == 5);
    CHECK(torch::equal(a.detach(), torch::full({3}, 0.5f)));
    for (int step = 0; step < 2; ++step) scheduler.step(); // in C++ the first call changes nothing
    optimizer.add_param_group(theirs::OptimizerParamGroup(tensors{b}));
    CHECK(optimizer.step(closure).item<float>() == 3.5f);
    CHECK(torch::equal(a.detach(), torch::full({3}, 0.25f)));
    CHECK(torch::equal(b.detach(), torch::full({2}, 0.5f))); // the default rate
    optimizer.zero_grad();
    CHECK(!a.grad().defined());
    CHECK(!optimizer.step().defined());
    CHECK(torch::equal(a.detach(), torch::full({3}, 0.25f)));
    auto const options = optimizer.param_groups()[0].options().clone();
    CHECK(options->get_lr() == 0.25);
}

TEST_CASE("Autograd throws if a backward pass needs weights from before the step") {
    for (bool const strided : {false, true}) {
        Tensor w = leaf(strided ? torch::ones({6}).slice(0, 0, 6, 2) : torch::ones({3}));
        ours::AdamW optimizer(tensors{w}, theirs::AdamWOptions(0.1));
        Tensor const loss = w.pow(3).sum();
        w.mutable_grad() = torch::ones({3});
        optimizer.step();
        CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("modified by an inplace operation"));
    }
}

TEST_CASE("Sparse gradients of SGD are as in torch") {
    Tensor const indices = torch::tensor({3, 0, 3}, at::kLong).unsqueeze(0);
    for (double const momentum : {0.0, 0.5}) {
        Tensor our = leaf(numbers({5, 2}, 0.5, 2, 1)), their = leaf(numbers({5, 2}, 0.5, 2, 1));
        auto const options = theirs::SGDOptions(0.25).momentum(momentum);
        ours::SGD ours_(tensors{our}, options);
        theirs::SGD theirs_(tensors{their}, options);
        for (std::int64_t step = 0; step < 3; ++step) {
            Tensor const values = torch::full({3, 2}, static_cast<double>(step + 1), at::kFloat); // all sums are exact
            for (Tensor* const x : {&our, &their})
                x->mutable_grad() = torch::sparse_coo_tensor(indices, values, {5, 2});
            tensors const before = copies({their});
            ours_.step();
            theirs_.step();
            check_step({our}, {their}, before, 0);
            assign(*std::make_unique<tensors>(tensors{our}), {their.detach()});
        }
    }
    // Without a sparse dimension: one value for the whole parameter.
    Tensor w = leaf(torch::ones({5, 2}));
    w.mutable_grad() = torch::sparse_coo_tensor(torch::empty({0, 1}, at::kLong), torch::ones({1, 5, 2}), {5, 2});
    ours::SGD(tensors{w}, theirs::SGDOptions(0.5)).step();
    CHECK(torch::equal(w.detach(), torch::full({5, 2}, 0.5f)));
    w = leaf(torch::ones({5, 2}));
    w.mutable_grad() = torch::sparse_coo_tensor(indices, torch::ones({3, 2}), {5, 2});
    ours::SGD decayed(tensors{w}, theirs::SGDOptions(0.1).weight_decay(0.1));
    CHECK(refusal<gradstep::buffer_error>([&] { decayed.step(); }) ==
          "parameter 0 of group 0: the gradient is sparse; expected a dense one, or no weight_decay");
    ours::AdamW adamw(tensors{w}, theirs::AdamWOptions(0.1));
    CHECK(refusal<gradstep::buffer_error>([&] { adamw.step(); }) ==
          "parameter 0 of group 0: the gradient is sparse; expected a dense one");
    // sparse_rows: the same as a step of these rows alone, with the step count of the parameter.
    Tensor rows = leaf(torch::ones({2, 2}));
    ours::OptimizerOptions const options(R"({"rule": {"name": "adam"}})", 0.1);
    ours::Optimizer sparse(tensors{w}, ours::OptimizerOptions(options).sparse_rows(true)),
        dense(tensors{rows}, options);
    for (int step = 0; step < 2; ++step) {
        rows.mutable_grad() = torch::tensor({{1.0f, 1.0f}, {2.0f, 2.0f}});
        c10::InferenceMode const only_first(step == 0); // its state is not written outside
        sparse.step();
        dense.step();
    }
    CHECK(torch::equal(w.detach().index({torch::tensor({0, 3}, at::kLong)}), rows.detach()));
    CHECK(torch::equal(w.detach()[1], torch::ones({2})));
    ours::Optimizer whole(tensors{w}, ours::OptimizerOptions(R"({"rule": {"name": "lamb"}})").sparse_rows(true));
    CHECK_THAT(refusal<gradstep::value_error>([&] { whole.step(); }),
               ContainsSubstring("expected an elementwise rule"));
}

TEST_CASE("Parameters that share memory are updated one after the other, as in torch") {
    auto const run = []<class Of>(Of* /*kind*/) {
        Tensor const memory = numbers({6}, 0.5, 2, 1);
        tensors all{leaf(memory), leaf(memory.slice(0, 2, 5))};
        Of optimizer({theirs::OptimizerParamGroup(all)}, theirs::SGDOptions(0.25));
        for (Tensor& x : all) x.mutable_grad() = torch::ones_like(x);
        optimizer.step();
        return memory;
    };
    CHECK(torch::equal(run(static_cast<ours::SGD*>(nullptr)), run(static_cast<theirs::SGD*>(nullptr))));
    // The second gradient is the first parameter, in another layout.
    auto const run_read = []<class Of>(Of* /*kind*/) {
        tensors all{leaf(numbers({3, 3}, 0.5, 2, 1)), leaf(numbers({3, 3}, 0.5, 2, 2))};
        Of optimizer({theirs::OptimizerParamGroup(all)}, theirs::SGDOptions(0.25));
        all[0].mutable_grad() = torch::ones({3, 3});
        all[1].mutable_grad() = all[0].detach().t();
        optimizer.step();
        return all[1].detach();
    };
    CHECK(torch::equal(run_read(static_cast<ours::SGD*>(nullptr)), run_read(static_cast<theirs::SGD*>(nullptr))));
    Tensor twice = leaf(torch::ones({3}));
    ours::AdamW optimizer(tensors{twice, twice}, theirs::AdamWOptions(0.1));
    twice.mutable_grad() = torch::ones({3});
    optimizer.step();
    auto const& state = *optimizer.state().begin()->second;
    CHECK(dynamic_cast<theirs::AdamWParamState const&>(state).step() == 2);
    pass_state(optimizer, optimizer);
    CHECK(refusal<gradstep::value_error>([&] { optimizer.step(); }) ==
          "parameter 0 of group 0: its state is null, as after a load with a tensor given twice; expected each tensor "
          "once in the optimizer that loads");
}

TEST_CASE("Optimizer runs a configuration, and its archive continues the run bit for bit") {
    tensors const initial = parameters(at::kBFloat16);
    SECTION("as the class with torch's name") {
        for (at::ScalarType const type : {at::kFloat, at::kBFloat16}) {
            tensors a = parameters(type), b = parameters(type);
            ours::AdamW named(a, theirs::AdamWOptions(0.01));
            ours::Optimizer any(b, {adamw_text, 0.01});
            for (std::int64_t step = 1; step <= 3; ++step) {
                set_gradients(a, step);
                set_gradients(b, step);
                named.step();
                any.step();
            }
            CHECK(equal(a, b));
        }
    }
    SECTION("in the middle of a run") {
        for (char const* const text :
             {R"({"rule": {"name": "lion"}, "element": "mixed"})", R"({"rule": {"name": "schedule_free_adam"}})",
              R"({"rule": {"name": "adafactor"}})", R"({"rule": {"name": "prodigy"}})",
              R"({"rule": {"name": "adam", "beta1": {"name": "linear", "rate": 0.9, "a": 0.1, "b": 0.5}}})"}) {
            CAPTURE(text);
            at::ScalarType const type =
                std::string(text).find("mixed") != std::string::npos ? at::kBFloat16 : at::kFloat;
            tensors a = parameters(type), b = parameters(type);
            ours::Optimizer first(a, {text, 0.01}), second(b, {text, 0.5});
            for (std::int64_t step = 1; step <= 4; ++step) {
                set_gradients(a, step);
                first.step();
                if (step == 2) {
                    pass_state(first, second);
                    assign(b, copies(a));
                }
                if (step < 3) continue;
                set_gradients(b, step);
                second.step();
            }
            CHECK(equal(a, b));
            CHECK(!torch::equal(a[0].detach(), parameters(type)[0].detach()));
            CHECK(second.param_groups()[0].options().get_lr() == 0.01);
        }
    }
    SECTION("with other options for some groups") {
        tensors all{leaf(torch::ones({1})), leaf(torch::ones({1})), leaf(torch::ones({1}))};
        for (Tensor& x : all) x.mutable_grad() = torch::full({1}, 2.0f);
        auto const group_of = [&](std::size_t i, ours::OptimizerOptions const& options) {
            return theirs::OptimizerParamGroup({all[i]}, std::make_unique<ours::OptimizerOptions>(options));
        };
        std::vector<theirs::OptimizerParamGroup> const groups{theirs::OptimizerParamGroup({all[0]}),
                                                              group_of(1, {R"({"rule": {"name": "lion"}})", 0.5})};
        ours::Optimizer optimizer(groups, {R"({"rule": {"name": "sgd"}})", 0.125});
        optimizer.add_param_group(group_of(2, 0.5)); // sgd
        optimizer.step();
        CHECK(all[0].item<float>() == 0.75f);
        CHECK(all[1].item<float>() == 0.5f);
        CHECK(all[2].item<float>() == 0);
    }
    SECTION("and an archive of another class is an error") {
        tensors all{leaf(torch::ones({2}))};
        all[0].mutable_grad() = torch::ones({2});
        theirs::AdamW from(all, theirs::AdamWOptions(0.1));
        from.step();
        ours::Optimizer to(all, {R"({"rule": {"name": "adam"}})", 0.5});
        CHECK(refusal<gradstep::value_error>([&] { pass_state(from, to); }) ==
              "archive: has no clock; expected one of gradstep::torch_optim::Optimizer");
    }
    SECTION("with the loss of a closure") {
        Tensor w = leaf(torch::ones({3}));
        ours::Optimizer optimizer(tensors{w}, {R"({"rule": {"name": "polyak_sgd"}})", 1.0});
        w.mutable_grad() = torch::ones({3});
        CHECK_THAT(refusal<gradstep::value_error>([&] { optimizer.step(); }), ContainsSubstring("expected a closure"));
        optimizer.step([] { return torch::tensor(1.5); });
        CHECK(torch::allclose(w.detach(), torch::full({3}, 0.5f), 1e-6)); // 1 - 1.5 / 3
    }
    SECTION("and skips a gradient that is not finite") {
        tensors all{leaf(torch::ones({2})), leaf(torch::ones({2}))};
        for (Tensor& x : all) x.mutable_grad() = torch::ones({2});
        all[0].mutable_grad()[1] = std::numeric_limits<float>::infinity();
        ours::Optimizer skips(all, {R"({"rule": {"name": "sgd"}, "on_nonfinite": "skip"})", 0.5});
        skips.step();
        CHECK(torch::equal(all[0].detach(), torch::ones({2})));
        CHECK(torch::equal(all[1].detach(), torch::full({2}, 0.5f)));
        ours::Optimizer raises(all, {R"({"rule": {"name": "sgd"}, "on_nonfinite": "raise"})", 0.5});
        CHECK_THAT((refusal<gradstep::nonfinite_error, std::runtime_error>([&] { raises.step(); })),
                   ContainsSubstring("parameter 0 of group 0"));
        CHECK(torch::equal(all[1].detach(), torch::full({2}, 0.5f)));
    }
}

TEST_CASE("torch's threads give the same bits as one thread") {
    auto const run = [](int threads) {
        at::set_num_threads(threads);
        tensors all{leaf(numbers({500'000}, 0.5, 2, 1)), leaf(numbers({300'001}, 0.5, 2, 2)),
                    leaf(numbers({3}, 0.5, 2, 3))};
        ours::AdamW optimizer(all, theirs::AdamWOptions(0.01));
        for (std::int64_t step = 1; step <= 2; ++step) {
            for (Tensor& x : all) x.mutable_grad() = numbers(x.sizes(), -1, 1, step);
            optimizer.step();
        }
        return copies(all);
    };
    CHECK(equal(run(1), run(3)));
}

TEST_CASE("A parameter that gets its first gradient later has its own count of steps") {
    tensors our{leaf(torch::ones({3})), leaf(torch::ones({3}))}, their{leaf(torch::ones({3})), leaf(torch::ones({3}))};
    ours::AdamW ours_(our, theirs::AdamWOptions(0.1));
    theirs::AdamW theirs_(their, theirs::AdamWOptions(0.1));
    for (int step = 0; step < 3; ++step) {
        tensors const before = copies(their);
        for (std::size_t i = 0; i < (step == 0 ? 1 : 2); ++i)
            for (tensors* const all : {&our, &their})
                (*all)[i].mutable_grad() = torch::full({3}, static_cast<float>(step + 1));
        ours_.step();
        theirs_.step();
        check_step(our, their, before, 0.1 * 0.01);
        assign(our, copies(their));
        pass_state(theirs_, ours_);
    }
}

TEST_CASE("Training goes on from weights that are set between two steps") {
    for (char const* const config : {R"({"rule": {"name": "schedule_free_sgd"}})", R"({"rule": {"name": "madgrad"}})",
                                     R"({"rule": {"name": "sgd"}, "average": {"name": "lookahead"}})"}) {
        at::Tensor w = at::ones({2, 3}), b = at::ones({3});
        w.set_requires_grad(true);
        b.set_requires_grad(true);
        ours::Optimizer optimizer(std::vector<at::Tensor>{w, b}, {config, 0.125});
        optimizer.weights_set(); // there is no state yet
        auto const step = [&](double gradient) {
            w.mutable_grad() = at::full({2, 3}, gradient);
            b.mutable_grad() = at::full({3}, gradient);
            optimizer.step();
        };
        for (int t = 0; t < 3; ++t) step(0.5);
        {
            at::NoGradGuard const no_gradients;
            w.fill_(5);
            b.fill_(-2);
        }
        optimizer.weights_set();
        for (int t = 0; t < 12; ++t) step(0);
        CHECK(at::equal(w, at::full({2, 3}, 5.0)));
        CHECK(at::equal(b, at::full({3}, -2.0)));
    }
}

TEST_CASE("What a step cannot update throws one sentence, and nothing is written") {
    Tensor good = leaf(torch::ones({3})), bad = leaf(torch::ones({2, 3}));
    auto const options = theirs::AdamWOptions(0.1);
    ours::AdamW optimizer(tensors{good, bad}, options);
    auto const steps_of = [&](Tensor const& x) {
        return dynamic_cast<theirs::AdamWParamState&>(*optimizer.state().at(x.unsafeGetTensorImpl())).step();
    };
    good.mutable_grad() = torch::ones({3});
    bad.mutable_grad() = torch::ones({2, 3});
    optimizer.step();
    Tensor const before = good.detach().clone();
    auto const check = [&](std::string const& text) {
        CHECK(refusal<gradstep::value_error>([&] { optimizer.step(); }) == text);
    };
    SECTION("a gradient of another shape") {
        bad.mutable_grad() = torch::ones({3, 2});
        CHECK(refusal<gradstep::size_error>([&] { optimizer.step(); }) ==
              "parameter 1 of group 0: the gradient has the shape (3, 2); expected (2, 3)");
    }
    SECTION("a gradient of another dtype") {
        bad.mutable_grad() = torch::ones({2, 3}, at::kDouble);
        check("parameter 1 of group 0: the gradient is of Double; expected Float");
    }
    SECTION("a parameter that was resized") {
        bad.set_data(torch::ones({4, 3}));
        bad.mutable_grad() = torch::ones({4, 3});
        CHECK(refusal<gradstep::size_error>([&] { optimizer.step(); }) ==
              "parameter 1 of group 0: its state exp_avg has the shape (2, 3); expected (4, 3)");
    }
    SECTION("elements that share memory") {
        bad.set_data(torch::ones({1}).expand({2, 3}));
        CHECK(refusal<gradstep::buffer_error>([&] { optimizer.step(); }) ==
              "parameter 1 of group 0: its strides let elements share memory, as after expand(); expected a clone()");
        bad.set_data(torch::ones({4}).as_strided({2, 3}, {1, 1}));
        CHECK_THROWS_AS(optimizer.step(), gradstep::buffer_error);
    }
    SECTION("memory that was taken away") {
        bad.storage().unsafeGetStorageImpl()->set_nbytes(8);
        CHECK(refusal<gradstep::buffer_error>([&] { optimizer.step(); }) ==
              "parameter 1 of group 0: the tensor has a storage of 8 bytes; expected at least 24, the end of its last "
              "element");
    }
    SECTION("state that shares memory") {
        auto& state = dynamic_cast<theirs::AdamWParamState&>(*optimizer.state().at(bad.unsafeGetTensorImpl()));
        state.exp_avg_sq(state.exp_avg());
        CHECK(refusal<gradstep::buffer_error>([&] { optimizer.step(); }) ==
              "parameter 1 of group 0: its state exp_avg_sq shares memory; expected memory apart from the "
              "parameter's and other state's");
    }
    SECTION("amsgrad in the middle of a run") {
        static_cast<theirs::AdamWOptions&>(optimizer.param_groups()[0].options()).amsgrad(true);
        check("parameter 0 of group 0: its state lacks 1 of exp_avg, exp_avg_sq, max_exp_avg_sq; "
              "expected all of them, or no state");
    }
    SECTION("a rate and a beta out of range") {
        auto& in = static_cast<theirs::AdamWOptions&>(optimizer.param_groups()[0].options());
        in.lr(-1);
        check("group 0: lr: -1 is out of range; expected finite and >= 0");
        in.lr(0.1).betas({1.5, 0.9});
        check("group 0: adam.beta1: 1.5 is out of range; expected [0, 1)");
    }
    CHECK(torch::equal(good.detach(), before));
    CHECK(steps_of(good) == 1);

    for (auto const& [x, text] : {std::pair{torch::ones({2}, at::kMeta), "the tensor is on meta; expected the CPU"},
                                  std::pair{torch::ones({2}, at::kComplexFloat),
                                            "is of ComplexFloat; expected Float, Double, Half or BFloat16"}}) {
        Tensor one = leaf(x);
        one.mutable_grad() = torch::ones_like(x);
        ours::AdamW other(tensors{one}, options);
        try {
            other.step();
            FAIL("nothing was thrown");
        } catch (gradstep::error const& caught) {
            CHECK_THAT(std::string(caught.what()), ContainsSubstring(text));
        }
    }
    CHECK(refusal<gradstep::value_error>([&] {
              ours::Optimizer(tensors{good},
                              {R"({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 1}})"});
          }) == R"(group 0: schedule: an object is given; expected none: the learning rate is lr, which )"
                "torch's LRSchedulers change");
    CHECK(refusal<gradstep::value_error>([&] {
              ours::Optimizer(tensors{good}, {R"({"rule": {"name": "adamm"}})"});
          }).find("group 0: ") == 0);
    CHECK(refusal<gradstep::size_error>([&] {
              ours::Optimizer muon(tensors{good}, {R"({"rule": {"name": "muon"}})"});
              muon.step();
          }) ==
          "parameter 0 of group 0: has the shape (3); expected a matrix; give vectors to a group with another config");
}
