// options: -std=c++17
// expected-error: gradstep needs C\+\+20: compile with -std=c\+\+20 or a later standard
// expected-error: fatal error: '?gradstep/needs_cxx20
// expected-errors: 2
#include <gradstep/gradstep.hpp>
