// More elements than 31 bits count. The gradient is a small file mapped again and again, so that
// only the weights need memory: 4.3 GB.
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>

namespace gs = gradstep;

namespace {

std::size_t available_memory() {
    std::ifstream lines("/proc/meminfo");
    for (std::string name; lines >> name;) {
        if (std::size_t kib = 0; name == "MemAvailable:" && lines >> kib) return kib * 1024;
        lines.ignore(256, '\n');
    }
    return 0;
}

class mapping {
public:
    mapping(std::size_t bytes, int protection, int flags)
        : memory_(mmap(nullptr, bytes, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
          bytes_(bytes) {}
    ~mapping() {
        if (is_there()) munmap(memory_, bytes_);
    }
    mapping(mapping const&) = delete;

    bool is_there() const { return memory_ != MAP_FAILED; }
    char* data() const { return static_cast<char*>(memory_); }
    /// Maps the file over the whole memory, again and again.
    bool repeat(int file, std::size_t period) const {
        for (std::size_t at = 0; at < bytes_; at += period)
            if (mmap(data() + at, period, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) return false;
        return true;
    }

private:
    void* memory_;
    std::size_t bytes_;
};

} // namespace

TEST_CASE("a tensor of more than 2^31 elements", "[huge]") {
    constexpr std::size_t period = 1 << 20, periods = (std::size_t{1} << 32) / period + 3; // in bytes
    constexpr std::size_t count = period / sizeof(gs::bfloat16), unused = 1001;
    constexpr std::size_t n = periods * count - unused;
    static_assert(n > std::size_t{1} << 31);
    if (available_memory() < std::size_t{8} << 30) {
        WARN("left out: it takes 4.3 GB, and less than 8 GiB of memory are available");
        return;
    }

    std::vector<gs::bfloat16> gradient(count), expected(count);
    for (std::size_t i = 0; i < count; ++i) gradient[i] = gs::bfloat16(static_cast<float>(i % 8191) / 64 - 60);
    int const file = memfd_create("gradient", 0);
    REQUIRE(file >= 0);
    REQUIRE(write(file, gradient.data(), period) == static_cast<ssize_t>(period));
    mapping const gradients(periods * period, PROT_NONE, 0);
    mapping const weights(periods * period, PROT_READ | PROT_WRITE, 0);
    REQUIRE(gradients.is_there());
    REQUIRE(weights.is_there());
    REQUIRE(gradients.repeat(file, period));
    close(file);

    auto serial = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{0.1}, gs::serial_backend{});
    serial.next_step()(expected, gradient);

    // Weights are zero before: an element that were updated twice, or not at all, would differ.
    gs::thread_pool pool(2);
    auto optimizer = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{0.1}, gs::simd_backend{pool});
    auto* const w = reinterpret_cast<gs::bfloat16*>(weights.data());
    auto const* const g = reinterpret_cast<gs::bfloat16 const*>(gradients.data());
    optimizer.next_step()(std::span(w, n), std::span(g, n));

    std::size_t wrong = 0;
    for (std::size_t k = 0; k < periods; ++k) {
        std::size_t const used = k + 1 < periods ? period : period - unused * sizeof(gs::bfloat16);
        wrong += std::memcmp(weights.data() + k * period, expected.data(), used) != 0;
    }
    CHECK(wrong == 0);
    std::vector<gs::bfloat16> const zeros(unused);
    CHECK(std::memcmp(w + n, zeros.data(), unused * sizeof(gs::bfloat16)) == 0);
}
#endif
