#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/core/type_id.hpp>
#include <gradstep/distributed/agreement.hpp>
#include <gradstep/distributed/any_messenger.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/distributed_parameter.hpp>
#include <gradstep/distributed/incremental_step.hpp>
#include <gradstep/distributed/operation.hpp>
#include <gradstep/model.hpp>
#include <gradstep/model/name_index.hpp>
#include <gradstep/model/named_gradient.hpp>

// What the modes share in which all ranks take every step together: synchronous.hpp, sharded.hpp,
// compressed.hpp.
namespace gradstep::distributed {
inline namespace GRADSTEP_ABI {
/// What the workers have in common in which all ranks take every step together: `synchronous`,
/// `sharded` and `compressed`. A step takes a gradient of each parameter, pushed in any order; it
/// has happened when the first pull, barrier or push after the last of them returns. What was
/// pushed is moved on meanwhile by a thread of the worker's, where the communicator allows threads;
/// `synchronous` and `sharded` let it update each parameter as soon as the gradients of all ranks
/// have come, unless model_options have something look at the gradients of all parameters first.
/// From a push to the end of its step the model is the worker's, and nobody looks at it.
///
/// The first push, pull or barrier of a rank waits for all others, and they compare what they have:
/// version, mode, names, sizes, elements, policies, clocks, values and state. Where something
/// differs, all ranks throw a value_error that names it, a rank and both values. Whatever waits for
/// a rank throws rank_error after the communicator's timeout; the call may be made again, to wait
/// again. One thread at a time calls a worker. Meanwhile the program may send and receive messages
/// by the communicator, of which a worker has none; exchanges are the worker's.
class in_step {
public:
    in_step(in_step const&) = delete;
    in_step& operator=(in_step const&) = delete;

    /// Takes a copy of the gradient of a parameter, of its size and of the type that it has in
    /// memory, and begins to send it. Throws, and nothing has been sent: value_error for an unknown
    /// name or another type, size_error, buffer_error; sequence_error where the gradient has been
    /// pushed, and others of the same step have not, or after stop; and what the parameter's
    /// updater refuses.
    template <class Buffer> void push(std::string_view name, Buffer&& gradient) {
        push_bytes({name, std::forward<Buffer>(gradient)});
    }
    /// Copies the newest values of a parameter to `out`: those after the step whose gradients have
    /// been pushed. Throws as push, and sequence_error where only some of a step's gradients have
    /// been pushed; rank_error; and what model::update throws: the step is then left out. What the
    /// communicator or an executor throws while parameters are being updated one by one leaves a
    /// part of the step done: each later call throws it again, and the model is not saved.
    template <class Buffer> void pull(std::string_view name, Buffer&& out) {
        pull_bytes({name, std::forward<Buffer>(out)});
    }
    /// The same without a copy: the newest values where they are, until the next gradient of the
    /// parameter is pushed; T is the type that it has in memory. Throws as the other.
    template <class T> std::span<T const> pull(std::string_view name) {
        auto const values = values_of(name, gradstep::detail::type_id_of<T>());
        return {reinterpret_cast<T const*>(values.data()), values.size() / sizeof(T)};
    }
    /// Takes the step, and waits until all ranks have come here. Throws as pull.
    void barrier();
    /// The last call: a barrier. Only `pull` may follow, which gives the values that there are.
    void stop();

protected:
    explicit in_step(char const* mode);
    ~in_step(); // after `rest`

    // Channel 0 is for all parameters together, the second one for what else a mode sends; then
    // each parameter has one.
    static constexpr int second_channel = 1;

    auto const& parameters() const { return parameters_; }
    // Adds a parameter: make(channel) makes the part of it that is pushed.
    template <class Make> void add_pushed(Make const& make) {
        make_room();
        push_back(make(static_cast<int>(parameters_.size()) + second_channel + 1));
    }
    void add_operation(detail::operation& one) { operations_.push_back(&one); }
    void refuse_begun(std::string const& name) const;
    // The destructor of each mode calls it first: from then on no thread looks at the mode's
    // members.
    void rest() { helper_.reset(); }
    void wait(detail::operation& one, std::string_view what, std::string_view of = std::string_view());

    // A step of all parameters together: what was pushed has come. Where a parameter may change
    // before that, there is an incremental step instead.
    virtual void update() = 0;
    virtual gradstep::detail::incremental_step* gradually() { return nullptr; }
    // The last gradient of a step has been taken.
    virtual void all_taken() {}
    // All ranks agree, and have begun.
    virtual void begun() {}
    // What else the ranks must have alike.
    virtual void describe_to(detail::agreement&) const = 0;
    virtual gradstep::model const& updated_model() const = 0;

    // What all ranks do, by the communicator: each goes on with what the same call has begun
    // before, if that has thrown.
    virtual detail::any_messenger const& ranks() const = 0;
    virtual std::vector<std::vector<std::byte>> compare(std::vector<std::byte> own) = 0;
    virtual void wait_for_all() = 0;

private:
    void make_room();
    void push_back(std::unique_ptr<detail::distributed_parameter> one);
    void push_bytes(named_gradient const& gradient);
    void pull_bytes(named_gradient const& out);
    std::span<std::byte const> values_of(std::string_view name, gradstep::detail::type_id type);
    std::span<std::byte const> newest(detail::distributed_parameter& one);
    void wake() {
        if (helper_) helper_->wake();
    }
    void refuse_stopped(char const* call) const;
    detail::distributed_parameter& find(std::string_view name, char const* call);
    static void check(detail::distributed_parameter const& one, named_gradient const& memory, char const* what);

    // Once, on all ranks: before anything moves, they compare what they have.
    void begin();
    detail::agreement what_must_agree() const;

    // What the helper does between two looks: it moves on what is on its way, and then updates a
    // little. What is left when the caller waits is the caller's, who may have more threads.
    detail::progress help();
    void finish_step();
    // Updates what the helper has left of the parameters whose gradients are there, until all are.
    // What fails there fails again in each later call, and the step has not ended: the model has a
    // part of it.
    void finish_gradually();
    void forget_step();

    char const* mode_;
    bool has_begun_ = false, has_stopped_ = false;
    std::size_t taken_ = 0;
    std::vector<std::unique_ptr<detail::distributed_parameter>> parameters_;
    std::vector<detail::operation*> operations_; // of these, and what else goes on
    gradstep::detail::name_index index_;
    gradstep::detail::incremental_step* gradually_ = nullptr; // where a step may be one
    std::atomic<bool> is_finishing_ = false;                  // the caller waits for an incremental step
    std::optional<detail::helper_thread> helper_;
};
} // namespace GRADSTEP_ABI

namespace detail {
inline namespace GRADSTEP_ABI {

void add_options(agreement& own, model_options const& options);

} // namespace GRADSTEP_ABI

inline namespace GRADSTEP_ISA {

// A mode's worker over a communicator of one type, which outlives it.
template <communicator C> class in_step_over : public in_step {
protected:
    in_step_over(C& by, char const* mode) : in_step(mode), by_(by), ranks_(by) {}
    ~in_step_over() = default;

    C& by() { return by_; }

private:
    any_messenger const& ranks() const override { return ranks_; }
    std::vector<std::vector<std::byte>> compare(std::vector<std::byte> own) override {
        if (!comparison_) comparison_.emplace(begin_all_gather(by_, 0, std::move(own)));
        finish(by_, *comparison_, "what the ranks compare before the first step");
        auto out = comparison_->take();
        comparison_.reset();
        return out;
    }
    void wait_for_all() override {
        if (!barrier_) barrier_.emplace(begin_barrier(by_, 0));
        finish(by_, *barrier_, "the barrier");
        barrier_.reset();
    }

    C& by_;
    messenger_of<C> ranks_;
    std::optional<pending_gather<C>> comparison_;
    std::optional<exchange_of<C>> barrier_;
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/in_step.ipp>
#endif
