// Every function of gradstep::dialects::fbgemm against FBGEMM's own numbers, or against a loop
// after its source.
#include <gradstep/dialects/fbgemm.hpp>

#include "golden.hpp"

namespace fbgemm = gradstep::dialects::fbgemm;

TEST_CASE("the dialect fbgemm gives FBGEMM's numbers", "[dialects]") {
    golden::system system("fbgemm", golden::scalars_in_element::all);
    system.follow("exact_sgd", fbgemm::exact_sgd);
    system.follow("exact_adagrad", fbgemm::exact_adagrad);
    system.follow("exact_rowwise_adagrad", fbgemm::exact_rowwise_adagrad);
    system.follow("exact_rowwise_adagrad_cowclip", fbgemm::exact_rowwise_adagrad_cowclip);
    system.follow("rowwise_rmsprop_ar", fbgemm::rowwise_rmsprop_ar);
    // FBGEMM computes these on GPUs only.
    system.follow<gs::decoupled>("adam", fbgemm::adam);
    system.follow<gs::decoupled>("partial_rowwise_adam", fbgemm::partial_rowwise_adam);
    system.follow("lamb", fbgemm::lamb);
    system.follow("lars_sgd", fbgemm::lars_sgd);
    CHECK(system.left() == std::set<std::string>{});
}
