// gradstep's rules as solvers of dlib, beside dlib's own and beside the step in place.
#include <gradstep/adapt/dlib.hpp>
#include <gradstep/dialects/dlib.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/novograd.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

// Three outputs of four inputs: 12 weights and 3 biases.
using network = dlib::loss_mean_squared_multioutput<dlib::fc<3, dlib::input<dlib::matrix<float>>>>;
constexpr std::size_t biases = 3, size = 15;

std::span<float const> numbers_of(dlib::tensor const& x) { return {x.host(), x.size()}; }
std::vector<float> copy_of(dlib::tensor const& x) { return {x.begin(), x.end()}; }

// A network that has been set up by one forward pass. Its weights are in [1, 2), its biases 0.
struct fixture {
    network net;
    dlib::resizable_tensor gradient;

    fixture() {
        net(dlib::matrix<float>(dlib::ones_matrix<float>(4, 1)));
        dlib::tensor& weights = layer().get_layer_params();
        REQUIRE(weights.size() == size);
        for (std::size_t i = 0; i < size; ++i)
            weights.host()[i] = i < size - biases ? 1 + static_cast<float>(i) / 16 : 0;
        gradient.copy_size(weights);
        for (std::size_t i = 0; i < size; ++i) gradient.host()[i] = (static_cast<float>(i % 7) - 3) / 8;
    }
    dlib::fc_<3, dlib::FC_HAS_BIAS>& layer() { return dlib::layer<1>(net).layer_details(); }
    // As dlib's network does.
    void add(dlib::tensor const& step) { dlib::tt::add(1, layer().get_layer_params(), 1, step); }
};

} // namespace

TEST_CASE("dlib: a solver takes the step in place of its rule", "[dlib]") {
    fixture there;
    there.layer().set_bias_weight_decay_multiplier(1); // dlib's default is 0
    gs::dlib::solver<gs::adam, gs::decoupled> solver({.beta2 = 0.75}, {0.125});
    auto in_place = gs::make_updater<float>(gs::adam{.beta2 = 0.75}, gs::decoupled{0.125}, gs::external{});
    std::vector<float> weights = copy_of(there.layer().get_layer_params()), m(size), v(size);
    for (int t = 0; t < 3; ++t) {
        there.add(solver(0.0625f, there.layer(), there.gradient));
        in_place.next_step({.rate = 0.0625f})(weights, numbers_of(there.gradient), m, v);
        CHECK(copy_of(there.layer().get_layer_params()) == weights);
    }
    CHECK(solver.steps() == 3);
}

// Numbers that float represents exactly, so that both have the same bits.
TEST_CASE("dlib: multipliers have the effect that they have in dlib's sgd", "[dlib]") {
    auto const check = [](auto const& change) {
        fixture ours, theirs;
        change(ours.layer());
        change(theirs.layer());
        gs::dlib::solver<gs::momentum> solver(gs::dialects::dlib::sgd({0.5}), {0.5});
        dlib::sgd of_dlib(0.5f, 0.5f);
        for (int t = 0; t < 2; ++t) {
            ours.add(solver(0.125f, ours.layer(), ours.gradient));
            theirs.add(of_dlib(0.125f, theirs.layer(), theirs.gradient));
            CHECK(copy_of(ours.layer().get_layer_params()) == copy_of(theirs.layer().get_layer_params()));
        }
    };
    check([](auto&) {});
    check([](auto& layer) {
        layer.set_learning_rate_multiplier(0.5);
        layer.set_weight_decay_multiplier(2);
    });
    check([](auto& layer) {
        layer.set_bias_learning_rate_multiplier(2);
        layer.set_bias_weight_decay_multiplier(0);
        layer.set_learning_rate_multiplier(0.5);
    });
}

TEST_CASE("dlib: weights and biases are two tensors of a row-wise rule if their multipliers differ", "[dlib]") {
    fixture there;
    there.layer().set_bias_learning_rate_multiplier(2);
    gs::dlib::solver<gs::novograd, gs::none> solver;
    auto in_place = gs::make_updater<float>(gs::novograd{}, gs::external{});
    std::vector<float> weights = copy_of(there.layer().get_layer_params()), m(size), rows(2);
    auto const slice_of = [&](std::size_t first, std::size_t n, std::size_t row) {
        return gs::slice<decltype(in_place)>(std::span(weights).subspan(first, n),
                                             numbers_of(there.gradient).subspan(first, n),
                                             std::span(m).subspan(first, n), std::span(rows).subspan(row, 1));
    };
    for (int t = 0; t < 2; ++t) {
        std::vector tensors{slice_of(0, size - biases, 0), slice_of(size - biases, biases, 1)};
        tensors[1].rate_scale = 2;
        if (t == 0) in_place.initialize(tensors);
        in_place.next_step({.rate = 0.0625f})(tensors);
        there.add(solver(0.0625f, there.layer(), there.gradient));
        for (std::size_t i = 0; i < size - biases; ++i) CHECK(there.layer().get_layer_params().host()[i] == weights[i]);
    }
    CHECK(rows[0] != rows[1]);
}

TEST_CASE("dlib: a solver that was saved continues with the same bits", "[dlib]") {
    fixture there, resumed;
    gs::dlib::solver<gs::adam> solver;
    for (int t = 0; t < 2; ++t) {
        auto const& step = solver(0.25f, there.layer(), there.gradient);
        there.add(step);
        resumed.add(step);
    }
    std::ostringstream out;
    serialize(solver, out);
    gs::dlib::solver<gs::adam> loaded;
    std::istringstream in(out.str());
    deserialize(loaded, in);
    CHECK(copy_of(loaded(0.25f, resumed.layer(), resumed.gradient)) ==
          copy_of(solver(0.25f, there.layer(), there.gradient)));

    // As a solver wrote it before adam had bias_correction.
    std::string old = out.str();
    std::string const added = ", bias_correction = true";
    auto const at = old.find(added);
    REQUIRE(at != old.npos);
    std::string const policies = describe(gs::adam{}) + ", " + describe(gs::l2{5e-4});
    old.erase(at, added.size());
    auto const length = old.find("adam{") - 1; // dlib's serialization of a string begins with its length
    old[length] = static_cast<char>(policies.size() - added.size());
    gs::dlib::solver<gs::adam> of_old;
    std::istringstream from_old(old);
    deserialize(of_old, from_old);
    CHECK(of_old.steps() == 2);

    auto const refused = [&](auto&& other, std::string const& bytes) -> std::string {
        std::istringstream from(bytes);
        try {
            deserialize(other, from);
        } catch (dlib::serialization_error const& error) {
            CHECK(other.steps() == 0);
            return error.what();
        }
        return "";
    };
    CHECK(refused(gs::dlib::solver<gs::adam>({.beta1 = 0.5}), out.str()) ==
          "gradstep::dlib::solver: the data is of adam{beta1 = 0.9, beta2 = 0.999, epsilon = 1e-08, epsilon_place = "
          "outside, bias_correction = true}, l2{rate = 5e-04}; expected adam{beta1 = 0.5, beta2 = 0.999, epsilon = "
          "1e-08, "
          "epsilon_place = outside, bias_correction = true}, l2{rate = 5e-04}");
    std::ostringstream of_dlib;
    serialize(dlib::adam(), of_dlib);
    CHECK(refused(gs::dlib::solver<gs::adam>(), of_dlib.str()) ==
          "gradstep::dlib::solver: the data begins with \"adam2\"; expected \"gradstep 1\", from a solver of gradstep");

    std::ostringstream line;
    line << solver;
    CHECK(line.str() == "gradstep: adam{beta1 = 0.9, beta2 = 0.999, epsilon = 1e-08, epsilon_place = outside, "
                        "bias_correction = true}, l2{rate = 5e-04}");
}

TEST_CASE("dlib: what a solver cannot use is refused, and its state stays", "[dlib]") {
    fixture there;
    gs::dlib::solver<gs::momentum> solver;
    std::string const where = "gradstep::dlib::solver: ";
    dlib::resizable_tensor other;
    other.set_size(7);
    CHECK(refusal<gs::size_error>([&] { solver(1, there.layer(), other); }) ==
          where + "the gradient has 7 elements, the layer has 15 parameters; expected as many elements");
    solver(0.5f, there.layer(), there.gradient);
    CHECK(refusal<gs::value_error>([&] {
              solver(std::numeric_limits<float>::infinity(), there.layer(), there.gradient);
          }) == "step_options.rate: inf is out of range; expected finite and >= 0");
    there.layer().set_learning_rate_multiplier(std::numeric_limits<double>::infinity());
    refusal<gs::value_error>([&] { solver(0.5f, there.layer(), there.gradient); });
    CHECK(solver.steps() == 1);

    fixture larger;
    dlib::fc_<3, dlib::FC_NO_BIAS> const empty;
    CHECK(refusal<gs::size_error>([&] { solver(0.5f, empty, other); }) ==
          where + "the layer has no parameters; expected a layer with parameters");
    static_cast<dlib::resizable_tensor&>(larger.layer().get_layer_params()).set_size(7);
    CHECK(refusal<gs::size_error>([&] { solver(0.5f, larger.layer(), other); }) ==
          where + "the layer has 7 parameters, and had 15 at its first step; expected the same number; make a new "
                  "trainer after you change a layer");
    CHECK(refusal<gs::value_error>([] {
              gs::dlib::solver<gs::momentum, gs::decoupled>();
          }).starts_with("decoupled.rate: is missing"));
}
