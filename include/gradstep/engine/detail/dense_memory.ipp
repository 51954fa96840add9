#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE memory_block::memory_block(memory_resource const& in, std::size_t bytes) : in_(&in), bytes_(bytes) {
    if (bytes != 0) data_ = in.allocate(bytes, handle_);
}

GRADSTEP_DEFINE memory_block::memory_block(memory_block const& other) : in_(other.in_), bytes_(other.bytes_) {
    if (other.refers_) {
        data_ = other.data_;
        refers_ = true;
    } else if (bytes_ != 0) {
        data_ = in_->duplicate(other.handle_, bytes_, handle_);
    }
}

GRADSTEP_DEFINE memory_block::~memory_block() {
    if (handle_ != nullptr) in_->release(handle_, bytes_);
}

GRADSTEP_DEFINE dense_memory::dense_memory(kernels const& by, std::size_t n, gradstep::shape const& of,
                                           std::size_t own_rows)
    : values_(by.memory(), n * by.facts().storage_bytes), size_(n) {
    make_state(by, of, own_rows);
}

GRADSTEP_DEFINE dense_memory dense_memory::referring_to(updater_facts const& of, erased_tensor const& x) {
    dense_memory out;
    out.size_ = x.size;
    out.values_ = memory_block::referring_to(x.weight, x.size * of.storage_bytes);
    for (std::size_t i = 0; i != of.slots; ++i)
        out.state_[i] = memory_block::referring_to(x.slots[i], of.slot_size(i, x.size, x.shape) * of.state_bytes);
    return out;
}

GRADSTEP_DEFINE void dense_memory::make_state(kernels const& by, gradstep::shape const& of, std::size_t own_rows) {
    updater_facts const& facts = by.facts();
    std::array<memory_block, most_slots> made;
    for (std::size_t i = 0; i != facts.slots; ++i) {
        std::size_t const n = own_rows != 0 && facts.is_row_slot(i) ? own_rows : facts.slot_size(i, size_, of);
        made[i] = memory_block(by.memory(), n * facts.state_bytes);
    }
    state_ = std::move(made);
}

GRADSTEP_DEFINE void dense_memory::describe(state_visitor& to, updater_facts const& of, void* values) const {
    to.memory({"", of.storage_dtype, of.storage_bytes, size_, values});
    for (std::size_t i = 0; i != of.slots; ++i) {
        std::size_t const n = state_bytes(i) / of.state_bytes;
        if (of.in_blocks) to.blocks({of.slot_names[i], size_, {static_cast<coded_block*>(state(i)), n}});
        else to.memory({of.slot_names[i], of.state_dtype, of.state_bytes, n, state(i)});
    }
}

GRADSTEP_DEFINE void dense_memory::move_rows(kernels const& by, row_order const& order, std::size_t width,
                                             gradstep::shape const& now, gradstep::shape const& then, void const* added,
                                             bool has_own_rows, std::int64_t step, std::uint64_t id,
                                             dense_memory& to) const {
    updater_facts const& facts = by.facts();
    bool const on_host = by.memory().on_host;
    auto const move = [&](std::span<std::size_t const> sources, std::size_t before, std::size_t row_bytes,
                          memory_block const& from, void const* more, memory_block const& target) {
        auto const move_on_host = [&](std::byte const* own, std::byte* at) {
            detail::move_rows(sources, before, row_bytes, own, static_cast<std::byte const*>(more), at);
        };
        if (on_host) return move_on_host(from.at(0), target.at(0));
        std::vector<std::byte> own(from.bytes()), moved(target.bytes());
        by.copy_to_host(from.data(), own.data(), own.size());
        by.copy_to_host(target.data(), moved.data(), moved.size());
        move_on_host(own.data(), moved.data());
        by.copy_from_host(moved.data(), target.data(), moved.size());
    };
    move(order.values, order.before, width * facts.storage_bytes, values_, added, to.values_);
    if (facts.slots == 0) return;
    if (facts.in_blocks) {
        for (std::size_t i = 0; i != facts.slots; ++i)
            by.move_blocks(i, order.state, width,
                           {static_cast<coded_block const*>(state(i)), state_bytes(i) / facts.state_bytes},
                           {static_cast<coded_block*>(to.state(i)), to.state_bytes(i) / facts.state_bytes});
        return;
    }
    if (order.has_new_state()) {
        erased_tensor all = to.tensor(facts.slots);
        all.id = id;
        if (facts.uses_shape) all.shape = then;
        begin_state(by, all, has_own_rows ? order.after() : 0, width, step);
    }
    std::size_t const everything[] = {0};
    for (std::size_t i = 0; i != facts.slots; ++i) {
        std::size_t const each = has_own_rows && facts.is_row_slot(i) ? 1 : facts.slot_width(i, width, now);
        if (each != 0) move(order.state, order.before, each * facts.state_bytes, state_[i], nullptr, to.state_[i]);
        else move(everything, 1, to.state_bytes(i), state_[i], nullptr, to.state_[i]);
    }
}

GRADSTEP_DEFINE erased_tensor row_of(updater_facts const& of, erased_tensor all, std::size_t r, std::size_t width) {
    all.weight = static_cast<std::byte*>(all.weight) + r * width * of.storage_bytes;
    all.size = width;
    all.first = r * width;
    if (!all.bfloat16_copy.empty()) all.bfloat16_copy = all.bfloat16_copy.subspan(r * width, width);
    for (std::size_t i = 0; i != of.slots; ++i)
        all.slots[i] = static_cast<std::byte*>(all.slots[i]) + (of.is_row_slot(i) ? r : r * width) * of.state_bytes;
    return all;
}

GRADSTEP_DEFINE void begin_state(kernels const& by, erased_tensor const& all, std::size_t own_rows, std::size_t width,
                                 std::int64_t step) {
    if (own_rows == 0) return by.initialize(all, step);
    for (std::size_t r = 0; r != own_rows; ++r) by.initialize(row_of(by.facts(), all, r, width), step);
}

GRADSTEP_DEFINE void weight_ascent::make_room(kernels const& by, std::size_t n) {
    if (by.facts().is_integer)
        fail<value_error>({"ascend"}, {"integers hold counts, which have no direction"}, {"floating-point elements"});
    if (size_ == n && kept_.data() != nullptr) return;
    kept_ = memory_block(by.memory(), n * by.facts().storage_bytes);
    size_ = n;
}

GRADSTEP_DEFINE void weight_ascent::keep(kernels const& by, erased_tensor const& x, std::size_t first,
                                         std::size_t last) {
    std::size_t const each = by.facts().storage_bytes;
    by.copy_memory(static_cast<std::byte const*>(x.weight) + first * each, kept_.at(first * each),
                   (last - first) * each);
}

GRADSTEP_DEFINE void weight_ascent::restore(kernels const& by, erased_tensor const& x, std::size_t first,
                                            std::size_t last) {
    std::size_t const each = by.facts().storage_bytes;
    by.copy_memory(kept_.at(first * each), static_cast<std::byte*>(x.weight) + first * each, (last - first) * each);
}

GRADSTEP_DEFINE void weight_ascent::require_size(std::size_t n) const {
    if (size_ != n) fail<size_error>({"descend"}, {"there are ", n, " elements"}, {size_, ", as many as at ascend()"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
