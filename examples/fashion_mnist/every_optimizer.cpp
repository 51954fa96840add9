// The demo with every optimizer that it knows: ./dev demo --optimizers NAME,... builds it when a
// name is not one of the six.

#include <utility>

#include "contender.hpp"

int main(int argc, char** argv) {
    std::vector<contender> all = default_optimizers();
    for (auto* const more : {more_optimizers, recipes, your_rules})
        for (contender& one : more()) all.push_back(std::move(one));
    return compare(argc, argv, all);
}
