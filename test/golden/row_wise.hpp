#pragma once
/// Written by test/golden/row_wise.py with optax 0.2.8.
// clang-format off
#include <array>
#include <cstddef>
#include <vector>

namespace golden {

inline constexpr double rate = 0.125;
inline constexpr std::size_t steps = 3, size = 37;

inline std::vector<double> sequence(std::size_t seed) {
    std::vector<double> out(size);
    for (std::size_t i = 0; i < size; ++i)
        out[i] = (static_cast<double>((i * i * 7 + i * 13 * seed + 5 * seed) % 257) - 128) / 64;
    return out;
}

/// lars(rate, weight_decay=0.25, momentum=0.5, trust_coefficient=0.0625, eps=0.5)
inline constexpr std::array<double, size> lars{-0x1.d9ef1c0e89f5cp+0, -0x1.90193445a27d6p+0, -0x1.1073be8027c06p+0, -0x1.6bfaeaf866fc1p-2, 0x1.473f5f7c5438fp-1, 0x1.d1808119ea409p+0, -0x1.9611a1880e17ap-1, 0x1.b28f2ef78dbbfp-1, -0x1.4cd2237e1ca8bp+0, 0x1.81ac874557cc8p-1, -0x1.022db930cc705p+0, 0x1.81ea44d409e46p+0, 0x1.a857c410be658p-3, -0x1.c801f911d6c70p-1, -0x1.ba70b1f6cfb59p+0, 0x1.a0e5840053b12p+0, 0x1.3614ea8b95e83p+0, 0x1.0113df136b63cp+0, 0x1.01e26197d423cp+0, 0x1.38807218d0283p+0, 0x1.ad776e691aca2p+0, -0x1.94a495f9c4462p+0, -0x1.792fb7061ce85p-1, 0x1.67372b0bd7ed0p-2, 0x1.b516cdbe452cap+0, -0x1.89b59ad6089e4p-1, 0x1.020d5189716b5p+0, -0x1.0174b2bbca4adp+0, 0x1.2ecb6b19a614dp+0, -0x1.c6836c14a9c4bp-2, -0x1.c6e783b420c01p+0, 0x1.0ac74417096d0p+0, 0x1.08fdbb09cd392p-3, -0x1.25708eb005b48p-1, -0x1.1d8d69b537b0dp+0, -0x1.65c64c754da94p+0, -0x1.782fa138d05d2p+0};
/// lamb(rate, b1=0.75, b2=0.875, eps=0.001, weight_decay=0.25)
inline constexpr std::array<double, size> lamb{-0x1.19fff3383ad11p+0, -0x1.b14280ff0c5c2p-1, -0x1.4a68b8c8a3f18p-1, -0x1.a077629ab3f7dp-1, 0x1.0e752320a1d38p-1, 0x1.c43534b0eee9ep+0, -0x1.093a3299d42b7p+0, 0x1.ef1ebc9c9425ep-1, -0x1.06ab6e99b86d8p+0, 0x1.f551186f196e3p-1, -0x1.203ac4fe804ffp+0, 0x1.ae8b634783f06p+0, 0x1.330e0ad985aecp-2, -0x1.1a23c516d58aap+0, -0x1.b8ddc3d0d80fep+0, 0x1.4b0ccbc70b28fp+0, 0x1.ed913ead67802p-1, 0x1.489a222c00a50p-1, 0x1.86e099480e036p-2, 0x1.134ee568ae8e7p-1, 0x1.22041bf12e408p+0, -0x1.bb33d956b7457p-1, -0x1.7c420bf816076p-1, -0x1.de85e04ab15b6p-6, 0x1.d3f74e9f0587ep+0, -0x1.e93580df92b37p-1, 0x1.26bfe8e111650p+0, -0x1.8cbfa837a053dp-1, 0x1.4fc39fdd04888p+0, -0x1.6d0b2bec3c7b6p-1, -0x1.8a8d0629de778p+0, 0x1.af72355338f7fp-1, 0x1.d244df2b224c2p-3, -0x1.20a85c7aafe6ap-2, -0x1.5f9df7ef50ee2p+0, -0x1.a85941de6f56cp+0, -0x1.c1a9a12ed89f6p+0};
/// adaptive_grad_clip(0.25, eps=0.5), sgd(rate, momentum=0.5); and with a norm for each row of 9 x
/// 4 elements
inline constexpr std::array<double, size> agc{-0x1.ac5b79a1490c6p+0, -0x1.755bfa9949229p+0, -0x1.0e357920266ddp+0, -0x1.db9fd4d783b87p-2, 0x1.53f7d9d6d41c2p-1, 0x1.d8376d1e5ce4fp+0, -0x1.b9c233183a15dp-1, 0x1.c7e5b26e4bc75p-1, -0x1.3e8d3ae303f48p+0, 0x1.aede7a58a47b9p-1, -0x1.11e7c0236a344p+0, 0x1.96ad2a7c3c15cp+0, 0x1.c8f54ef7d546ap-3, -0x1.f13cbc0b02717p-1, -0x1.c3946c12728dfp+0, 0x1.a59c8851bee7bp+0, 0x1.3af47f2713285p+0, 0x1.0073786d8a33dp+0, 0x1.ec32e84a48148p-1, 0x1.1be6724de0abap+0, 0x1.98ff60ff9847ap+0, -0x1.7bfb36e0f33e0p+0, -0x1.8b7262c99c77bp-1, 0x1.1f5312814703ap-2, 0x1.c74f34132e9c2p+0, -0x1.9da9a20ad7a2ap-1, 0x1.10f3a34fb69fcp+0, -0x1.e52fde71276bfp-1, 0x1.42590a68a1fecp+0, -0x1.1012e2aa75e19p-1, -0x1.c4800523b5245p+0, 0x1.00e5fbd0e8f12p+0, 0x1.25eb6725a29b5p-3, -0x1.0e883f2cbafecp-1, -0x1.39bea106b448ap+0, -0x1.8572289f80859p+0, -0x1.a0feadc729f7ap+0};
inline constexpr std::array<double, 36> agc_of_rows{-0x1.a8277e7b8a511p+0, -0x1.71d8b19f4e945p+0, -0x1.0bdd6cd525ba2p+0, -0x1.d8d6c0743f092p-2, 0x1.534e8ce955034p-1, 0x1.d7867416fe0c3p+0, -0x1.b562a0ca5bcf4p-1, 0x1.c4e678079871bp-1, -0x1.453a10b208e19p+0, 0x1.bc54af6a0e2bap-1, -0x1.183c2f5aaa3e5p+0, 0x1.930e29e6c8a2cp+0, 0x1.679fde75fc93fp-3, -0x1.f7ae40917f966p-1, -0x1.c166dced1e8c1p+0, 0x1.aa466eb8b6f47p+0, 0x1.3af3c09e71869p+0, 0x1.fb3f6cd50f83dp-1, 0x1.d905794ff58dfp-1, 0x1.079cd356ca95cp+0, 0x1.981eb14178746p+0, -0x1.7f9682ff8805dp+0, -0x1.853c920b516a8p-1, 0x1.209a4207e50a9p-2, 0x1.c7b29a7e0308dp+0, -0x1.98481bbfc96fcp-1, 0x1.1130156b4aaebp+0, -0x1.e966d4c4116bap-1, 0x1.449491e413f0ap+0, -0x1.17c6d67e41845p-1, -0x1.c5abc65fd82b8p+0, 0x1.03ce2a0c54a86p+0, 0x1.17930ab5948e7p-3, -0x1.1434bc7fe1336p-1, -0x1.28941611323e4p+0, -0x1.7be9fc0d27ed6p+0};

} // namespace golden
// clang-format on
