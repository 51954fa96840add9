#include <rows/equals_dense.hpp>

// A table runs the kernels of a dense step, whose properties every rule has in test/properties.
// Here are rules that differ in what a table does besides: no state, state with initial numbers,
// from the weight or in several slots, steps that are counted in each row, what runs after the
// rule, and sums over a row.
TEMPLATE_TEST_CASE("rows of float equal tensors of their own", "", gs::sgd, gs::momentum, gs::adagrad, gs::adam,
                   gs::adadelta, gs::cocob, gs::ftrl, gs::lion, gs::proximal_adagrad, gs::rprop, gs::yogi,
                   (gs::averaged<gs::adam, gs::ema>), gs::rowwise_adagrad, gs::rowwise_adam, gs::group_ftrl,
                   gs::novograd, gs::lars, gs::lamb) {
    check_that_rows_equal_tensors<float>(TestType{});
}
