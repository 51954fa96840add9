#pragma once
#include <gradstep/model/detail/updater_task.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A task that owns its memory.
template <class Updater> class owning_task : public updater_task<Updater> {
    using base = updater_task<Updater>;

public:
    owning_task(std::string of, parameter<Updater> owned, tensor_options options)
        : base(std::move(of), options), parameter_(std::move(owned)) {}

    bool take_own_gradient(step_options const&) override { return false; }
    std::size_t size() const override { return parameter_.size(); }
    type_id parameter_type() const override { return type_id_of<parameter<Updater>>(); }
    void* owned_parameter() override { return &parameter_; }
    bool average_is_applied() const override { return parameter_.average_is_applied(); }
    bool average([[maybe_unused]] type_id element, [[maybe_unused]] void* out) override {
        if constexpr (keeps_average<typename Updater::rule_type>) return base::give(parameter_.average(), element, out);
        return false;
    }
    void apply_average() override {
        if constexpr (keeps_average<typename Updater::rule_type>) parameter_.apply_average().dismiss();
    }
    void restore() override { parameter_.restore(); }
    void set_ascent_lock(bool is) override { parameter_.set_ascent_lock(is); }
    void set_shape(gradstep::shape const& of) override { parameter_.set_shape(of); }
    void visit_state(state_visitor& to) override { parameter_.describe_state(to, base::options().decay != 0); }
    row_lengths lengths_of_rows(char const* call) const override { return parameter_.row_lengths(call); }
    std::unique_ptr<pending_rows> rearranged(row_order const& order, named_gradient const* added) override {
        std::span<typename base::storage const> values;
        if (added != nullptr) {
            require_added(*added, type_id_of<typename base::storage>(),
                          element_traits<typename Updater::element_type>::name);
            values = {static_cast<typename base::storage const*>(added->data), added->size};
        }
        return std::make_unique<pending>(parameter_, parameter_.rearranged(order, values));
    }

protected:
    Updater const& optimizer() const override { return parameter_.optimizer(); }
    Updater& optimizer() override { return parameter_.optimizer(); }
    slice<Updater> tensor(std::span<typename base::storage> gradient) override { return parameter_.as_slice(gradient); }
    void follow() const {} // only the model moves its memory

private:
    class pending final : public pending_rows {
    public:
        pending(parameter<Updater>& to, rearranged_memory<Updater>&& made) : to_(to), made_(std::move(made)) {}
        void commit() noexcept override { to_.commit_rows(std::move(made_)); }

    private:
        parameter<Updater>& to_;
        rearranged_memory<Updater> made_;
    };

    parameter<Updater> parameter_;
};

// A task over the application's memory. It has a slice of this memory, and its own copy of the
// updater. Containers can move their memory between steps: each call looks it up again, and checks
// that the buffers still fit each other. While an average is applied, the task keeps the trained
// weights.
template <class Updater> class borrowing_task : public updater_task<Updater> {
    using base = updater_task<Updater>;

public:
    borrowing_task(std::string of, Updater const& optimizer, slice<Updater> const& tensor, tensor_options options)
        : base(std::move(of), options), optimizer_(optimizer), tensor_(tensor) {
        look_up();
    }

    void take_gradient(named_gradient const& gradient, step_options const& options) override {
        follow();
        base::take_gradient(gradient, options);
    }
    bool take_own_gradient(step_options const& options) override {
        follow();
        if (has_gradient()) this->set_gradient(tensor_.gradient, tensor_.gradient_is_writable, options);
        return has_gradient();
    }
    std::size_t size() const override { return tensor_.weight.size(); }
    type_id parameter_type() const override { return nullptr; }
    void* owned_parameter() override { return nullptr; }
    bool average_is_applied() const override { return trained_.has_value(); }
    bool average([[maybe_unused]] type_id element, [[maybe_unused]] void* out) override {
        if constexpr (keeps_average<typename Updater::rule_type>) {
            look_up();
            return base::give(averages_on_host(optimizer_, size(), [&](auto to) { read_average(to); }), element, out);
        }
        return false;
    }
    void apply_average() override {
        if constexpr (keeps_average<typename Updater::rule_type>) {
            look_up();
            buffer averages(size());
            std::span<storage> const to(backend::data(averages), size());
            read_average(to);
            trained_ = optimizer_.backend().copy_of(std::span<storage const>(tensor_.weight), memory_space{});
            trained_size_ = size();
            copy<backend, storage>(optimizer_.backend(), to, tensor_.weight);
        }
    }
    void restore() override {
        tensor_.follow();
        copy<backend, storage>(optimizer_.backend(), trained("restore"), tensor_.weight);
        trained_.reset();
    }
    std::string description() const override {
        tensor_.follow();
        return base::description();
    }
    void set_shape(gradstep::shape const& of) override {
        if constexpr (has_factor_slots<typename Updater::rule_type>) {
            follow();
            this->named([&] { tensor_.check_factors(of, only_tensor); });
        }
        if constexpr (base::uses_shape) tensor_.shape = of;
    }
    void visit_state(state_visitor& to) override {
        look_up();
        detail::tensor<Updater> x = tensor_;
        if (trained_) x.weight = trained("save");
        detail::visit_state(to, x, optimizer_, base::options().decay != 0);
        detail::visit_shape(to, tensor_.shape);
    }

protected:
    using typename base::storage;
    Updater const& optimizer() const override { return optimizer_; }
    Updater& optimizer() override { return optimizer_; }
    slice<Updater> tensor(std::span<storage> gradient) override {
        if (trained_) refuse_applied("update");
        tensor_.follow();
        slice<Updater> out = tensor_;
        out.gradient = gradient;
        return out;
    }
    // Looks up where containers have their memory now, if there are any.
    void follow() const {
        if (tensor_.refers()) look_up();
    }

private:
    using base::name, typename base::backend, typename base::memory_space;
    using buffer = typename backend::template buffer<storage>;

    // Looks up where containers have their memory now. Throws if buffers do not fit each other.
    void look_up() const {
        this->named([&] {
            tensor_.follow();
            if (has_gradient()) tensor_.check_buffers();
            else tensor_.check({"gradient", nullptr, size(), 0});
        });
    }
    // The trained weights while the average is in their place.
    std::span<storage> trained(char const* call) {
        if (size() != trained_size_)
            fail<size_error>({call, ": ", name}, {"has ", size(), " elements"},
                             {trained_size_, ", as many as when the average was applied"});
        return {backend::data(*trained_), trained_size_};
    }
    bool has_gradient() const { return !tensor_.gradient.empty() || tensor_.weight.empty(); }
    template <class T> void read_average(std::span<T> to) const {
        std::span<storage> weights = tensor_.weight;
        if (trained_) weights = {backend::data(const_cast<buffer&>(*trained_)), trained_size_};
        [&]<std::size_t... I>(std::index_sequence<I...>) { optimizer_.average(to, weights, tensor_.state[I]...); }
        (std::make_index_sequence<Updater::slots>{});
    }
    Updater optimizer_;
    slice<Updater> tensor_;
    std::optional<buffer> trained_; // while the average is in the weights' place
    std::size_t trained_size_ = 0;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
