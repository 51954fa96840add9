#pragma once
#include <gradstep/base/detail/type_id.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/detail/agreement.hpp>
#include <gradstep/distributed/detail/any_messenger.hpp>
#include <gradstep/distributed/detail/distributed_parameter.hpp>
#include <gradstep/distributed/detail/incremental_step.hpp>
#include <gradstep/distributed/detail/operation.hpp>
#include <gradstep/model.hpp>
#include <gradstep/model/detail/name_index.hpp>
#include <gradstep/model/named_gradient.hpp>

// The common base of the modes in which all ranks take every step together: synchronous.hpp,
// sharded.hpp, compressed.hpp.
namespace gradstep::distributed::inline GRADSTEP_ABI {
/// The base of workers whose ranks take every step together: `synchronous`, `sharded` and
/// `compressed`. A step needs one gradient of each parameter, pushed in any order. It is complete
/// when the first pull, barrier or push after the last of these pushes returns. If the communicator
/// allows threads, a thread of the worker advances the exchanges in between. In `synchronous` and
/// `sharded`, this thread also updates each parameter as soon as its gradients from all ranks have
/// arrived. It waits for the gradients of all parameters if clip_norm or on_nonfinite need them. Do
/// not access the model between a push and the end of its step.
///
/// The first push, pull or barrier of a rank waits for all other ranks and compares them. Version,
/// mode, names, sizes, elements, policies, clocks, values and state must be equal. If they differ,
/// all ranks throw value_error with the difference, a rank and both values. A call that waits for a
/// rank throws rank_error after the communicator's timeout; repeat the call to wait again. Use a
/// worker from one thread at a time. The program can send and receive messages through the same
/// communicator at any time, but must not begin exchanges.
class lockstep {
public:
    lockstep(lockstep const&) = delete;
    lockstep& operator=(lockstep const&) = delete;

    /// Copies the gradient of a parameter, which must have its size and its type in memory, and
    /// starts to send it. It throws before it sends anything: value_error for an unknown name or
    /// another type, size_error, buffer_error, and the errors of the parameter's updater. It throws
    /// sequence_error after stop, and if this gradient was already pushed and other gradients of
    /// the same step were not.
    template <class Buffer> void push(std::string_view name, Buffer&& gradient) {
        push_bytes({name, std::forward<Buffer>(gradient)});
    }
    /// Copies the newest values of a parameter to `out`, after the step of the pushed gradients.
    /// Throws the errors of push, rank_error, and sequence_error if only some gradients of a step
    /// were pushed. It also throws the errors of model::update: the step is then skipped. If the
    /// communicator or an executor throws while parameters are updated one by one, the step is
    /// incomplete: each later call throws the error again, and the model cannot be saved.
    template <class Buffer> void pull(std::string_view name, Buffer&& out) {
        pull_bytes({name, std::forward<Buffer>(out)});
    }
    /// The same without a copy: returns the memory of the newest values, valid until the next
    /// gradient of the parameter is pushed. T must be its type in memory. Throws the errors of the
    /// other `pull`.
    template <class T> std::span<T const> pull(std::string_view name) {
        auto const values = values_of(name, gradstep::detail::type_id_of<T>());
        return {reinterpret_cast<T const*>(values.data()), values.size() / sizeof(T)};
    }
    /// Completes the step, and waits until all ranks have called it. Throws the errors of pull.
    void barrier();
    /// The last call: a barrier. Only `pull` can follow, and returns the final values.
    void stop();

protected:
    explicit lockstep(char const* mode);
    ~lockstep(); // call `rest` first

    // Channel 0 is for all parameters together, channel 1 for other data of a mode. Then each
    // parameter has one.
    static constexpr int second_channel = 1;

    auto const& parameters() const { return parameters_; }
    // Adds a parameter: make(channel) returns its distributed_parameter.
    template <class Make> void add_pushed(Make const& make) {
        make_room();
        push_back(make(static_cast<int>(parameters_.size()) + second_channel + 1));
    }
    // A parameter that the model has.
    gradstep::detail::dense_parameter const& in_model(std::string_view name) const {
        auto const& tasks = updated_model().tasks();
        return tasks[tasks.index_of(name, "add")].parameter();
    }
    void add_operation(detail::operation& one) { operations_.push_back(&one); }
    void refuse_late_add(std::string const& name) const;
    // Ends the helper thread. The destructor of each mode must call it first, since the thread uses
    // the mode's variables.
    void rest() { helper_.reset(); }
    void wait(detail::operation& one, std::string_view what, std::string_view of = std::string_view());

    // Updates all parameters together, after all gradients have arrived. If parameters can be
    // updated one by one, `incremental` returns an incremental step instead.
    virtual void update() = 0;
    virtual gradstep::detail::incremental_step* incremental() { return nullptr; }
    // Called after the last gradient of a step was pushed.
    virtual void all_taken() {}
    // Called once, after the ranks were compared.
    virtual void on_begin() {}
    // Adds what else must be equal on all ranks.
    virtual void describe_to(detail::agreement&) const = 0;
    virtual gradstep::model const& updated_model() const = 0;

    // Operations of all ranks. After an exception, the next call continues the same operation.
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
    static void check(detail::distributed_parameter const& one, named_gradient const& memory, char const* call,
                      char const* what);

    // Compares the ranks, once, before the first exchange.
    void begin();
    detail::agreement what_must_agree() const;

    // One poll of the helper thread: advances the exchanges, then updates some elements. When the
    // caller waits, it takes over the rest, since it can have more threads.
    detail::progress help();
    void finish_step();
    // Updates the rest of each parameter whose gradients have arrived, until all are complete.
    // After an error the step stays incomplete, and each later call throws the error again.
    void finish_incremental();
    void forget_step();

    char const* mode_;
    bool has_begun_ = false, has_stopped_ = false;
    std::size_t taken_ = 0;
    std::vector<std::unique_ptr<detail::distributed_parameter>> parameters_;
    std::vector<detail::operation*> operations_; // the parameters, and other operations of the mode
    gradstep::detail::name_index index_;
    gradstep::detail::incremental_step* incremental_ = nullptr; // null if steps are not incremental
    std::atomic<bool> is_finishing_ = false;                    // the caller waits for an incremental step
    std::optional<detail::helper_thread> helper_;
};
} // namespace gradstep::distributed::inline GRADSTEP_ABI

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
void add_options(agreement& own, model_options const& options);
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

namespace gradstep::distributed::detail::inline GRADSTEP_ISA {
// The base of a mode's worker over a communicator of one type, which must outlive it.
template <communicator C> class lockstep_over : public lockstep {
protected:
    lockstep_over(C& by, char const* mode) : lockstep(mode), by_(by), ranks_(by) {}
    ~lockstep_over() = default;

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
} // namespace gradstep::distributed::detail::inline GRADSTEP_ISA

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/lockstep.ipp>
#endif
