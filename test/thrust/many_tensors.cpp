// Many tensors on Thrust: launches that they share, by blocks as on a CPU and by threads as on a
// GPU; the memory that a backend keeps for its calls. As test/cuda/thrust_many.cu for CUDA.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <support/catch.hpp>
#include <thrust/runs.hpp>

namespace {

// Sizes around the bounds of groups and blocks, and more small tensors than one launch takes.
std::vector<std::size_t> many_sizes() {
    std::vector<std::size_t> out = {0, 1, 3, 4, 5, 4095, 4096, 4097, 10001, 0, 8192, 2};
    for (std::size_t k = 0; k < 1000; ++k) out.push_back(k % 9);
    out.push_back(4099);
    return out;
}

// Tensors of one updater in the memory of its backend; some misaligned, without decay, at a rate of
// their own.
template <class Updater, template <class...> class Vector> struct many {
    std::vector<std::unique_ptr<tensor<Updater, Vector>>> all;

    explicit many(Updater const& optimizer) {
        std::size_t k = 0;
        for (std::size_t const n : many_sizes())
            all.push_back(std::make_unique<tensor<Updater, Vector>>(optimizer, n, k++ % 3 == 1 ? 1 : 0));
    }
    void set_gradients(std::uint32_t t) {
        for (auto const& one : all) one->set_gradient(t);
    }
    std::vector<gs::slice<Updater>> slices() {
        std::vector<gs::slice<Updater>> out;
        for (std::size_t k = 0; k < all.size(); ++k) {
            out.push_back(all[k]->slice());
            out.back().decay = k % 2 == 0;
            if (k % 5 == 0) out.back().rate_scale = 0.5;
        }
        return out;
    }
};

template <class Backend, class... Policies> bool many_train_alike(Policies... policies) {
    auto here = gs::make_updater<float>(policies..., gs::serial_backend{});
    auto there = gs::make_updater<float>(policies..., Backend{});
    many<decltype(here), host_vector> on_host(here);
    many<decltype(there), device_vector> on_device(there);
    for (std::uint32_t t = 1; t <= 3; ++t) {
        on_host.set_gradients(t);
        on_device.set_gradients(t);
        gs::step_options const options{.gradient_scale = t == 2 ? 0.5 : 1.0, .zero_gradient = t == 3};
        here.next_step(options)(on_host.slices());
        there.next_step(options)(on_device.slices());
    }
    bool same = true;
    for (std::size_t k = 0; k < on_host.all.size(); ++k)
        same = same && same_tensors(*on_device.all[k], *on_host.all[k]);
    return same;
}

// A backend that counts its launches.
struct counted {
    std::size_t mutable launches = 0;
    template <class Work> void launch(Work const& work) const {
        ++launches;
        for (std::size_t i = 0; i < work.count(); ++i) work(i);
    }
    template <class Work> void launch(gs::detail::work_table<Work> const& table) const {
        ++launches;
        for (std::size_t lot = 0; lot < table.lots(); ++lot)
            for (std::size_t i = 0; i < Work::lot; ++i) table(lot, i);
    }
};
// Work on a tensor of n elements of a type of its own, which adds 1 to each.
template <int> struct add_one {
    static constexpr std::size_t lot = 4;
    std::size_t n;
    int* at;
    std::size_t count() const { return n; }
    void operator()(std::size_t i) const { ++at[i]; }
};

} // namespace

TEMPLATE_TEST_CASE("many tensors on Thrust have the bits of the serial backend", "", gs::thrust_backend<>,
                   device_backend) {
    CHECK(many_train_alike<TestType>(gs::momentum{}, gs::l2{0.1}, falling));
    CHECK(many_train_alike<TestType>(gs::lars{}, falling)); // row-wise, one memory for all
}

TEST_CASE("tensors of one type share a launch, of which each has all of its indices once") {
    std::vector<int> elements(12'000);
    gs::detail::waiting_work<counted> waiting;
    counted const on;
    auto const add_all = [&](std::size_t count, std::size_t length) {
        for (std::size_t k = 0, first = 0; k < count; ++k, first += 1 + (length > 1)) {
            add_one<0> one{length, elements.data() + first};
            add_one<1> other{k % 2, elements.data() + first};
            waiting.add(on, one);
            waiting.add(on, other);
        }
        waiting.launch_all(on);
    };
    constexpr std::size_t capacity = gs::detail::work_table<add_one<0>>::capacity;
    static_assert(capacity > 1000);
    add_all(capacity, 1);
    CHECK(on.launches == 2); // one for each type
    for (std::size_t i = 0; i < elements.size(); ++i) REQUIRE(elements[i] == (i < capacity ? 1 + int(i % 2) : 0));

    elements.assign(elements.size(), 0);
    add_all(capacity + 1, 1);
    CHECK(on.launches == 5); // and one for the rest
    for (std::size_t i = 0; i < elements.size(); ++i) REQUIRE(elements[i] == (i <= capacity ? 1 + int(i % 2) : 0));
    waiting.launch_all(on);
    CHECK(on.launches == 5);

    // What is added and taken back is not launched.
    add_one<0> one{1, elements.data()};
    waiting.add(on, one);
    waiting.clear();
    waiting.launch_all(on);
    CHECK(on.launches == 5);
}

TEST_CASE("work of more types than wait together is launched at once") {
    std::vector<int> elements(20);
    gs::detail::waiting_work<counted> waiting;
    counted const on;
    [&]<int... I>(std::integer_sequence<int, I...>) {
        auto const add = [&](auto work) { waiting.add(on, work); };
        (add(add_one<I>{1, &elements[std::size_t(I)]}), ...);
    }
    (std::make_integer_sequence<int, 20>{});
    CHECK(on.launches == 4);
    waiting.launch_all(on);
    CHECK(on.launches == 20);
    CHECK(elements == std::vector<int>(20, 1));
}

TEMPLATE_TEST_CASE("threads share a Thrust backend", "", gs::thrust_backend<>, device_backend) {
    auto const train = [](auto const& optimizer, auto& on) {
        for (std::uint32_t t = 1; t <= 3; ++t) {
            on.set_gradients(t);
            auto stepping = optimizer;
            stepping.seek({.step = t - 1});
            stepping.next_step()(on.slices());
        }
    };
    auto const here = gs::make_updater<float>(gs::lars{}, falling, gs::serial_backend{});
    auto const there = gs::make_updater<float>(gs::lars{}, falling, TestType{});
    many<std::remove_const_t<decltype(here)>, host_vector> expected(here);
    train(here, expected);
    using subject = many<std::remove_const_t<decltype(there)>, device_vector>;
    std::vector<std::unique_ptr<subject>> each;
    for (int p = 0; p < 3; ++p) each.push_back(std::make_unique<subject>(there));
    std::vector<std::thread> threads;
    for (auto const& one : each) threads.emplace_back([&, at = one.get()] { train(there, *at); });
    for (auto& one : threads) one.join();
    for (auto const& one : each)
        for (std::size_t k = 0; k < expected.all.size(); ++k) REQUIRE(same_tensors(*one->all[k], *expected.all[k]));
}

// Rules of two kinds, and one that is row-wise, on two backends beside the host's.
TEST_CASE("parameters of a model on Thrust have the bits of the host's") {
    auto const trained = [](auto const& some_backend, auto const& other_backend) {
        auto const momentum = gs::make_updater<float>(gs::momentum{}, gs::l2{0.1}, falling, some_backend);
        auto const sgd = gs::make_updater<float>(gs::sgd{}, falling, other_backend);
        auto const lars = gs::make_updater<float>(gs::lars{}, falling, some_backend);
        gs::model net;
        std::vector<device_vector<float>> gradients;
        std::vector<std::string> names;
        std::uint32_t stream = 0;
        for (std::size_t const n : {0u, 1u, 5u, 4097u, 300u, 7u, 4096u, 2u, 33u}) {
            auto const w = numbers<float>(n, ++stream), g = numbers<float>(n, ++stream);
            gradients.emplace_back(g.begin(), g.end());
            names.push_back("w" + std::to_string(stream));
            gs::tensor_options const own{.rate_scale = n % 2 == 0 ? 0.5 : 1, .decay = n % 3 != 0};
            if (stream % 3 == 0) net.add(names.back(), gs::parameter{lars, w}, own);
            else if (stream % 3 == 1) net.add(names.back(), gs::parameter{sgd, w}, own);
            else net.add(names.back(), gs::parameter{momentum, w}, own);
        }
        std::vector<gs::named_gradient> given;
        for (std::size_t k = 0; k < names.size(); ++k) given.push_back({names[k], gradients[k]});
        for (int t = 0; t < 3; ++t) net.update(given);
        std::vector<float> all;
        auto const copy = [&](auto const& parameter) {
            std::vector<float> out(parameter.size());
            parameter.copy_to(out);
            all.insert(all.end(), out.begin(), out.end());
        };
        for (std::size_t k = 0; k < names.size(); ++k) {
            std::size_t const which = 2 * (k + 1) % 3;
            if (which == 0) copy(net.get<decltype(lars)>(names[k]));
            else if (which == 1) copy(net.get<decltype(sgd)>(names[k]));
            else copy(net.get<decltype(momentum)>(names[k]));
        }
        return all;
    };
    auto const both = trained(gs::thrust_backend{}, gs::thrust_backend{});
    CHECK(trained(gs::thrust_backend{}, device_backend{}) == both);
#if !defined(__CUDACC__) // where gradients of Thrust's vectors are in the host's memory
    CHECK(trained(gs::serial_backend{}, gs::thrust_backend{}) == both);
#endif
}
