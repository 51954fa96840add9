#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/c/gradstep.h>
#include <gradstep/number/bfloat16.hpp>
#include <gradstep/number/float16.hpp>
#include <gradstep/rows/bag_options.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"

/// What a C program holds, released at the end of a test.
class c_parameter {
public:
    explicit c_parameter(gradstep_parameter* handle = nullptr) : handle_(handle) {}
    ~c_parameter() { gradstep_parameter_release(handle_); }
    c_parameter(c_parameter&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
    c_parameter& operator=(c_parameter&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    operator gradstep_parameter*() const { return handle_; }

private:
    gradstep_parameter* handle_;
};

template <class T> constexpr std::int32_t dtype_of();
template <> constexpr std::int32_t dtype_of<float>() { return GRADSTEP_FLOAT32; }
template <> constexpr std::int32_t dtype_of<double>() { return GRADSTEP_FLOAT64; }
template <> constexpr std::int32_t dtype_of<gradstep::bfloat16>() { return GRADSTEP_BFLOAT16; }
template <> constexpr std::int32_t dtype_of<gradstep::float16>() { return GRADSTEP_FLOAT16; }
template <> constexpr std::int32_t dtype_of<std::int32_t>() { return GRADSTEP_INT32; }
template <> constexpr std::int32_t dtype_of<std::uint32_t>() { return GRADSTEP_UINT32; }
template <> constexpr std::int32_t dtype_of<std::int64_t>() { return GRADSTEP_INT64; }
template <> constexpr std::int32_t dtype_of<std::uint64_t>() { return GRADSTEP_UINT64; }

/// The options of C++ in C.
inline gradstep_bag_options bag_options_of(gradstep::bag_options const& how) {
    gradstep_bag_options out = GRADSTEP_BAG_OPTIONS_INIT;
    out.mode = how.mode == gradstep::bag_mode::mean ? GRADSTEP_BAG_MEAN : GRADSTEP_BAG_SUM;
    out.weights = how.weights.data();
    return out;
}

/// A call that has to succeed: `ok([&](gradstep_error* e) { return gradstep_...(..., e); })`.
template <class F> void ok(F const& call) {
    gradstep_error error = GRADSTEP_ERROR_INIT;
    gradstep_status const status = call(&error);
    INFO(error.message);
    REQUIRE(status == GRADSTEP_OK);
    REQUIRE(error.code == 0);
}
/// One that has to be refused with this code; its sentence.
template <class F> std::string refused(gradstep_status code, F const& call) {
    gradstep_error error = GRADSTEP_ERROR_INIT;
    gradstep_status const status = call(&error);
    INFO(error.message);
    CHECK(status == code);
    CHECK(error.code == code);
    CHECK(error.message[0] != 0);
    CHECK(call(nullptr) == code); // without a place for the sentence
    return error.message;
}

template <class T>
c_parameter make(std::string const& config, std::vector<T> const& initial, std::uint64_t rows = 1,
                 std::uint64_t width = 0) {
    gradstep_parameter* out = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_parameter_create(config.data(), config.size(), dtype_of<T>(), initial.data(), rows,
                                         width == 0 ? initial.size() / rows : width, &out, e);
    });
    return c_parameter(out);
}
template <class T>
void update(c_parameter const& of, std::vector<T> const& g, gradstep_step_options const* options = nullptr) {
    ok([&](gradstep_error* e) { return gradstep_parameter_update(of, g.data(), g.size(), options, e); });
}
template <class T> std::vector<T> values(gradstep_parameter* of) {
    void const* data = nullptr;
    std::uint64_t count = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_values(of, &data, &count, e); });
    std::vector<T> out(count);
    if (count != 0) std::memcpy(out.data(), data, count * sizeof(T));
    return out;
}
/// The halves of a step of dgc_momentum: what is sent, and the step with what all have sent.
template <class T>
std::vector<std::byte> compress(c_parameter const& of, std::vector<T> const& g,
                                gradstep_step_options const* options = nullptr) {
    std::uint64_t bytes = 0, written = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_message_bound(of, &bytes, e); });
    std::vector<std::byte> out(bytes);
    ok([&](gradstep_error* e) {
        return gradstep_parameter_compress(of, g.data(), g.size(), options, out.data(), bytes, &written, e);
    });
    REQUIRE(written <= bytes);
    out.resize(written);
    return out;
}
/// f(pointers, lengths, number) of messages as the library takes them.
template <class F> auto with_messages(std::vector<std::vector<std::byte>> const& all, F const& f) {
    std::vector<void const*> at;
    std::vector<std::uint64_t> bytes;
    for (auto const& m : all) at.push_back(m.data()), bytes.push_back(m.size());
    return f(at.data(), bytes.data(), all.size());
}
inline void apply_messages(c_parameter const& of, std::vector<std::vector<std::byte>> const& all) {
    with_messages(all, [&](auto... messages) {
        ok([&](gradstep_error* e) { return gradstep_parameter_apply_messages(of, messages..., e); });
    });
}
/// The state, all slots one after the other, as bytes.
inline std::vector<unsigned char> state(gradstep_parameter* of) {
    std::uint64_t slots = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_slot_count(of, &slots, e); });
    std::vector<unsigned char> out;
    for (std::uint64_t i = 0; i < slots; ++i) {
        gradstep_slot info = GRADSTEP_SLOT_INIT;
        void const* data = nullptr;
        ok([&](gradstep_error* e) { return gradstep_parameter_slot(of, i, &info, &data, e); });
        auto const* const bytes = static_cast<unsigned char const*>(data);
        out.insert(out.end(), bytes,
                   bytes + info.count * (info.dtype == GRADSTEP_FLOAT64 ? 8
                                         : info.dtype < 6               ? 4
                                                                        : 2));
    }
    return out;
}
inline std::string config_of(std::string const& rule, std::string const& more = "") {
    return R"({"rule": )" + rule + R"(, "schedule": {"name": "constant", "rate": 0.0625})" +
           (more.empty() ? "" : ", ") + more + "}";
}
