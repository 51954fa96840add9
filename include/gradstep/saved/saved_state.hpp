#pragma once
#include <gradstep/memory/tensor_shard.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/rows/row_progress.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep {
struct load_report; // saved/load_options.hpp
} // namespace gradstep

// What a parameter, a parameter of a model or a table has to save, whatever it is saved in:
// checkpoint.hpp and saved/blob.hpp read and write it.
namespace gradstep::detail::inline GRADSTEP_ABI {
// Bytes in memory: in one, or in parts of which one begins so many bytes behind the other.
struct saved_chunk {
    std::byte* data;
    std::size_t bytes; // of each part
    std::size_t parts = 1, distance = 0;

    saved_chunk(std::byte* begin, std::size_t length, std::size_t count = 1, std::size_t apart = 0);
    template <std::size_t N> saved_chunk(std::span<std::byte, N> all) : data(all.data()), bytes(all.size()) {}
    // Memory of a state that is saved, and not loaded into.
    static saved_chunk of(std::span<std::byte const> all) { return {const_cast<std::byte*>(all.data()), all.size()}; }
    std::size_t size() const { return parts * bytes; }
};

// Memory of one kind: the values (of an empty name), a state slot, the stamps of rows, ... `rows`
// numbers, or rows of `width`. Where it lies: one chunk, or one for each segment of a table; none
// of what is in a file.
struct saved_tensor {
    std::string slot = {}, dtype = {};
    std::uint64_t rows = 0, width = 0; // 0: numbers instead of rows
    std::size_t element_bytes = 0;
    bool is_of_host = false; // whatever the backend's memory is
    std::vector<saved_chunk> chunks = {};

    std::uint64_t size() const { return width == 0 ? rows : rows * width; } // in numbers
};

// The progress of a table, and the initial values of rows that are added later.
struct saved_rows {
    enum class distribution { constant, uniform, normal };
    row_progress progress = {}; // its clock is the clock of the state, its history a tensor
    distribution initial = distribution::constant;
    double first = 0, second = 0; // the constant; low and high; mean and deviation
    std::uint64_t seed = 0;
};

struct saved_state {
    std::string name = {}, element = {}, rule = {};
    std::string policies = {};        // of what was read, as it was written
    saved_policies own_policies = {}; // of an object of the program, which outlives this
    gradstep::clock clock = {};
    std::vector<std::string> clock_state_names = {}; // of the first numbers of clock.state
    std::optional<std::uint64_t> id = {}, seed = {}; // what is drawn by, where the owner cannot know it
    std::optional<saved_rows> rows = {};
    std::optional<std::vector<std::uint64_t>> shape = {}; // of the values, where it is known
    std::optional<tensor_shard> shard = {};               // where it is a part of a tensor
    memory_access access = {};
    std::vector<saved_tensor> tensors = {};
    std::vector<std::shared_ptr<void const>> computed = {}; // what tensors contain, and the owner does not

    saved_tensor& add(char const* slot, char const* dtype, std::size_t element_bytes, std::uint64_t count,
                      std::uint64_t width = 0);
    template <class T> saved_tensor& add(char const* slot, std::uint64_t count, std::uint64_t width = 0) {
        return add(slot, dtype_of<T>(), sizeof(T), count, width);
    }
    // A copy of x that lasts as long as this state.
    template <class T> saved_chunk keep(T const& x) {
        auto kept = std::make_shared<T>(x);
        saved_chunk const out(std::as_writable_bytes(std::span(kept.get(), 1)));
        computed.push_back(std::move(kept));
        return out;
    }
    saved_tensor const* find(std::string_view slot) const;
};

// A saved state to read from: in a file, or in bytes in memory.
class saved_source {
public:
    virtual ~saved_source() = default;
    virtual saved_state const& state() const = 0;
    virtual std::string where() const = 0; // for errors: "model.safetensors: deep.weight"
    // Visits the saved policies, as far as they are known.
    virtual void visit_policies(policy_visitor& to) const = 0;
    // Allocates nothing: memory that runs out leaves no load half done.
    virtual void read(std::string_view slot, std::uint64_t offset, std::span<std::byte> to) const = 0;
};

// Collects what an object describes.
class saved_state_builder final : public state_visitor {
public:
    explicit saved_state_builder(saved_state& to) : to_(to) {}
    GRADSTEP_DEFINE void policies(char const* element, void (*append_rule)(std::string&), saved_policies own,
                                  gradstep::clock at, memory_access access) override;
    GRADSTEP_DEFINE void memory(saved_memory const& x) override;
    GRADSTEP_DEFINE void blocks(saved_blocks const& x) override;
    void shape(std::span<std::uint64_t const> extents) override { to_.shape.emplace(extents.begin(), extents.end()); }

private:
    saved_state& to_;
};

// A reference to f(bytes), which must outlive it.
class bytes_call {
public:
    template <class F>
    requires(!std::is_same_v<F, bytes_call>) bytes_call(F const& f)
        : of_(&f), call_([](void const* of, std::span<std::byte> bytes) { (*static_cast<F const*>(of))(bytes); }) {}
    void operator()(std::span<std::byte> bytes) const { call_(of_, bytes); }

private:
    void const* of_;
    void (*call_)(void const*, std::span<std::byte>);
};

// Calls f(bytes on the host) for the memory of a tensor from its beginning to its end. `fill`: f
// writes it, else it reads. Parts are gathered, since f may be a call of the system. Device memory
// is copied in chunks of up to 4 MiB, or of 32 KiB on the stack if an allocation fails: a load that
// has begun does not fail for lack of memory.
void each_chunk(saved_state const& of, saved_tensor const& x, bool fill, bytes_call f);

std::string slot_text(saved_tensor const& x);
// "[2, 3]"
std::string shape_text(std::vector<std::uint64_t> const& shape);
std::string shard_text(tensor_shard const& x);
// "weight_sum, highest_rate"; names of a file can be long, and are shortened.
std::string names_text(std::vector<std::string> const& names);

// Throws value_error or size_error for the first difference between the saved state and the state
// that it is loaded into, sizes apart.
void require_alike(saved_source const& from, saved_state const& own);
// The same, and sizes and shapes: those that both know.
void require_same(saved_source const& from, saved_state const& own);
// The first `numbers` of a tensor that lies in whole chunks.
void keep_first(saved_tensor& x, std::uint64_t numbers);
// The same as require_same. But if `resizes` and only the numbers of rows differ, it reduces `own`
// to the rows that both have, and returns true. Without a known shape, a row is one element.
bool fit(saved_source const& from, saved_state& own, bool resizes);
// The number of values that a load writes, after `fit`.
std::size_t values_to_load(saved_state const& own);
// Writes everything to the state, once all is known to fit.
void read_into(saved_source const& from, saved_state const& own);

// Reads and writes the state of a parameter, a table or an average. Specialized beside each of
// them:
//     static saved_state get(X const&, char const* call, row_progress&);
//                       // the progress must exist as long as the state is used
//     static bool load(X&, saved_source const&, bool resizes);
//                       // whether its number of rows is another one (`fit`)
template <class X> struct state_access;

template <class X> saved_state state_from(X const& x, char const* call, row_progress& at) {
    return state_access<X>::get(x, call, at);
}
template <class X> bool load_state(X& x, saved_source const& from, bool resizes = false) {
    return state_access<X>::load(x, from, resizes);
}

// A reference to an object that takes a saved state.
struct loadable {
    void* object;
    bool (*load_from)(void*, saved_source const&, bool resizes);

    template <class X> static loadable of(X& x) {
        return {&x, [](void* to, saved_source const& from, bool resizes) {
                    return load_state(*static_cast<X*>(to), from, resizes);
                }};
    }
    bool load(saved_source const& from, bool resizes) const { return load_from(object, from, resizes); }
};

// Files of several parameters, or of one parameter or table, which has the name "values".
// saved/detail/checkpoint_files.ipp defines them.
void save_states(std::string const& file, std::span<saved_state const> all);
void load_values(std::string const& file, loadable to);
load_report load_values(std::string const& file, loadable to, load_options const& options);

// Where headers include their definitions, those are in checkpoint.hpp.
template <class X, class Files = checkpoint_files> constexpr bool has_file_functions() {
#if GRADSTEP_HEADER_ONLY
    return require_checkpoints<Files>();
#else
    return true;
#endif
}
template <class X> void save_file(std::string const& file, X const& x) {
    [[maybe_unused]] constexpr bool included = has_file_functions<X>();
    row_progress at;
    saved_state const state = state_from(x, "save", at);
    save_states(file, std::span(&state, 1));
}
template <class X, class... Options> auto load_file(std::string const& file, X& x, Options const&... options) {
    [[maybe_unused]] constexpr bool included = has_file_functions<X>();
    return load_values(file, loadable::of(x), options...);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/saved/saved_state.ipp>
#endif
