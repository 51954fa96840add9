#pragma once
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/number/random.hpp>

// How entries are ordered by magnitude, and how the cut of a selection is found: by radix
// selection, and by samples.
namespace gradstep::detail::inline GRADSTEP_ISA {
// The order in which entries are selected: by the bits of |x| as a natural number, so that
// infinities come before all numbers and NaN before those; of equal ones the lower index first.
template <class T> using magnitude_key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T> GRADSTEP_HD magnitude_key<T> key_of(T x) {
    return __builtin_bit_cast(magnitude_key<T>, x) & (~magnitude_key<T>(0) >> 1);
}
template <class T> T magnitude_of(magnitude_key<T> key) { return __builtin_bit_cast(T, key); }

// What is selected: all above a key, and of those that have it the ones below an index.
template <class Key> struct key_cut {
    Key key = 0;
    std::size_t ties_end = 0;
    GRADSTEP_HD bool takes(Key k, std::size_t i) const { return k > key || (k == key && i < ties_end); }
};

// Between which keys the cut is expected, from a sample, and how many entries will lie there.
template <class T> struct key_bracket {
    using key_type = magnitude_key<T>;
    key_type low = 0;               // what is not below it is counted,
    std::optional<key_type> high{}; // what is not below this one only counted, all else is kept
    std::size_t room = 0;           // how many may be kept

    // The key that packs compare with. "Not below" gives the same answer for numbers as for keys,
    // NaN included, if the number is neither NaN nor a subnormal that the floating-point mode
    // treats as 0.
    static key_type comparable(key_type key) {
        return std::clamp(key, key_of(std::numeric_limits<T>::min()), key_of(std::numeric_limits<T>::infinity()));
    }
};

// The digits of a key from the highest on, of at most 11 bits each, as radix selection goes through
// them.
template <class Key> struct key_digits {
    static constexpr int bits = std::numeric_limits<Key>::digits - 1, most = 11, count = (bits + most - 1) / most;
    static constexpr std::size_t values = std::size_t(1) << most;
    static constexpr int shift(int digit) { return bits * (count - 1 - digit) / count; }
    static constexpr int width(int digit) { return (digit == 0 ? bits : shift(digit - 1)) - shift(digit); }
};

// Finds the key with which the number of entries from it upwards first reaches `wanted`, by radix
// selection: add(digit_of, counts) adds 1 to counts[digit_of(key)] for every key for which digit_of
// is not negative; counts has key_digits<Key>::values elements for each of `parts`. `wanted`
// becomes how many are to be taken of those that have the key, and the last counts are left in
// `counts`.
template <class Key> struct digit_of_key {
    Key prefix;
    int shift, width;
    GRADSTEP_INLINE bool concerns(Key key) const { return key >> shift >> width == prefix; }
    GRADSTEP_INLINE std::size_t operator()(Key key) const {
        return static_cast<std::size_t>(key >> shift) & ((std::size_t(1) << width) - 1);
    }
};
template <class Key, class Add>
Key key_at_rank(std::size_t& wanted, std::size_t* counts, std::size_t parts, Add const& add) {
    using digits = key_digits<Key>;
    Key prefix = 0;
    for (int d = 0; d != digits::count; ++d) {
        std::fill_n(counts, parts * digits::values, std::size_t(0));
        add(digit_of_key<Key>{prefix, digits::shift(d), digits::width(d)}, counts);
        std::size_t value = std::size_t(1) << digits::width(d);
        while (true) {
            --value;
            std::size_t here = 0;
            for (std::size_t p = 0; p != parts; ++p) here += counts[p * digits::values + value];
            if (here >= wanted || value == 0) break;
            wanted -= here;
        }
        prefix = prefix << digits::width(d) | static_cast<Key>(value);
    }
    return prefix;
}

// f(part) for each of `parts`, on threads of the backend where it has them.
template <class Backend, class F>
void for_each_part(Backend const& backend, std::size_t parts, F const& f, [[maybe_unused]] std::size_t bytes) {
    if constexpr (requires { backend.for_each_part(parts, f, bytes); }) backend.for_each_part(parts, f, bytes);
    else if constexpr (reads_in_parts<Backend>) backend.for_each_part(parts, f);
    else
        for (std::size_t p = 0; p != parts; ++p) f(p);
}
template <class Backend>
std::size_t parts_for([[maybe_unused]] Backend const& backend, [[maybe_unused]] std::size_t bytes) {
    if constexpr (reads_in_parts<Backend>) return backend.parts_for(bytes);
    else return 1;
}
template <class Backend, class T> struct pack_of_backend { using type = T; };
template <class Backend, class T>
requires(reads_in_parts<Backend>) struct pack_of_backend<Backend, T> {
    using type = typename Backend::template pack<T>;
};

// How the indices of a sample are chosen: the same in every call, or at random.
struct sample_indices {
    std::size_t elements, runs, run; // so many runs of neighbours
    std::uint64_t seed = 0, stream = 0;
    bool at_random = false;

    // Enough for the k-th largest of n to be known within a few per mille of n, few enough to cost
    // little.
    static sample_indices of(std::size_t n) {
        constexpr std::size_t run = 4, most = 65536;
        return {n, std::max<std::size_t>(1, std::min(most, n / 32) / run), run};
    }
    static sample_indices random(std::size_t n, std::uint64_t seed, std::uint64_t stream) {
        return {n, std::min<std::size_t>(n, 65536), 1, seed, stream, true};
    }
    std::size_t size() const { return runs * run; }
    GRADSTEP_HD std::size_t begin(std::size_t r) const {
        if (at_random) {
            auto const low = [](std::uint64_t x) GRADSTEP_INLINE_LAMBDA { return static_cast<std::uint32_t>(x); };
            philox_words const x = philox4x32({{low(r), low(r >> 32), low(stream), low(stream >> 32)}}, seed);
            return static_cast<std::size_t>((std::uint64_t(x.word[1]) << 32 | x.word[0]) % elements);
        }
        // Somewhere in the r-th of equal strides, since what is at equal distances may be alike.
        std::size_t const stride = elements / runs, first = r * stride;
        std::uint32_t x = static_cast<std::uint32_t>(r) * 0x9e3779b9u;
        x ^= x >> 15;
        x *= 0x85ebca6bu;
        return first + (x >> 4) % (stride - run + 1);
    }
};

// The key of a rank, from 1, in a sample. Reorders a sixteenth of the sample, or all of it for
// larger ranks. For a small rank, each of the remaining keys is read once.
template <class Key> Key key_of_rank(std::span<Key> sample, std::size_t rank) {
    auto const at_rank = [&](std::size_t count) {
        auto const nth = sample.begin() + (static_cast<std::ptrdiff_t>(rank) - 1);
        std::nth_element(sample.begin(), nth, sample.begin() + static_cast<std::ptrdiff_t>(count),
                         [](Key a, Key b) { return a > b; });
        return *nth;
    };
    if (16 * rank > sample.size()) return at_rank(sample.size());
    Key least = 0;
    std::size_t found = 0;
    for (Key const key : sample) {
        if (key < least) continue;
        sample[found++] = key; // of what was looked at, nothing else is needed
        if (found == 8 * rank) {
            least = at_rank(found);
            found = rank;
        }
    }
    return at_rank(found);
}

// The bracket of the k-th largest of n, by the keys of a sample, which are left in another order.
// By what a sample of m of them is off, four times its standard deviation, the rank is widened to
// both sides.
template <class T> key_bracket<T> bracket_of(std::span<magnitude_key<T>> sample, std::size_t n, std::size_t k) {
    using key_type = magnitude_key<T>;
    double const m = static_cast<double>(sample.size()), share = static_cast<double>(k) / static_cast<double>(n);
    double const rank = share * m, margin = 4 * std::sqrt(rank * (1 - share)) + 4;
    auto const key_at = [&](double at) { return key_of_rank<key_type>(sample, static_cast<std::size_t>(at)); };
    key_bracket<T> out;
    double const low = std::ceil(rank + margin), high = std::floor(rank - margin);
    double kept = std::min(low, m);
    if (low <= m) out.low = key_at(low);
    if (low > m / 16 && high >= 1) { // so many that they are counted, and not kept
        out.high = key_at(high);
        kept -= high;
    }
    out.low = out.comparable(out.low);
    if (out.high) out.high = out.comparable(*out.high);
    std::size_t const expected = static_cast<std::size_t>(kept / m * static_cast<double>(n));
    out.room = std::min(n, 2 * expected + 1024);
    return out;
}

// The bracket of a sample at random indices, of which all that is not below its k-th largest is
// taken: at most so many.
template <class T>
key_bracket<T> sampled_bracket(std::span<magnitude_key<T>> sample, std::size_t n, std::size_t k, std::size_t most) {
    double const rank = static_cast<double>(k) / static_cast<double>(n) * static_cast<double>(sample.size());
    key_bracket<T> out;
    out.low = out.comparable(
        key_of_rank<magnitude_key<T>>(sample, static_cast<std::size_t>(std::max(1.0, std::round(rank)))));
    out.room = most;
    if (k > n / 16) { // too many to be kept
        out.high = out.low;
        out.room = 0;
    }
    return out;
}
// The bracket that a selection begins with; there is no sample where all are kept.
inline bool is_all_kept(std::size_t n, sample_indices const& chosen) { return n <= 4096 && !chosen.at_random; }
template <class T>
key_bracket<T> first_bracket(std::span<magnitude_key<T>> sample, std::size_t n, std::size_t k, std::size_t most,
                             sample_indices const& chosen) {
    if (is_all_kept(n, chosen)) return {.room = n};
    return chosen.at_random ? sampled_bracket<T>(sample, n, k, most) : bracket_of<T>(sample, n, k);
}

// An entry that the pass has kept.
template <class Key> struct kept_key {
    Key key;
    std::size_t index;
};
// The cut that takes `wanted` of the kept ones, which each_kept(f) goes through in the order of
// their indices.
template <class Key, class EachKept>
key_cut<Key> cut_of_kept(std::size_t wanted, std::size_t* counts, EachKept const& each_kept) {
    key_cut<Key> cut;
    cut.key = key_at_rank<Key>(wanted, counts, 1, [&](auto digit, std::size_t* of_digit) {
        each_kept([&](kept_key<Key> const& e) {
            if (digit.concerns(e.key)) ++of_digit[digit(e.key)];
        });
    });
    each_kept([&](kept_key<Key> const& e) {
        if (e.key == cut.key && wanted != 0) {
            --wanted;
            cut.ties_end = e.index + 1;
        }
    });
    return cut;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
