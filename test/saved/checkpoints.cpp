// Runs that are saved and gone on with: the same bits as without.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/json/detail/json.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/file_calls.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/rewritten_file.hpp"

#if defined(REPLACES_FILE_CALLS)
#include <sys/wait.h>
#endif

namespace gs = gradstep;

namespace {

// A model of everything that a model tells apart: whose memory it is, elements, averages,
// compression, row-wise rules.
class trained_model {
public:
    explicit trained_model(std::size_t n = 37) : n_(n) {
        constexpr gs::serial_backend alone{}; // which compiles fastest
        constexpr gs::constant rate{0.125};
        own<float>("adam", gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, rate, alone));
        own<gs::bfloat16>("mixed", gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, rate, alone));
        own<gs::bfloat16>("stochastic", gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::sgd{}, rate, alone));
        gs::averaged const in_windows{gs::adagrad{.initial_accumulator = 0.5},
                                      gs::window{.rate = 0.5, .min = 2, .max = 5}};
        own<double>("window", gs::make_updater<double>(in_windows, gs::inverse_time{0.5, 0.5, 3}, alone));
        gs::dgc_momentum const dgc{.mu = 0.5, .rampup_begin_step = 2, .rampup_step = 4, .sparsity = {0.75, 0.9}};
        own<float>("dgc \xc3\xa4/\"u\"", gs::make_updater<float>(dgc, rate, alone));
        own<float>("rowwise", gs::make_updater<float>(gs::rowwise_adagrad{}, rate, alone));
        host("float16", gs::make_updater<gs::float16>(gs::averaged{gs::sgd{}, gs::ema{0.5}}, rate, alone));
        host("mixed of the host", gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, rate, alone));
        own<std::int64_t>("counts", gs::make_updater<std::int64_t>(gs::add_delta{}, gs::constant{1}, alone));
        own<float>("empty", gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, rate, alone), 0);
    }

    gs::model net;

    void train(int steps) {
        for (int k = 0; k < steps; ++k, ++step_) {
            std::vector<gs::named_gradient> gradients;
            for (auto& fill : fill_) gradients.push_back(fill(step_));
            net.update(gradients, {.samples = 3, .seed = step_});
        }
    }
    void go_on_from(trained_model const& other) { step_ = other.step_; }
    std::string state(folder const& in) const {
        net.save(in / "state");
        return bytes_of(in / "state");
    }

private:
    template <class S> static std::vector<S> values(std::size_t n, std::uint32_t seed) {
        if constexpr (std::is_integral_v<S>) {
            std::vector<S> out;
            for (float const x : numbers<float>(n, seed)) out.push_back(static_cast<S>(x * 1000));
            return out;
        } else {
            return numbers<S>(n, seed);
        }
    }
    template <class S> void add_gradient(std::string const& name, std::size_t n) {
        auto memory = std::make_shared<std::vector<S>>(n);
        fill_.push_back([=](std::uint32_t step) {
            *memory = values<S>(n, step + 100);
            return gs::named_gradient(name, *memory);
        });
    }
    template <class S, class Updater> void own(std::string const& name, Updater const& optimizer) {
        own<S>(name, optimizer, n_);
    }
    template <class S, class Updater> void own(std::string const& name, Updater const& optimizer, std::size_t n) {
        net.add(name, gs::parameter{optimizer, values<S>(n, 7)});
        add_gradient<S>(name, n);
    }
    template <class Updater> void host(std::string const& name, Updater const& optimizer) {
        using S = typename Updater::traits::storage;
        using T = typename Updater::traits::state;
        struct memory {
            std::vector<S> values;
            std::vector<std::vector<T>> state;
        };
        auto const m = std::make_shared<memory>(memory{values<S>(n_, 8), {}});
        kept_.push_back(m);
        for (std::size_t i = 0; i < Updater::slots; ++i) m->state.emplace_back(n_);
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            optimizer.initialize(m->values, m->state[I]...);
            net.add(name, optimizer, gs::slice<Updater>(m->values, std::span<S>(), m->state[I]...));
        }
        (std::make_index_sequence<Updater::slots>{});
        add_gradient<S>(name, n_);
    }

    std::size_t n_;
    std::uint32_t step_ = 0;
    std::vector<std::shared_ptr<void>> kept_;
    std::vector<std::function<gs::named_gradient(std::uint32_t)>> fill_;
};

} // namespace

TEST_CASE("A model that is saved, and loaded by another, goes on with the same bits", "[saved][checkpoint]") {
    folder const in;
    trained_model trained;
    trained.train(7);
    trained.net.save(in / "model.safetensors");
    std::string const saved = bytes_of(in / "model.safetensors");
    trained_model resumed;
    resumed.train(2); // whatever it was before
    CHECK(resumed.state(in) != saved);
    resumed.net.load(in / "model.safetensors");
    CHECK(resumed.state(in) == saved);
    resumed.go_on_from(trained);
    trained.train(9);
    resumed.train(9);
    CHECK(resumed.state(in) == trained.state(in));
    CHECK(resumed.net.clock("adam") == gs::clock{16, 48, 0});

    gs::safetensors_reader const file(in / "model.safetensors");
    CHECK(file.find("adam")->dtype == "F32");
    CHECK(file.find("adam/v")->shape == std::vector<std::uint64_t>{37});
    CHECK(file.find("mixed")->dtype == "BF16");
    CHECK(file.find("mixed/master")->dtype == "F32");
    CHECK(file.find("float16")->dtype == "F16");
    CHECK(file.find("counts")->dtype == "I64");
    CHECK(file.find("window/average") == nullptr); // its sums are slots of their own
    CHECK(file.metadata().find("gradstep.format")->second == "1");
}

namespace {

auto const adam = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.125}, gs::serial_backend{});
auto const in_stochastic =
    gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::sgd{}, gs::constant{0.125}, gs::serial_backend{});

} // namespace

TEST_CASE("A parameter that is saved, and loaded by another, goes on with the same bits", "[saved][checkpoint]") {
    folder const in;
    auto const gradient = numbers<gs::bfloat16>(33, 3);
    gs::parameter trained{in_stochastic, numbers<gs::bfloat16>(33, 2), {.id = 5}},
        resumed{in_stochastic, numbers<gs::bfloat16>(33, 4)};
    trained.update(gradient, {.seed = 1});
    trained.save(in / "w");
    resumed.load(in / "w");
    for (std::uint64_t const seed : {2u, 3u}) {
        trained.update(gradient, {.seed = seed});
        resumed.update(gradient, {.seed = seed}); // rounds by the same name, which the file has
    }
    CHECK(std::ranges::equal(trained.values(), resumed.values(), {}, std::bit_cast<std::uint16_t, gs::bfloat16>,
                             std::bit_cast<std::uint16_t, gs::bfloat16>));
    CHECK(resumed.clock() == gs::clock{3, 0, 0});
}

TEST_CASE("A file of another model is refused by the first difference, and nothing has changed",
          "[saved][checkpoint]") {
    folder const in;
    gs::model net;
    net.add("w", gs::parameter{adam, numbers<float>(6, 1)});
    net.add("v", gs::parameter{in_stochastic, numbers<gs::bfloat16>(4, 1)});
    net.update({{"w", numbers<float>(6, 2)}, {"v", numbers<gs::bfloat16>(4, 2)}});
    net.save(in / "good");
    net.update({{"w", numbers<float>(6, 3)}, {"v", numbers<gs::bfloat16>(4, 3)}});
    net.save(in / "now");
    auto const refused = [&]<class Error>(std::type_identity<Error>, auto const& change) {
        rewrite(in / "good", in / "bad", change);
        std::string const said = refusal<Error>([&] { net.load(in / "bad"); });
        net.save(in / "after");
        CHECK(bytes_of(in / "after") == bytes_of(in / "now"));
        CHECK_THAT(said, ContainsSubstring(in / "bad"));
        return said;
    };
    std::type_identity<gs::value_error> const value;
    std::string const of_w = "gradstep.parameter.w", of_v = "gradstep.parameter.v";
    auto const said_of = [&](std::string const& what, std::string const& by) {
        return refused(value, [&](auto&, auto& metadata) { replace(metadata[of_w], what, by); });
    };
    auto const entry = [](auto& entries, std::string const& name) -> gs::safetensors_entry& {
        return *std::ranges::find(entries, name, &gs::safetensors_entry::name);
    };

    CHECK_THAT(refused(value, [](auto&, auto& metadata) { metadata.erase("gradstep.format"); }),
               ContainsSubstring("has no gradstep.format; expected a checkpoint of gradstep"));
    CHECK_THAT(refused(value, [](auto&, auto& metadata) { metadata["gradstep.format"] = "2"; }),
               ContainsSubstring("of the format \"2\"; expected 1"));
    CHECK_THAT(said_of("\"float\"", "\"double\""), ContainsSubstring("\"w\": is of double; expected float"));
    CHECK_THAT(said_of("\"adam\"", "\"nadam\""), ContainsSubstring("\"w\": is of the rule nadam; expected adam"));
    CHECK_THAT(said_of("\"m\",\"v\"", "\"m\""), ContainsSubstring("tensor \"w/v\" is of no parameter of the file"));
    CHECK_THAT(said_of("\"m\",\"v\"", "\"m\",\"m\""), ContainsSubstring("tensor \"w/m\" is of two parameters"));
    CHECK_THAT(said_of("\"m\",\"v\"", "\"m\",\"x\""), ContainsSubstring("tensor \"w/x\" is missing"));
    CHECK_THAT(said_of("\"m\",\"v\"", "\"m\",7"), ContainsSubstring("expected names"));
    CHECK_THAT(said_of("\"step\":1", "\"step\":-1"),
               ContainsSubstring("step is of another type; expected a whole number >= 0"));
    CHECK_THAT(said_of("\"step\":1", "\"step\":1.0"),
               ContainsSubstring("step is of another type; expected a whole number >= 0"));
    CHECK_THAT(said_of("\"step\":1", "\"step\":9223372036854775808"),
               ContainsSubstring("step is 9223372036854775808; expected < 2^63"));
    CHECK_THAT(said_of("\"step\":1", "\"steps\":1"), ContainsSubstring("step is missing"));
    CHECK_THAT(said_of("\"step\":1", "\"step\":" + std::string(100'000, '[')),
               ContainsSubstring("\"w\": its description: the document: more than 64 values inside one another"));
    CHECK_THAT(said_of("\"step\":1", "\"step\":1,\"step\":1"), ContainsSubstring("there twice"));
    CHECK_THAT(said_of("{", ""), ContainsSubstring(" is not JSON; expected a JSON document"));
    CHECK_THAT(refused(value, [&](auto&, auto& metadata) { metadata[of_w] = "[]"; }),
               ContainsSubstring("is no JSON object"));
    CHECK_THAT(refused(value, [&](auto&, auto& metadata) { metadata[of_w] = std::string(2'000'000, ' '); }),
               ContainsSubstring("its description has 2000000 bytes; expected at most "));
    CHECK_THAT(said_of("{", "{\"rows\":{},"), ContainsSubstring("initial is missing"));
    CHECK_THAT(refused(value,
                       [&](auto& entries, auto& metadata) {
                           metadata["gradstep.parameter.u"] = metadata[of_v];
                           metadata.erase(of_v);
                           entry(entries, "v").name = "u";
                       }),
               ContainsSubstring("\"v\" is missing"));
    CHECK_THAT(refused(value,
                       [&](auto& entries, auto& metadata) {
                           metadata["gradstep.parameter.u"] = metadata[of_v];
                           entries.push_back({"u", "BF16", {1}});
                       }),
               ContainsSubstring("\"u\" is not known here"));
    CHECK_THAT(refused(value,
                       [&](auto& entries, auto&) {
                           entries.push_back({"u", "BF16", {1}});
                       }),
               ContainsSubstring("tensor \"u\" is of no parameter"));
    CHECK_THAT(refused(value, [&](auto& entries, auto&) { entry(entries, "w/m").dtype = "I32"; }),
               ContainsSubstring("\"w\": the slot m is of I32; expected F32"));
    CHECK_THAT(refused(value,
                       [&](auto& entries, auto&) {
                           entry(entries, "w/m").shape = {1, 2, 3};
                       }),
               ContainsSubstring("tensor \"w/m\" has 3 dimensions"));
    CHECK_THAT(refused(std::type_identity<gs::size_error>(),
                       [&](auto& entries, auto&) {
                           entry(entries, "w").shape = {2, 3};
                       }),
               ContainsSubstring("\"w\": the values: has 2 x 3 elements; expected 6"));
    CHECK_THAT(
        refused(std::type_identity<gs::size_error>(), [&](auto& entries, auto&) { entry(entries, "w/v").shape = {7}; }),
        ContainsSubstring("\"w\": the slot v: has 7 elements; expected 6"));
    rewrite(in / "good", in / "same", [](auto&, auto& metadata) { metadata["note"] = "of the host's"; });
    net.load(in / "same");
    net.save(in / "after");
    CHECK(bytes_of(in / "after") == bytes_of(in / "good"));
    gs::parameter alone{adam, numbers<float>(6, 1)};
    CHECK_THAT(refusal<gs::value_error>([&] { alone.load(in / "good"); }),
               ContainsSubstring("\"v\" is not known here"));
}

TEST_CASE("What is trained is saved while averages are in place, and nothing is loaded then, or saved while messages "
          "are awaited",
          "[saved][checkpoint]") {
    folder const in;
    auto const said = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    trained_model model;
    model.train(1);
    model.net.save(in / "file");
    {
        auto const applied = model.net.apply_average();
        model.net.save(in / "averages");
        CHECK(bytes_of(in / "averages") == bytes_of(in / "file"));
        CHECK_THAT(said([&] { model.net.load(in / "file"); }), ContainsSubstring("load: the average is in the place"));
    }
    gs::compressed_model net;
    net.add("w", gs::parameter{adam, numbers<float>(3, 1)});
    static_cast<void>(net.compress({{"w", numbers<float>(3, 2)}}));
    CHECK_THAT(said([&] { net.save(in / "file"); }), ContainsSubstring("save: the messages of the last step"));
    CHECK_THAT(said([&] { net.load(in / "file"); }), ContainsSubstring("load: the messages of the last step"));
    auto const dgc = gs::make_updater<float>(gs::dgc_momentum{}, gs::constant{0.5}, gs::serial_backend{});
    gs::compressed_parameter half{dgc, numbers<float>(3, 1)};
    half.save(in / "half");
    auto const message = half.compress(numbers<float>(3, 2));
    CHECK_THAT(said([&] { half.save(in / "half"); }), ContainsSubstring("save: the messages of the last step"));
    CHECK_THAT(said([&] { half.load(in / "half"); }), ContainsSubstring("load: the messages of the last step"));
    half.apply(message);
    half.load(in / "half");
    CHECK(half.clock().step == 0);
    model.net.load(in / "file");
}

TEST_CASE("What samples goes on by the name that it was saved with", "[saved][checkpoint]") {
    folder const in;
    gs::dgc_momentum const dgc{.sparsity = {0.9}, .dense_below = 0, .selected = gs::selection::sampled};
    auto const optimizer = gs::make_updater<float>(dgc, gs::constant{0.5}, gs::serial_backend{});
    auto const initial = numbers<float>(5000, 1), gradient = numbers<float>(5000, 2);
    gs::compressed_parameter saved{optimizer, initial, {.id = 5}}, loaded{optimizer, initial};
    saved.save(in / "file");
    loaded.load(in / "file");
    CHECK(loaded.compress(gradient).encode() == saved.compress(gradient).encode());
}

TEST_CASE("A rule in rules is named by all of them", "[saved][checkpoint]") {
    folder const in;
    gs::averaged const twice{gs::averaged{gs::sgd{}, gs::ema{}}, gs::polyak{}};
    auto const optimizer = gs::make_updater<float>(twice, gs::constant{0.5}, gs::serial_backend{});
    gs::parameter{optimizer, numbers<float>(3, 1)}.save(in / "file");
    CHECK_THAT(gs::safetensors_reader(in / "file").metadata().find("gradstep.parameter.values")->second,
               ContainsSubstring("\"averaged{averaged{sgd, ema}, polyak}\""));
}

// What the metadata of a file has of a parameter, its policies: JSON in JSON.
static std::string policies_in(std::string const& file, std::string const& name) {
    gs::safetensors_reader const reader(file);
    return gs::detail::parse_json(reader.metadata().at("gradstep.parameter." + name))["policies"].text();
}

TEST_CASE("A checkpoint has the configuration of its optimizers, and the program's is what counts",
          "[saved][checkpoint]") {
    folder const in;
    std::string const rule = R"({"rule":{"name":"momentum","mu":0.5,"dampening":0.0,"rate_place":"outside"},)",
                      decay = R"("regularizer":{"name":"l2","rate":0.25},)",
                      schedule = R"("schedule":{"name":"constant","rate":0.125})";
    auto const optimizer =
        gs::make_updater<float>(gs::momentum{.mu = 0.5}, gs::l2{0.25}, gs::constant{0.125}, gs::serial_backend{});
    auto const by_function = gs::make_updater<float>(
        gs::momentum{.mu = 0.25}, [](gs::clock) { return 0.5; }, gs::serial_backend{});
    std::vector<float> const initial(3, 0.5f);
    gs::model net;
    net.add("decays", gs::parameter{optimizer, initial});
    net.add("does not", gs::parameter{optimizer, initial}, {.decay = false});
    net.save(in / "model");
    CHECK(policies_in(in / "model", "decays") == rule + decay + schedule + "}");
    CHECK(policies_in(in / "model", "does not") == rule + R"("regularizer":{"name":"none"},)" + schedule + "}");
    gs::parameter{by_function, initial}.save(in / "by_function");
    CHECK(
        policies_in(in / "by_function", "values") ==
        R"({"rule":{"name":"momentum","mu":0.25,"dampening":0.0,"rate_place":"outside"},"regularizer":{"name":"none"},"schedule":null})");

    // Older files have other texts there, and policies may differ from the policies of the saved
    // run.
    gs::parameter trained{optimizer, initial};
    trained.update(std::vector<float>(3, 1.0f));
    trained.save(in / "now");
    CHECK(policies_in(in / "now", "values") == rule + decay + schedule + "}");
    rewrite(in / "now", in / "before", [](auto&, auto& metadata) {
        std::string& text = metadata["gradstep.parameter.values"];
        text.erase(text.find("\"policies\":"));
        text += R"("policies":"momentum{mu = 0.5, dampening = 0}, l2{rate = 0.25}, ..."})";
    });
    gs::parameter resumed{by_function, initial};
    resumed.load(in / "before");
    CHECK(resumed.clock().step == 1);
    CHECK(std::ranges::equal(resumed.values(), trained.values()));
}

TEST_CASE("Names that meet in a file are refused when they are added", "[saved][checkpoint]") {
    folder const in;
    gs::model net;
    net.add("w", gs::parameter{adam, numbers<float>(3, 1)});
    CHECK_THAT(refusal<gs::value_error>([&] {
                   net.add("w/m", gs::parameter{adam, numbers<float>(3, 1)});
               }),
               ContainsSubstring("\"w/m\" is used in files by the slot m of \"w\""));
    CHECK(in.names().empty());
}

TEST_CASE("Memory of a device is saved and loaded in chunks", "[saved][checkpoint]") {
    // One whose bytes are to be had by its own functions alone.
    static std::size_t longest = 0;
    auto const copy = [](void const* backend, std::span<std::byte const> from, std::span<std::byte> to) {
        REQUIRE(backend == &longest);
        longest = std::max(longest, from.size());
        std::ranges::transform(from, to.begin(), [](std::byte x) { return ~x; });
    };
    folder const in;
    std::vector<float> values = numbers<float>(2'500'000, 1);
    auto const before = values;
    std::vector<double> history{1, 2, 3}; // of the host, like a table's history
    gs::detail::saved_state state;
    state.name = "w";
    state.element = "float";
    state.access = {&longest, copy, copy};
    std::span<std::byte> const bytes = std::as_writable_bytes(std::span(values));
    state.add("", "F32", 4, values.size()).chunks = {bytes.first(40), bytes.subspan(40)};
    auto& of_host = state.add("history", "F64", 8, history.size());
    of_host.chunks = {std::as_writable_bytes(std::span(history))};
    of_host.is_of_host = true;
    gs::detail::checkpoint_files::save(in / "file", std::span(&state, 1));
    CHECK(longest == std::size_t{1} << 22);
    gs::safetensors_reader const reader(in / "file");
    float second = 0;
    reader.read(*reader.find("w"), 4, std::as_writable_bytes(std::span(&second, 1)));
    CHECK(std::bit_cast<std::uint32_t>(second) == ~std::bit_cast<std::uint32_t>(before[1]));
    std::ranges::fill(values, 0.0f);
    history = {0, 0, 0};
    gs::detail::checkpoint_files(in / "file").read_into(std::span(&state, 1));
    CHECK(same_bits(values, before));
    CHECK(history == std::vector<double>{1, 2, 3});

    // Without memory for large chunks they are small, on the way out and on the way in.
    state.access.read = state.access.write = [](void const*, std::span<std::byte const> from, std::span<std::byte> to) {
        longest = std::max(longest, from.size());
        std::ranges::copy(from, to.begin());
    };
    std::vector<std::byte> saved(bytes.size());
    for (bool const fill : {false, true}) {
        longest = 0;
        auto at = saved.begin();
        auto const move = [&](std::span<std::byte> chunk) {
            if (fill) std::copy_n(at, chunk.size(), chunk.begin());
            else std::ranges::copy(chunk, at);
            at += static_cast<std::ptrdiff_t>(chunk.size());
        };
        allocations_until_failure = 0;
        gs::detail::each_chunk(state, state.tensors.front(), fill, move);
        allocations_until_failure = SIZE_MAX;
#if defined(COUNTS_ALLOCATIONS)
        CHECK(longest == std::size_t{1} << 15);
#endif
        if (!fill) std::ranges::fill(values, 0.0f);
    }
    CHECK(same_bits(values, before));
}

TEST_CASE("To save and to load takes no copy of the memory", "[saved][checkpoint]") {
#if !COUNTS_ALLOCATIONS
    SUCCEED("allocations are the sanitizer's");
#else
    folder const in;
    gs::model net;
    net.add("w", gs::parameter{adam, std::vector<float>(1'000'000, 1.0f)});
    bytes_allocated = 0;
    net.save(in / "file");
    net.load(in / "file");
    CHECK(bytes_allocated < 100'000); // of 12 MB
#endif
}

#if defined(REPLACES_FILE_CALLS)
TEST_CASE("A process that is killed at any call of a save leaves a checkpoint, the old one or the new one",
          "[saved][checkpoint]") {
    folder const in;
    trained_model model(5);
    model.train(2);
    model.net.save(in / "file");
    std::string const before = bytes_of(in / "file");
    model.train(1);
    std::string const after = model.state(in);
    std::size_t calls = 0, news = 0;
    for (bool died = true; died; ++calls) {
        REQUIRE(calls < 200);
        pid_t const child = fork();
        if (child == 0) {
            interrupted.by = interruption::half_death;
            interrupted.calls_before = calls;
            model.net.save(in / "file");
            _exit(0);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        REQUIRE(WIFEXITED(status));
        died = WEXITSTATUS(status) == status_of_death;
        trained_model resumed(5);
        resumed.net.load(in / "file");
        std::string const found = resumed.state(in);
        CHECK((found == before || found == after));
        news += found == after;
    }
    CHECK(calls > 20);
    CHECK(news > 0);
    CHECK(news < calls);
}
#endif
