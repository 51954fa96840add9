#pragma once
/// Tables of rows named by 64-bit keys. Striped ones are in gradstep/keyed/striped.hpp.
#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/keyed/table.hpp>
