#pragma once
/// Written by test/golden/noisy_sgd.py with optax 0.2.8: noisy_sgd without gradient, learning rate
/// 0.5.
// clang-format off

namespace golden {

struct noise_of_optax {
    double eta, gamma;
    double measured[4]; // in steps 1 to 4: the standard deviation of the change of 1000000 weights
    double exact[4];    // the change relative to the one of eta = 1, gamma = 0 with the same key, times the rate
};
constexpr noise_of_optax noisy_sgd[3] = {
    {0.01, 0.55, {0.050032082867899313, 0.041348121239415565, 0.036917682000364618, 0.034130064637811791}, {0.050000000000000003, 0.041322515907710584, 0.036962527384263026, 0.034151006418859889}},
    {0.3, 0.25, {0.27403700385716212, 0.25128751277063949, 0.23843128542865999, 0.23014775179610825}, {0.27386127875258304, 0.25113189989332019, 0.23872091744099308, 0.23028896757984535}},
    {4.0, 2.0, {1.0006416573579862, 0.50030982300015536, 0.3329289112778806, 0.24984669718959923}, {1, 0.5, 0.33333333333333331, 0.25}},
};

} // namespace golden
