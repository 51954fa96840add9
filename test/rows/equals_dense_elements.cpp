#include <rows/equals_dense.hpp>

// What an element changes does not ask for the rule: one of each shape, with state, with what runs
// after the rule, and two that are row-wise, with a state of the row and without.
TEMPLATE_TEST_CASE("rows of every element equal tensors of their own", "", gs::ftrl, (gs::averaged<gs::adam, gs::ema>),
                   gs::rowwise_adam, gs::lamb) {
    TestType const rule{};
    check_that_rows_equal_tensors<double>(rule);
    check_that_rows_equal_tensors<gs::bfloat16>(rule);
    check_that_rows_equal_tensors<gs::mixed<gs::bfloat16>>(rule);
}
