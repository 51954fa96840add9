// The combinations of policies that the library was compiled with are there.
#include <gradstep/runtime/compiled_updater.hpp>

int main() { return gradstep::runtime::compiled_groups().empty() ? 1 : 0; }
