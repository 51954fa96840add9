#pragma once
#include <gradstep/policy/detail/constant_numbers.hpp>
#include <gradstep/step/detail/step_checks.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE saved_chunk::saved_chunk(std::byte* begin, std::size_t length, std::size_t count, std::size_t apart)
    : data(begin), bytes(length), parts(count), distance(apart) {}

GRADSTEP_DEFINE saved_tensor& saved_state::add(char const* slot, char const* dtype, std::size_t element_bytes,
                                               std::uint64_t count, std::uint64_t width) {
    tensors.push_back({slot, dtype, count, width, element_bytes});
    return tensors.back();
}

GRADSTEP_DEFINE saved_tensor const* saved_state::find(std::string_view slot) const {
    for (saved_tensor const& x : tensors)
        if (x.slot == slot) return &x;
    return nullptr;
}

GRADSTEP_DEFINE void saved_state_builder::policies(char const* element, void (*append_rule)(std::string&),
                                                   saved_policies own, gradstep::clock at, memory_access access) {
    to_.element = element;
    append_rule(to_.rule);
    to_.own_policies = own;
    to_.clock_state_names.assign(own.clock_state_names.begin(), own.clock_state_names.end());
    to_.clock = at;
    to_.access = access;
}

GRADSTEP_DEFINE void saved_state_builder::memory(saved_memory const& x) {
    to_.add(x.slot, x.dtype, x.element_bytes, x.count).chunks = {
        {static_cast<std::byte*>(x.data), x.count * x.element_bytes}};
}

GRADSTEP_DEFINE void saved_state_builder::blocks(saved_blocks const& x) {
    saved_tensor& codes = to_.add<std::uint8_t>(x.slot, x.count);
    constexpr std::size_t length = coded_block::length;
    auto const bytes = [](auto& of) { return std::as_writable_bytes(std::span(&of, 1)).data(); };
    std::size_t const whole = x.count / length, rest = x.count % length;
    if (whole != 0) codes.chunks.push_back({bytes(x.blocks[0].codes[0]), length, whole, sizeof(coded_block)});
    if (rest != 0) codes.chunks.push_back({bytes(x.blocks[whole].codes[0]), rest});
    saved_tensor& scales = to_.add<float>(x.slot, x.blocks.size());
    scales.slot += ".scales";
    if (!x.blocks.empty())
        scales.chunks.push_back({bytes(x.blocks[0].scale), sizeof(float), x.blocks.size(), sizeof(coded_block)});
}

GRADSTEP_DEFINE void each_chunk(saved_state const& of, saved_tensor const& x, bool fill, bytes_call f) {
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
        for (saved_chunk const& chunk : x.chunks)
            if (chunk.parts == 1) wanted = std::max(wanted, std::min(most, chunk.bytes));
        if (wanted > most_on_stack) larger.reset(new (std::nothrow) std::byte[wanted]);
        if (larger) staging = {larger.get(), wanted};
    }
    for (saved_chunk const& chunk : x.chunks) {
        if (chunk.parts != 1) {
            std::size_t const together = staging.size() / chunk.bytes;
            for (std::size_t first = 0; first < chunk.parts; first += together) {
                std::size_t const count = std::min(together, chunk.parts - first);
                auto const each = [&](auto const& move) {
                    for (std::size_t k = 0; k < count; ++k)
                        move(std::span(chunk.data + (first + k) * chunk.distance, chunk.bytes),
                             staging.subspan(k * chunk.bytes, chunk.bytes));
                };
                if (!fill) each(read);
                f(staging.first(count * chunk.bytes));
                if (fill) each([&](std::span<std::byte> there, std::span<std::byte> here) { write(here, there); });
            }
            continue;
        }
        std::span<std::byte> const all(chunk.data, chunk.bytes);
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

GRADSTEP_DEFINE std::string slot_text(saved_tensor const& x) {
    return x.slot.empty() ? "the values" : "the slot " + shortened(x.slot);
}

GRADSTEP_DEFINE std::string shape_text(std::vector<std::uint64_t> const& shape) {
    std::string out = "[";
    for (std::uint64_t const extent : shape) out += (out.size() == 1 ? "" : ", ") + text(extent);
    return out + "]";
}

GRADSTEP_DEFINE std::string shard_text(tensor_shard const& x) {
    return joined({"shard ", x.rank, " of ", x.ranks, ", from element ", x.first, " of ", x.size});
}

GRADSTEP_DEFINE std::string names_text(std::vector<std::string> const& names) {
    std::string out;
    for (std::string const& name : names) out += (out.empty() ? "" : ", ") + shortened(name);
    return out.empty() ? "no state" : out;
}

GRADSTEP_DEFINE void require_alike(saved_source const& from, saved_state const& own) {
    saved_state const& saved = from.state();
    auto const refuse = [&](message_part given, message_part expected) {
        fail<value_error>({from.where()}, given, expected);
    };
    if (saved.rows.has_value() != own.rows.has_value())
        refuse({saved.rows ? "is a table" : "is a parameter"}, {saved.rows ? "a parameter" : "a table"});
    if (saved.element != own.element) refuse({"is of ", shortened(saved.element)}, {own.element});
    if (saved.rule != own.rule) refuse({"is of the rule ", shortened(saved.rule)}, {own.rule});
    if (own.own_policies.visit != nullptr) {
        policy_numbers now, before;
        own.own_policies.visit(own.own_policies.of, now);
        from.visit_policies(before);
        require_same_constants(from.where() + ": ", now, " here", before, " in the saved state");
    }
    // Files of earlier versions do not tell a shard; one of one rank is the whole.
    if (saved.shard && own.shard && *saved.shard != *own.shard)
        refuse({"is ", shard_text(*saved.shard)}, {shard_text(*own.shard)});
    if (saved.shard && !own.shard && saved.shard->ranks > 1)
        refuse({"is ", shard_text(*saved.shard)}, {"a whole tensor"});
    for (saved_tensor const& x : own.tensors) {
        saved_tensor const* const there = saved.find(x.slot);
        if (there == nullptr) refuse({slot_text(x), " is missing"}, {"every slot of this parameter"});
        if (there->dtype != x.dtype) refuse({slot_text(x), " is of ", shortened(there->dtype)}, {x.dtype});
    }
    for (saved_tensor const& x : saved.tensors)
        if (own.find(x.slot) == nullptr)
            refuse({"has ", slot_text(x), ", which is not kept here"}, {"only the slots of this parameter"});
    if (saved.clock.step < 0 || saved.clock.samples < 0 || saved.clock.epoch < 0)
        refuse({"clock{step = ", saved.clock.step, ", samples = ", saved.clock.samples, ", epoch = ", saved.clock.epoch,
                "}"},
               {"counts >= 0"});
    if (saved.clock_state_names != own.clock_state_names)
        refuse({"has ", names_text(saved.clock_state_names), " in its clock"}, {names_text(own.clock_state_names)});
    std::vector<char const*> names;
    for (std::string const& name : own.clock_state_names) names.push_back(name.c_str());
    with_context([&] { return from.where() + ": "; },
                 [&] { check_clock(saved.clock, names, own.own_policies.clock_state_is_signed); });
}

GRADSTEP_DEFINE void require_same(saved_source const& from, saved_state const& own) {
    saved_state const& saved = from.state();
    require_alike(from, own);
    if (saved.shape && own.shape && *saved.shape != *own.shape)
        fail<size_error>({from.where()}, {"has the shape ", shape_text(*saved.shape)}, {shape_text(*own.shape)});
    for (saved_tensor const& x : own.tensors) {
        saved_tensor const* const there = saved.find(x.slot);
        if (there->rows != x.rows || there->width != x.width) {
            auto const shape = [](saved_tensor const& y) {
                return text(y.rows) + (y.width == 0 ? "" : " x " + text(y.width));
            };
            fail<size_error>({from.where(), ": ", slot_text(x)}, {"has ", shape(*there), " elements"}, {shape(x)});
        }
    }
}

GRADSTEP_DEFINE void keep_first(saved_tensor& x, std::uint64_t numbers) {
    std::uint64_t left = numbers * x.element_bytes;
    for (saved_chunk& each : x.chunks) {
        each.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(each.bytes, left));
        left -= each.bytes;
    }
}

GRADSTEP_DEFINE bool fit(saved_source const& from, saved_state& own, bool resizes) {
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
    auto const refuse = [&](message_part given, message_part expected) {
        fail<size_error>({from.where()}, given, expected);
    };
    auto const row_of = [](saved_state const& of) {
        auto shape = of.shape;
        if (of.rows) shape = {of.find("")->rows, of.find("")->width};
        if (shape && !shape->empty()) shape->erase(shape->begin());
        return shape;
    };
    auto const row = row_of(own), their_row = row_of(saved);
    if (row && their_row && *row != *their_row)
        refuse({"has rows of the shape ", shape_text(*their_row)}, {shape_text(*row)});
    std::uint64_t width = 1;
    if (row || their_row)
        for (std::uint64_t const extent : row ? *row : *their_row) width *= extent;
    std::uint64_t const count = mine->size(), their_count = theirs->size();
    if (width == 0 || count % width != 0 || their_count % width != 0)
        refuse({"has ", their_count, " elements"}, {"whole rows of ", width, ", as the ", count, " here"});
    for (saved_tensor& x : own.tensors) {
        if (x.slot.ends_with(".scales"))
            refuse({"has ", their_count, " elements, and its state is in blocks"}, {count});
        std::uint64_t const here = x.size(), there = saved.find(x.slot)->size();
        bool const of_elements = here == count && there == their_count,
                   of_rows = here == count / width && there == their_count / width;
        if (of_elements || of_rows) keep_first(x, std::min(here, there));
        else if (here != there)
            refuse({slot_text(x), " has ", there, " elements"}, {here, ", or one for each element or row"});
    }
    return true;
}

GRADSTEP_DEFINE std::size_t values_to_load(saved_state const& own) {
    saved_tensor const& values = *own.find("");
    std::size_t bytes = 0;
    for (saved_chunk const& chunk : values.chunks) bytes += chunk.size();
    return bytes / values.element_bytes;
}

GRADSTEP_DEFINE void read_into(saved_source const& from, saved_state const& own) {
    for (saved_tensor const& x : own.tensors) {
        std::uint64_t offset = 0;
        each_chunk(own, x, true, [&](std::span<std::byte> to) {
            from.read(x.slot, offset, to);
            offset += to.size();
        });
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
