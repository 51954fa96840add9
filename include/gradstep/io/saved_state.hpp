#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradstep/core/bfloat16.hpp>
#include <gradstep/core/clock.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/float16.hpp>
#include <gradstep/core/members.hpp>
#include <gradstep/core/slice.hpp>
#include <gradstep/sparse/row_progress.hpp>

// What a parameter, a member of a model or a table has to save, in terms of every file: io/checkpoint.hpp and io/state.hpp
// read and write it. Of a type of updater it costs little more than a list of its buffers.
namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// safetensors' name of numbers of this type; empty where it has none.
template <class T> constexpr char const* dtype_of() {
    if constexpr (std::is_same_v<T, float>) return "F32";
    else if constexpr (std::is_same_v<T, double>) return "F64";
    else if constexpr (std::is_same_v<T, gradstep::bfloat16>) return "BF16";
    else if constexpr (std::is_same_v<T, gradstep::float16>) return "F16";
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) return std::is_signed_v<T> ? "I32" : "U32";
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) return std::is_signed_v<T> ? "I64" : "U64";
    else return "";
}

// Memory of one kind: the values (of an empty name), a state slot, the stamps of rows, ... `rows` numbers, or rows of
// `width`. Where it lies: one piece, or one for each segment of a table; none of what is in a file.
struct saved_tensor {
    std::string slot = {}, dtype = {};
    std::uint64_t rows = 0, width = 0; // 0: numbers instead of rows
    std::size_t element_bytes = 0;
    bool is_of_host = false; // whatever the backend's memory is
    std::vector<std::span<std::byte>> pieces = {};
};

// How the memory of a device is read and written; null for that of the host.
struct memory_access {
    using copy = void(void const* backend, std::span<std::byte const> from, std::span<std::byte> to);
    void const* backend = nullptr;
    copy *read = nullptr, *write = nullptr;
};

// What a table has besides: where its run stands, and what rows begin with that it grows by.
struct saved_rows {
    enum class distribution { constant, uniform, normal };
    row_progress progress = {}; // its clock is that of the state, its history a tensor
    distribution initial = distribution::constant;
    double first = 0, second = 0; // the constant; low and high; mean and deviation
    std::uint64_t seed = 0;
};

struct saved_state {
    std::string name = {}, element = {}, rule = {}, policies = {};
    gradstep::clock clock = {};
    std::optional<std::uint64_t> id = {}; // in stochastic rounding, where the owner cannot know it
    std::optional<saved_rows> rows = {};
    memory_access access = {};
    std::vector<saved_tensor> tensors = {};

    [[gnu::noinline]] saved_tensor& add(char const* slot, char const* dtype, std::size_t element_bytes,
                                        std::uint64_t count, std::uint64_t width = 0) {
        tensors.push_back({slot, dtype, count, width, element_bytes});
        return tensors.back();
    }
    saved_tensor const* find(std::string_view slot) const {
        for (saved_tensor const& x : tensors)
            if (x.slot == slot) return &x;
        return nullptr;
    }
};

// A saved state that is read from: a file's, or that of bytes in memory.
class saved_source {
public:
    virtual ~saved_source() = default;
    virtual saved_state const& state() const = 0;
    virtual std::string where() const = 0; // for errors: "model.safetensors: deep.weight"
    virtual void read(std::string_view slot, std::uint64_t offset, std::span<std::byte> to) const = 0;
};

// "averaged{momentum, ema}": what a rule is, whatever its numbers are.
template <class Policy> void append_policy_name(std::string& out);
template <class Policy, class Value>
void append_inner_name(std::string& out, [[maybe_unused]] member<Policy, Value> const& of) {
    if constexpr (std::is_class_v<Value> && !numbers<Value>) {
        out += out.ends_with('}') || out.find('{') == out.npos ? "{" : ", ";
        append_policy_name<Value>(out);
    }
}
template <class Policy> void append_policy_name(std::string& out) {
    std::string name(type_name<Policy>());
    if constexpr (lists_members<Policy>) {
        Policy::members.for_each([&](auto const& m) { append_inner_name(name, m); });
        if (name.find('{') != name.npos) name += '}';
    }
    out += name;
}

template <class Backend> memory_access access_of(Backend const& of) {
    using byte = unsigned char;
    if constexpr (std::is_same_v<typename Backend::memory_space, host_memory>) return {};
    else
        return {&of,
                [](void const* backend, std::span<std::byte const> from, std::span<std::byte> to) {
                    static_cast<Backend const*>(backend)->copy_to_host(
                        std::span(reinterpret_cast<byte const*>(from.data()), from.size()),
                        std::span(reinterpret_cast<byte*>(to.data()), to.size()));
                },
                [](void const* backend, std::span<std::byte const> from, std::span<std::byte> to) {
                    static_cast<Backend const*>(backend)->copy_from_host(
                        std::span(reinterpret_cast<byte const*>(from.data()), from.size()),
                        reinterpret_cast<byte*>(to.data()));
                }};
}

// What is saved of every owner of an updater.
template <class Updater> saved_state saved_policies(Updater const& of) {
    saved_state out;
    out.element = Updater::traits::name;
    append_policy_name<typename Updater::rule_type>(out.rule);
    out.clock = of.clock();
    out.access = access_of(of.backend());
    return out;
}
// Of one tensor.
template <class Updater> saved_state saved_state_of(tensor<Updater> const& x, Updater const& by) {
    using storage = typename Updater::traits::storage;
    using state = typename Updater::traits::state;
    saved_state out = saved_policies(by);
    out.add("", dtype_of<storage>(), sizeof(storage), x.weight.size()).pieces = {std::as_writable_bytes(x.weight)};
    for (std::size_t i = 0; i != Updater::slots; ++i)
        out.add(Updater::state_names[i], dtype_of<state>(), sizeof(state), x.state[i].size()).pieces = {
            std::as_writable_bytes(x.state[i])};
    return out;
}

// Calls f(bytes on the host) for the memory of a tensor from its beginning to its end. `fill`: f writes it, else it reads.
template <class F> void each_piece(saved_state const& of, saved_tensor const& x, bool fill, F const& f) {
    constexpr std::size_t most = std::size_t{1} << 22;
    std::vector<std::byte> staging;
    for (std::span<std::byte> const piece : x.pieces) {
        if (x.is_of_host || of.access.read == nullptr) {
            f(piece);
            continue;
        }
        for (std::size_t first = 0; first < piece.size(); first += most) {
            std::span<std::byte> const there = piece.subspan(first, std::min(most, piece.size() - first));
            staging.resize(std::min(most, std::max(staging.size(), there.size())));
            std::span<std::byte> const here(staging.data(), there.size());
            if (!fill) of.access.read(of.access.backend, there, here);
            f(here);
            if (fill) of.access.write(of.access.backend, here, there);
        }
    }
}

// Throws value_error or size_error for the first thing in which what was saved differs from what it is to become.
[[gnu::noinline]] inline void require_same(saved_source const& from, saved_state const& own) {
    saved_state const& saved = from.state();
    auto const refuse = [&](std::initializer_list<piece> why) { fail<value_error>({from.where(), ": ", joined(why)}); };
    auto const slot_of = [](saved_tensor const& x) { return x.slot.empty() ? "the values" : "the slot " + x.slot; };
    if (saved.rows.has_value() != own.rows.has_value())
        refuse({saved.rows ? "is a table, and not a parameter" : "is a parameter, and not a table"});
    if (saved.element != own.element) refuse({"is of ", saved.element, ": must be of ", own.element});
    if (saved.rule != own.rule) refuse({"is of the rule ", saved.rule, ": must be of ", own.rule});
    for (saved_tensor const& x : own.tensors) {
        saved_tensor const* const there = saved.find(x.slot);
        if (there == nullptr) refuse({slot_of(x), " is missing"});
        if (there->dtype != x.dtype) refuse({slot_of(x), " is of ", there->dtype, ": must be of ", x.dtype});
        if (there->rows != x.rows || there->width != x.width) {
            auto const shape = [](saved_tensor const& y) {
                return text(y.rows) + (y.width == 0 ? "" : " x " + text(y.width));
            };
            fail<size_error>(
                {from.where(), ": ", slot_of(x), ": has ", shape(*there), " elements: must have ", shape(x)});
        }
    }
    for (saved_tensor const& x : saved.tensors)
        if (own.find(x.slot) == nullptr) refuse({"has ", slot_of(x), ", which is not kept here"});
    if (saved.clock.step < 0 || saved.clock.samples < 0 || saved.clock.epoch < 0)
        refuse({"clock{step = ", saved.clock.step, ", samples = ", saved.clock.samples, ", epoch = ", saved.clock.epoch,
                "}: counts must be >= 0"});
}
// Everything into its place, once all is known to fit.
[[gnu::noinline]] inline void read_into(saved_source const& from, saved_state const& own) {
    for (saved_tensor const& x : own.tensors) {
        std::uint64_t offset = 0;
        each_piece(own, x, true, [&](std::span<std::byte> to) {
            from.read(x.slot, offset, to);
            offset += to.size();
        });
    }
}

// io/checkpoint.hpp defines it; save and load are templates that look for it when they are called, so that JSON is compiled
// by those alone who write files.
class checkpoint_files;
template <class Files> constexpr bool require_checkpoints() {
    constexpr bool included = requires { sizeof(Files); };
    static_assert(included, "gradstep: save and load of files: include <gradstep/io/checkpoint.hpp>");
    return included;
}

// What io/state.hpp has of parameters and tables.
struct state_of;

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
