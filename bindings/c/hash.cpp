#include <charconv>
#include <string_view>

#include <gradstep/bytes/stable_hash.hpp>

#include "support.hpp"

using namespace gradstep::c;

namespace {

std::uint64_t hash_of_prefix(char const* prefix, std::uint64_t bytes) {
    require(prefix, "prefix", bytes);
    return gradstep::detail::hash_of({prefix, static_cast<std::size_t>(bytes)});
}

// Throws unless n numbers exist at an address that they can have.
void require_numbers(void const* data, char const* name, gradstep::scalar type, std::uint64_t n) {
    require(data, name, n);
    if (!gradstep::detail::is_aligned(data, type)) gradstep::detail::refuse_alignment(name, type);
}

template <class Integer>
void hash_integers(std::uint64_t prefix, Integer const* integers, std::uint64_t n, std::uint64_t* keys) {
    for (std::uint64_t i = 0; i != n; ++i) {
        char digits[20]; // "-9223372036854775808"
        char const* const end = std::to_chars(digits, std::end(digits), integers[i]).ptr;
        keys[i] = gradstep::stable_hash(gradstep::detail::hash_of({digits, end}, prefix));
    }
}

} // namespace

gradstep_status gradstep_hash_texts(const char* prefix, uint64_t prefix_bytes, const char* texts, uint64_t texts_bytes,
                                    const uint64_t* begins, const uint64_t* ends, uint64_t n, uint64_t* keys,
                                    gradstep_error* error) {
    return guarded(error, [&] {
        std::uint64_t const before = hash_of_prefix(prefix, prefix_bytes);
        require(texts, "texts", texts_bytes);
        require_numbers(begins, "begins", gradstep::scalar::uint64, n);
        require_numbers(ends, "ends", gradstep::scalar::uint64, n);
        require_numbers(keys, "keys", gradstep::scalar::uint64, n);
        for (std::uint64_t i = 0; i != n; ++i)
            if (begins[i] > ends[i] || ends[i] > texts_bytes)
                refuse(GRADSTEP_BAD_VALUE, {"text ", i}, {"begins at ", begins[i], " and ends at ", ends[i]},
                       {"begins <= ends <= ", texts_bytes, ", the bytes of the texts"});
        for (std::uint64_t i = 0; i != n; ++i) {
            std::string_view const text(texts + begins[i], static_cast<std::size_t>(ends[i] - begins[i]));
            keys[i] = gradstep::stable_hash(gradstep::detail::hash_of(text, before));
        }
    });
}

gradstep_status gradstep_hash_integers(const char* prefix, uint64_t prefix_bytes, const void* integers, int32_t dtype,
                                       uint64_t n, uint64_t* keys, gradstep_error* error) {
    return guarded(error, [&] {
        std::uint64_t const before = hash_of_prefix(prefix, prefix_bytes);
        require(integers, "integers", n);
        require_numbers(keys, "keys", gradstep::scalar::uint64, n);
        auto const hash = [&]<class Integer>(Integer) {
            require_numbers(integers, "integers", gradstep::scalar_of<Integer>(), n);
            hash_integers(before, static_cast<Integer const*>(integers), n, keys);
        };
        switch (dtype) {
        case GRADSTEP_INT32:
            return hash(std::int32_t());
        case GRADSTEP_UINT32:
            return hash(std::uint32_t());
        case GRADSTEP_INT64:
            return hash(std::int64_t());
        case GRADSTEP_UINT64:
            return hash(std::uint64_t());
        default:
            refuse(GRADSTEP_UNSUPPORTED_TYPE, {"dtype"}, {dtype, " is no type of integers"},
                   {"GRADSTEP_INT32, UINT32, INT64 or UINT64"});
        }
    });
}
