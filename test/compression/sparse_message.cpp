// The largest entries of a tensor, and the messages that they are sent in.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

// |x| in the order in which entries are sent, by what <cmath> says of it: numbers, infinities, NaN by their bits.
template <class T> std::uint64_t rank_of(T x) {
    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t> bits;
    T const magnitude = std::copysign(x, T(1));
    std::memcpy(&bits, &magnitude, sizeof bits);
    return bits;
}
template <class S> auto wide(S x) {
    if constexpr (std::is_same_v<S, double>) return x;
    else return static_cast<float>(x);
}
template <class S> std::vector<std::int64_t> by_magnitude(std::vector<S> const& x) {
    std::vector<std::int64_t> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return rank_of(wide(x[static_cast<std::size_t>(a)])) > rank_of(wide(x[static_cast<std::size_t>(b)]));
    });
    return order;
}

// Values of which a sample tells much, little, or the wrong thing.
template <class S> std::vector<S> values(std::string const& kind, std::size_t n) {
    using T = decltype(wide(S()));
    constexpr T inf = std::numeric_limits<T>::infinity(), tiny = std::numeric_limits<T>::min();
    std::vector<S> x = numbers<S>(n, 7);
    gs::detail::sample_indices const sample = gs::detail::sample_indices::of(n);
    for (std::size_t i = 0; i < n; ++i) {
        T const sign = i % 3 == 0 ? T(-1) : T(1), some = wide(x[i]);
        if (kind == "equal") x[i] = S(sign * T(0.5));
        else if (kind == "few values") x[i] = S(sign * static_cast<T>(i * 2654435761u % 5));
        else if (kind == "mostly zeros") x[i] = S(i % 1009 == 3 ? some : sign * T(0));
        else if (kind == "zeros") x[i] = S(sign * T(0));
        else if (kind == "rising") x[i] = S(static_cast<T>(i));
        else if (kind == "infinite and NaN")
            x[i] = S(i % 97 == 5   ? sign * inf
                     : i % 89 == 4 ? std::copysign(std::numeric_limits<T>::quiet_NaN(), sign)
                                   : some);
        else if (kind == "all NaN") x[i] = S(std::copysign(std::numeric_limits<T>::quiet_NaN(), sign));
        else if (kind == "many NaN and infinities") x[i] = S(i % 3 != 1 ? std::numeric_limits<T>::quiet_NaN() : inf);
        else if (kind == "subnormal") x[i] = S(sign * tiny * std::ldexp(T(1), -static_cast<int>(i % 7)));
    }
    if (kind == "large at the sample" || kind == "small at the sample")
        for (std::size_t r = 0; n >= 128 && r != sample.runs; ++r)
            for (std::size_t j = 0; j != sample.run; ++j)
                x[sample.begin(r) + j] = S(kind[0] == 'l' ? T(1000) : T(0.001));
    return x;
}

} // namespace

TEMPLATE_TEST_CASE("top_k is the start of a stable sort by magnitude, whatever a sample says and whoever runs it",
                   "[core][compression]", float, double, gs::bfloat16) {
    gs::thread_pool pool(3);
    auto const kind = GENERATE(as<std::string>(), "random", "equal", "few values", "mostly zeros", "zeros", "rising",
                               "infinite and NaN", "all NaN", "many NaN and infinities", "subnormal",
                               "large at the sample", "small at the sample");
    // The last is split over threads.
    std::vector<std::size_t> sizes{1, 2, 7, 64, 1000, 4096, 4097, 5003};
    if (GRADSTEP_TEST_EVERYTHING) sizes.push_back(200000);
    for (std::size_t const n : sizes) {
        auto const x = values<TestType>(kind, n);
        auto const order = by_magnitude(x);
        for (std::size_t const k : {std::size_t(1), n / 1000, n / 100, n / 16 + 1, n / 4, n - 1, n}) {
            if (k > n || (n == 200000 && (k == 1 || k == n / 100 || k == n / 4))) continue;
            CAPTURE(kind, n, k);
            std::vector<std::int64_t> expected(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
            std::sort(expected.begin(), expected.end());
            auto const alone = gs::top_k(gs::simd_backend{}, x, k);
            bool const same = alone == expected && gs::top_k(gs::simd_backend{pool}, x, k) == expected &&
                              (n > 5003 || gs::top_k(gs::serial_backend{}, x, k) == expected) &&
                              gs::top_k(gs::simd_backend{gs::subnormals::keep}, x, k) == expected;
            CHECK(same);
        }
    }
}

TEST_CASE("The key of a rank in a sample is that of the sorted sample", "[core][compression]") {
    for (std::size_t const n : {1u, 2u, 17u, 300u, 5000u})
        for (std::uint32_t const kinds : {3u, 100u, 1u << 31}) {
            std::vector<std::uint32_t> keys;
            for (float const x : numbers<float>(n, 5)) keys.push_back(gs::detail::key_of(x) % kinds);
            auto sorted = keys;
            std::sort(sorted.begin(), sorted.end(), [](auto a, auto b) { return a > b; });
            for (std::size_t const rank : {std::size_t(1), n / 100, n / 17, n / 16, n / 16 + 1, n / 3, n}) {
                if (rank == 0) continue;
                auto sample = keys;
                CAPTURE(n, kinds, rank);
                CHECK(gs::detail::key_of_rank<std::uint32_t>(sample, rank) == sorted[rank - 1]);
                // Twice, as for the two ends of a bracket.
                if (16 * rank > n) CHECK(gs::detail::key_of_rank<std::uint32_t>(sample, 1) == sorted[0]);
            }
        }
}

TEST_CASE("top_k of nothing is nothing, and of more than there are is refused", "[core][compression]") {
    std::vector<float> const none, some(3);
    CHECK(gs::top_k(gs::serial_backend{}, none, 0).empty());
    CHECK(gs::top_k(gs::simd_backend{}, some, 0).empty());
    CHECK(refusal<gs::value_error>([&] { gs::top_k(gs::simd_backend{}, some, 4); }) ==
          "top_k: k: 4 is out of range; expected at most 3, the number of values");
    CHECK_THAT(refusal<gs::buffer_error>(
                   [&] { gs::top_k(gs::simd_backend{}, std::span<float>(static_cast<float*>(nullptr), 3), 1); }),
               ContainsSubstring("null"));
}

TEST_CASE("The checksum is CRC-32C", "[core][compression]") {
    auto const of = [](std::string const& text) {
        return gs::detail::crc32c(0, std::as_bytes(std::span(text.data(), text.size())).data(), text.size());
    };
    CHECK(of("123456789") == 0xe3069283u);           // its check value
    CHECK(of(std::string(32, '\0')) == 0x8a9136aau); // RFC 3720, B.4
    CHECK(of(std::string(32, '\xff')) == 0x62a8ab43u);
    CHECK(of("") == 0);
    std::string const text = "in two parts of any length";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        auto const bytes = std::as_bytes(std::span(text.data(), text.size()));
        CHECK(gs::detail::crc32c(gs::detail::crc32c(0, bytes.data(), cut), bytes.data() + cut, text.size() - cut) ==
              of(text));
    }
    // Lengths around the stretches that it takes at once, beside the definition, a bit at a time.
    std::string many;
    for (std::uint32_t i = 0; i != 6300; ++i) many += static_cast<char>(i * 2654435761u >> 24);
    std::uint32_t slow = ~0u;
    for (std::size_t size = 1; size <= many.size(); ++size) {
        slow ^= static_cast<unsigned char>(many[size - 1]);
        for (int bit = 0; bit != 8; ++bit) slow = slow >> 1 ^ (slow & 1 ? 0x82f63b78u : 0);
        if (size % 1024 < 20 || size % 97 == 0) CHECK(of(many.substr(0, size)) == ~slow);
    }
}

namespace {

template <class Element> gs::sparse_message message_of(std::size_t n, double sparsity, std::int64_t before_ramp = 0) {
    using storage = typename gs::element_traits<Element>::storage;
    using state = typename gs::element_traits<Element>::state;
    auto optimizer = gs::make_updater<Element>(
        gs::dgc_momentum{.rampup_begin_step = before_ramp, .sparsity = {sparsity}, .dense_below = 0}, gs::constant{1});
    optimizer.seek({.step = 4});
    std::vector<storage> const g = numbers<storage>(n, 3);
    std::vector<state> u(n), v(n);
    return optimizer.next_step().compress(g, u, v);
}

} // namespace

TEMPLATE_TEST_CASE("A message is what its bytes are decoded to, and its layout is the documented one",
                   "[core][compression]", float, double, gs::bfloat16, gs::float16) {
    using storage = typename gs::element_traits<TestType>::storage;
    auto const before_ramp = GENERATE(std::int64_t(0), std::int64_t(1000));
    std::size_t const n = GENERATE(1u, 2u, 10u, 1000u);
    CAPTURE(n, before_ramp);
    gs::sparse_message const sent = message_of<TestType>(n, 0.7, before_ramp);
    std::vector<std::byte> const bytes = sent.encode();
    gs::sparse_message const got = gs::sparse_message::decode(bytes);

    std::size_t const k =
        before_ramp != 0
            ? n
            : std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(0.3 * static_cast<double>(n))));
    CHECK(got.size() == n);
    CHECK(got.step() == 5);
    CHECK(got.count() == k);
    CHECK(got.is_dense() == (before_ramp != 0));
    CHECK(got.element() == gs::element_traits<TestType>::name);
    for (std::size_t i = 0; i < k; ++i) CHECK(got.index(i) == sent.index(i));
    auto const a = sent.values<storage>(), b = got.values<storage>();
    CHECK(same_bits(std::vector(a.begin(), a.end()), std::vector(b.begin(), b.end())));
    CHECK(got.encode() == bytes);

    auto const natural = [&](std::size_t at, std::size_t length) {
        std::uint64_t x = 0;
        for (std::size_t i = length; i-- > 0;) x = x << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
        return x;
    };
    CHECK(std::memcmp(bytes.data(), "gradstep", 8) == 0);
    CHECK(natural(8, 1) == 1);
    CHECK(natural(9, 1) == (std::is_same_v<storage, float>          ? 1
                            : std::is_same_v<storage, double>       ? 2
                            : std::is_same_v<storage, gs::bfloat16> ? 3
                                                                    : 4));
    CHECK(natural(10, 2) == (before_ramp != 0 ? 1 : 0));
    CHECK(natural(16, 8) == n);
    CHECK(natural(24, 8) == 5);
    CHECK(natural(32, 8) == k);
    std::size_t at = 40;
    if (before_ramp == 0) {
        for (std::size_t i = 0; i < k; ++i, at += 4) CHECK(natural(at, 4) == sent.index(i));
        at = (at + 7) / 8 * 8;
    }
    for (std::size_t i = 0; i < k; ++i, at += sizeof(storage))
        CHECK(std::memcmp(&bytes[at], &a[i], sizeof(storage)) == 0);
    CHECK(bytes.size() == at);
}

TEST_CASE("A message of floats at 99.9 % has at most 0.0021 of the gradient's bytes", "[core][compression]") {
    std::size_t const n = 1 << 20;
    auto const bytes = message_of<float>(n, 0.999).encode();
    CHECK(static_cast<double>(bytes.size()) <= 0.0021 * static_cast<double>(n * sizeof(float)));
}

TEST_CASE("A message with any one bit changed, cut anywhere or made longer is refused", "[core][compression]") {
    auto const dense = GENERATE(false, true);
    std::vector<std::byte> const bytes = message_of<gs::bfloat16>(21, 0.6, dense ? 100 : 0).encode();
    auto const is_refused = [](std::span<std::byte const> given) {
        try {
            gs::sparse_message::decode(given);
        } catch (gs::value_error const& refused) {
            return std::string_view(refused.what()).starts_with("sparse_message::decode: the message ");
        }
        return false;
    };
    CHECK_FALSE(is_refused(bytes));
    for (std::size_t bit = 0; bit != 8 * bytes.size(); ++bit) {
        auto changed = bytes;
        changed[bit / 8] ^= std::byte(1) << static_cast<int>(bit % 8);
        CAPTURE(bit);
        CHECK(is_refused(changed));
    }
    for (std::size_t size = 0; size != bytes.size(); ++size) CHECK(is_refused(std::span(bytes).first(size)));
    auto longer = bytes;
    longer.push_back(std::byte(0));
    CHECK(is_refused(longer));
}

TEST_CASE("A message whose checksum is right is refused for what it says", "[core][compression]") {
    // Float, 10 elements, 3 entries: indices at 40, zeros at 52, values at 56.
    std::vector<std::byte> const bytes = message_of<float>(10, 0.7).encode();
    REQUIRE(bytes.size() == 68);
    auto const refused = [&](auto const& change) {
        auto changed = bytes;
        change(changed);
        std::uint32_t const sum =
            gs::detail::crc32c(gs::detail::crc32c(0, changed.data(), 12), &changed[16], changed.size() - 16);
        std::memcpy(&changed[12], &sum, 4);
        return refusal<gs::value_error>([&] { gs::sparse_message::decode(changed); });
    };
    auto const put = [](std::size_t at, auto x) {
        return [=](std::vector<std::byte>& to) { std::memcpy(&to[at], &x, sizeof x); };
    };
    std::int64_t const huge = std::numeric_limits<std::int64_t>::max();
    CHECK_THAT(refused(put(0, 'G')), ContainsSubstring("begins with other bytes; expected \"gradstep\""));
    CHECK_THAT(refused(put(8, std::uint8_t(2))), ContainsSubstring("is of version 2; expected 1"));
    CHECK_THAT(refused(put(9, std::uint8_t(0))), ContainsSubstring("has the element 0; expected 1 to 4"));
    CHECK_THAT(refused(put(9, std::uint8_t(5))), ContainsSubstring("has the element 5; expected 1 to 4"));
    CHECK_THAT(refused(put(10, std::uint8_t(4))),
               ContainsSubstring("has unknown flags: 4 and 0; expected 0 to 3 and 0"));
    CHECK_THAT(refused(put(10, std::uint8_t(1))), ContainsSubstring("has 3 entries of 10 elements; expected as many"));
    CHECK_THAT(refused(put(10, std::uint8_t(2))),
               ContainsSubstring("has indices of 64 bits for 10 elements; expected 32 bits"));
    CHECK_THAT(refused(put(16, std::int64_t(2))), ContainsSubstring("has 3 entries of 2 elements; expected at most"));
    CHECK_THAT(refused(put(16, std::int64_t(-1))), ContainsSubstring("a tensor of -1 elements"));
    CHECK_THAT(refused(put(24, std::int64_t(0))), ContainsSubstring("is of step 0"));
    CHECK_THAT(refused(put(32, std::int64_t(2))),
               ContainsSubstring("has 68 bytes; expected the bytes of its 2 entries"));
    CHECK_THAT(refused([&](auto& to) { put(16, huge)(to), put(32, huge)(to), put(10, std::uint8_t(2))(to); }),
               ContainsSubstring("expected the bytes of its"));
    CHECK_THAT(refused(put(44, std::int32_t(0))), ContainsSubstring("expected rising indices below 10"));
    CHECK_THAT(refused(put(48, std::int32_t(10))), ContainsSubstring("has the index 10"));
    CHECK_THAT(refused(put(40, std::int32_t(-1))), ContainsSubstring("has the index -1 after -1"));
    CHECK_THAT(refused(put(52, 'x')), ContainsSubstring("has a byte that is not 0 between indices and values"));
    CHECK_THAT(refusal<gs::value_error>([] { gs::sparse_message().encode(); }), ContainsSubstring("is empty"));
}

TEST_CASE("Indices of tensors of 2^31 elements and more have 64 bits", "[core][compression]") {
    for (std::int64_t const size : {std::int64_t(1) << 31, (std::int64_t(1) << 40) + 1}) {
        std::vector<std::byte> bytes(60); // as documented
        auto const put = [&](std::size_t at, auto x) { std::memcpy(&bytes[at], &x, sizeof x); };
        std::memcpy(bytes.data(), "gradstep", 8);
        put(8, std::uint32_t(0x0002'0101)); // version 1, float, 64 bits
        put(16, size);
        put(24, std::int64_t(3));
        put(32, std::int64_t(1));
        put(40, size - 1);
        put(48, 0.5f);
        bytes.resize(52);
        put(12, gs::detail::crc32c(gs::detail::crc32c(0, bytes.data(), 12), &bytes[16], bytes.size() - 16));
        auto const message = gs::sparse_message::decode(bytes);
        CHECK(message.size() == static_cast<std::size_t>(size));
        CHECK(message.index(0) == static_cast<std::size_t>(size) - 1);
        CHECK(message.indices<std::int64_t>()[0] == size - 1);
        CHECK(message.values<float>()[0] == 0.5f);
        CHECK(message.encode() == bytes);
        CHECK_THAT(refusal<gs::value_error>([&] { message.indices<std::int32_t>(); }),
                   ContainsSubstring("expected to be read as std::int64_t"));
    }
}

TEST_CASE("A message says of what type it is read as another", "[core][compression]") {
    auto const message = message_of<double>(10, 0.7);
    CHECK(refusal<gs::value_error>([&] { message.values<float>(); }) ==
          "values: the message is of double; expected to be read as that");
    CHECK(refusal<gs::value_error>([&] { message.indices<std::int64_t>(); }) ==
          "indices: the tensor has 10 elements; expected to be read as std::int32_t");
}
