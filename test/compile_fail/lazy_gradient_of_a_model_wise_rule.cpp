// A gradient that can be read once, under a rule that reads it twice.
// expected-error: gradstep: model-wise rule: it reads the gradient twice
#include <gradstep/gradstep.hpp>

#include <cstddef>
#include <vector>

namespace gs = gradstep;

struct ones {
    std::size_t size;
};
struct ones_reader {
    template <class V> V load(std::size_t, gs::all_lanes) const { return V(1); }
};
template <> struct gs::buffer_traits<ones> {
    using memory_space = gs::host_memory;
    static std::size_t size(ones const& x) { return x.size; }
    template <class W> static ones_reader reader(ones const&, W const&) { return {}; }
};

void elementwise(std::vector<float>& w) { gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step()(w, ones{3}); }

void update(std::vector<float>& w, std::vector<float>& x0) {
    gs::make_updater<float>(gs::dog{}, gs::constant{1}).next_step()(w, ones{3}, x0);
}
