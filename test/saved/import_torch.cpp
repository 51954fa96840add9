// Optimizers of torch, saved by its safetensors: the rules here read their state, and continue as
// torch did.
#include <gradstep/dialects/torch.hpp>
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <export_torch.hpp>
#include <import_torch.hpp>
#include <show.hpp>

#include "../dialects/golden.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/refusal.hpp"
#include "support/rewritten_file.hpp"

namespace gs = gradstep;
namespace torch = gs::dialects::torch;

namespace {

using gs::tools::export_torch, gs::tools::import_options, gs::tools::import_torch;

// Written by test/golden/checkpoints/torch_.py, after this step.
constexpr std::int64_t saved_at = 3, last = 6;
std::string of_torch(std::string const& name) { return GOLDEN_FOLDER "/checkpoints/" + name + ".safetensors"; }
import_options options_for(std::string const& name) {
    import_options out;
    if (name.starts_with("sgd") || name.starts_with("gradstep_sgd")) out.step = saved_at;
    return out;
}

template <class T> std::vector<T> numbers_of(gs::safetensors_reader const& file, std::string const& name) {
    auto const* const x = file.find(name);
    INFO(name);
    REQUIRE(x != nullptr);
    auto const as = [&]<class Stored>(Stored) {
        std::vector<Stored> stored(static_cast<std::size_t>(x->end - x->begin) / sizeof(Stored));
        file.read(*x, 0, std::as_writable_bytes(std::span(stored)));
        std::vector<T> out;
        for (Stored const y : stored) {
            if constexpr (!std::is_arithmetic_v<T>) out.push_back(T(static_cast<float>(y)));
            else if constexpr (std::is_arithmetic_v<Stored>) out.push_back(static_cast<T>(y));
            else out.push_back(static_cast<T>(static_cast<float>(y)));
        }
        return out;
    };
    if (x->dtype == "F64") return as(double());
    if (x->dtype == "BF16") return as(gs::bfloat16());
    if (x->dtype == "F16") return as(gs::float16());
    REQUIRE(x->dtype == "F32");
    return as(float());
}

} // namespace

TEST_CASE("The state of torch's optimizers is found under the names of the rules", "[saved][import_torch]") {
    using slots = std::map<std::string, std::string>;
    slots const adam{{"m", "exp_avg"}, {"v", "exp_avg_sq"}};
    slots const amsgrad{{"m", "exp_avg"}, {"v", "exp_avg_sq"}, {"v_max", "max_exp_avg_sq"}};
    struct {
        std::string file, element, rule;
        slots kept;
    } const cases[] = {
        {"sgd", "float", "sgd", {}},
        {"sgd_momentum", "float", "momentum", {{"m", "momentum_buffer"}}},
        {"sgd_nesterov", "float", "nesterov", {{"m", "momentum_buffer"}}},
        {"sgd_float16", "float16", "momentum", {{"m", "momentum_buffer"}}},
        {"rmsprop", "float", "rmsprop", {{"n", "square_avg"}}},
        {"rmsprop_centered", "float", "centered_rmsprop", {{"n", "square_avg"}, {"a", "grad_avg"}}},
        {"rmsprop_momentum", "float", "momentum_rmsprop", {{"n", "square_avg"}, {"b", "momentum_buffer"}}},
        {"rmsprop_centered_momentum",
         "float",
         "centered_momentum_rmsprop",
         {{"n", "square_avg"}, {"a", "grad_avg"}, {"b", "momentum_buffer"}}},
        {"adagrad", "float", "adagrad", {{"n", "sum"}}},
        {"adadelta", "float", "adadelta", {{"n", "square_avg"}, {"u", "acc_delta"}}},
        {"adam", "float", "adam", adam},
        {"adam_amsgrad", "float", "amsgrad", amsgrad},
        {"adam_bfloat16", "bfloat16", "amsgrad", amsgrad},
        {"adamw", "float", "adam", adam},
        {"adamw_double", "double", "adam", adam},
        {"adamax", "float", "adamax", {{"m", "exp_avg"}, {"u", "exp_inf"}}},
        {"nadam", "float", "nadam", adam},
        {"radam", "float", "radam", adam},
    };
    folder const in;
    for (auto const& x : cases) {
        INFO(x.file);
        import_torch(of_torch(x.file), in / "file", options_for(x.file));
        gs::safetensors_reader const theirs(of_torch(x.file)), file(in / "file");
        gs::detail::checkpoint_files const ours(in / "file");
        bool const has_unused = theirs.find("parameters.unused") != nullptr;
        CHECK(ours.states().size() == (has_unused ? 3 : 2));
        for (gs::detail::saved_state const& state : ours.states()) {
            INFO(state.name);
            CHECK(state.element == x.element);
            CHECK(state.rule == x.rule);
            CHECK(state.tensors.size() == 1 + x.kept.size());
            CHECK(state.shape == theirs.find("parameters." + state.name)->shape);
            CHECK(numbers_of<double>(file, state.name) == numbers_of<double>(theirs, "parameters." + state.name));
            bool const is_used = state.name != "unused";
            CHECK(state.clock == gs::clock{is_used ? saved_at : 0, 0, 0});
            for (auto const& [here, there] : x.kept) {
                auto const kept = numbers_of<double>(file, state.name + "/" + here);
                std::string const index = state.name == "weight" ? "0" : "1";
                if (is_used) CHECK(kept == numbers_of<double>(theirs, "state." + index + "." + there));
                else CHECK(kept == std::vector<double>(2)); // which had no gradient
            }
        }
    }
}

namespace {

// A parameter under the library's updater, and how far each of its numbers may be from torch's by
// now: test/dialects/golden.hpp derives it.
template <class Updater> class follower {
public:
    using rule_type = typename Updater::rule_type;
    using storage = typename Updater::traits::storage;
    using both = golden::step_of_both<storage, rule_type>;

    follower(gs::model& net, std::string name, std::size_t size, Updater const& optimizer)
        : net_(net), name_(std::move(name)), elements_(size) {
        net.add(name_, gs::parameter{optimizer, std::vector<storage>(size)});
    }
    std::string const& name() const { return name_; }

    // Before the step.
    void see(std::vector<storage> const& gradient) {
        auto const& own = net_.get<Updater>(name_);
        Updater const& optimizer = own.optimizer();
        double const rate = optimizer.schedule()(own.clock());
        gs::clock after = own.clock();
        ++after.step;
        both const step(optimizer.rule(), after, rate, golden::scalars_in_element::none);
        for (std::size_t i = 0; i < elements_.size(); ++i) {
            golden::element<Updater::slots> x{oracle::exact(gradient[i]), elements_[i].numbers};
            x.numbers[0].value = own.values()[i];
            for (std::size_t k = 0; k < Updater::slots; ++k)
                x.numbers[1 + k].value = own.state(Updater::state_names[k])[i];
            elements_[i] = step(golden::regularized(optimizer.regularizer(), rate, x));
        }
    }
    // After it.
    void compare(std::vector<storage> const& theirs) const {
        auto const ours = net_.get<Updater>(name_).values();
        REQUIRE(theirs.size() == elements_.size());
        for (std::size_t i = 0; i < theirs.size(); ++i) {
            INFO(name_ << '[' << i << "]: " << ours[i] << ", torch " << theirs[i]);
            auto const distance = abs(golden::real(ours[i]) - golden::real(theirs[i]));
            auto const allowed = 1.01L * both::u * elements_[i].numbers[0].error;
            CHECK_FALSE(elements_[i].at_threshold);
            CHECK(distance <= allowed);
            CHECK(allowed < 1e-4L); // tells one rule from another
        }
    }

private:
    gs::model& net_;
    std::string name_;
    std::vector<golden::moved_element<Updater::slots>> elements_;
};

template <class T, class Rule, class Regularizer = gs::none>
void goes_on(std::string const& name, Rule of_weight, Rule of_bias, Regularizer regularizer = {}, double lr_decay = 0) {
    INFO(name);
    folder const in;
    import_torch(of_torch(name), in / "file", options_for(name));
    gs::model net;
    auto const optimizer = [&](Rule const& rule, Regularizer const& by, double rate) {
        return gs::make_updater<T>(rule, by, gs::inverse_time{rate, lr_decay, 1}, gs::serial_backend{});
    };
    follower weight(net, "weight", 12, optimizer(of_weight, regularizer, 0.125));
    if constexpr (requires { regularizer.rate; }) regularizer.rate = 0;
    follower bias(net, "bias", 3, optimizer(of_bias, regularizer, 0.0625));
    net.load(in / "file");
    gs::safetensors_reader const torch_after(of_torch("after"));
    for (std::int64_t t = saved_at + 1; t <= last; ++t) {
        INFO("step " << t);
        auto const numbers = [&](std::string const& of, auto const& parameter) {
            return numbers_of<T>(torch_after, of + "/" + std::to_string(t) + "/" + parameter.name());
        };
        auto const of_w = numbers("gradient", weight), of_b = numbers("gradient", bias);
        weight.see(of_w);
        bias.see(of_b);
        net.update({{"weight", of_w}, {"bias", of_b}});
        weight.compare(numbers(name, weight));
        bias.compare(numbers(name, bias));
    }
}
template <class T, class Rule> void goes_on(std::string const& name, Rule rule) { goes_on<T>(name, rule, rule); }

} // namespace

TEST_CASE("A model of torch goes on here as it went on in torch", "[saved][import_torch]") {
    torch::adam_arguments const adam{.beta1 = 0.75, .beta2 = 0.875},
        of_bias{.beta1 = 0.75, .beta2 = 0.875, .eps = 0.125};
    goes_on<float>("sgd", torch::sgd(), torch::sgd(), gs::l2{0.25});
    goes_on<float>("sgd_momentum", torch::sgd_momentum({.momentum = 0.875, .dampening = 0.25}));
    goes_on<float>("sgd_nesterov", torch::sgd_nesterov({.momentum = 0.875}));
    goes_on<float>("rmsprop", torch::rmsprop({.alpha = 0.75}));
    goes_on<float>("rmsprop_centered", torch::rmsprop_centered({.alpha = 0.75, .eps = 0.125}));
    goes_on<float>("rmsprop_momentum", torch::rmsprop_momentum({.momentum = 0.5}));
    goes_on<float>("rmsprop_centered_momentum", torch::rmsprop_centered_momentum({.eps = 0.125, .momentum = 0.5}));
    goes_on<float>("adagrad", torch::adagrad(), torch::adagrad({.eps = 0.125}), gs::none{}, 0.125);
    goes_on<float>("adam", torch::adam(adam), torch::adam(of_bias));
    goes_on<float>("adam_amsgrad", torch::adam_amsgrad(adam));
    goes_on<float>("adamw", torch::adamw(adam), torch::adamw(adam), gs::decoupled{0.25});
    goes_on<double>("adamw_double", torch::adamw(adam), torch::adamw(adam), gs::decoupled{0.25});
}

namespace {

// A run of gradstep.torch, which test/golden/checkpoints/gradstep_torch_.py has written: a
// checkpoint goes on with its bits.
template <class Element, class Rule>
void goes_on_bit_for_bit(std::string const& name, Rule const& rule, std::string const& dtype,
                         std::int64_t from = saved_at) {
    INFO(name);
    using storage = typename gs::element_traits<Element>::storage;
    folder const in;
    import_torch(of_torch("gradstep_" + name), in / "file", options_for(name));
    auto const optimizer = gs::make_updater<Element>(rule, gs::constant{0.125}, gs::serial_backend{});
    gs::model net;
    net.add("weight", gs::parameter{optimizer, std::vector<storage>(12)});
    net.add("bias", gs::parameter{optimizer, std::vector<storage>(3)});
    net.load(in / "file");
    CHECK(net.clock("weight").step == from);
    gs::safetensors_reader const after(of_torch("gradstep_after"));
    for (std::int64_t t = from + 1; t <= last; ++t) {
        auto const numbers = [&](std::string const& of, std::string const& parameter) {
            return numbers_of<storage>(after, of + "/" + std::to_string(t) + "/" + parameter);
        };
        net.update(
            {{"weight", numbers(dtype + "/gradient", "weight")}, {"bias", numbers(dtype + "/gradient", "bias")}});
        net.save(in / "after");
        gs::safetensors_reader const ours(in / "after");
        for (char const* const parameter : {"weight", "bias"}) {
            INFO(parameter << ", step " << t);
            CHECK(numbers_of<double>(ours, parameter) ==
                  numbers_of<double>(after, name + "/" + std::to_string(t) + "/" + parameter));
        }
    }
}

} // namespace

TEST_CASE("A run of gradstep.torch goes on here bit for bit", "[saved][import_torch]") {
    gs::adam const adam{.beta1 = 0.75, .beta2 = 0.875};
    goes_on_bit_for_bit<float>("sgd", gs::sgd{}, "float32");
    goes_on_bit_for_bit<float>("sgd_momentum", torch::sgd_momentum({.momentum = 0.875, .dampening = 0.25}), "float32");
    goes_on_bit_for_bit<float>("adagrad_untouched", torch::adagrad({.initial_accumulator_value = 0.5}), "float32", 0);
    goes_on_bit_for_bit<gs::bfloat16>("adam_bfloat16", adam, "bfloat16");
    goes_on_bit_for_bit<gs::mixed<gs::bfloat16>>("mixed", adam, "bfloat16");
    goes_on_bit_for_bit<float>("lion", gs::lion{}, "float32");
}

TEST_CASE("An exported checkpoint has torch's names, and is imported as what it was", "[saved][import_torch]") {
    folder const in;
    for (char const* const name : {"sgd",
                                   "sgd_momentum",
                                   "sgd_nesterov",
                                   "sgd_float16",
                                   "rmsprop",
                                   "rmsprop_centered",
                                   "rmsprop_momentum",
                                   "rmsprop_centered_momentum",
                                   "adagrad",
                                   "adadelta",
                                   "adam",
                                   "adam_amsgrad",
                                   "adamw",
                                   "adamw_double",
                                   "adamax",
                                   "nadam",
                                   "radam",
                                   "gradstep_sgd",
                                   "gradstep_sgd_momentum",
                                   "gradstep_adam_bfloat16",
                                   "gradstep_mixed",
                                   "gradstep_lion",
                                   "gradstep_adagrad_untouched"}) {
        INFO(name);
        import_torch(of_torch(name), in / "first", options_for(name));
        auto const notes = export_torch(in / "first", in / "torch", {});
        gs::safetensors_reader const theirs(of_torch(name)), ours(in / "torch");
        std::string const optimizer = theirs.metadata().at("optimizer");
        CHECK(ours.metadata().at("optimizer") == optimizer);
        CHECK_THAT(notes.at(0), ContainsSubstring("for ") && ContainsSubstring(optimizer + ": "));
        for (gs::safetensors_entry const& x : ours.tensors()) {
            auto const* const before = theirs.find(x.name); // parameters of other options can have another index here
            if (x.name.starts_with("parameters.")) CHECK(x.shape == before->shape);
        }
        import_torch(in / "torch", in / "second", options_for(name));
        gs::detail::checkpoint_files const a(in / "first"), b(in / "second");
        gs::safetensors_reader const first(in / "first"), second(in / "second");
        REQUIRE(a.states().size() == b.states().size());
        for (std::size_t i = 0; i < a.states().size(); ++i) {
            gs::detail::saved_state const &x = a.states()[i], &y = b.states()[i];
            INFO(x.name);
            CHECK(x.element == y.element);
            CHECK(x.rule == y.rule);
            CHECK(x.clock == y.clock);
            CHECK(x.tensors.size() == y.tensors.size());
            for (gs::detail::saved_tensor const& tensor : x.tensors) {
                std::string const of = tensor.slot.empty() ? x.name : x.name + "/" + tensor.slot;
                CHECK(numbers_of<double>(first, of) == numbers_of<double>(second, of));
            }
        }
    }
}

TEST_CASE("Shapes go from torch to checkpoints and back, and are compared", "[saved][import_torch]") {
    folder const in;
    using shape = std::vector<std::uint64_t>;
    auto const extents = [&](char const* file, std::string const& of) {
        return gs::safetensors_reader(in / file).find(of)->shape;
    };
    import_torch(of_torch("adam"), in / "checkpoint", {});
    shape const of_weight = gs::safetensors_reader(of_torch("adam")).find("parameters.weight")->shape;
    REQUIRE(of_weight.size() > 1);
    CHECK(extents("checkpoint", "weight") == of_weight);
    CHECK(extents("checkpoint", "weight/m") == of_weight);
    export_torch(in / "checkpoint", in / "torch", {});
    gs::safetensors_reader const torch_file(in / "torch");
    std::size_t shaped = 0;
    for (gs::safetensors_entry const& x : torch_file.tensors())
        if (x.shape == of_weight) ++shaped;
    CHECK(shaped == 3); // values, exp_avg, exp_avg_sq

    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1}, gs::serial_backend{});
    auto const net_of = [&](shape const& of) {
        gs::model net;
        net.add("weight", gs::parameter{optimizer, std::vector<float>(12)});
        net.add("bias", gs::parameter{optimizer, std::vector<float>(3)});
        if (!of.empty()) net.set_shape("weight", of);
        return net;
    };
    gs::model unshaped = net_of({}), shaped_so = net_of(of_weight), other = net_of({2, 6});
    unshaped.load(in / "checkpoint");
    shaped_so.load(in / "checkpoint");
    CHECK_THAT(refusal<gs::size_error>([&] { other.load(in / "checkpoint"); }), ContainsSubstring("expected [2, 6]"));

    // A file of before, which knows no shapes.
    unshaped.save(in / "flat");
    CHECK(extents("flat", "weight") == shape{12});
    shaped_so.load(in / "flat");
    export_torch(in / "flat", in / "torch", {});
    CHECK(extents("torch", "parameters.weight") == shape{12});
}

TEST_CASE("The options that export_torch writes are those of the policies", "[saved][import_torch]") {
    folder const in;
    gs::model net;
    auto const add = [&](char const* name, auto const& optimizer) {
        net.add(name, gs::parameter{optimizer, std::vector<float>{1, 2}});
    };
    auto const exported = [&](gs::tools::export_options const& options = {}) {
        net.save(in / "file");
        export_torch(in / "file", in / "torch", options);
        return gs::safetensors_reader(in / "torch").metadata();
    };
    add("a", gs::make_updater<float>(torch::adamw({.beta1 = 0.75}), gs::decoupled{0.5}, gs::constant{0.25},
                                     gs::serial_backend{}));
    add("b", gs::make_updater<float>(gs::amsgrad{.beta1 = 0.75}, gs::constant{0.25}, gs::serial_backend{}));
    net.update({{"a", std::vector<float>{1, 1}}, {"b", std::vector<float>{1, 1}}});
    auto const of_adamw = exported();
    CHECK(of_adamw.at("optimizer") == "AdamW");
    CHECK(
        of_adamw.at("param_groups") ==
        R"([{"eps":1e-08,"betas":[0.75,0.999],"amsgrad":false,"lr":0.25,"weight_decay":0.5,"params":[0],"param_names":["a"]}, )"
        R"({"eps":1e-08,"betas":[0.75,0.999],"amsgrad":true,"lr":0.25,"weight_decay":0.0,"params":[1],"param_names":["b"]}])");
    gs::safetensors_reader const file(in / "torch");
    CHECK(numbers_of<float>(file, "state.0.step") == std::vector<float>{1});
    CHECK(file.find("state.1.max_exp_avg_sq") != nullptr);
    CHECK(file.find("state.0.max_exp_avg_sq") == nullptr);

    add("c", gs::make_updater<float>(gs::averaged{gs::yogi{}, gs::ema{}}, gs::cosine{.rate = 1, .steps = 10},
                                     gs::serial_backend{}));
    auto const of_any = exported({.rate = 0.5});
    CHECK(of_any.at("optimizer") == "Optimizer");
    CHECK_THAT(of_any.at("param_groups"),
               ContainsSubstring(R"("average":{"name":"ema")") && ContainsSubstring(R"("lr":0.5)"));
    CHECK_THAT(refusal<gs::value_error>([&] { exported({.optimizer = "AdamW"}); }),
               ContainsSubstring("\"c\": AdamW does not keep the state of averaged{yogi, ema} of float"));
    CHECK_THAT(refusal<gs::value_error>([&] { exported({.rate = -1}); }),
               ContainsSubstring("--rate: -1 is out of range; expected finite"));
    CHECK_THAT(refusal<gs::value_error>([&] { exported({.optimizer = "Muon"}); }),
               ContainsSubstring("expected one of SGD"));

    auto const optimizer = gs::make_updater<float>(
        gs::adam{}, [](gs::clock) { return 0.5; }, gs::serial_backend{});
    gs::parameter own{optimizer, std::vector<float>{1, 2}};
    own.save(in / "begun");
    rewrite(in / "begun", in / "own", [](auto&, auto& metadata) {
        replace(metadata["gradstep.parameter.values"], "\"step\":0", "\"step\":16777216");
    });
    write_bytes(in / "out", "what was there");
    CHECK_THAT(
        refusal<gs::value_error>([&] { export_torch(in / "own", in / "out", {}); }),
        ContainsSubstring("\"values\": its schedule is the program's own; expected a schedule of torch; give --rate"));
    CHECK(bytes_of(in / "out") == "what was there");
    export_torch(in / "own", in / "out", {.rate = 0.5});
    gs::safetensors_reader const long_run(in / "out");
    CHECK(long_run.find("state.0.step")->dtype == "F64"); // F32 stands still there
    CHECK(numbers_of<double>(long_run, "state.0.step") == std::vector<double>{0x1p24});
    gs::parameter of_rows{gs::make_updater<float>(torch::sparse_adam(), gs::constant{1}, gs::serial_backend{}),
                          std::vector<float>{1, 2}};
    of_rows.save(in / "of_rows");
    CHECK(export_torch(in / "of_rows", in / "out", {}).front() ==
          "for gradstep.torch.Optimizer: 1 parameter in 1 group");
    CHECK(export_torch(in / "of_rows", in / "out", {.optimizer = "SparseAdam"}).front() ==
          "for SparseAdam: 1 parameter in 1 group");
    import_torch(in / "out", in / "again", {});
    CHECK(gs::detail::checkpoint_files(in / "again").states().front().rule == "adam");
    gs::table rows(gs::make_updater<float>(gs::adam{}, gs::constant{1}, gs::serial_backend{}), 3, 2, gs::touch_only{});
    rows.save(in / "rows");
    CHECK_THAT(refusal<gs::value_error>([&] { export_torch(in / "rows", in / "out", {.rate = 0.5}); }),
               ContainsSubstring("\"values\": is a table"));
}

TEST_CASE("A count that the file does not have exactly is taken from --step", "[saved][import_torch]") {
    folder const in;
    auto const with = [&](std::string const& dtype, auto number, std::optional<std::int64_t> step) {
        std::string bytes(sizeof number, ' ');
        std::memcpy(bytes.data(), &number, sizeof number);
        gs::safetensors_reader const from(of_torch("adam"));
        auto entries = from.tensors();
        for (auto& x : entries)
            if (x.name == "state.0.step") x.dtype = dtype;
        gs::safetensors_writer writer(in / "in", entries, from.metadata());
        for (auto const& x : writer.tensors()) {
            std::vector<std::byte> data(x.end - x.begin);
            if (x.name == "state.0.step") std::memcpy(data.data(), bytes.data(), bytes.size());
            else from.read(*from.find(x.name), 0, data);
            writer.write(data);
        }
        writer.commit();
        import_torch(in / "in", in / "out", {.step = step});
        return gs::detail::checkpoint_files(in / "out").states().back().clock.step; // the weight's
    };
    auto const refused = [&](std::string const& dtype, auto number, std::optional<std::int64_t> step = {}) {
        return refusal<gs::value_error>([&] { with(dtype, number, step); });
    };
    constexpr std::int64_t stuck = 1 << 24, exact = (std::int64_t{1} << 53) + 1;
    CHECK(with("F32", 0x1p24f - 1, {}) == stuck - 1);
    CHECK(with("F64", 0x1p53 - 1, {}) == exact - 2);
    CHECK(with("I64", exact, {}) == exact);
    CHECK(with("I32", std::int32_t{7}, {}) == 7);
    CHECK_THAT(refused("F32", 0x1p24f),
               ContainsSubstring("16777216 of F32, which has gaps there") && ContainsSubstring("give --step"));
    CHECK(with("F32", 0x1p24f, stuck + 5) == stuck + 5);
    CHECK(with("F32", 0x1p24f, stuck) == stuck);
    CHECK_THAT(refused("F32", 0x1p24f, stuck - 1),
               ContainsSubstring("expected in --step the count that it stands for"));
    CHECK_THAT(refused("F64", 0x1p53), ContainsSubstring("give --step"));
    CHECK(with("F64", 0x1p53, exact) == exact);
    CHECK_THAT(refused("BF16", gs::bfloat16(10000.0f)),
               ContainsSubstring("9984 of BF16 may be a count that was rounded"));
    CHECK(with("BF16", gs::bfloat16(10000.0f), 10000) == 10000);
    CHECK_THAT(refused("BF16", gs::bfloat16(3.0f)), ContainsSubstring("give --step"));
    CHECK_THAT(refused("BF16", gs::bfloat16(3.0f), 4), ContainsSubstring("3 of BF16 is not what 4 steps leave there"));
    CHECK(with("F16", gs::float16(3.0f), 3) == 3);
    CHECK_THAT(refused("F64", 3.0, 3), ContainsSubstring("Adam counts its steps itself"));
    CHECK_THAT(refused("I64", std::int64_t{-1}), ContainsSubstring("-1; expected a whole number >= 0"));
}

TEST_CASE("A checkpoint of torch's float16 and bfloat16 has more than they had", "[saved][import_torch]") {
    folder const in;
    auto const imported = [&](std::string const& name, std::string const& element) {
        import_options options = options_for(name);
        options.element = element;
        options.samples = 96;
        options.epoch = 2;
        import_torch(of_torch(name), in / element, options);
        return gs::detail::checkpoint_files(in / element).states().back(); // the weight
    };
    auto const numbers = [&](std::string const& element, std::string const& name) {
        return numbers_of<double>(gs::safetensors_reader(in / element), name);
    };
    gs::safetensors_reader const theirs(of_torch("adam")), halves(of_torch("adam_bfloat16"));

    auto const mixed = imported("adam", "mixed<bfloat16>");
    CHECK(mixed.clock == gs::clock{saved_at, 96, 2});
    CHECK(mixed.find("")->dtype == "BF16");
    auto const values = numbers_of<float>(theirs, "parameters.weight");
    std::vector<double> rounded;
    for (float const x : values) rounded.push_back(static_cast<double>(static_cast<float>(gs::bfloat16(x))));
    CHECK(numbers("mixed<bfloat16>", "weight") == rounded);
    CHECK(numbers("mixed<bfloat16>", "weight/master") == std::vector<double>(values.begin(), values.end()));
    auto const optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::adam{}, gs::constant{1}, gs::serial_backend{});
    gs::model net;
    net.add("weight", gs::parameter{optimizer, std::vector<gs::bfloat16>(12)});
    net.add("bias", gs::parameter{optimizer, std::vector<gs::bfloat16>(3)});
    net.load(in / "mixed<bfloat16>");
    CHECK(net.clock("weight") == gs::clock{saved_at, 96, 2});

    for (char const* const element : {"float", "double", "stochastic<bfloat16>", "mixed<bfloat16>"}) {
        INFO(element);
        CHECK(imported("adam_bfloat16", element).element == element);
        CHECK(numbers(element, "weight") == numbers_of<double>(halves, "parameters.weight"));
        CHECK(numbers(element, "weight/v_max") == numbers_of<double>(halves, "state.0.max_exp_avg_sq"));
    }
    CHECK(imported("sgd_float16", "double").find("m")->dtype == "F64");
    CHECK(numbers("double", "weight/m") ==
          numbers_of<double>(gs::safetensors_reader(of_torch("sgd_float16")), "state.0.momentum_buffer"));
}

TEST_CASE("What is to be known of an import is said", "[saved][import_torch]") {
    folder const in;
    CHECK(import_torch(of_torch("adam"), in / "file", {}).empty());
    auto const notes = import_torch(of_torch("adam_bfloat16"), in / "file", {});
    REQUIRE(notes.size() == 4);
    CHECK_THAT(notes[0], ContainsSubstring("\"weight\" is maximized"));
    CHECK_THAT(notes[2], ContainsSubstring("\"unused\" had no gradient so far: it begins at step 0"));
    std::string const shown = gs::tools::show(in / "file");
    CHECK_THAT(shown,
               ContainsSubstring("\"bias\": 3 of bfloat16, amsgrad; m F32, v F32, v_max F32; step 3, samples 0"));
    CHECK_THAT(shown, ContainsSubstring(R"({"name":"constant","rate":0.0625})"));
    auto const table_optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1}, gs::serial_backend{});
    gs::table table(table_optimizer, 39, 8, gs::touch_only{});
    table.save(in / "table");
    std::string const shown_table = gs::tools::show(in / "table");
    CHECK_THAT(shown_table, ContainsSubstring("\"values\": 39 rows of 8 of float, adam; m F32, v F32"));
    CHECK_THAT(shown_table, ContainsSubstring(R"("catch_up":"touch_only"})"));
    std::string letters; // of two bytes each, one of them at every cut
    for (int k = 0; k < 120; ++k) letters += "\xc3\xa4";
    rewrite(in / "table", in / "of letters", [&](auto&, auto& metadata) {
        replace(metadata["gradstep.parameter.values"], "{\\\"rule", "x" + letters + "\\n{\\\"rule");
    });
    CHECK_THAT(gs::tools::show(in / "of letters"), ContainsSubstring("    x" + letters + "?{\"rule"));
    CHECK_THAT(refusal<gs::value_error>([&] { gs::tools::show(of_torch("adam")); }),
               ContainsSubstring("expected a checkpoint of gradstep"));
}

TEST_CASE("What import_torch does not take is refused by its name, and nothing is written", "[saved][import_torch]") {
    folder const in;
    write_bytes(in / "out", "what was there");
    std::type_identity<gs::value_error> const value;
    auto const said = [&]<class Error>(std::type_identity<Error>, std::string const& name, auto const& change,
                                       import_options const& options = {}) {
        rewrite(of_torch(name), in / "in", change);
        std::string const out = refusal<Error>([&] { import_torch(in / "in", in / "out", options); });
        CHECK(bytes_of(in / "out") == "what was there");
        CHECK(in.names().size() == 2);
        if (!out.starts_with("--")) CHECK_THAT(out, ContainsSubstring(in / "in"));
        return out;
    };
    auto const of_group = [&](std::string const& name, std::string const& what, std::string const& by) {
        return said(value, name, [&](auto&, auto& metadata) { replace(metadata["param_groups"], what, by); });
    };
    auto const of_tensor = [&](auto error, std::string const& name, std::string const& tensor, auto const& change) {
        return said(error, name, [&](auto& entries, auto&) {
            change(*std::ranges::find(entries, tensor, &gs::safetensors_entry::name));
        });
    };
    auto const nothing = [](auto&, auto&) {};
    auto const renamed = [&](std::string const& name, std::string const& from, std::string const& to) {
        return of_tensor(value, name, from, [&](gs::safetensors_entry& x) { x.name = to; });
    };
    auto const typed = [&](std::string const& name, std::string const& tensor, std::string const& dtype) {
        return of_tensor(value, name, tensor, [&](gs::safetensors_entry& x) { x.dtype = dtype; });
    };

    // The optimizer
    CHECK_THAT(said(value, "adam", [](auto&, auto& metadata) { metadata.erase("optimizer"); }),
               ContainsSubstring("has no optimizer in its metadata; expected a file of save_for_gradstep"));
    CHECK_THAT(said(value, "adam", [](auto&, auto& metadata) { metadata.erase("param_groups"); }),
               ContainsSubstring("has no param_groups in its metadata"));
    CHECK_THAT(said(value, "adam", [](auto&, auto& metadata) { metadata["optimizer"] = "LBFGS"; }),
               ContainsSubstring("the optimizer \"LBFGS\" is not known; expected one of SGD, RMSprop, Adagrad"));
    CHECK_THAT(said(value, "sgd", nothing),
               ContainsSubstring("SGD does not count its steps; expected their number; give --step"));
    CHECK_THAT(said(value, "adam", nothing, {.step = 3}), ContainsSubstring("Adam counts its steps itself"));
    CHECK_THAT(said(value, "sgd_momentum", nothing, {.step = 0}), ContainsSubstring("has state, and 0 steps"));
    CHECK(said(value, "sgd", nothing, {.step = -1}) == "--step: -1 is out of range; expected >= 0");
    CHECK(said(value, "adam", nothing, {.samples = -1}) == "--samples: -1 is out of range; expected >= 0");
    CHECK(said(value, "adam", nothing, {.epoch = -2}) == "--epoch: -2 is out of range; expected >= 0");

    // Its groups
    CHECK_THAT(of_group("adam", "[{", "[{{"), ContainsSubstring("param_groups: line 1, column "));
    CHECK_THAT(of_group("adam", "\"lr\": 0.125", "\"lr\": 0.125, \"lr\": 0.25"), ContainsSubstring("is there twice"));
    CHECK_THAT(said(value, "adam", [](auto&, auto& metadata) { metadata["param_groups"] = "{}"; }),
               ContainsSubstring("param_groups: an object; expected a list"));
    CHECK_THAT(said(value, "adam", [](auto&, auto& metadata) { metadata["param_groups"] = "[1]"; }),
               ContainsSubstring("param_groups[0]: 1; expected an object"));
    CHECK_THAT(of_group("adam", "\"eps\"", "\"eps_\""),
               ContainsSubstring("param_groups[0].eps: is missing; expected a value"));
    CHECK_THAT(of_group("adam", "1e-08", "-1"), ContainsSubstring("param_groups[0].eps: -1; expected finite and >= 0"));
    CHECK_THAT(of_group("adam", "[0.75, 0.875]", "[0.75, 1.0]"),
               ContainsSubstring("param_groups[0].beta2: 1; expected [0, 1)"));
    CHECK_THAT(of_group("adam", "[0.75, 0.875]", "[0.75]"),
               ContainsSubstring("betas: a list of 1; expected two numbers"));
    CHECK_THAT(of_group("adam", "\"lr\": 0.0625", "\"lr\": \"fast\""),
               ContainsSubstring("param_groups[1].lr: \"fast\"; expected a number"));
    CHECK_THAT(of_group("adam", "\"lr\": 0.0625", "\"lr\": -1"), ContainsSubstring("param_groups[1].lr: -1; expected"));
    CHECK_THAT(of_group("adam", "\"amsgrad\": false", "\"amsgrad\": 0"),
               ContainsSubstring("amsgrad: 0; expected true or false"));
    CHECK_THAT(of_group("adam", "\"params\": [1]", "\"params\": [0]"),
               ContainsSubstring("param_groups[1].params: 0; expected 1, since params are numbered"));
    CHECK_THAT(of_group("adam", "\"params\": [1]", "\"params\": [-1]"),
               ContainsSubstring("params: -1; expected 1, since"));
    CHECK_THAT(of_group("adam", "[\"bias\"]", "[]"),
               ContainsSubstring("param_names: there are 0 names for 1 params; expected as many"));
    CHECK_THAT(of_group("adam", "[\"bias\"]", "[3]"), ContainsSubstring("param_names: 3; expected texts"));
    CHECK_THAT(of_group("adam", "[\"bias\"]", "[\"\"]"), ContainsSubstring("an empty name"));
    CHECK_THAT(
        of_group("adam", "[\"bias\"]", "[\"skew\"]"),
        ContainsSubstring("tensor \"parameters.skew\" is missing; expected a tensor for each name in param_groups"));
    CHECK_THAT(of_group("sgd", "[\"bias\"]", "[\"weight\"]"), ContainsSubstring("give --step"));
    CHECK_THAT(said(value, "sgd", [](auto&, auto& metadata) { replace(metadata["param_groups"], "bias", "weight"); },
                    {.step = 3}),
               ContainsSubstring("tensor \"parameters.weight\" is of two parameters"));
    CHECK_THAT(of_group("nadam", "\"momentum_decay\": 0.25", "\"momentum_decay\": 0.5"),
               ContainsSubstring("tensor \"state.0.mu_product\": "));

    // Its tensors
    CHECK_THAT(renamed("adam", "state.1.exp_avg", "state.1.exp_mean"),
               ContainsSubstring("tensor \"state.1.exp_avg\" is missing; expected one, as Adam keeps of \"bias\""));
    CHECK_THAT(renamed("adam", "state.0.step", "state.0.steps"),
               ContainsSubstring("tensor \"state.0.step\" is missing"));
    CHECK_THAT(renamed("adagrad", "state.0.sum", "state.0.total"),
               ContainsSubstring("tensor \"state.0.sum\" is missing"));
    CHECK_THAT(of_group("adam", "\"amsgrad\": false", "\"amsgrad\": true"),
               ContainsSubstring("tensor \"state.0.max_exp_avg_sq\" is missing"));
    CHECK_THAT(of_group("adam_amsgrad", "\"amsgrad\": true", "\"amsgrad\": false"),
               ContainsSubstring("tensor \"state.0.max_exp_avg_sq\" is not known; expected parameters.NAME"));
    CHECK_THAT(renamed("adam", "parameters.bias", "parameters.skew"),
               ContainsSubstring("\"parameters.bias\" is missing"));
    CHECK_THAT(said(value, "adam",
                    [](auto& entries, auto&) {
                        entries.push_back({"parameters.more", "F32", {0}});
                    }),
               ContainsSubstring("tensor \"parameters.more\" is not known"));
    CHECK_THAT(typed("adam", "parameters.bias", "I32"),
               ContainsSubstring("tensor \"parameters.bias\": is of I32; expected F32, F64, BF16 or F16"));
    CHECK_THAT(typed("adam", "state.1.exp_avg", "I32"),
               ContainsSubstring("tensor \"state.1.exp_avg\": is of I32; expected F32"));
    CHECK_THAT(said(value, "adam", nothing, {.element = "bfloat16"}),
               ContainsSubstring("the element \"bfloat16\" does not hold its numbers, or is not known; expected one of "
                                 "float, double, mixed<bfloat16> or mixed<float16>"));
    CHECK_THAT(said(value, "adamw_double", nothing, {.element = "float"}), ContainsSubstring("expected one of double"));
    CHECK_THAT(said(value, "adam", nothing, {.element = "int32"}), ContainsSubstring("expected one of float, double"));
    CHECK_THAT(of_tensor(std::type_identity<gs::size_error>(), "adam", "state.0.exp_avg",
                         [](gs::safetensors_entry& x) {
                             x.shape = {4, 3};
                         }),
               ContainsSubstring("tensor \"state.0.exp_avg\": is of 4 x 3; expected 3 x 4, as \"parameters.weight\""));
    CHECK_THAT(
        of_tensor(value, "adam", "state.0.step", [](gs::safetensors_entry& x) { x.shape = {2}, x.dtype = "F16"; }),
        ContainsSubstring("tensor \"state.0.step\": has 4 bytes of F16; expected one number"));

    // The number of the step
    auto const at_step = [&](float step) {
        rewrite(of_torch("adam"), in / "in", [](auto&, auto&) {});
        std::string bytes = bytes_of(in / "in");
        gs::safetensors_reader const reader(in / "in");
        std::uint64_t const data = bytes.size() - reader.tensors().back().end;
        std::memcpy(&bytes[static_cast<std::size_t>(data + reader.find("state.0.step")->begin)], &step, sizeof step);
        write_bytes(in / "in", bytes);
        return refusal<gs::value_error>([&] { import_torch(in / "in", in / "out", {}); });
    };
    for (float const step : {-1.0f, 2.5f, 0x1p24f, std::numeric_limits<float>::quiet_NaN()})
        CHECK_THAT(at_step(step), ContainsSubstring("tensor \"state.0.step\": "));
    CHECK_THAT(at_step(0), ContainsSubstring("\"weight\" has state, and 0 steps; expected at least 1"));
    CHECK(bytes_of(in / "out") == "what was there");

    CHECK_THAT((refusal<gs::io_error, std::runtime_error>([&] { import_torch(in / "nothing", in / "out", {}); })),
               ContainsSubstring("cannot read " + in / "nothing"));
}
