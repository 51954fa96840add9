#pragma once
/// How everything here is measured: the variants of a comparison run interleaved in one process, in
/// an order that rotates from round to round, and a ratio is the median of the ratios of the single
/// rounds. Times of different runs, or of different minutes, are never compared: the machine is not
/// the same machine a minute later.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <vector>

namespace measure {

using call = std::function<void()>;
using samples = std::vector<double>; // one for each round

/// A median and the quartiles around it.
struct statistic {
    double median, low, high;
};

inline statistic quartiles(samples x) {
    std::sort(x.begin(), x.end());
    std::size_t const last = x.size() - 1;
    return {x[last / 2], x[last / 4], x[last - last / 4]};
}

inline statistic ratio(samples const& a, samples const& b) {
    samples each(a.size());
    for (std::size_t r = 0; r < a.size(); ++r) each[r] = a[r] / b[r];
    return quartiles(each);
}

inline statistic difference(samples const& a, samples const& b) {
    samples each(a.size());
    for (std::size_t r = 0; r < a.size(); ++r) each[r] = a[r] - b[r];
    return quartiles(each);
}

/// Seconds of the clock on the wall, and of all cores for this process.
inline double wall_time() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
inline double cpu_time() {
    std::timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline double seconds(call const& f, int repetitions, double (*now)() = wall_time) {
    double const start = now();
    for (int i = 0; i < repetitions; ++i) f();
    return (now() - start) / repetitions;
}

/// Seconds a call of every variant, round by round. A sample lasts at least 50 us, and one untimed
/// call goes before it: the variant before may have evicted what this one keeps in the cache.
inline std::vector<samples> interleave(std::initializer_list<call> variants, int rounds, double (*now)() = wall_time) {
    std::vector<call> const all(variants);
    double slowest = 0;
    for (call const& f : all) {
        f();
        slowest = std::max(slowest, seconds(f, 1));
    }
    int const repetitions = std::max(1, static_cast<int>(std::min(50e-6 / slowest, 1e5)) + 1);

    std::vector<samples> times(all.size());
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
        for (std::size_t k = 0; k < all.size(); ++k) {
            std::size_t const which = (k + round) % all.size();
            all[which]();
            times[which].push_back(seconds(all[which], repetitions, now));
        }
    return times;
}

/// Seven streams (parameter, gradient, five state slots) of n elements of up to 4 bytes, on huge
/// pages where the system gives them. Each starts on a cache line. No two are at a distance near a
/// power of two: they would compete for the same cache sets and memory banks (up to 2x on the
/// memory limit itself), and the placement would be what is measured. Or, to measure that, each
/// begins so many bytes `further` into a page of 4 KiB than the one before, in the pages behind it.
class streams {
public:
    static constexpr std::size_t count = 7;

    explicit streams(std::size_t n, std::optional<std::size_t> further = {})
        : size_(n),
          stride_(further ? rounded_up(n * 4, page) + *further : rounded_up(n * 4, line) + huge_page + 17 * line) {
        std::size_t const bytes = rounded_up(count * stride_, huge_page);
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(huge_page, bytes)));
        if (!memory_) throw std::bad_alloc();
        madvise(memory_.get(), bytes, MADV_HUGEPAGE);
        fill();
    }

    std::size_t size() const { return size_; }

    template <class T = float> T* at(std::size_t k) const {
        static_assert(sizeof(T) <= 4);
        return reinterpret_cast<T*>(memory_.get() + k * stride_);
    }

    /// Parameter and gradient uniform in (-1, 1) as T, small positive state: the values of a run
    /// under way.
    template <class T = float> void fill() const {
        for (std::size_t k = 0; k < 2; ++k)
            for (std::size_t i = 0; i < size_; ++i) at<T>(k)[i] = static_cast<T>(uniform(k * size_ + i));
        for (std::size_t k = 2; k < count; ++k)
            for (std::size_t i = 0; i < size_; ++i) at(k)[i] = 0.5f + 0.25f * uniform(k * size_ + i);
    }

private:
    static constexpr std::size_t line = 64, page = 4096, huge_page = std::size_t{2} << 20;
    static std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

    // A hash of the index, so that filling needs no state.
    static float uniform(std::size_t i) {
        auto x = static_cast<std::uint32_t>(i) * 0x9e3779b9u;
        x = (x ^ (x >> 15)) * 0x85ebca6bu;
        x ^= x >> 13;
        return static_cast<float>(static_cast<std::int32_t>(x | 1u)) * 0x1p-31f;
    }

    struct release {
        void operator()(std::byte* p) const { std::free(p); }
    };

    std::size_t size_, stride_;
    std::unique_ptr<std::byte, release> memory_;
};

} // namespace measure
