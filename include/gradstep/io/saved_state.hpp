#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/state_visitor.hpp>
#include <gradstep/core/tensor_shard.hpp>
#include <gradstep/model.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/sparse/row_progress.hpp>
#include <gradstep/table.hpp>

// What a parameter, a member of a model or a table has to save, whatever it is saved in: io/checkpoint.hpp and io/state.hpp
// read and write it.
namespace gradstep {
inline namespace GRADSTEP_ISA {

template <class Element, class Average, class Source, class Backend> class averager;
template <class Updater, class CatchUp> class keyed_table;
} // namespace GRADSTEP_ISA

namespace detail {
inline namespace GRADSTEP_ABI {

// Bytes in memory: in one, or in parts of which one begins so many bytes behind the other.
struct saved_piece {
    std::byte* data;
    std::size_t bytes; // of each part
    std::size_t parts = 1, distance = 0;

    saved_piece(std::byte* begin, std::size_t length, std::size_t count = 1, std::size_t apart = 0)
        : data(begin), bytes(length), parts(count), distance(apart) {}
    template <std::size_t N> saved_piece(std::span<std::byte, N> all) : data(all.data()), bytes(all.size()) {}
    std::size_t size() const { return parts * bytes; }
};

// Memory of one kind: the values (of an empty name), a state slot, the stamps of rows, ... `rows` numbers, or rows of
// `width`. Where it lies: one piece, or one for each segment of a table; none of what is in a file.
struct saved_tensor {
    std::string slot = {}, dtype = {};
    std::uint64_t rows = 0, width = 0; // 0: numbers instead of rows
    std::size_t element_bytes = 0;
    bool is_of_host = false; // whatever the backend's memory is
    std::vector<saved_piece> pieces = {};

    std::uint64_t size() const { return width == 0 ? rows : rows * width; } // in numbers
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
    std::string name = {}, element = {}, rule = {};
    std::string policies = {};        // of what was read, as it was written
    saved_policies own_policies = {}; // of an object of the program, which outlives this
    gradstep::clock clock = {};
    std::optional<std::uint64_t> id = {}, seed = {}; // what is drawn by, where the owner cannot know it
    std::optional<saved_rows> rows = {};
    std::optional<std::vector<std::uint64_t>> shape = {}; // of the values, where it is known
    std::optional<tensor_shard> shard = {};               // where it is a part of a tensor
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
    // Allocates nothing: memory that runs out leaves no load half done.
    virtual void read(std::string_view slot, std::uint64_t offset, std::span<std::byte> to) const = 0;
};

// Takes down what is visited.
class saved_state_of final : public state_visitor {
public:
    explicit saved_state_of(saved_state& to) : to_(to) {}
    void policies(char const* element, void (*append_rule)(std::string&), saved_policies own, gradstep::clock at,
                  memory_access access) override {
        to_.element = element;
        append_rule(to_.rule);
        to_.own_policies = own;
        to_.clock = at;
        to_.access = access;
    }
    void memory(saved_memory const& x) override {
        to_.add(x.slot, x.dtype, x.element_bytes, x.count).pieces = {
            {static_cast<std::byte*>(x.data), x.count * x.element_bytes}};
    }
    void blocks(saved_blocks const& x) override {
        saved_tensor& codes = to_.add(x.slot, "U8", 1, x.count);
        constexpr std::size_t length = coded_block::length;
        auto const bytes = [](auto& of) { return std::as_writable_bytes(std::span(&of, 1)).data(); };
        std::size_t const whole = x.count / length, rest = x.count % length;
        if (whole != 0) codes.pieces.push_back({bytes(x.blocks[0].codes[0]), length, whole, sizeof(coded_block)});
        if (rest != 0) codes.pieces.push_back({bytes(x.blocks[whole].codes[0]), rest});
        saved_tensor& scales = to_.add(x.slot, "F32", sizeof(float), x.blocks.size());
        scales.slot += ".scales";
        if (!x.blocks.empty())
            scales.pieces.push_back({bytes(x.blocks[0].scale), sizeof(float), x.blocks.size(), sizeof(coded_block)});
    }
    void shape(std::span<std::uint64_t const> extents) override { to_.shape.emplace(extents.begin(), extents.end()); }

private:
    saved_state& to_;
};

// Calls f(bytes on the host) for the memory of a tensor from its beginning to its end. `fill`: f writes it, else it reads. Parts
// are gathered, since f may be a call of the system. What is not the host's goes in pieces of up to 4 MiB, or through 32 KiB of the
// stack where there is no memory for them: a load that has begun does not fail for want of it.
template <class F> void each_piece(saved_state const& of, saved_tensor const& x, bool fill, F const& f) {
    constexpr std::size_t most = std::size_t{1} << 22, most_on_stack = std::size_t{1} << 15;
    bool const is_host = x.is_of_host || of.access.read == nullptr;
    auto const read = [&](std::span<std::byte const> from, std::span<std::byte> to) {
        if (is_host) std::copy(from.begin(), from.end(), to.begin());
        else of.access.read(of.access.backend, from, to);
    };
    auto const write = [&](std::span<std::byte const> from, std::span<std::byte> to) {
        if (is_host) std::copy(from.begin(), from.end(), to.begin());
        else of.access.write(of.access.backend, from, to);
    };
    std::byte on_stack[most_on_stack];
    std::span<std::byte> staging(on_stack);
    std::unique_ptr<std::byte[]> larger;
    if (!is_host) {
        std::size_t wanted = 0;
        for (saved_piece const& piece : x.pieces)
            if (piece.parts == 1) wanted = std::max(wanted, std::min(most, piece.bytes));
        if (wanted > most_on_stack) larger.reset(new (std::nothrow) std::byte[wanted]);
        if (larger) staging = {larger.get(), wanted};
    }
    for (saved_piece const& piece : x.pieces) {
        if (piece.parts != 1) {
            std::size_t const together = staging.size() / piece.bytes;
            for (std::size_t first = 0; first < piece.parts; first += together) {
                std::size_t const count = std::min(together, piece.parts - first);
                auto const each = [&](auto const& move) {
                    for (std::size_t k = 0; k < count; ++k)
                        move(std::span(piece.data + (first + k) * piece.distance, piece.bytes),
                             staging.subspan(k * piece.bytes, piece.bytes));
                };
                if (!fill) each(read);
                f(staging.first(count * piece.bytes));
                if (fill) each([&](std::span<std::byte> there, std::span<std::byte> here) { write(here, there); });
            }
            continue;
        }
        std::span<std::byte> const all(piece.data, piece.bytes);
        if (is_host) {
            f(all);
            continue;
        }
        for (std::size_t first = 0; first < all.size(); first += staging.size()) {
            std::span<std::byte> const there = all.subspan(first, std::min(staging.size(), all.size() - first));
            std::span<std::byte> const here = staging.first(there.size());
            if (!fill) read(there, here);
            f(here);
            if (fill) write(here, there);
        }
    }
}

inline std::string slot_in_words(saved_tensor const& x) {
    return x.slot.empty() ? "the values" : "the slot " + shortened(x.slot);
}
// "[2, 3]"
inline std::string shape_in_words(std::vector<std::uint64_t> const& shape) {
    std::string out = "[";
    for (std::uint64_t const extent : shape) out += (out.size() == 1 ? "" : ", ") + text(extent);
    return out + "]";
}
inline std::string shard_in_words(tensor_shard const& x) {
    return joined({"shard ", x.rank, " of ", x.ranks, ", from element ", x.first, " of ", x.size});
}

// Throws value_error or size_error for the first thing in which what was saved differs from what it is to become, whatever
// the sizes are.
[[gnu::noinline]] inline void require_alike(saved_source const& from, saved_state const& own) {
    saved_state const& saved = from.state();
    auto const refuse = [&](std::initializer_list<piece> why) { fail<value_error>({from.where(), ": ", joined(why)}); };
    if (saved.rows.has_value() != own.rows.has_value())
        refuse({saved.rows ? "is a table, and not a parameter" : "is a parameter, and not a table"});
    if (saved.element != own.element) refuse({"is of ", shortened(saved.element), ": must be of ", own.element});
    if (saved.rule != own.rule) refuse({"is of the rule ", shortened(saved.rule), ": must be of ", own.rule});
    // Files of earlier versions do not tell a shard; one of one rank is the whole.
    if (saved.shard && own.shard && *saved.shard != *own.shard)
        refuse({"is ", shard_in_words(*saved.shard), "; expected ", shard_in_words(*own.shard)});
    if (saved.shard && !own.shard && saved.shard->ranks > 1)
        refuse({"is ", shard_in_words(*saved.shard), "; expected a whole tensor"});
    for (saved_tensor const& x : own.tensors) {
        saved_tensor const* const there = saved.find(x.slot);
        if (there == nullptr) refuse({slot_in_words(x), " is missing"});
        if (there->dtype != x.dtype)
            refuse({slot_in_words(x), " is of ", shortened(there->dtype), ": must be of ", x.dtype});
    }
    for (saved_tensor const& x : saved.tensors)
        if (own.find(x.slot) == nullptr) refuse({"has ", slot_in_words(x), ", which is not kept here"});
    if (saved.clock.step < 0 || saved.clock.samples < 0 || saved.clock.epoch < 0)
        refuse({"clock{step = ", saved.clock.step, ", samples = ", saved.clock.samples, ", epoch = ", saved.clock.epoch,
                "}: counts must be >= 0"});
}
// The same, and sizes and shapes: those that both know.
[[gnu::noinline]] inline void require_same(saved_source const& from, saved_state const& own) {
    saved_state const& saved = from.state();
    require_alike(from, own);
    if (saved.shape && own.shape && *saved.shape != *own.shape)
        fail<size_error>({from.where(), ": has the shape ", shape_in_words(*saved.shape), "; expected ",
                          shape_in_words(*own.shape)});
    for (saved_tensor const& x : own.tensors) {
        saved_tensor const* const there = saved.find(x.slot);
        if (there->rows != x.rows || there->width != x.width) {
            auto const shape = [](saved_tensor const& y) {
                return text(y.rows) + (y.width == 0 ? "" : " x " + text(y.width));
            };
            fail<size_error>(
                {from.where(), ": ", slot_in_words(x), ": has ", shape(*there), " elements: must have ", shape(x)});
        }
    }
}
// The first `numbers` of a tensor that lies in whole pieces.
inline void keep_first(saved_tensor& x, std::uint64_t numbers) {
    std::uint64_t left = numbers * x.element_bytes;
    for (saved_piece& each : x.pieces) {
        each.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(each.bytes, left));
        left -= each.bytes;
    }
}
// The same as require_same. But if `resizes` and only the numbers of rows differ, it reduces `own` to the rows that
// both have, and returns true. Without a known shape, a row is one element.
[[gnu::noinline]] inline bool fit(saved_source const& from, saved_state& own, bool resizes) {
    saved_state const& saved = from.state();
    saved_tensor const *const mine = own.find(""), *const theirs = saved.find("");
    bool const same = mine == nullptr || theirs == nullptr ||
                      (mine->rows == theirs->rows && mine->width == theirs->width &&
                       (!own.shape || !saved.shape || *own.shape == *saved.shape));
    if (same || !resizes) {
        require_same(from, own);
        return false;
    }
    require_alike(from, own);
    auto const refuse = [&](std::string const& what, std::initializer_list<piece> why) {
        fail<size_error>({from.where(), ": ", what, joined(why)});
    };
    auto const row_of = [](saved_state const& of) {
        auto shape = of.shape;
        if (of.rows) shape = {of.find("")->rows, of.find("")->width};
        if (shape && !shape->empty()) shape->erase(shape->begin());
        return shape;
    };
    auto const row = row_of(own), their_row = row_of(saved);
    if (row && their_row && *row != *their_row)
        refuse("has rows of the shape ", {shape_in_words(*their_row), "; expected ", shape_in_words(*row)});
    std::uint64_t width = 1;
    if (row || their_row)
        for (std::uint64_t const extent : row ? *row : *their_row) width *= extent;
    std::uint64_t const count = mine->size(), their_count = theirs->size();
    if (width == 0 || count % width != 0 || their_count % width != 0)
        refuse("has ", {their_count, " elements; expected whole rows of ", width, ", as the ", count, " here"});
    for (saved_tensor& x : own.tensors) {
        if (x.slot.ends_with(".scales"))
            refuse("has ", {their_count, " elements, and its state is in blocks; expected ", count});
        std::uint64_t const here = x.size(), there = saved.find(x.slot)->size();
        bool const of_elements = here == count && there == their_count,
                   of_rows = here == count / width && there == their_count / width;
        if (of_elements || of_rows) keep_first(x, std::min(here, there));
        else if (here != there)
            refuse(slot_in_words(x),
                   {" has ", there, " elements; expected ", here, ", or one for each element or row"});
    }
    return true;
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

template <class X> concept visits_state = requires(X const& x, state_visitor& to) { x.visit_state(to); };

// What is saved of parameters, models and tables, and how it comes back.
struct state_of {
    // Of memory that stays where it is as long as this is used; so does `at`, which takes the progress of a table.
    template <class Updater> static saved_state get(parameter<Updater> const& x, char const* call, row_progress&) {
        if (x.average_is_applied()) refuse_applied(call);
        x.require_applied(call);
        auto& self = const_cast<parameter<Updater>&>(x); // what is saved is read, and `load` is not const
        auto const values = self.value_span();
        saved_state out;
        saved_state_of to(out);
        self.call([&](auto... slots) { visit_state(to, tensor<Updater>(values, slots...), x.optimizer()); });
        out.name = "values";
        // What draws random numbers, or samples, does so by the name of the parameter.
        if constexpr (Updater::traits::is_stochastic || compresses<typename Updater::rule_type>())
            out.id = x.options_.id;
        return out;
    }
    // Returns whether the rows that both have were loaded, and there are others (`fit`).
    template <class Updater> static bool load(parameter<Updater>& x, saved_source const& from, bool resizes = false) {
        row_progress none;
        saved_state own = get(x, "load", none);
        bool const resized = fit(from, own, resizes);
        read_into(from, own);
        x.updater_.seek(from.state().clock);
        if (from.state().id) x.options_.id = *from.state().id;
        return resized;
    }

    // Of one that describes itself, since its policies are chosen at run time. With rows that catch up it is saved as a table.
    template <class Updater>
    requires(visits_state<parameter<Updater>>) static saved_state
        get(parameter<Updater> const& x, char const* call, row_progress& at) {
        if (x.stamps() != nullptr) at = x.stamps()->progress(x.clock(), true);
        return state_at(x, call, at);
    }
    // All that is checked before anything is written; `finish_load` then reads it into its place.
    template <class Updater> struct begun_load {
        saved_state own;
        row_progress at = {};
        std::optional<typename parameter<Updater>::rows_type> rows = {};
        bool resized = false;
    };
    template <class Updater>
    requires(visits_state<parameter<Updater>>) static begun_load<Updater> begin_load(parameter<Updater>& x,
                                                                                     saved_source const& from,
                                                                                     bool resizes = false) {
        begun_load<Updater> out;
        saved_state const& saved = from.state();
        if (x.stamps() != nullptr) out.at = x.stamps()->progress(x.clock(), false);
        out.own = state_at(x, "load", out.at);
        if (x.stamps() == nullptr || !saved.rows) {
            out.resized = fit(from, out.own, resizes);
            return out;
        }
        saved_tensor const* const history = saved.find("history");
        std::uint64_t const numbers = history == nullptr ? 0 : history->rows;
        for (saved_tensor& own : out.own.tensors)
            if (own.slot == "history") own.rows = numbers;
        out.resized = fit(from, out.own, resizes);
        out.at = saved.rows->progress;
        out.at.clock = saved.clock;
        std::uint64_t const rows = saved.find("")->rows;
        if (out.resized) {
            if (out.at.num_rows != rows || rows > x.rows())
                fail<size_error>({from.where(), ": has ", rows, " rows; expected at most ", x.rows(),
                                  ", since rows that catch up have a history of all of them"});
            out.at.num_rows = x.rows(); // those that it has besides miss no step
        }
        out.rows = x.stamps()->resumed(out.at, numbers, [&](std::vector<double>& to) {
            if (numbers != 0) from.read("history", 0, std::as_writable_bytes(std::span(to)));
        });
        out.rows->later_rows = initial_of(*saved.rows);
        with_type(x.optimizer().storage(), [&]<class S>() {
            if constexpr (!std::is_integral_v<S>) check_initial<S>(out.rows->later_rows, x.rows(), x.width());
        });
        auto const stamps = out.rows->stamps();
        std::fill(stamps.begin(), stamps.end(), static_cast<std::uint32_t>(saved.clock.step));
        from.read("stamps", 0, std::as_writable_bytes(stamps.first(static_cast<std::size_t>(rows))));
        out.rows->require_stamps(out.at);
        return out;
    }
    template <class Updater>
    static void finish_load(parameter<Updater>& x, saved_source const& from, begun_load<Updater>&& begun) {
        std::erase_if(begun.own.tensors, [&](saved_tensor const& own) {
            return begun.rows && (own.slot == "stamps" || own.slot == "history"); // they are there
        });
        read_into(from, begun.own);
        x.resume(from.state().clock, from.state().id, from.state().seed);
        if (begun.rows) x.resume(std::move(*begun.rows));
    }
    template <class Updater>
    requires(visits_state<parameter<Updater>>) static bool load(parameter<Updater>& x, saved_source const& from,
                                                                bool resizes = false) {
        auto begun = begin_load(x, from, resizes);
        bool const resized = begun.resized;
        finish_load(x, from, std::move(begun));
        return resized;
    }

    // An average in memory of its own: slots alone, since the values are another's.
    template <class Element, class Average, class Source, class Backend>
    static saved_state get(averager<Element, Average, Source, Backend> const& x, char const*, row_progress&) {
        using type = averager<Element, Average, Source, Backend>;
        auto& self = const_cast<type&>(x); // which takes in what is on its way
        saved_state out;
        saved_state_of to(out);
        auto const average_of = [](void const* of, policy_visitor& by) {
            visit_policy(by, static_cast<type const*>(of)->rule_.average);
        };
        to.policies(type::traits::name, &append_policy_name<Average>, {&x, average_of}, x.clock(),
                    access_of(x.backend_));
        out.name = "values";
        for (std::size_t i = 0; i != type::slots; ++i) {
            auto const slot = self.state(i);
            using state = typename type::state_type;
            to.memory({type::rule_type::state_names[i], dtype_of<state>(), sizeof(state), slot.size(), slot.data()});
        }
        return out;
    }
    template <class Element, class Average, class Source, class Backend>
    static void load(averager<Element, Average, Source, Backend>& x, saved_source const& from) {
        row_progress none;
        saved_state const own = get(x, "load", none);
        require_same(from, own);
        read_into(from, own);
        x.resume(from.state().clock);
    }

    static std::vector<saved_state> all_of(model const& net, char const* call) {
        net.require_applied(call);
        if (net.average_is_applied()) refuse_applied(call);
        std::vector<saved_state> out(net.size());
        for (std::size_t i = 0; i < out.size(); ++i) {
            auto& member = *net.members_[i];
            saved_state_of to(out[i]);
            member.visit_state(to);
            out[i].name = member.name;
            if (member.in_files == nullptr) continue;
            if (member.in_files->shape) out[i].shape = member.in_files->shape;
            out[i].shard = member.in_files->shard;
        }
        return out;
    }
    static void seek(model& net, std::size_t i, gradstep::clock at) { net.members_[i]->seek(at); }

    template <class Updater, class CatchUp>
    static saved_state get(table<Updater, CatchUp> const& x, char const* call, row_progress& at) {
        x.require_trained(call);
        at = x.progress();
        saved_state out = of_segments(x, at);
        out.own_policies = {&x, [](void const* of, policy_visitor& to) {
                                auto const& table = *static_cast<gradstep::table<Updater, CatchUp> const*>(of);
                                table.optimizer().visit_policies(to);
                                visit_policy(to, table.core_.catch_up_);
                            }};
        if constexpr (Updater::traits::is_stochastic) out.id = x.options().id;
        std::vector<double> history = std::move(at.history); // a tensor: not to be copied
        out.rows.emplace().progress = at;
        at.history = std::move(history);
        x.options().initial.visit([&](auto const& initial) { take_initial(*out.rows, initial); });
        return out;
    }
    // `besides`: what the file has that is another's to read.
    template <class Updater, class CatchUp>
    static void load(table<Updater, CatchUp>& x, saved_source const& from, std::span<saved_tensor const> besides = {}) {
        using core = row_updater<Updater, CatchUp>;
        using storage = typename Updater::traits::storage;
        x.require_trained("load");
        saved_state const& saved = from.state();
        row_progress at = saved.rows ? saved.rows->progress : row_progress{};
        at.clock = saved.clock;
        saved_tensor const* const history = saved.find("history");
        std::uint64_t const before = x.num_rows(), rows = core::shape_type::counted_rows(at.num_rows, x.width(), 0),
                            numbers = history == nullptr ? 0 : history->rows;
        saved_state own = of_shape(x, rows, numbers);
        own.rows.emplace();
        own.tensors.insert(own.tensors.end(), besides.begin(), besides.end());
        require_same(from, own);
        if (rows < before)
            fail<size_error>({from.where(), ": has ", rows, " rows: must have at least the ", before,
                              " of the table, which does not shrink; create it with fewer, load, and grow it"});
        initial_values const initial = initial_of(*saved.rows);
        check_initial<storage>(initial, rows, x.width());
        x.core_.require_own_history(at, rows, numbers);
        auto const lap = detail::lap::at(at.lap_row, at.lap_rows, rows, at.max_history);
        at.history.resize(static_cast<std::size_t>(numbers));
        if (numbers != 0) from.read("history", 0, std::as_writable_bytes(std::span(at.history)));
        auto resumed = x.core_.history_at(at);
        if constexpr (core::has_stamps) {
            std::vector<std::uint32_t> stamps(static_cast<std::size_t>(std::min<std::uint64_t>(rows, 1 << 16)));
            for (std::uint64_t first = 0; first < rows; first += stamps.size()) {
                stamps.resize(static_cast<std::size_t>(std::min<std::uint64_t>(stamps.size(), rows - first)));
                from.read("stamps", 4 * first, std::as_writable_bytes(std::span(stamps)));
                x.core_.require_stamps(first, stamps, 1, at, lap);
            }
        }

        x.with_memory_for(x.core_, rows, [&] { x.store_.reserve(rows); });
        undo_unless_done growing([&] { x.store_.set_rows(before); });
        x.store_.set_rows(rows);
        read_into(from, of_segments(x, at));
        growing.dismiss();
        x.core_.resume(at, rows, std::move(resumed), lap);
        x.core_.options_.initial = initial;
        if (saved.id) x.core_.options_.id = *saved.id;
    }

    // Rows that are named by keys are saved as a table's, with what is kept of keys that have no row.
    template <class Updater, class CatchUp>
    static saved_state get(keyed_table<Updater, CatchUp> const& x, char const* call, row_progress& at) {
        saved_state out = get(x.rows_, call, at);
        auto& self = const_cast<keyed_table<Updater, CatchUp>&>(x); // what is saved is read, and `load` is not const
        self.settle_counts();
        for (saved_tensor& kept : of_keys(x, x.evictions_.entries.size(), true)) out.tensors.push_back(std::move(kept));
        auto const all = std::span(out.tensors).last(keyed_tensors);
        all[0].pieces = {std::as_writable_bytes(std::span(&self.counts_, 1))};
        all[1].pieces = {std::as_writable_bytes(std::span(&self.evictions_.since, 1))};
        all[2].pieces = {std::as_writable_bytes(std::span(self.evictions_.entries))};
        auto const sketch = x.admission_.counters();
        all[3].pieces = {{const_cast<std::byte*>(sketch.data()), sketch.size()}};
        all[4].pieces = {std::as_writable_bytes(std::span(&self.options_.admit_seed, 1))};
        return out;
    }
    // Into a new one, which then takes the place of x.
    template <class Updater, class CatchUp>
    static void load(keyed_table<Updater, CatchUp>& x, saved_source const& from) {
        using keyed = keyed_table<Updater, CatchUp>;
        x.rows_.require_trained("load");
        auto const refuse = [&](std::initializer_list<piece> why) {
            fail<value_error>({from.where(), ": ", joined(why)});
        };
        saved_tensor const* const evictions = from.state().find("evictions");
        std::uint64_t const evicted = evictions == nullptr ? 0 : evictions->rows;
        keyed anew(x.optimizer(), x.width(), x.rows_.core_.catch_up_, x.options_);
        bool const tells_seed = from.state().find("admit_seed") != nullptr; // older files do not
        load(anew.rows_, from, of_keys(x, evicted, tells_seed));
        std::uint64_t const rows = anew.num_rows();
        if (rows > keyed::most_rows) refuse({"has ", rows, " rows: must have at most ", keyed::most_rows});
        auto const read = [&](char const* slot, auto span) { from.read(slot, 0, std::as_writable_bytes(span)); };
        std::vector<std::byte> sketch;
        anew.with_memory(rows, [&] {
            sketch.resize(x.admission_.counters().size());
            anew.evictions_.entries.resize(static_cast<std::size_t>(evicted));
            anew.index_keys(refuse);
        });
        read("counts", std::span(&anew.counts_, 1));
        read("remembered_since", std::span(&anew.evictions_.since, 1));
        read("evictions", std::span(anew.evictions_.entries));
        read("sketch", std::span(sketch));
        std::uint64_t seed = x.options_.admit_seed;
        if (tells_seed) read("admit_seed", std::span(&seed, 1));
        if (seed != x.options_.admit_seed && x.admission_.has_seed())
            refuse({"its keys were admitted by admit_seed = ", seed, ": must be ", x.options_.admit_seed});
        std::int64_t before = 0;
        std::int64_t const now = from.state().clock.step, since = anew.evictions_.since;
        if (since < 0 || since > now + 1) // beyond the clock where some of the last step's have been forgotten
            refuse({"remembered_since = ", since, ": must be from 0 to ", now + 1, ", one after its step"});
        for (auto const& [step_of, key] : anew.evictions_.entries) {
            if (step_of < before || step_of > now)
                refuse({"key ", key, " was evicted at step ", step_of, ": must be in order, and at most ", now});
            before = step_of;
        }
        anew.admission_.restore(sketch, now);
        anew.options_.initial = anew.rows_.options().initial;
        anew.options_.id = anew.rows_.options().id;
        anew.held_ = std::move(x.held_);
        x = std::move(anew);
    }

private:
    static constexpr std::size_t keyed_tensors = 5;
    template <class Updater, class CatchUp>
    static std::vector<saved_tensor> of_keys(keyed_table<Updater, CatchUp> const& x, std::uint64_t evictions,
                                             bool tells_seed) {
        saved_state out;
        out.add("counts", "U64", 8, sizeof x.counts_ / 8).is_of_host = true;
        out.add("remembered_since", "I64", 8, 1).is_of_host = true;
        out.add("evictions", "U64", 8, evictions, 2).is_of_host = true; // step and key
        out.add("sketch", "U32", 4, x.admission_.counters().size() / 4).is_of_host = true;
        if (tells_seed) out.add("admit_seed", "U64", 8, 1).is_of_host = true;
        return std::move(out.tensors);
    }
    // Of one that describes itself, whose rows, if they catch up, stand at `at`.
    template <class Updater>
    static saved_state state_at(parameter<Updater> const& x, char const* call, row_progress& at) {
        if (x.average_is_applied()) refuse_applied(call);
        saved_state out;
        saved_state_of to(out);
        x.visit_state(to);
        out.name = "values";
        out.id = x.drawing_id();
        if (out.id) out.seed = x.seed();
        if (x.stamps() != nullptr) take_rows(out, x, *const_cast<parameter<Updater>&>(x).stamps(), at);
        return out;
    }
    // Makes the state of a tensor that of a table's rows.
    template <class Updater, class Rows>
    static void take_rows(saved_state& out, parameter<Updater> const& x, Rows& rows, row_progress& at) {
        auto const& facts = x.optimizer().facts();
        for (std::size_t i = 0; i < out.tensors.size(); ++i) {
            if (i != 0 && facts.is_row_slot(i - 1)) continue;
            out.tensors[i].rows = x.rows();
            out.tensors[i].width = x.width();
        }
        out.shape = {x.rows(), x.width()};
        out.add("stamps", "U32", 4, rows.size()).pieces = {std::as_writable_bytes(rows.stamps())};
        std::vector<double> history = std::move(at.history); // a tensor: not to be copied
        out.rows.emplace().progress = at;
        at.history = std::move(history);
        rows.later_rows.visit([&](auto const& initial) { take_initial(*out.rows, initial); });
        if (at.kind != history_kind::none)
            out.add("history", "F64", 8, at.history.size()).pieces = {std::as_writable_bytes(std::span(at.history))};
    }
    // Of a table of so many rows, without its memory.
    template <class Updater, class CatchUp>
    static saved_state of_shape(table<Updater, CatchUp> const& x, std::uint64_t rows, std::uint64_t history) {
        using core = row_updater<Updater, CatchUp>;
        using storage = typename Updater::traits::storage;
        using state = typename Updater::traits::state;
        saved_state out;
        saved_state_of to(out);
        visit_policies(to, x.optimizer());
        out.name = "values";
        out.add("", dtype_of<storage>(), sizeof(storage), rows, x.width());
        for (std::size_t i = 0; i != Updater::slots; ++i)
            out.add(Updater::state_names[i], dtype_of<state>(), sizeof(state), rows,
                    Updater::is_row_slot(i) ? 0 : x.width());
        if (core::has_stamps) out.add("stamps", "U32", 4, rows);
        if (x.shape().has_touches) out.add("touches", "U32", 4, rows);
        if (x.shape().keyed.keys) out.add("keys", "U64", 8, rows);
        if (x.shape().keyed.last_touches) out.add("last_touches", "U32", 4, rows);
        if (x.shape().keyed.touch_counts) out.add("touch_counts", "U32", 4, rows);
        if (core::has_history) out.add("history", "F64", 8, history).is_of_host = true;
        return out;
    }
    // With the memory that it has.
    template <class Updater, class CatchUp>
    static saved_state of_segments(table<Updater, CatchUp> const& x, row_progress& at) {
        using core = row_updater<Updater, CatchUp>;
        saved_state out = of_shape(x, x.num_rows(), at.history.size());
        for (std::size_t k = 0; k != x.segments(); ++k) {
            row_memory<Updater> const& rows = x.store_.segment(k);
            std::size_t next = 0;
            auto const add = [&](auto span) { out.tensors[next++].pieces.push_back(std::as_writable_bytes(span)); };
            add(rows.values);
            for (auto const& slot : rows.state) add(slot);
            if (core::has_stamps) add(rows.stamps);
            if (x.shape().has_touches) add(rows.touches);
            if (x.shape().keyed.keys) add(rows.keys);
            if (x.shape().keyed.last_touches) add(rows.last_touches);
            if (x.shape().keyed.touch_counts) add(rows.touch_counts);
        }
        if (core::has_history) out.tensors.back().pieces = {std::as_writable_bytes(std::span(at.history))};
        return out;
    }
    template <class Initial> static void take_initial(saved_rows& out, Initial const& x) {
        using from_which = saved_rows::distribution;
        if constexpr (std::is_same_v<Initial, uniform>) {
            out.initial = from_which::uniform, out.first = x.low, out.second = x.high, out.seed = x.seed;
        } else if constexpr (std::is_same_v<Initial, normal>) {
            out.initial = from_which::normal, out.first = x.mean, out.second = x.deviation, out.seed = x.seed;
        } else if constexpr (std::is_same_v<Initial, double>) {
            out.first = x; // rows that come after a container's are zero
        }
    }
    static initial_values initial_of(saved_rows const& from) {
        using from_which = saved_rows::distribution;
        if (from.initial == from_which::uniform) return uniform{from.first, from.second, from.seed};
        if (from.initial == from_which::normal) return normal{from.first, from.second, from.seed};
        return from.first;
    }
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
