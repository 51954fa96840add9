#include <sparse/equals_dense.hpp>

// Every rule, with the numbers that registry.hpp has for it.
TEMPLATE_LIST_TEST_CASE("rows of float equal tensors of their own", "", all_rules_of_rows) {
    auto const all = rules_of_rows();
    for (auto const& rule : std::get<TestType>(all).settings) check_that_rows_equal_tensors<float>(rule);
}
