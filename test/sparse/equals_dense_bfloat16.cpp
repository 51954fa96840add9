#include <sparse/equals_dense.hpp>

TEMPLATE_LIST_TEST_CASE("rows of bfloat16 equal tensors of their own", "", all_rules_of_rows) {
    auto const all = rules_of_rows();
    for (auto const& rule : std::get<TestType>(all).settings) {
        check_that_rows_equal_tensors<gs::bfloat16>(rule);
        check_that_rows_equal_tensors<gs::mixed<gs::bfloat16>>(rule);
    }
}
