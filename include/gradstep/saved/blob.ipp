#pragma once
#include <gradstep/bytes/detail/framed_bytes.hpp>
#include <gradstep/policy/detail/constant_numbers.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
inline constexpr std::string_view blob_magic = "gs-state";
// 1: without shape. 2: with a shape. 3: with the state of a clock, and with a shape or without.
inline constexpr std::uint32_t blob_version = 3, blob_version_with_shape = 2, blob_version_without_shape = 1;

// Writes all bytes except the checksum, or counts them if `to` is null.
[[gnu::noinline]] inline std::size_t write_blob(saved_state const& of, std::byte* to, std::uint64_t size) {
    require_little_endian("state blobs");
    policy_text visitor;
    of.own_policies.visit(of.own_policies.of, visitor);
    std::string const policies = visitor.take(); // allocates before the first byte is written
    byte_writer out(to);
    bool const has_state = !of.clock_state_names.empty();
    out.header(blob_magic,
               has_state  ? blob_version
               : of.shape ? blob_version_with_shape
                          : blob_version_without_shape,
               size);
    for (std::string const* const text : {&of.element, &of.rule, &policies}) out.text(*text);
    for (std::int64_t const count : {of.clock.step, of.clock.samples, of.clock.epoch}) out.number(count);
    out.number(static_cast<std::uint8_t>(of.id.has_value() + of.seed.has_value())); // a seed requires an id
    if (of.id) out.number(*of.id);
    if (of.seed) out.number(*of.seed);
    out.number(static_cast<std::uint8_t>(of.rows.has_value()));
    if (of.rows) {
        row_progress const& at = of.rows->progress;
        for (std::uint64_t const x :
             {at.num_rows, static_cast<std::uint64_t>(at.kind), at.max_history, at.lap_row, at.lap_rows})
            out.number(x);
        out.number(at.rate);
        out.number(static_cast<std::uint64_t>(of.rows->initial));
        out.number(of.rows->first);
        out.number(of.rows->second);
        out.number(of.rows->seed);
    }
    if (has_state) {
        out.number(static_cast<std::uint8_t>(of.clock_state_names.size()));
        for (std::size_t i = 0; i != of.clock_state_names.size(); ++i) {
            out.text(of.clock_state_names[i]);
            out.number(of.clock.state[i]);
        }
        out.number(static_cast<std::uint8_t>(of.shape.has_value()));
    }
    if (of.shape) {
        out.number(static_cast<std::uint32_t>(of.shape->size()));
        for (std::uint64_t const extent : *of.shape) out.number(extent);
    }
    out.number(static_cast<std::uint32_t>(of.tensors.size()));
    for (saved_tensor const& x : of.tensors) {
        out.text(x.slot);
        if (x.dtype.empty())
            fail<value_error>({"state blobs"}, {"there is no dtype for ", of.element},
                              {"an element with a dtype of safetensors"});
        out.text(x.dtype);
        out.number(x.rows);
        out.number(x.width);
    }
    out.align();
    for (saved_tensor const& x : of.tensors) {
        if (to != nullptr)
            each_chunk(of, x, false, [&](std::span<std::byte const> chunk) { out.bytes(chunk.data(), chunk.size()); });
        else
            for (saved_chunk const& chunk : x.chunks) out.skip(chunk.size());
        out.align();
    }
    return out.size();
}

GRADSTEP_DEFINE std::size_t blob_bytes(saved_state const& of) { return write_blob(of, nullptr, 0); }

GRADSTEP_DEFINE void save_blob(saved_state const& of, std::span<std::byte> to) {
    if (std::size_t const size = write_blob(of, nullptr, 0); size != to.size())
        fail<size_error>({"save_state"}, {"there is room for ", to.size(), " bytes"}, {size, ", as state_bytes says"});
    write_blob(of, to.data(), to.size());
    seal(to);
}

// A blob that a state is loaded from.
class blob_source final : public saved_source {
public:
    explicit blob_source(std::span<std::byte const> blob) : from_(blob, "load_state: the blob") {
        auto const version = from_.header(blob_magic, blob_version, blob_version_without_shape);
        for (std::string* const to : {&state_.element, &state_.rule, &state_.policies}) *to = from_.text();
        for (std::int64_t* const to : {&state_.clock.step, &state_.clock.samples, &state_.clock.epoch})
            *to = from_.number<std::int64_t>();
        auto const drawn_by = from_.up_to(2);
        if (drawn_by >= 1) state_.id = from_.number<std::uint64_t>();
        if (drawn_by == 2) state_.seed = from_.number<std::uint64_t>();
        if (from_.flag()) {
            saved_rows& rows = state_.rows.emplace();
            row_progress& at = rows.progress;
            at.clock = state_.clock;
            at.num_rows = from_.number<std::uint64_t>();
            at.kind = static_cast<history_kind>(from_.below(4));
            for (std::uint64_t* const to : {&at.max_history, &at.lap_row, &at.lap_rows})
                *to = from_.number<std::uint64_t>();
            at.rate = from_.number<double>();
            rows.initial = static_cast<saved_rows::distribution>(from_.below(3));
            rows.first = from_.number<double>();
            rows.second = from_.number<double>();
            rows.seed = from_.number<std::uint64_t>();
        }
        if (version == blob_version) {
            auto const count = from_.up_to(static_cast<std::uint8_t>(state_.clock.state.size()));
            for (std::size_t i = 0; i != count; ++i) {
                state_.clock_state_names.push_back(from_.text());
                state_.clock.state[i] = from_.number<double>();
            }
        }
        if (version == blob_version ? from_.flag() : version == blob_version_with_shape) {
            auto const dimensions = from_.number<std::uint32_t>();
            if (dimensions > from_.left() / 8) from_.refuse({"breaks off"}, {dimensions, " dimensions of the shape"});
            auto& shape = state_.shape.emplace(dimensions);
            for (std::uint64_t& extent : shape) extent = from_.number<std::uint64_t>();
        }
        auto const count = from_.number<std::uint32_t>();
        constexpr std::uint32_t most = 64; // more than the slots of any rule: find() is linear
        if (count > most) from_.refuse({"has ", count, " tensors"}, {"at most ", most});
        for (std::uint32_t i = 0; i < count; ++i) {
            saved_tensor x;
            x.slot = from_.text();
            x.dtype = from_.text();
            x.rows = from_.number<std::uint64_t>();
            x.width = from_.number<std::uint64_t>();
            if (state_.find(x.slot) != nullptr) from_.refuse({"has two tensors ", in_quotes(x.slot)}, {"one"});
            state_.tensors.push_back(std::move(x));
        }
        from_.align();
        for (saved_tensor& x : state_.tensors) {
            std::uint64_t const left = from_.left(), each = x.width == 0 ? 1 : x.width;
            std::size_t const element_bytes = x.dtype == "U8" ? 1 : bytes_of_dtype(x.dtype); // U8: codes of block8
            if (element_bytes == 0)
                from_.refuse({"has numbers of the unknown dtype ", in_quotes(x.dtype)}, {"a dtype of safetensors"});
            if (each > left / element_bytes && x.rows != 0)
                from_.refuse({"breaks off"}, {x.rows, " x ", each, " numbers of ", in_quotes(x.slot)});
            if (x.rows > left / element_bytes / each)
                from_.refuse({"breaks off"}, {x.rows, " x ", each, " numbers of ", in_quotes(x.slot)});
            std::size_t const bytes = static_cast<std::size_t>(x.rows * each) * element_bytes;
            data_.push_back(from_.take(bytes));
            from_.align();
        }
        if (from_.left() != 0) from_.refuse({"has ", from_.left(), " bytes after the last tensor"}, {"none"});
    }

    saved_state const& state() const override { return state_; }
    std::string where() const override { return "load_state: the blob"; }
    void visit_policies(policy_visitor& to) const override { visit_policy_text(to, state_.policies); }
    void read(std::string_view slot, std::uint64_t offset, std::span<std::byte> to) const override {
        std::span<std::byte const> const all =
            data_[static_cast<std::size_t>(state_.find(slot) - state_.tensors.data())];
        if (!to.empty()) std::memcpy(to.data(), all.data() + offset, to.size());
    }

private:
    byte_reader from_;
    saved_state state_;
    std::vector<std::span<std::byte const>> data_; // one for each tensor
};

GRADSTEP_DEFINE void load_blob(std::span<std::byte const> from, loadable to) { to.load(blob_source(from), false); }
} // namespace gradstep::detail::inline GRADSTEP_ABI
