#pragma once

#include <cstddef>
#include <cstdint>

/// A hash of the weights after 100 steps of AdamW on so many threads.
std::uint64_t hash_of_training(std::size_t threads);

/// The hash on every machine with a fused multiply-add, by every instruction set, compiler and
/// number of threads.
inline constexpr std::uint64_t known_hash = 0x4a22372f05306e6c;

/// The instruction set that the program was compiled for, such as "fma3+avx2".
char const* instruction_set();
/// Whether it has a fused multiply-add.
bool fuses_multiply_add();
