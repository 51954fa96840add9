// Tables on the Thrust backend against tables on the serial one, in every form of catch-up.
// Compiled for Thrust's OMP system, and as test/cuda/thrust_table_forms.cu for CUDA: a table has
// one set of kernels, which know no system.
#include <cstdint>

#include <thrust/tables.hpp>

TEST_CASE("a table on Thrust has the bits of the CPU's: forms of catch-up and rules") {
    same_bits<double, std::int64_t>(gs::momentum{}, gs::l2{0.01}, gs::exact{});
    same_bits<float, std::uint64_t>(gs::averaged{gs::adam{}, gs::ema{0.9}}, gs::decoupled{0.01}, gs::replay{10});
    same_bits<float, std::int64_t>(gs::averaged{gs::rmsprop{}, gs::window{.rate = 0.5, .min = 3, .max = 9}},
                                   gs::decoupled{0.1}, gs::exact{});
    same_bits<gs::mixed<gs::bfloat16>, std::int64_t>(gs::rowwise_adagrad{}, gs::decoupled{0.1}, gs::exact{});
    same_bits<gs::bfloat16, std::int32_t>(gs::rowwise_adam{}, gs::none{}, gs::replay{5});
    same_bits<float, std::int64_t>(gs::lamb{.decay = 0.01}, gs::none{}, gs::touch_only{});
}
