#include <gradstep/rules/rowwise_adagrad.hpp>

#include "optimizer_of.hpp"

std::unique_ptr<optimizer> make_rowwise_adagrad(settings const& given) {
    return optimizer_with(gs::rowwise_adagrad{.epsilon = given.epsilon});
}
