// gradstep/c/paddle_optimizer.h over the updaters of gradstep/c/gradstep.h.

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradstep/backends/serial.hpp>
#include <gradstep/c/gradstep.h>
#include <gradstep/c/paddle_optimizer.h>
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/memory/huge_pages.hpp>

#include <google/protobuf/io/coded_stream.h>

#include "optimizer_config.pb.h"

namespace {

using gradstep::paddle::OptimizerConfig;
using gradstep::paddle::OptimizerState;
using gradstep::paddle::TensorProto;

// ---- The configuration ----

// A number as JSON. NaN and infinity are no JSON, and gradstep rejects them.
std::string text(double x) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

// The rule in gradstep's names. `decay`, which PaddlePaddle's file calls one of the learning rate,
// is one of the weights: in sgd it enters the momentum, in the others it stands beside the step.
struct rule_of_message {
    std::string rule;
    std::string_view regularizer;
    double decay;
};

std::optional<rule_of_message> rule_of(OptimizerConfig const& config) {
    switch (config.optimizer()) {
    case OptimizerConfig::SGD: {
        auto const& sgd = config.sgd();
        if (sgd.momentum() == 0) return rule_of_message{R"({"name":"sgd"})", "l2", sgd.decay()};
        std::string const name = sgd.nesterov() ? "nesterov" : "momentum";
        return rule_of_message{R"({"name":")" + name + R"(","rate_place":"inside","mu":)" + text(sgd.momentum()) + "}",
                               "l2", sgd.decay()};
    }
    case OptimizerConfig::Adadelta: {
        auto const& adadelta = config.adadelta();
        return rule_of_message{R"({"name":"adadelta","rho":)" + text(adadelta.rho()) + R"(,"epsilon":)" +
                                   text(adadelta.epsilon()) + "}",
                               "decoupled", adadelta.decay()};
    }
    case OptimizerConfig::Adagrad: {
        auto const& adagrad = config.adagrad();
        return rule_of_message{R"({"name":"adagrad","epsilon_place":"inside","epsilon":)" + text(adagrad.epsilon()) +
                                   "}",
                               "decoupled", adagrad.decay()};
    }
    case OptimizerConfig::Adam: {
        auto const& adam = config.adam();
        return rule_of_message{R"({"name":"adam","epsilon_place":"inside","beta1":)" + text(adam.beta_1()) +
                                   R"(,"beta2":)" + text(adam.beta_2()) + R"(,"epsilon":)" + text(adam.epsilon()) + "}",
                               "decoupled", adam.decay()};
    }
    default:
        return {};
    }
}

// The configuration of an updater, whose rate comes with every step; "" for an optimizer that is
// not known.
std::string configuration_of(OptimizerConfig const& config) {
    auto const found = rule_of(config);
    if (!found) return {};
    std::string const clip = R"({"name":"clip_value","limit":)" + text(config.clip_value()) + "}";
    std::string const decay =
        R"({"name":")" + std::string(found->regularizer) + R"(","rate":)" + text(found->decay) + "}";
    std::string regularizer = R"({"name":"none"})"; // one alone by its name: its loop is faster than the loop of all_of
    if (config.clip_value() != 0 && found->decay != 0)
        regularizer = R"({"name":"all_of","regularizers":[)" + clip + "," + decay + "]}";
    else if (config.clip_value() != 0) regularizer = clip;
    else if (found->decay != 0) regularizer = decay;
    return R"({"rule":)" + found->rule + R"(,"regularizer":)" + regularizer + R"(,"schedule":{"name":"external"}})";
}

// The learning rate of update number t, from 1.
struct learning_rate {
    double rate = 1, a = 0, b = 0;
    bool is_linear = false;

    double at(double t) const { return is_linear ? std::max(rate - a * t, b) : rate; }
    // Whether it is never negative.
    bool is_valid() const {
        if (!is_linear) return std::isfinite(rate) && rate >= 0;
        return std::isfinite(rate) && std::isfinite(a) && std::isfinite(b) && b >= 0;
    }
};

std::optional<learning_rate> learning_rate_of(OptimizerConfig const& config) {
    switch (config.lr_policy()) {
    case OptimizerConfig::Const:
        return learning_rate{.rate = config.const_lr().learning_rate()};
    case OptimizerConfig::Linear: {
        auto const& linear = config.linear_lr();
        return learning_rate{linear.learning_rate(), linear.lr_decay_a(), linear.lr_decay_b(), true};
    }
    default:
        return {};
    }
}

// ---- Memory ----

struct release {
    void operator()(void* memory) const { std::free(memory); }
    void operator()(gradstep_updater* updater) const { gradstep_updater_release(updater); }
};
using memory = std::unique_ptr<void, release>;

// Memory that this library owns: zeros, aligned to a cache line, in huge pages if it is large.
using tensor_memory = std::vector<std::byte, gradstep::huge_page_allocator<std::byte>>;

bool is_float(paddle_element_type type) { return type == PADDLE_ELEMENT_TYPE_FLOAT32; }
bool is_element(paddle_element_type type) { return is_float(type) || type == PADDLE_ELEMENT_TYPE_FLOAT64; }
std::size_t bytes_of(paddle_element_type type) { return is_float(type) ? sizeof(float) : sizeof(double); }
static_assert(int{PADDLE_ELEMENT_TYPE_FLOAT32} == GRADSTEP_FLOAT32 &&
              int{PADDLE_ELEMENT_TYPE_FLOAT64} == GRADSTEP_FLOAT64);

bool is_aligned(void const* buffer, paddle_element_type type) {
    return reinterpret_cast<std::uintptr_t>(buffer) % bytes_of(type) == 0;
}

// ---- Tensors of a state ----

// A TensorProto of one string an element. Written and read without protobuf's classes, which would
// take 60 bytes for each.
constexpr char type_tag = TensorProto::kDataTypeFieldNumber << 3;       // a number
constexpr char content_tag = TensorProto::kContentFieldNumber << 3 | 2; // bytes, after their length

template <class T> void write_elements(std::string& tensor, T const* x, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        char digits[32];
        auto const length = std::to_chars(digits, digits + sizeof digits, x[i]).ptr - digits;
        tensor += content_tag;
        tensor += static_cast<char>(length);
        tensor.append(digits, static_cast<std::size_t>(length));
    }
}

std::string tensor_of(paddle_element_type type, void const* x, std::size_t count) {
    std::string tensor{type_tag, static_cast<char>(type)};
    if (is_float(type)) write_elements(tensor, static_cast<float const*>(x), count);
    else write_elements(tensor, static_cast<double const*>(x), count);
    return tensor;
}

template <class T> bool read_elements(std::string const& tensor, paddle_element_type type, T* x, std::size_t count) {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<std::uint8_t const*>(tensor.data()),
                                              static_cast<int>(tensor.size()));
    T const* const end = x + count;
    std::uint32_t got_type = PADDLE_ELEMENT_TYPE_INT32, length = 0;
    while (auto const tag = in.ReadTag()) {
        if (tag == type_tag) {
            if (!in.ReadVarint32(&got_type)) return false;
        } else if (tag == content_tag) {
            void const* bytes = nullptr;
            int left = 0;
            if (x == end || !in.ReadVarint32(&length) || !in.GetDirectBufferPointer(&bytes, &left) ||
                length > static_cast<std::uint32_t>(left))
                return false;
            auto const* const digits = static_cast<char const*>(bytes);
            auto const got = std::from_chars(digits, digits + length, *x++);
            if (got.ec != std::errc{} || got.ptr != digits + length) return false;
            in.Skip(static_cast<int>(length));
        } else {
            return false;
        }
    }
    return in.ConsumedEntireMessage() && x == end && got_type == static_cast<std::uint32_t>(type);
}

// Whether the tensor has `count` elements of this type, which are now in x.
bool read(std::string const& tensor, paddle_element_type type, void* x, std::size_t count) {
    return is_float(type) ? read_elements(tensor, type, static_cast<float*>(x), count)
                          : read_elements(tensor, type, static_cast<double*>(x), count);
}

// gradstep's clock of every updater. So far from the start 1 - beta^t is 1 for every beta:
// PaddlePaddle's adam corrects its bias by the learning rate, which its epsilon does not see, but
// its decay does.
constexpr std::int64_t settled = std::int64_t{1} << 62;
constexpr std::size_t most_slots = 2;  // a state of PaddlePaddle's
constexpr double longest_run = 0x1p53; // steps; a state has their number as a double

} // namespace

struct paddle_optimizer {
    paddle_element_type type = PADDLE_ELEMENT_TYPE_FLOAT32;
    std::size_t count = 0; // elements
    memory parameter;
    tensor_memory slots[most_slots];
    std::size_t slot_count = 0;
    std::unique_ptr<gradstep_updater, release> updater;
    learning_rate rate;
    double beta1 = 0, beta2 = 0; // of adam; 0 correct nothing
    double clip_norm = 0;        // 0: none
    double steps = 0;

    std::size_t bytes() const { return count * bytes_of(type); }

    double gradient_scale(void const* gradient) const {
        if (clip_norm == 0) return 1;
        gradstep::serial_backend const backend;
        double const norm =
            is_float(type) ? gradstep::global_norm(backend, std::span(static_cast<float const*>(gradient), count))
                           : gradstep::global_norm(backend, std::span(static_cast<double const*>(gradient), count));
        return gradstep::clip_scale(norm, clip_norm); // throws where the norm is not finite
    }

    bool update(void const* gradient) {
        double const t = steps + 1;
        gradstep_step_options now = GRADSTEP_STEP_OPTIONS_INIT;
        now.rate = rate.at(t) * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
        now.given = GRADSTEP_GIVEN_RATE;
        now.gradient_scale = gradient_scale(gradient);
        if (gradstep_updater_next_step(updater.get(), &now, nullptr) != GRADSTEP_OK) return false;
        void* const state[] = {slots[0].data(), slots[1].data()};
        // Where this refuses, the clock is one step ahead: so far out that makes no difference.
        if (gradstep_updater_apply(updater.get(), parameter.get(), gradient, state, count, nullptr) != GRADSTEP_OK)
            return false;
        steps = t;
        return true;
    }

    OptimizerState state() const {
        OptimizerState all;
        all.set_parameter(tensor_of(type, parameter.get(), count));
        if (slot_count > 0) all.set_slot_1(tensor_of(type, slots[0].data(), count));
        if (slot_count > 1) all.set_slot_2(tensor_of(type, slots[1].data(), count));
        all.mutable_lr_state()->set_learning_rate(rate.rate);
        if (rate.is_linear) {
            all.mutable_lr_state()->set_lr_decay_a(rate.a);
            all.mutable_lr_state()->set_lr_decay_b(rate.b);
        }
        all.set_num_sample_passed(steps);
        return all;
    }

    // Everything of a state but the parameter, whose values go to `values`.
    bool restore(OptimizerState const& all, void* values) {
        if (all.has_slot_1() != (slot_count > 0) || all.has_slot_2() != (slot_count > 1)) return false;
        if (!read(all.parameter(), type, values, count)) return false;
        if (slot_count > 0 && !read(all.slot_1(), type, slots[0].data(), count)) return false;
        if (slot_count > 1 && !read(all.slot_2(), type, slots[1].data(), count)) return false;
        if (all.has_lr_state()) { // states of PaddlePaddle's first versions have none
            rate.rate = all.lr_state().learning_rate();
            rate.a = all.lr_state().lr_decay_a();
            rate.b = all.lr_state().lr_decay_b();
        }
        steps = all.num_sample_passed();
        return rate.is_valid() && steps >= 0 && steps < longest_run && std::floor(steps) == steps;
    }
};

namespace {

// The optimizer that a message describes, without a parameter. NULL if the message is invalid.
std::unique_ptr<paddle_optimizer> optimizer_of(OptimizerConfig const& config, paddle_element_type type,
                                               std::size_t count, void const* values) {
    auto const rate = learning_rate_of(config);
    if (!rate || !rate->is_valid() || !(config.clip_norm() >= 0) || std::isinf(config.clip_norm())) return {};
    std::string const json = configuration_of(config);

    auto o = std::make_unique<paddle_optimizer>();
    o->type = type;
    o->count = count;
    gradstep_updater* updater = nullptr;
    if (gradstep_updater_create(json.data(), json.size(), type, &updater, nullptr) != GRADSTEP_OK) return {};
    o->updater.reset(updater);
    o->rate = *rate;
    o->clip_norm = config.clip_norm();
    if (config.optimizer() == OptimizerConfig::Adam) {
        o->beta1 = config.adam().beta_1();
        o->beta2 = config.adam().beta_2();
    }

    std::uint64_t slot_count = 0;
    if (gradstep_updater_slot_count(updater, &slot_count, nullptr) != GRADSTEP_OK || slot_count > most_slots) return {};
    o->slot_count = static_cast<std::size_t>(slot_count);
    void* slots[most_slots] = {};
    for (std::size_t i = 0; i < o->slot_count; ++i) {
        o->slots[i] = tensor_memory(o->bytes());
        slots[i] = o->slots[i].data();
    }
    gradstep_clock clock = GRADSTEP_CLOCK_INIT;
    clock.step = settled;
    if (gradstep_updater_initialize(updater, values, slots, count, nullptr) != GRADSTEP_OK ||
        gradstep_updater_seek(updater, &clock, nullptr) != GRADSTEP_OK)
        return {};
    return o;
}

// What f returns; `failed` where it throws.
template <class F, class Result> Result guarded(Result failed, F f) noexcept {
    try {
        return f();
    } catch (...) {
        return failed;
    }
}

} // namespace

extern "C" {

paddle_optimizer* paddle_create_optimizer(const unsigned char* config_proto, int config_proto_len,
                                          paddle_element_type data_type, void* param_buffer, int num_bytes,
                                          const char* state, int state_len) {
    return guarded(static_cast<paddle_optimizer*>(nullptr), [&]() -> paddle_optimizer* {
        // A server that has no bytes gives NULL and 0: an empty message, and no state.
        if (config_proto_len < 0 || (config_proto == nullptr && config_proto_len != 0) || param_buffer == nullptr ||
            num_bytes <= 0 || state_len < 0 || (state == nullptr && state_len != 0))
            return nullptr;
        auto const bytes = static_cast<std::size_t>(num_bytes);
        if (!is_element(data_type) || bytes % bytes_of(data_type) != 0 || !is_aligned(param_buffer, data_type))
            return nullptr;

        OptimizerConfig config;
        if (config_proto_len > 0 && !config.ParseFromArray(config_proto, config_proto_len)) return nullptr;
        auto o = optimizer_of(config, data_type, bytes / bytes_of(data_type), param_buffer);
        if (!o) return nullptr;
        if (state_len > 0) {
            OptimizerState all;
            tensor_memory values(bytes);
            if (!all.ParseFromArray(state, state_len) || !o->restore(all, values.data())) return nullptr;
            std::memcpy(param_buffer, values.data(), bytes);
        }
        o->parameter.reset(param_buffer); // last, because the caller owns it if anything before fails
        return o.release();
    });
}

int paddle_release_optimizer(paddle_optimizer* o) {
    delete o;
    return PADDLE_SUCCESS;
}

int paddle_update_parameter(paddle_optimizer* o, paddle_element_type data_type, const void* gradient, int num_bytes) {
    return guarded(int{PADDLE_ERROR}, [&]() -> int {
        if (o == nullptr || gradient == nullptr || data_type != o->type || num_bytes < 0 ||
            static_cast<std::size_t>(num_bytes) != o->bytes())
            return PADDLE_ERROR;
        tensor_memory copy; // of a gradient that lies in a message of the network, anywhere
        if (!is_aligned(gradient, data_type)) {
            copy.resize(o->bytes());
            std::memcpy(copy.data(), gradient, o->bytes());
            gradient = copy.data();
        }
        return o->update(gradient) ? PADDLE_SUCCESS : PADDLE_ERROR;
    });
}

int paddle_optimizer_get_weights(paddle_optimizer* o, void** buffer) {
    if (buffer == nullptr) return PADDLE_ERROR;
    *buffer = o == nullptr ? nullptr : o->parameter.get();
    return o == nullptr ? int{PADDLE_ERROR} : static_cast<int>(o->count);
}

int paddle_optimizer_get_state(paddle_optimizer* o, const char** state) {
    if (state == nullptr) return PADDLE_ERROR;
    *state = nullptr;
    return guarded(int{PADDLE_ERROR}, [&]() -> int {
        if (o == nullptr) return PADDLE_ERROR;
        OptimizerState const all = o->state();
        std::size_t const bytes = all.ByteSizeLong();
        if (bytes > INT_MAX) return PADDLE_ERROR;
        memory buffer{std::malloc(bytes)};
        if (!buffer || !all.SerializeToArray(buffer.get(), static_cast<int>(bytes))) return PADDLE_ERROR;
        *state = static_cast<char const*>(buffer.release());
        return static_cast<int>(bytes);
    });
}

} // extern "C"
