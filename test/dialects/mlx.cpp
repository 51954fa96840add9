// Every function of gradstep::dialects::mlx against mlx's own numbers.
#include <gradstep/dialects/mlx.hpp>

#include "golden.hpp"

namespace mlx = gradstep::dialects::mlx;

TEST_CASE("the dialect mlx gives mlx's numbers", "[dialects]") {
    // Betas are Python's, in double; their powers are computed in float.
    golden::system system("mlx", golden::scalars_in_element::powers);
    system.follow<gs::l2>("sgd", mlx::sgd);
    system.follow<gs::l2>("sgd_momentum", mlx::sgd_momentum);
    system.follow<gs::l2>("sgd_nesterov", mlx::sgd_nesterov);
    system.follow("rmsprop", mlx::rmsprop);
    system.follow("adagrad", mlx::adagrad);
    system.follow("adadelta", mlx::adadelta);
    system.follow("adam", mlx::adam);
    system.follow<gs::decoupled>("adamw", mlx::adamw);
    system.follow("adamax", mlx::adamax);
    system.follow<gs::decoupled>("lion", mlx::lion);
    CHECK(system.left() == std::set<std::string>{});
}
