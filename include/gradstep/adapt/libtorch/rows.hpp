#pragma once
#include <ATen/ATen.h>
#include <torch/optim/optimizer.h>

#include <gradstep/adapt/libtorch/entry.hpp>
#include <gradstep/adapt/libtorch/kinds.hpp>
#include <gradstep/adapt/libtorch/memory.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>

// Rows of parameters that come and go: `append` and `keep`. A change has the new memory of one
// parameter and its state. Its constructor checks everything and writes nothing.
namespace gradstep::detail::libtorch::inline GRADSTEP_ABI {
// The rows of a parameter that stay, in their order, and new rows behind them.
struct new_rows {
    Tensor parameter, kept, added; // kept: indices, or undefined if all stay; added: undefined if there are none
};

// What every change of a parameter needs: without negations and views, and contiguous.
inline Tensor settled(Tensor const& x) { return x.resolve_conj().resolve_neg().contiguous(); }
inline gradstep::shape shape_of_rows(Tensor const& x) {
    if (x.dim() < 2 || is_empty(x)) return {};
    return {static_cast<std::size_t>(x.size(0)), static_cast<std::size_t>(x.numel() / x.size(0))};
}

inline void require_rows(new_rows const& of, char const* call, tensor_path const& here) {
    Tensor const& own = of.parameter;
    std::string const name = here.text() + ": " + call;
    require_memory(own, {here.group, here.position, "the tensor"});
    if (own.dim() == 0)
        detail::fail<size_error>({name}, {"the tensor has the shape (), which has no rows"},
                                 {"one dimension at least"});
    if (own.is_inference())
        detail::fail<buffer_error>({name}, {"the tensor was made in inference mode"}, {"one made outside"});
    if (!of.added.defined()) return;
    tensor_path const rows{here.group, here.position, "the tensor of new rows"};
    require_memory(of.added, rows);
    if (of.added.scalar_type() != own.scalar_type())
        detail::fail<value_error>({name}, {"the new rows are of ", text_of(of.added.scalar_type())},
                                  {text_of(own.scalar_type())});
    std::vector<std::int64_t> expected = own.sizes().vec();
    if (of.added.dim() == own.dim()) expected[0] = of.added.size(0);
    if (of.added.sizes() != expected)
        detail::fail<size_error>({name}, {"the new rows have the shape ", text_of(of.added.sizes())},
                                 {"that of the tensor, ", text_of(own.sizes()), ", besides the number of rows"});
}

// The path of parameters[k] of a call in the groups of an optimizer.
inline tensor_path path_of(::torch::optim::Optimizer& of, std::vector<Tensor> const& parameters, std::size_t k,
                           char const* call) {
    for (std::size_t g = 0; g < of.param_groups().size(); ++g) {
        auto const& all = of.param_groups()[g].params();
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (!parameters[k].defined() || !all[i].is_same(parameters[k])) continue;
            for (std::size_t other = 0; other < k; ++other)
                if (parameters[other].is_same(parameters[k]))
                    detail::fail<value_error>({tensor_path{g, i}.text(), ": ", call}, {"is given twice"},
                                              {"each parameter once"});
            return {g, i};
        }
    }
    detail::fail<value_error>({call}, {"tensor ", k, " is no parameter of the optimizer"},
                              {"a tensor of a parameter group"});
}

// Throws if memory that is replaced is also memory of another parameter, which would keep the old
// rows.
inline void require_alone(::torch::optim::Optimizer& of, Tensor const& parameter, char const* call,
                          tensor_path const& here) {
    extent const own = extent::of(parameter, true);
    for (std::size_t g = 0; g < of.param_groups().size(); ++g) {
        auto const& all = of.param_groups()[g].params();
        for (std::size_t i = 0; i < all.size(); ++i)
            if (!all[i].is_same(parameter) && all[i].layout() == at::kStrided && all[i].is_cpu() &&
                own.overlaps(extent::of(all[i], true)))
                detail::fail<buffer_error>({here.text() + ": " + call},
                                           {"the tensor shares memory with ", tensor_path{g, i}.text()},
                                           {"separate memory for each"});
    }
}

// The indices of the true elements of a mask.
inline Tensor kept_of(Tensor const& mask, Tensor const& parameter, tensor_path const& here) {
    std::string const name = here.text() + ": keep";
    if (!mask.defined() || !mask.is_cpu() || mask.scalar_type() != at::kBool || mask.dim() != 1)
        detail::fail<value_error>({name}, {"the mask is not a list of bools on the CPU"}, {"a bool for each row"});
    std::int64_t const rows = parameter.dim() == 0 ? 1 : parameter.size(0);
    if (mask.size(0) != rows) detail::fail<size_error>({name}, {"the mask has ", mask.size(0), " elements"}, {rows});
    return mask.nonzero().view({-1});
}

template <class Kind> class row_change {
    using state_type = typename Kind::state_type;

public:
    row_change(new_rows const& of, any_updater const& by, state_type* state, tensor_path const& here)
        : parameter_(of.parameter), state_(state) {
        Tensor const own = of.parameter.detach();
        values_ = own;
        if (of.kept.defined()) values_ = own.index_select(0, of.kept);
        if (of.added.defined()) values_ = at::cat({values_, of.added.detach()});
        values_ = settled(values_.is_same(own) ? own.clone() : values_);
        if (state == nullptr) return;
        std::array<Tensor, runtime::most_slots> const first = first_state(by);
        Kind::visit(*state, [&](std::string const& name, Tensor& slot) {
            if (!slot.defined()) return;
            std::size_t i = 0;
            while (i < by.slots() && name != Kind::name_of(by, i)) ++i;
            bool const is_used = i != by.slots();
            auto const n = static_cast<std::size_t>(own.numel());
            std::size_t const length = is_used ? by.slot_size(i, n, shape_of_rows(own)) : n;
            if (is_used && by.facts().is_row_slot(i)) return; // belongs to all rows
            Tensor next = is_used ? first[i] : at::zeros(values_.sizes(), slot.options());
            if (n != 0 && !is_empty(values_)) { // otherwise no row stays
                auto const width = n / static_cast<std::size_t>(own.size(0));
                if (is_used && by.facts().slot_width(i, width, shape_of_rows(own)) == 0) return; // of columns
                require_slot(slot, length == n ? own : at::empty({static_cast<std::int64_t>(length)}),
                             {here.group, here.position, "its state", name.c_str()});
                Tensor const old = of.kept.defined() ? slot.index_select(0, of.kept) : slot;
                next.narrow(0, 0, old.size(0)).copy_(old);
            }
            slots_.emplace_back(&slot, std::move(next));
        });
    }
    Tensor const& values() const { return values_; }
    Tensor const& parameter() const { return parameter_; }

    // Puts the new memory in place. The tensor and its place in modules and groups stay.
    void take() {
        for (auto& [slot, next] : slots_) *slot = std::move(next);
        parameter_.mutable_grad() = Tensor();
        // torch makes a new node for the gradient if the dtype changes. The old one, which a graph
        // of an earlier step can keep alive, expects gradients of the old shape.
        at::ScalarType const other = values_.scalar_type() == at::kDouble ? at::kFloat : at::kDouble;
        parameter_.set_data(at::empty({0}, values_.options().dtype(other)));
        parameter_.set_data(values_);
    }

private:
    // All slots as they begin, of a parameter with the new rows.
    std::array<Tensor, runtime::most_slots> first_state(any_updater const& by) const {
        std::array<Tensor, runtime::most_slots> out;
        if (by.slots() == 0) return out;
        Tensor const weight = values_.to(type_of(by.storage()));
        auto const n = static_cast<std::size_t>(weight.numel());
        gradstep::shape const shape = by.facts().uses_shape ? shape_of_rows(weight) : gradstep::shape{};
        std::vector<any_span> spans;
        for (std::size_t i = 0; i < by.slots(); ++i) {
            std::size_t const length = by.slot_size(i, n, shape);
            auto const type = type_of(by.state_type());
            out[i] = length == n ? at::empty(weight.sizes(), weight.options().dtype(type))
                                 : at::empty({static_cast<std::int64_t>(length)}, type);
            spans.emplace_back(by.state_type(), out[i].data_ptr(), length);
        }
        // As if the rows had always stood there: the sums of `window` count the steps before.
        std::optional<std::int64_t> const steps = state_ == nullptr ? std::nullopt : Kind::steps_of(*state_);
        std::optional<std::int64_t> const number = steps ? std::optional(*steps + 1) : std::nullopt;
        by.initialize({any_span(by.storage(), weight.data_ptr(), n), {}, spans, {}, 1, 1, number, shape});
        return out;
    }

    Tensor parameter_, values_;
    state_type* state_;
    std::vector<std::pair<Tensor*, Tensor>> slots_;
};
} // namespace gradstep::detail::libtorch::inline GRADSTEP_ABI
