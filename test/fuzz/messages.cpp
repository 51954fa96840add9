// Messages of trainers: what is decoded is encoded to the same bytes, and a step takes it and moves
// the weights by the mean of what is in it, or refuses it and goes on with the right one. The
// target puts the checksums right.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuzz.hpp"

namespace gs = gradstep;

namespace {

constexpr float rate = 0.125f;
auto const compressing =
    gs::make_updater<float>(gs::dgc_momentum{.mu = 0.5, .sparsity = {0.75}, .num_trainers = 2, .dense_below = 0},
                            gs::constant{rate}, gs::serial_backend{});
auto const plain = gs::make_updater<float>(gs::sgd{}, gs::constant{rate}, gs::serial_backend{});
using compressing_type = std::remove_const_t<decltype(compressing)>;
using plain_type = std::remove_const_t<decltype(plain)>;
using bytes = std::vector<std::byte>;

std::vector<float> numbers(std::size_t n, float first) {
    std::vector<float> out;
    for (std::size_t i = 0; i < n; ++i) out.push_back(first + static_cast<float>(i * 7 % 5) * 0.25f);
    return out;
}
constexpr std::size_t n = 24, few = 3;
std::vector<float> const weights = numbers(n, -1), bias = numbers(few, 0.5f), weight_gradient = numbers(n, -0.5f),
                         bias_gradient = numbers(few, 2);

void put_checksum_right(std::span<std::byte> message) {
    if (message.size() < 16) return;
    std::uint32_t const sum =
        gs::detail::crc32c(gs::detail::crc32c(0, message.data(), 12), message.data() + 16, message.size() - 16);
    std::memcpy(message.data() + 12, &sum, sizeof sum);
}
void put_checksums_right(std::span<std::byte> model) {
    for (std::size_t at = 16; at + 16 <= model.size();) {
        std::uint64_t length = 0;
        std::memcpy(&length, model.data() + at + 8, sizeof length);
        if (length > model.size() - at - 16) break;
        put_checksum_right(model.subspan(at + 16, length));
        at += 16 + (length + 7) / 8 * 8;
    }
    put_checksum_right(model);
}

template <class Message> std::optional<Message> decoded(bytes const& from) {
    std::optional<Message> out;
    if (fuzz::takes([&] { out.emplace(Message::decode(from)); }))
        fuzz::require(out->encode() == from, "a message is encoded otherwise than it came");
    return out;
}

// What the weights must be after the mean of two messages, as a plain loop has it.
std::vector<float> moved(std::vector<float> w, gs::sparse_message const& a, gs::sparse_message const& b) {
    std::vector<float> sum(w.size());
    std::vector<bool> named(w.size());
    for (gs::sparse_message const* m : {&a, &b}) {
        auto const values = m->values<float>();
        for (std::size_t e = 0; e < m->count(); ++e) {
            std::size_t const i = m->index(e);
            sum[i] = named[i] ? sum[i] + values[e] : values[e];
            named[i] = true;
        }
    }
    for (std::size_t i = 0; i < w.size(); ++i)
        if (named[i]) w[i] = std::fma(-rate, sum[i] / 2, w[i]);
    return w;
}
bool same(std::span<float const> a, std::span<float const> b) {
    bool out = a.size() == b.size();
    for (std::size_t i = 0; out && i < a.size(); ++i)
        out = std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]) ||
              (std::isnan(a[i]) && std::isnan(b[i]));
    return out;
}
// The backend sets subnormal numbers to zero, and a loop of the compiler's does not.
bool has_subnormals(gs::sparse_message const& m, std::span<float const> after) {
    bool out = false;
    for (float const x : m.values<float>()) out = out || (x != 0 && std::abs(x) < 1e-30f);
    for (float const x : after) out = out || (x != 0 && std::abs(x) < 1e-30f);
    return out;
}

bool apply(gs::sparse_message const& other) {
    gs::compressed_parameter x{compressing, weights};
    gs::sparse_message const own = x.compress(weight_gradient);
    if (!fuzz::takes([&] { x.apply(own, other); })) {
        fuzz::require(same(x.values(), weights) && x.awaits_messages(),
                      "a message was refused, and has changed something");
        x.apply(own, own);
        fuzz::require(same(x.values(), moved(weights, own, own)), "the step goes wrong after a refusal");
        return false;
    }
    auto const expected = moved(weights, own, other);
    fuzz::require(same(x.values(), expected) || has_subnormals(other, expected), "the weights are moved otherwise");
    return true;
}

gs::compressed_model model() {
    gs::compressed_model out;
    out.add("weight", gs::parameter{compressing, weights});
    out.add("bias", gs::parameter{plain, bias});
    return out;
}
gs::model_message begun(gs::compressed_model& x) {
    return x.compress({{"weight", weight_gradient}, {"bias", bias_gradient}});
}
bool apply(gs::model_message const& other) {
    gs::compressed_model x = model();
    std::vector<gs::model_message> messages{begun(x), other};
    auto const now = [&](char const* which) {
        return std::string_view(which) == "bias" ? x.get<plain_type>("bias").values()
                                                 : x.get<compressing_type>("weight").values();
    };
    bool const taken = fuzz::takes([&] { x.apply(messages); });
    if (!taken) {
        fuzz::require(same(now("weight"), weights) && same(now("bias"), bias) && x.awaits_messages(),
                      "a message was refused, and has changed something");
        messages[1] = messages[0];
        x.apply(messages);
    }
    auto const expected = moved(weights, *messages[0].find("weight"), *messages[1].find("weight"));
    fuzz::require(same(now("weight"), expected) || has_subnormals(*messages[1].find("weight"), expected),
                  "the weights are moved otherwise");
    // What is sent as it is takes a plain step with the mean.
    auto const own = messages[0].find("bias")->values<float>(), others = messages[1].find("bias")->values<float>();
    std::vector<float> expected_bias = bias;
    for (std::size_t i = 0; i < few; ++i)
        expected_bias[i] = std::fma(-rate, (own[i] + others[i]) / 2, expected_bias[i]);
    fuzz::require(same(now("bias"), expected_bias) || has_subnormals(*messages[1].find("bias"), expected_bias),
                  "the bias is moved otherwise");
    return taken;
}

} // namespace

std::vector<std::pair<std::string, std::string>> fuzz::written_seeds() {
    gs::compressed_parameter sparse{compressing, weights};
    gs::compressed_model dense = model();
    return {{"sparse", bytes_of(sparse.compress(weight_gradient).encode())},
            {"model", bytes_of(begun(dense).encode())}};
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    auto const given = std::as_bytes(std::span(data, size));
    bytes single(given.begin(), given.end()), several = single;
    put_checksum_right(single);
    put_checksums_right(several);
    auto const message = decoded<gs::sparse_message>(single);
    auto const messages = decoded<gs::model_message>(several);
    bool const taken = (message && apply(*message)) || (messages && apply(*messages));
    all.count(taken);
    return 0;
}
