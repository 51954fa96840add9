// The fourth program of the public contract: an embedding table.
#include <gradstep/gradstep.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace gs = gradstep;

int main() {
    // What the program takes as given.
    std::int64_t const num_rows = 1000;
    int const width = 16;
    std::uint64_t const seed = 1;
    std::vector<std::int64_t> const ids{42, 7, 42};
    std::vector<float> const gradient_rows(ids.size() * width, 1), bag_rows(2 * width, 1);
    std::vector<std::int32_t> const offsets{0, 1};

    gs::table embeddings{gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l2{1e-5}},
                                                 gs::exponential{.rate = 0.1, .decay = 0.5, .steps = 1000}),
                         num_rows,
                         width,
                         gs::exact{},
                         {.initial = gs::uniform{-0.05, 0.05, seed}, .duplicates = gs::duplicates::sum}};
    std::vector<float> const first = embeddings.row(42), absent = embeddings.row(8);
    embeddings.update(ids, gradient_rows);
    embeddings.update(ids, offsets, bag_rows);
    std::vector<float> row = embeddings.row(42);
    std::vector<float> out(width), several(ids.size() * width);
    embeddings.row(42, out);
    embeddings.rows(ids, several);
    embeddings.flush();

    bool const right = row[0] < first[0] - 0.1f && out == row && several[2 * width] == row[0] &&
                       embeddings.row(42) == row && embeddings.clock().step == 2 && embeddings.row(8) != absent;
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
