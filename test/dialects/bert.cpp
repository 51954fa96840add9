// Every function of gradstep::dialects::bert against pytorch-pretrained-bert and a loop after BERT's
// source.
#include <gradstep/dialects/bert.hpp>

#include "golden.hpp"

namespace bert = gradstep::dialects::bert;

TEST_CASE("the dialect bert gives the numbers of BERT's optimizers", "[dialects]") {
    golden::system system("bert", golden::scalars_in_element::none);
    system.follow<gs::decoupled>("adam_weight_decay", bert::adam_weight_decay);
    system.follow<gs::decoupled>("bert_adam", bert::bert_adam);
    CHECK(system.left() == std::set<std::string>{});
}
