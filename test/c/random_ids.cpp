// Parameters and tensors of C with the same configuration draw different random numbers.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "c/handles.hpp"
#include "support/numbers.hpp"

namespace {

std::string const noisy = R"({"rule": {"name": "sgld"}, "schedule": {"name": "constant", "rate": 0.125}})";
std::vector<float> const zeros(16);

} // namespace

TEST_CASE("Parameters of one configuration draw different numbers in C, by their names if they have any", "[c]") {
    c_parameter const a = make(noisy, zeros), b = make(noisy, zeros), c = make(noisy, zeros), d = make(noisy, zeros);
    auto const together = [](gradstep_parameter* first, gradstep_parameter* second) {
        gradstep_parameter* const both[] = {first, second};
        void const* const gradients[] = {zeros.data(), zeros.data()};
        std::uint64_t const counts[] = {zeros.size(), zeros.size()};
        ok([&](gradstep_error* e) { return gradstep_parameters_update(both, gradients, counts, 2, nullptr, e); });
    };
    together(a, b);
    CHECK(!same_bits(values<float>(a), values<float>(b)));
    gradstep_parameter* const named[] = {c, d};
    char const* const names[] = {"c", "d"};
    ok([&](gradstep_error* e) { return gradstep_parameters_set_names(named, names, 2, e); });
    update(c, zeros), update(d, zeros); // one by one
    std::set<std::vector<float>> const all{values<float>(a), values<float>(b), values<float>(c), values<float>(d)};
    CHECK(all.size() == 4);
    char const* const twice[] = {"c", "c"};
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return gradstep_parameters_set_names(named, twice, 2, e); });
}

TEST_CASE("Tensors of a C updater are counted in a step, or have the ids that the call gives", "[c]") {
    gradstep_updater* u = nullptr;
    ok([&](gradstep_error* e) { return gradstep_updater_create(noisy.data(), noisy.size(), GRADSTEP_FLOAT32, &u, e); });
    std::vector<std::vector<float>> w(6, zeros);
    void* const tensors[] = {w[2].data(), w[3].data()};
    void* const by_ids[] = {w[4].data(), w[5].data()};
    void const* const gradients[] = {zeros.data(), zeros.data()};
    std::uint64_t const counts[] = {zeros.size(), zeros.size()}, ids[] = {3, 0};
    ok([&](gradstep_error* e) { return gradstep_updater_next_step(u, nullptr, e); });
    void const* const missing[] = {zeros.data(), nullptr}; // a call that is refused counts no tensor
    refused(GRADSTEP_NULL_ARGUMENT,
            [&](gradstep_error* e) { return gradstep_updater_apply_many(u, tensors, missing, nullptr, counts, 2, e); });
    for (std::size_t const k : {0u, 1u})
        ok([&](gradstep_error* e) {
            return gradstep_updater_apply(u, w[k].data(), zeros.data(), nullptr, zeros.size(), e);
        });
    ok([&](gradstep_error* e) { return gradstep_updater_apply_many(u, tensors, gradients, nullptr, counts, 2, e); });
    ok([&](gradstep_error* e) {
        gradstep_tensor_options options = GRADSTEP_TENSOR_OPTIONS_INIT;
        options.ids = ids;
        return gradstep_updater_apply_with(u, by_ids, gradients, nullptr, counts, nullptr, 2, &options, e);
    });
    CHECK(std::set<std::vector<float>>(w.begin(), w.end()).size() == 4);
    CHECK(same_bits(w[4], w[3]));
    CHECK(same_bits(w[5], w[0]));
    gradstep_updater_release(u);
}
