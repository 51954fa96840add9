// A container that is no range: specialising gradstep::buffer_traits is all it needs.
#include <gradstep/gradstep.hpp>

#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace foreign {

// As in many frameworks: a handle without iterators, whose names would be ambiguous were they
// called unqualified.
template <class T> struct blob {
    std::vector<T> memory;
    int rows = 1;

    std::size_t count() const { return memory.size(); }
};
template <class T> void data(blob<T> const&) {}
template <class T> void size(blob<T> const&) {}
template <class... T> void describe(T const&...) {}
template <class... T> void step(T const&...) {}

} // namespace foreign

template <class T> struct gradstep::buffer_traits<foreign::blob<T>> {
    using memory_space = host_memory;
    static T* data(foreign::blob<T>& b) { return b.memory.data(); }
    static T const* data(foreign::blob<T> const& b) { return b.memory.data(); }
    static std::size_t size(foreign::blob<T> const& b) { return b.count(); }
    template <class W> static void require_layout(foreign::blob<T> const& b, W const& weight) {
        if constexpr (requires { weight.rows; })
            if (b.rows != weight.rows) throw buffer_error("blobs of different shapes");
    }
};

TEST_CASE("a container of the user's own is a buffer wherever one is taken", "[core]") {
    using blob = foreign::blob<float>;
    blob w{numbers<float>(20, 1)}, m{std::vector<float>(20)};
    blob const g{numbers<float>(20, 2)};
    std::vector<float> w2 = w.memory, m2(20);
    auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{0.5});

    optimizer.initialize(w, m);
    auto const step = optimizer.next_step();
    step(w, g, m);
    step(w2, g, m2); // foreign and std containers mix
    CHECK(same_bits(w.memory, w2));
    CHECK(same_bits(m.memory, m2));

    std::vector<gs::slice<decltype(optimizer)>> const model = {{w, g, m}};
    step(model);
    step(w2, g.memory, m2);
    CHECK(same_bits(w.memory, w2));

    gs::parameter weights{optimizer, g};
    weights.update(g);
    blob out{std::vector<float>(20)};
    weights.copy_to(out);
    CHECK(out.memory[3] == weights.values()[3]);
    CHECK(gs::global_norm(gs::serial_backend{}, g) == gs::global_norm(gs::serial_backend{}, g.memory));
}

TEST_CASE("require_layout of a container is asked before anything is written", "[core]") {
    using blob = foreign::blob<float>;
    blob w{numbers<float>(20, 1)}, g{numbers<float>(20, 2)}, m{std::vector<float>(20)};
    auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{0.5});
    auto const step = optimizer.next_step();
    g.rows = 2;
    CHECK(refusal<gs::buffer_error>([&] { step(w, g, m); }) == "blobs of different shapes");
    g.rows = 1, m.rows = 4;
    CHECK(refusal<gs::buffer_error>([&] { step(w, g, m); }) == "blobs of different shapes");
    CHECK(refusal<gs::buffer_error>([&] { gs::slice<decltype(optimizer)>(w, g, m); }) == "blobs of different shapes");
    CHECK(refusal<gs::buffer_error>([&] { optimizer.initialize(w, m); }) == "blobs of different shapes");
    CHECK(same_bits(w.memory, numbers<float>(20, 1)));
}
