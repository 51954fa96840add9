// Philox 4x32-10: Random123's known answers, at run time and at compile time.
#include <gradstep/number/random.hpp>

#include <cstdint>
#include <set>
#include <vector>

#include "support/catch.hpp"

namespace gs = gradstep;

namespace {

constexpr bool equal(gs::philox_words const& a, gs::philox_words const& b) {
    return a.word[0] == b.word[0] && a.word[1] == b.word[1] && a.word[2] == b.word[2] && a.word[3] == b.word[3];
}

struct known_answer {
    gs::philox_words counter;
    std::uint64_t key;
    gs::philox_words output;
};

// kat_vectors of Random123, philox4x32 with 10 rounds; the first word of a key is its low half.
constexpr known_answer known_answers[] = {
    {{{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
    {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
     0xffffffffffffffff,
     {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
    {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
     0x299f31d0a4093822,
     {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
};
static_assert(equal(gs::philox4x32(known_answers[2].counter, known_answers[2].key), known_answers[2].output));

} // namespace

TEST_CASE("philox has its authors' bits", "[core]") {
    for (known_answer const& known : known_answers)
        CHECK(equal(gs::philox4x32(known.counter, known.key), known.output));
}

TEST_CASE("every bit of counter and key matters to philox", "[core]") {
    std::set<std::vector<std::uint32_t>> outputs;
    auto const add = [&](gs::philox_words const& counter, std::uint64_t key) {
        auto const [word] = gs::philox4x32(counter, key);
        outputs.insert({word, word + 4});
    };
    add({{0, 0, 0, 0}}, 0);
    for (unsigned bit = 0; bit < 128; ++bit) {
        gs::philox_words counter{};
        counter.word[bit / 32] = std::uint32_t{1} << bit % 32;
        add(counter, 0);
    }
    for (unsigned bit = 0; bit < 64; ++bit) add({{0, 0, 0, 0}}, std::uint64_t{1} << bit);
    CHECK(outputs.size() == 1 + 128 + 64);
}
