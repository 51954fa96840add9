// The allocator of large arrays: zeros that cost nothing, in huge pages.
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/memory/huge_pages.hpp>
#include <gradstep/number/bfloat16.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

#if defined(__linux__)
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>
#endif
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
#include <malloc.h>
#define GLIBC_TELLS 1 // how much memory its heap has
#endif
#endif

namespace gs = gradstep;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t sizes[] = {0,       1,           63,      64,          4095,    2 * mib,       4 * mib - 1,
                                 4 * mib, 4 * mib + 1, 5 * mib, 6 * mib - 1, 6 * mib, 9 * mib + 4096};

template <class T> using huge_vector = std::vector<T, gs::huge_page_allocator<T>>;
static_assert(std::allocator_traits<gs::huge_page_allocator<float>>::is_always_equal::value);
static_assert(std::is_nothrow_move_constructible_v<huge_vector<float>>);
static_assert(std::is_nothrow_move_assignable_v<huge_vector<float>>);
static_assert(std::is_constructible_v<gs::huge_page_allocator<double>, gs::huge_page_allocator<float>>);

class block {
public:
    explicit block(std::size_t bytes) : data_(gs::huge_page_allocator<unsigned char>().allocate(bytes)), size_(bytes) {}
    ~block() { gs::huge_page_allocator<unsigned char>().deallocate(data_, size_); }
    block(block const&) = delete;

    unsigned char* data() const { return data_; }
    bool holds(unsigned char value) const {
        return std::all_of(data_, data_ + size_, [=](unsigned char x) { return x == value; });
    }
    void fill(unsigned char value) const {
        if (size_ != 0) std::memset(data_, value, size_);
    }

private:
    unsigned char* data_;
    std::size_t size_;
};

std::size_t alignment_of(void const* p) {
    auto const address = reinterpret_cast<std::uintptr_t>(p);
    return address & (~address + 1);
}

} // namespace

TEST_CASE("memory is zero, aligned, and all of it can be written, also where others wrote before", "[core]") {
    for (std::size_t const bytes : sizes) {
        for (int again = 0; again < 3; ++again) {
            CAPTURE(bytes, again);
            block const memory(bytes);
            CHECK(memory.holds(0));
            CHECK(alignment_of(memory.data()) >= 64);
            memory.fill(0xa5);
            CHECK(memory.holds(0xa5));
        }
    }
}

TEST_CASE("memory that is given back is no one else's", "[core]") {
    for (std::size_t const bytes : sizes) {
        CAPTURE(bytes);
        block const before(bytes);
        before.fill(1);
        {
            block const between(bytes);
            block const another(bytes);
            between.fill(2);
            another.fill(3);
            CHECK(between.holds(2));
        }
        block const after(bytes);
        after.fill(4);
        CHECK(before.holds(1));
        CHECK(after.holds(4));
    }
}

TEST_CASE("memory that there cannot be is refused", "[core]") {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    gs::huge_page_allocator<float> allocator;
    CHECK_THROWS_AS(allocator.allocate(most), std::bad_array_new_length);
    CHECK_THROWS_AS(allocator.allocate(most / 4 + 1), std::bad_array_new_length); // 4 * n is 0 in 64 bits
    CHECK_THROWS_AS(allocator.allocate(most / 8 + 1), std::bad_array_new_length);
    try {
        allocator.allocate(most / 8); // 2^63 - 4 bytes
        FAIL("nothing was thrown");
    } catch (std::bad_array_new_length const&) {
        FAIL("the number of bytes can be counted");
    } catch (std::bad_alloc const&) {
        SUCCEED("as every allocator without memory");
    }
}

TEST_CASE("large buffers of a parameter lie apart by no power of two, and are given back", "[core]") {
    using buffer = std::vector<float, gs::detail::line_allocator<float>>;
    std::size_t const n = 8 * mib; // 32 MiB, that many or more are mapped
    std::vector<buffer> all(4, buffer(n - 1));
    for (buffer& x : all) x.resize(n, 2); // from small pages into large
    std::vector<std::uintptr_t> places;
    for (buffer const& x : all) {
        CHECK(alignment_of(x.data()) >= 64);
        CHECK(std::count(x.end() - 1000, x.end(), 2.0f) == 1);
        places.push_back(reinterpret_cast<std::uintptr_t>(x.data()));
    }
#if defined(__linux__)
    for (std::size_t i = 0; i < places.size(); ++i)
        for (std::size_t k = 0; k < i; ++k) {
            std::size_t const apart = (places[i] - places[k]) % (2 * mib);
            CAPTURE(i, k, apart);
            CHECK(apart >= 5 * 1024);
            CHECK(apart <= 2 * mib - 5 * 1024);
        }
    all.clear();
    for (std::uintptr_t const place : places) {
        auto* const page = reinterpret_cast<void*>(place / 4096 * 4096);
        unsigned char resident = 0;
        CHECK((mincore(page, 4096, &resident) == -1 && errno == ENOMEM));
    }
#endif
}

#if GLIBC_TELLS
TEST_CASE("buffers of parameters that come and go leave a heap that later ones fit into", "[core]") {
    using buffer = std::vector<float, gs::detail::line_allocator<float>>;
    constexpr std::size_t rounds = 20, alive = 10, size = mib / sizeof(float);
    auto const held = [] {
        auto const heap = mallinfo2(); // of no sanitizer: zeros there
        return heap.arena + heap.hblkhd;
    };
    std::size_t const before = held();
    std::size_t most = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        std::vector<std::array<buffer, 3>> parameters;
        std::vector<std::vector<float>> gradients;
        for (std::size_t k = 0; k < alive; ++k) {
            parameters.push_back({buffer(size), buffer(size), buffer(size)});
            gradients.emplace_back(size);
        }
        most = std::max(most, held());
    }
    CHECK(most <= before + 2 * alive * 4 * mib);
}
#endif

TEST_CASE("buffers of a parameter from 2 KiB on begin at multiples of 1 KiB", "[core]") {
    using buffer = std::vector<float, gs::detail::line_allocator<float>>;
    for (std::size_t const n : {1u, 511u, 512u, 1000u, 1024u, 4096u, 65536u}) {
        std::vector<buffer> const all(8, buffer(n));
        CAPTURE(n);
        for (buffer const& x : all) CHECK(alignment_of(x.data()) >= (n < 512 ? 64u : 1024u));
    }
    buffer x(511, 1); // what it is given back by has to fit, whatever it has been before
    x.resize(512, 1);
    CHECK(alignment_of(x.data()) >= 1024);
    x.resize(10);
    x.shrink_to_fit();
    CHECK(x == buffer(10, 1));
}

TEST_CASE("a vector of the allocator grows and keeps its elements", "[core]") {
    huge_vector<std::uint32_t> v;
    std::size_t const n = 3 * mib; // 12 MiB: from the small memory into mappings, several times
    for (std::uint32_t i = 0; i < n; ++i) v.push_back(i);
    bool kept = v.size() == n;
    for (std::uint32_t i = 0; i < n; ++i) kept = kept && v[i] == i;
    CHECK(kept);

    v.resize(2 * n);
    CHECK(std::all_of(v.begin() + static_cast<std::ptrdiff_t>(n), v.end(), [](auto x) { return x == 0; }));
    CHECK(v[n - 1] == n - 1);
    v.resize(5);
    v.shrink_to_fit();
    CHECK(v == huge_vector<std::uint32_t>{0, 1, 2, 3, 4});
    v.resize(3);
    v.resize(6, 0);
    CHECK(v == huge_vector<std::uint32_t>{0, 1, 2, 0, 0, 0});
}

TEST_CASE("a vector of the allocator copies, moves, swaps and compares", "[core]") {
    for (std::size_t const n : {std::size_t{1000}, 2 * mib}) {
        huge_vector<float> a(n, 1.5f), b(n);
        b[n / 2] = 2;
        float const *const at_a = a.data(), *const at_b = b.data();
        huge_vector<float> const a_copy = a, b_copy = b;
        CHECK(a_copy == a);
        CHECK(a_copy.data() != at_a);
        CHECK(b != a);
        CHECK(b < a);

        std::swap(a, b);
        CHECK((a.data() == at_b && b.data() == at_a));
        CHECK((a == b_copy && b == a_copy));
        huge_vector<float> moved = std::move(a);
        CHECK((moved.data() == at_b && moved == b_copy));
        moved = std::move(b);
        CHECK((moved.data() == at_a && moved == a_copy));
    }
    CHECK(huge_vector<gs::bfloat16>(9) == huge_vector<gs::bfloat16>(9, gs::bfloat16(0.0f)));
}

#if defined(__linux__)
namespace {

/// Fields of /proc/self/statm, in bytes: 0 address space, 1 resident.
std::size_t memory_of_this_process(int field) {
    std::ifstream in("/proc/self/statm");
    std::size_t pages = 0;
    for (int i = 0; i <= field; ++i) in >> pages;
    REQUIRE(in);
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

bool is_mapped(unsigned char* page) { return msync(page, 1, MS_ASYNC) == 0 || errno != ENOMEM; }

/// The flags of the mapping that begins at p, as in /proc/self/smaps.
std::string flags_of_mapping(void const* p) {
    std::ifstream in("/proc/self/smaps");
    bool found = false;
    for (std::string line; std::getline(in, line);) {
        std::size_t const dash = line.find('-');
        bool const first_line = dash != line.npos && line.find_first_not_of("0123456789abcdef") == dash;
        if (first_line) found = std::stoull(line, nullptr, 16) == reinterpret_cast<std::uintptr_t>(p);
        if (found && line.starts_with("VmFlags:")) return line + " ";
    }
    return "";
}

} // namespace

TEST_CASE("a large vector of zeros takes no memory before it is written", "[core]") {
#if defined(GRADSTEP_SANITIZED) || !defined(__OPTIMIZE__)
    struct element { // such a build walks through the elements, although nothing is done with them
        std::uint32_t value[1024];
    };
#else
    struct element {
        std::uint32_t value[1];
    };
#endif
    constexpr std::size_t bytes = std::size_t{1} << 33, n = bytes / sizeof(element), written = 5;
    if (auto const ram = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE); static_cast<std::size_t>(ram) <= bytes) {
        WARN("left out: this machine has no 8 GiB of memory, and may refuse them");
        return;
    }
#if defined(GRADSTEP_SANITIZED) // whose shadow memory is resident too, an eighth of what is written at least
    constexpr std::size_t besides = 16 * mib;
#else
    constexpr std::size_t besides = mib;
#endif
    std::size_t const before = memory_of_this_process(1);
    huge_vector<element> v(n);
    CHECK(memory_of_this_process(1) < before + besides);
    for (std::size_t i = 0; i < written; ++i) {
        element& x = v[(n - 1) / (written - 1) * i];
        CHECK(x.value[0] == 0);
        x.value[0] = 1;
    }
    CHECK(memory_of_this_process(1) >= before + written * 4096);
    CHECK(memory_of_this_process(1) < before + written * 2 * mib + besides);
}

TEST_CASE("a large array begins on a huge page, and asks for them", "[core]") {
    for (std::size_t const bytes : {4 * mib, 4 * mib + 1, 33 * mib - 1}) {
        block const memory(bytes);
        CHECK(alignment_of(memory.data()) >= 2 * mib);
        CHECK(is_mapped(memory.data() + bytes - 1 - (bytes - 1) % 4096));
        std::string const flags = flags_of_mapping(memory.data());
        CAPTURE(flags);
        REQUIRE_FALSE(flags.empty());
        if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0) CHECK(flags.find(" hg ") != flags.npos);
    }
}

TEST_CASE("all of a mapping is given back", "[core]") {
    gs::huge_page_allocator<unsigned char> allocator;
    for (std::size_t const bytes : {4 * mib, 4 * mib + 1, 6 * mib - 1, 9 * mib + 4096}) {
        unsigned char* const p = allocator.allocate(bytes);
        CHECK(is_mapped(p));
        allocator.deallocate(p, bytes);
        for (std::size_t at = 0; at < bytes; at += 4096) {
            if (is_mapped(p + at)) FAIL(at << " of " << bytes);
        }
    }
    // A page left at each turn would be 4 MiB.
    std::size_t const before = memory_of_this_process(0);
    for (int i = 0; i < 1000; ++i) block(4 * mib + 1);
    CHECK(memory_of_this_process(0) < before + 2 * mib);
}
#endif
