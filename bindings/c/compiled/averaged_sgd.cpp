#include "groups.hpp"

namespace gradstep::runtime {
template <class Element>
using averaged_sgd_of = compiled_list<Element, type_list<sgd>, type_list<any_regularizer>, type_list<polyak>>;

compiled_group const& float_averaged_sgd() { return averaged_sgd_of<float>::group; }
compiled_group const& double_averaged_sgd() { return averaged_sgd_of<double>::group; }
} // namespace gradstep::runtime
