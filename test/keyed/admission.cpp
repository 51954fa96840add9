// Which keys are admitted: never late, seldom early, by draws that are functions of seed, key and
// step; and what is undone.
#include <gradstep/keyed/detail/admission.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

using gs::detail::admission;

bool appears(admission& a, std::uint64_t key, std::uint64_t step = 1) {
    a.reserve(1);
    bool const admitted = a.admits(key, step);
    a.commit();
    return admitted;
}
std::vector<std::byte> copy_of(admission const& a) { return {a.counters().begin(), a.counters().end()}; }

} // namespace

TEST_CASE("admission: at once by default, and without memory") {
    admission all(1, 1.0, 7, 0);
    CHECK(appears(all, 0));
    CHECK(appears(all, UINT64_MAX));
    CHECK(all.bytes() == 0);
    CHECK(all.early() == 0);
}

TEST_CASE("admission: a key is admitted at its n-th appearance, and at every later one") {
    for (std::int64_t const n : {2, 3, 256, 257, 65536}) {
        admission a(n, 1.0, 7, 0);
        CAPTURE(n);
        for (std::uint64_t const key : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX}) {
            std::int64_t early = 0;
            for (std::int64_t i = 1; i < n; ++i) early += appears(a, key);
            CHECK(early == 0);
            CHECK(appears(a, key));
            CHECK(appears(a, key, 2));
        }
        CHECK(a.counter_bytes() == (n <= 256 ? 1 : 2));
    }
}

// Keys in a random order of appearances, of Zipf's kind: a few often, most of them once or twice.
TEST_CASE("admission: no key is late, and no more are early than the bound says") {
    constexpr std::int64_t n = 5;
    for (std::int64_t const sketch_bytes : {std::int64_t{4} << 16, std::int64_t{4} << 17}) {
        auto const width = static_cast<double>(sketch_bytes / 4);
        admission a(n, 1.0, 11, sketch_bytes);
        std::unordered_map<std::uint64_t, std::int64_t> seen;
        std::size_t late = 0, counted = 0;
        std::int64_t judged = 0, early_by[n] = {};
        double bound[n] = {}; // of the expected number of keys admitted m or more appearances too early
        std::uint64_t random = 1;
        for (int i = 0; i < 60'000; ++i) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            double const u = static_cast<double>(random >> 11) * 0x1p-53;
            auto const key = static_cast<std::uint64_t>(std::exp(u * std::log(1e6)));
            std::int64_t& times = seen[key];
            if (times < 0) continue; // it has a row
            ++times;
            bool const admitted = appears(a, key);
            late += !admitted && times >= n;
            counted += !admitted;
            if (!admitted) continue;
            ++judged;
            for (std::int64_t m = 1; m <= n - times; ++m) ++early_by[m];
            times = -1;
        }
        // Each of the keys seen could be early with at most this probability, N being at most all
        // that was counted: 1600 to 0.4 keys.
        for (int m = 1; m < n; ++m)
            bound[m] = static_cast<double>(seen.size()) * std::pow(static_cast<double>(counted) / (m * width), 4);
        CAPTURE(sketch_bytes, counted, judged, seen.size());
        CHECK(late == 0);
        CHECK(judged > 1000);
        for (int m = 1; m < n; ++m) {
            CAPTURE(m, early_by[m], bound[m]);
            CHECK(static_cast<double>(early_by[m]) <= bound[m]);
        }
    }
}

TEST_CASE("admission: the chance of a key never seen is the share of full counters") {
    admission a(2, 1.0, 3, 4 * 1000);
    CHECK(a.early() == 0);
    for (std::uint64_t key = 0; key < 700; ++key) appears(a, key);
    double const chance = a.early();
    CHECK(chance > std::pow(0.4, 4)); // 1 - exp(-0.7) = 0.50 of each row are full
    CHECK(chance < std::pow(0.6, 4));
    std::vector<std::byte> const counters = copy_of(a);
    int early = 0;
    constexpr int keys = 20'000;
    for (std::uint64_t key = 1000; key < 1000 + keys; ++key) {
        a.reserve(1);
        early += a.admits(key, 1);
        a.rollback(); // it was never seen
    }
    // A binomial variable is further than 7 deviations off once in 10^11 draws.
    CHECK(std::abs(early - chance * keys) < 7 * std::sqrt(chance * keys));
    CHECK(copy_of(a) == counters);
    CHECK(a.early() == chance);
}

TEST_CASE("admission: what is rolled back was never counted") {
    for (std::int64_t const n : {4, 300}) {
        admission a(n, 1.0, 3, 4 * 8 * (n > 256 ? 2 : 1)); // of 8 counters a row, which keys share
        for (std::uint64_t key = 0; key < 10; ++key) appears(a, key);
        admission const before = a;
        a.reserve(1000);
        std::size_t admitted = 0;
        for (std::uint64_t i = 0; i < 1000; ++i) admitted += a.admits(i % 13, 1);
        CHECK((n > 256 || admitted > 0));
        CHECK(copy_of(a) != copy_of(before));
        a.rollback();
        CHECK(copy_of(a) == copy_of(before));
        CHECK(a.early() == before.early());
        a.rollback(); // nothing is left to undo
        CHECK(copy_of(a) == copy_of(before));
    }
}

TEST_CASE("admission: draws are functions of seed, key and step, and as many succeed as the probability says") {
    constexpr double p = 0.125;
    constexpr int draws = 100'000;
    admission a(1, p, 5, 0), same(1, p, 5, 0), other_seed(1, p, 6, 0);
    int by_key = 0, by_step = 0, differs_by_seed = 0;
    for (std::uint64_t i = 0; i < draws; ++i) {
        bool const one = a.admits(i, 1);
        by_key += one;
        by_step += a.admits(9, i);
        differs_by_seed += one != other_seed.admits(i, 1);
        if (one != same.admits(i, 1)) FAIL("another draw for key " << i);
    }
    double const deviation = std::sqrt(draws * p * (1 - p)); // 7 of them once in 10^11, as above
    CHECK(std::abs(by_key - p * draws) < 7 * deviation);
    CHECK(std::abs(by_step - p * draws) < 7 * deviation);
    CHECK(std::abs(differs_by_seed - 2 * p * (1 - p) * draws) < 7 * std::sqrt(draws * 0.25));
    // For ever: these bits are part of what a table learns.
    std::string first;
    for (std::uint64_t key = 0; key < 40; ++key) first += a.admits(key, 1) ? '1' : '0';
    CHECK(first == "0000001000000010010100000001000010000010");
    admission both(2, p, 5, 0); // first counted, then drawn
    both.reserve(draws);
    int first_time = 0, second_time = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) first_time += both.admits(i, 1);
    for (std::uint64_t i = 0; i < 1000; ++i) second_time += both.admits(i, 1) != a.admits(i, 1);
    CHECK(first_time == 0);
    CHECK(second_time == 0);
}

TEST_CASE("admission: counters that are saved go on where they were, and others are refused") {
    admission a(300, 1.0, 3, 4096), b(300, 1.0, 3, 4096);
    a.reserve(20'000);
    for (std::uint64_t i = 0; i < 20'000; ++i) (void)a.admits(i % 150, 1);
    a.commit();
    b.restore(a.counters(), 1);
    CHECK(b.early() == a.early());
    a.reserve(50'000);
    b.reserve(50'000);
    std::size_t different = 0;
    for (std::uint64_t i = 0; i < 50'000; ++i) different += a.admits(i % 200, 1) != b.admits(i % 200, 1);
    CHECK(different == 0);
    CHECK(copy_of(a) == copy_of(b));
    a.commit();

    std::vector<std::byte> const before = copy_of(a);
    std::vector<std::byte> wrong = before;
    CHECK(refusal<gs::size_error>([&] { a.restore(std::span(wrong).first(4094), 1); }) ==
          "sketch of admission: has 4094 bytes, and the sketch of this table has 4096; expected the same "
          "sketch_bytes and admit_after");
    wrong[10] = std::byte{0xff};
    wrong[11] = std::byte{0xff};
    CHECK(refusal<gs::value_error>([&] { a.restore(wrong, 1); }) ==
          "sketch of admission: counter 5 is 65535; expected below admit_after = 300");
    CHECK(copy_of(a) == before);
}

TEST_CASE("admission: counts are halved after each half-life") {
    for (std::int64_t const n : {4, 300}) {
        admission a(n, 1.0, 7, 0, 10);
        for (std::int64_t i = 1; i < n; ++i) CHECK_FALSE(appears(a, 5));
        a.age(9);
        CHECK(appears(a, 5)); // the n-th: it is not counted any more
        a.age(10);
        a.age(10); // once
        for (std::int64_t i = (n - 1) / 2; i < n - 1; ++i) CHECK_FALSE(appears(a, 5));
        CHECK(appears(a, 5));
        CHECK(a.early() > 0);
        a.age(29); // to half of it
        CHECK(a.early() == 0);
        admission jumped = a, stepped = a;
        jumped.age(1000);
        for (std::int64_t step = 30; step <= 1000; ++step) stepped.age(step);
        CHECK(copy_of(jumped) == copy_of(stepped));
        CHECK(copy_of(jumped) == copy_of(admission(n, 1.0, 7, 0, 10)));
        // One that is restored is halved at the same steps.
        for (std::int64_t i = 1; i < n; ++i) (void)appears(a, i % 3 == 0 ? 6 : 5);
        admission restored(n, 1.0, 7, 0, 10);
        restored.restore(a.counters(), 29);
        for (std::int64_t const step : {30, 39, 40}) {
            a.age(step);
            restored.age(step);
            CHECK(copy_of(restored) == copy_of(a));
        }
    }
}

TEST_CASE("admission: with a half-life no more are early in a stream that never ends than the bound says") {
    constexpr std::int64_t n = 3, half_life = 50, steps = 2000, new_keys = 100;
    constexpr std::size_t width = std::size_t{1} << 13;
    admission aging(n, 1.0, 11, 4 * width, half_life), filling(n, 1.0, 11, 4 * width);
    // New keys come once each. One more key comes n times between two halvings, and is not late.
    double const most = 2.0 * (new_keys + 1) * half_life,
                 bound = std::pow(most / (double{n - 1} * static_cast<double>(width)), 4);
    std::size_t early = 0, late = 0;
    double worst = 0;
    std::uint64_t key = 1;
    for (std::int64_t step = 1; step <= steps; ++step) {
        for (std::int64_t i = 0; i < new_keys; ++i, ++key) {
            early += appears(aging, key);
            (void)appears(filling, key);
        }
        std::int64_t const since = step % half_life;
        if (since >= 20 && since < 20 + n) {
            bool const admitted = appears(aging, UINT64_MAX - static_cast<std::uint64_t>(step / half_life));
            late += since == 20 + n - 1 && !admitted;
        }
        worst = std::max(worst, aging.early());
        aging.age(step);
        filling.age(step);
    }
    CAPTURE(early, bound, worst, filling.early());
    CHECK(late == 0);
    CHECK(worst > 0); // or the sketch is too large to see anything
    CHECK(worst <= bound);
    CHECK(static_cast<double>(early) <= bound * static_cast<double>(steps * new_keys));
    CHECK(filling.early() > 0.9); // without one all are, in the end
}

TEST_CASE("admission: numbers out of range are refused, and counting allocates nothing after reserve") {
    auto const refused = [](std::int64_t after, double probability, std::int64_t bytes) {
        return refusal<gs::value_error>([&] { admission(after, probability, 0, bytes); });
    };
    CHECK(refused(0, 1, 0) == "admit_after: 0 is out of range; expected [1, 65536]");
    CHECK(refused(65537, 1, 0) == "admit_after: 65537 is out of range; expected [1, 65536]");
    CHECK(refused(1, 0, 0) == "admit_probability: 0 is out of range; expected (0, 1]");
    CHECK(refused(1, 1.5, 0) == "admit_probability: 1.5 is out of range; expected (0, 1]");
    CHECK(refused(2, 1, 3) == "sketch_bytes: 3 is out of range; expected 0, or in [4, 17179869184]");
    CHECK(refused(2, 1, -1) == "sketch_bytes: -1 is out of range; expected 0, or in [4, 17179869184]");
    CHECK(refused(300, 1, 7) == "sketch_bytes: 7 is out of range; expected 0, or in [8, 34359738368]");

    admission a(10, 1.0, 3, 1024);
    a.reserve(1000);
    allocations = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) (void)a.admits(i, 1);
    a.commit();
    CHECK(allocations == 0);
}
