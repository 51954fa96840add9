#pragma once
#include <gradstep/engine/detail/dense_parameter.hpp>
#include <gradstep/engine/detail/kernels_of.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A parameter of a model in the application's memory, which a slice refers to, with its own copy of
// the updater. Containers can move their memory between steps: `follow` looks it up again.
template <class Updater> class borrowed_parameter final : public dense_parameter {
    using traits = typename Updater::traits;

public:
    borrowed_parameter(Updater const& optimizer, slice<Updater> const& tensor)
        : dense_parameter(model_wise_rule<typename Updater::rule_type>, {}), stepper_(optimizer), tensor_(tensor) {
        look_up(true);
    }
    dense_parameter& core() { return *this; }

    void follow(bool checks = true) override {
        if (tensor_.refers()) look_up(checks);
    }
    std::optional<given_gradient> own_gradient() override {
        if (!has_gradient()) return {};
        return given_gradient{tensor_.gradient.data(), tensor_.gradient.size(), tensor_.gradient_is_writable};
    }
    void join(std::string const& name, tensor_options const& options) override {
        dense_parameter::join(name, options);
        if (tensor_.id) id_ = *tensor_.id;
    }
    void use_shape(gradstep::shape const& of) override {
        if constexpr (has_factor_slots<typename Updater::rule_type>) {
            follow();
            tensor_.check_factors(of, only_tensor);
        }
        tensor_.shape = of;
    }
    void describe_shape(state_visitor& to) const override { visit_shape(to, tensor_.shape); }
    bool give_average([[maybe_unused]] type_id element, [[maybe_unused]] void* out) override {
        using state = typename traits::state;
        if constexpr (keeps_average<typename Updater::rule_type>)
            if (element == type_id_of<state>()) {
                std::vector<state> averages(size());
                average_on_host(averages.data());
                *static_cast<std::vector<state>*>(out) = std::move(averages);
                return true;
            }
        return false;
    }
    type_id storage_type() const override { return type_id_of<typename traits::storage>(); }
    type_id face_type() const override { return nullptr; }
    void* face() override { return nullptr; }

private:
    stepper& by() noexcept override { return stepper_; }
    gradstep::shape matrix() const override {
        gradstep::shape const known = tensor_.shape;
        if constexpr (has_factor_slots<typename Updater::rule_type>)
            if (!known.is_known()) return tensor_.shape_of_factors();
        return known;
    }
    bool has_gradient() const { return !tensor_.gradient.empty() || tensor_.weight.empty(); }
    // Refers to the memory that the containers have now.
    void look_up(bool checks) {
        tensor_.follow();
        if (checks && has_gradient()) tensor_.check_buffers();
        else if (checks) tensor_.check({"gradient", nullptr, tensor_.weight.size(), 0});
        options_.bfloat16_copy = tensor_.bfloat16_copy;
        memory_ = dense_memory::referring_to(facts(), {tensor_.weight.data(), nullptr, tensor_.weight.size()});
        for (std::size_t i = 0; i != Updater::slots; ++i)
            memory_.refer_state(i, tensor_.state[i].data(), tensor_.state[i].size_bytes());
    }

    typed_stepper<Updater> stepper_;
    slice<Updater> tensor_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
