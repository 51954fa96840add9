#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/core/crc32c.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/gradual_step.hpp>
#include <gradstep/distributed/pushed_parameter.hpp>
#include <gradstep/model.hpp>
#include <gradstep/version.hpp>

// What the modes share in which all ranks take every step together: synchronous.hpp, sharded.hpp, compressed.hpp.
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

// What all ranks must have alike, as texts: what each is about, and its value.
class agreement {
public:
    void add(std::string what, std::string value) { lines_.push_back({std::move(what), std::move(value)}); }

    // Of each text its length in 8 bytes, and its letters.
    std::vector<std::byte> encode() const {
        std::vector<std::byte> out;
        auto const put = [&](std::string const& of) {
            std::uint64_t const length = of.size();
            auto const* const at = reinterpret_cast<std::byte const*>(&length);
            out.insert(out.end(), at, at + sizeof length);
            auto const letters = std::as_bytes(std::span(of));
            out.insert(out.end(), letters.begin(), letters.end());
        };
        for (line const& one : lines_) {
            put(one.what);
            put(one.value);
        }
        return out;
    }
    static agreement decode(std::span<std::byte const> bytes) {
        agreement out;
        auto const take = [&] {
            std::uint64_t length = 0;
            if (bytes.size() < sizeof length) fail<value_error>("the ranks do not agree: they speak of other things");
            std::memcpy(&length, bytes.data(), sizeof length);
            bytes = bytes.subspan(sizeof length);
            if (length > bytes.size()) fail<value_error>("the ranks do not agree: they speak of other things");
            std::string letters(reinterpret_cast<char const*>(bytes.data()), static_cast<std::size_t>(length));
            bytes = bytes.subspan(static_cast<std::size_t>(length));
            return letters;
        };
        while (!bytes.empty()) {
            std::string what = take();
            out.add(std::move(what), take());
        }
        return out;
    }
    // The first line in which a rank differs from this one, rank 0's; empty where there is none.
    std::string difference(agreement const& theirs, int rank) const {
        static line const nothing{"", "nothing"};
        for (std::size_t i = 0; i < lines_.size() || i < theirs.lines_.size(); ++i) {
            line const &a = i < lines_.size() ? lines_[i] : nothing,
                       &b = i < theirs.lines_.size() ? theirs.lines_[i] : nothing;
            if (a.what == b.what && a.value == b.value) continue;
            return gradstep::detail::joined({a.what.empty() ? b.what : a.what, " is ", a.value, " on rank 0, and ",
                                             b.value, " on rank ", rank, ": must be the same"});
        }
        return {};
    }

private:
    struct line {
        std::string what, value;
    };
    std::vector<line> lines_;
};

inline void add_options(agreement& own, model_options const& options) {
    own.add("model_options.clip_norm", text(options.clip_norm));
    own.add("model_options.on_nonfinite", gradstep::detail::enumerator(options.on_nonfinite));
}

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// What the workers have in common in which all ranks take every step together: `synchronous`, `sharded` and `compressed`. A step takes
/// a gradient of each parameter, pushed in any order; it has happened when the first pull, barrier or push after the last of them
/// returns. What was pushed is moved on meanwhile by a thread of the worker's, where the communicator allows threads; `synchronous` and
/// `sharded` let it update each parameter as soon as the gradients of all ranks have come, unless model_options have something look
/// at the gradients of all parameters first. From a push to the end of its step the model is the worker's, and nobody looks at it.
///
/// The first push, pull or barrier of a rank waits for all others, and they compare what they have: version, mode, names, sizes,
/// elements, policies, clocks, values and state. Where something differs, all ranks throw a value_error that names it, a rank and
/// both values. Whatever waits for a rank throws rank_error after the communicator's timeout; the call may be made again, to wait
/// again. One thread at a time calls a worker. Meanwhile the program may send and receive messages by the communicator, of which a
/// worker has none; exchanges are the worker's.
template <communicator C> class in_step {
public:
    in_step(in_step const&) = delete;
    in_step& operator=(in_step const&) = delete;

    /// Takes a copy of the gradient of a parameter, of its size and of the type that it has in memory, and begins to send it. Throws,
    /// and nothing has been sent: value_error for an unknown name or another type, size_error, buffer_error; sequence_error where the
    /// gradient has been pushed, and others of the same step have not, or after stop; and what the parameter's updater refuses.
    template <class Buffer> void push(std::string_view name, Buffer&& gradient) {
        push_bytes({name, std::forward<Buffer>(gradient)});
    }
    /// Copies the newest values of a parameter to `out`: those after the step whose gradients have been pushed. Throws as push, and
    /// sequence_error where only some of a step's gradients have been pushed; rank_error; and what model::update throws: the step is
    /// then left out. What the communicator or an executor throws while parameters are being updated one by one leaves a part of the
    /// step done: each later call throws it again, and the model is not saved.
    template <class Buffer> void pull(std::string_view name, Buffer&& out) {
        pull_bytes({name, std::forward<Buffer>(out)});
    }
    /// The same without a copy: the newest values where they are, until the next gradient of the parameter is pushed; T is the type
    /// that it has in memory. Throws as the other.
    template <class T> std::span<T const> pull(std::string_view name) {
        detail::pushed_parameter& one = find(name, "pull");
        if (one.storage != detail::type_id_of<T>())
            detail::fail<value_error>({"pull: the values of ", one.name,
                                       " are asked for as another type than a parameter of ", one.element,
                                       " has in memory"});
        auto const values = newest(one);
        return {reinterpret_cast<T const*>(values.data()), values.size() / sizeof(T)};
    }
    /// Takes the step, and waits until all ranks have come here. Throws as pull.
    void barrier() {
        refuse_stopped("barrier");
        begin();
        finish_step();
        for (auto const& one : parameters_) wait(*one, "the values of ", one->name);
        if (!barrier_) barrier_.emplace(begin_barrier(by_, 0));
        finish(by_, *barrier_, "the barrier");
        barrier_.reset();
    }
    /// The last call: a barrier. Only `pull` may follow, which gives the values that there are.
    void stop() {
        if (has_stopped_) return;
        barrier();
        helper_.reset();
        has_stopped_ = true;
    }

protected:
    in_step(C& by, char const* mode) : by_(by), mode_(mode) {}
    ~in_step() = default; // after `rest`

    // 0 is for all parameters together, the second channel for what else a mode sends; then each parameter has one.
    static constexpr int second_channel = 1;

    C& by() { return by_; }
    auto const& parameters() const { return parameters_; }
    // A parameter that was added: `make(channel)` makes what is pushed of it.
    template <class Make> void add_pushed(Make const& make) {
        index_.make_room();
        parameters_.reserve(parameters_.size() + 1);
        operations_.reserve(operations_.size() + 1);
        parameters_.push_back(make(static_cast<int>(parameters_.size()) + second_channel + 1));
        operations_.push_back(parameters_.back().get());
        index_.push_back(parameters_.back()->name);
    }
    void add_operation(detail::operation& one) { operations_.push_back(&one); }
    void refuse_begun(std::string const& name) const {
        if (has_begun_)
            detail::fail<sequence_error>({"add: ", name, ": the ranks have begun already: add all parameters first"});
    }
    // Every mode's destructor calls it first: from then on nothing of the mode's is looked at.
    void rest() { helper_.reset(); }
    template <class Operation>
    void wait(Operation& one, std::string_view what, std::string_view of = std::string_view()) {
        if (!one.test()) finish(by_, one, std::string(what) + std::string(of));
    }

    // A step of all parameters together: what was pushed has come. Where a parameter may change before that, there is a gradual step
    // instead.
    virtual void update() = 0;
    virtual gradstep::detail::gradual_step* gradually() { return nullptr; }
    // The last gradient of a step has been taken.
    virtual void all_taken() {}
    // All ranks agree, and have begun.
    virtual void begun() {}
    // What else the ranks must have alike.
    virtual void describe_to(detail::agreement&) const = 0;
    virtual gradstep::model const& updated_model() const = 0;

private:
    void push_bytes(named_gradient const& gradient) {
        refuse_stopped("push");
        detail::pushed_parameter& one = find(gradient.name, "push");
        check(one, gradient, "push: the gradient of ");
        begin();
        if (one.is_pushed) finish_step();
        wait(one, "the values of ", one.name);
        one.begin_push(gradient.data, gradually_);
        one.is_pushed = true;
        if (++taken_ == parameters_.size()) {
            gradstep::detail::undo_unless_done left_out([&] { forget_step(); });
            all_taken();
            left_out.dismiss();
        }
        wake();
    }
    void pull_bytes(named_gradient const& out) {
        detail::pushed_parameter& one = find(out.name, "pull");
        check(one, out, "pull: the memory for ");
        if (!out.is_writable)
            detail::fail<buffer_error>({"pull: the memory for ", one.name, " is read-only: must be writable"});
        auto const values = newest(one);
        if (!values.empty()) std::memcpy(const_cast<void*>(out.data), values.data(), values.size());
    }
    std::span<std::byte const> newest(detail::pushed_parameter& one) {
        if (!has_stopped_) begin();
        finish_step();
        wait(one, "the values of ", one.name);
        return one.values();
    }
    void wake() {
        if (helper_) helper_->wake();
    }
    void refuse_stopped(char const* call) const {
        if (has_stopped_) detail::fail<sequence_error>({call, ": this rank has stopped"});
    }
    detail::pushed_parameter& find(std::string_view name, char const* call) {
        std::size_t const i =
            index_.find(name, [&](std::size_t k) -> std::string const& { return parameters_[k]->name; });
        if (i != gradstep::detail::name_index::none) return *parameters_[i];
        std::string known;
        for (auto const& one : parameters_) known += (known.empty() ? "" : ", ") + one->name;
        detail::fail<value_error>(
            {call, ": there is no parameter ", name, "; there is ", known.empty() ? "none" : known});
    }
    static void check(detail::pushed_parameter const& one, named_gradient const& memory, char const* what) {
        if (memory.storage != one.storage)
            detail::fail<value_error>(
                {what, one.name, " is of another type than a parameter of ", one.element, " has in memory"});
        if (!memory.may_be_host)
            detail::fail<buffer_error>({what, one.name, " lives on a device: must be memory of the host"});
        if (memory.size != one.size)
            detail::fail<size_error>({what, one.name, " has ", memory.size, " elements, the parameter has ", one.size});
        if (memory.data == nullptr && memory.size != 0)
            detail::fail<buffer_error>({what, one.name, " is null: give ", memory.size, " elements"});
    }

    // Once, on all ranks: before anything moves, they compare what they have.
    void begin() {
        if (has_begun_) return;
        if (!comparison_) comparison_.emplace(begin_all_gather(by_, 0, what_must_agree().encode()));
        finish(by_, *comparison_, "what the ranks compare before the first step");
        auto const texts = comparison_->take();
        comparison_.reset();
        auto const first = detail::agreement::decode(texts[0]);
        for (int r = 1; r != by_.size(); ++r) {
            std::string const difference =
                first.difference(detail::agreement::decode(texts[static_cast<std::size_t>(r)]), r);
            if (!difference.empty()) detail::fail<value_error>({"rank ", by_.rank(), ": ", difference});
        }
        begun();
        if (auto* const step = gradually(); step != nullptr && step->is_possible()) gradually_ = step;
        has_begun_ = true;
        if (by_.allows_threads()) helper_.emplace([this] { return help(); });
    }
    detail::agreement what_must_agree() const {
        detail::agreement own;
        own.add("the version of gradstep",
                gradstep::detail::joined(
                    {GRADSTEP_VERSION_MAJOR, ".", GRADSTEP_VERSION_MINOR, ".", GRADSTEP_VERSION_PATCH}));
        own.add("the mode", mode_);
        own.add("the number of parameters", detail::text(parameters_.size()));
        for (std::size_t i = 0; i != parameters_.size(); ++i)
            own.add("the name of parameter " + detail::text(i), parameters_[i]->name);
        for (auto const& one : parameters_) {
            own.add("the size of " + one->name, detail::text(one->size));
            own.add("the element of " + one->name, one->element);
            own.add("the optimizer of " + one->name,
                    gradstep::detail::joined({one->memory.policies(one->memory.of),
                                              ", rate_scale = ", one->options.rate_scale,
                                              gradstep::detail::parameter_task::text_of(one->options.decay)}));
            auto const clock = updated_model().clock(one->name);
            own.add("the clock of " + one->name, gradstep::detail::joined({"step ", clock.step, ", samples ",
                                                                           clock.samples, ", epoch ", clock.epoch}));
            auto const values = one->values();
            own.add("the checksum of the values of " + one->name,
                    detail::text(gradstep::detail::crc32c(0, values.data(), values.size())));
            own.add("the checksum of the state of " + one->name, one->state_checksum());
        }
        describe_to(own);
        return own;
    }

    // What the helper does between two looks: it moves on what is on its way, and then updates a little. What is left when the caller
    // waits is the caller's, who may have more threads.
    detail::progress help() {
        bool any = false;
        for (detail::operation* const one : operations_) any = one->advance_quietly() || any;
        for (auto const& one : parameters_)
            if (!is_finishing_ && one->step_on()) return detail::progress::made;
        return any ? detail::progress::awaited : detail::progress::none_left;
    }

    void finish_step() {
        if (taken_ == 0) return;
        if (taken_ != parameters_.size()) {
            std::string pushed, missing;
            for (auto const& one : parameters_) {
                std::string& list = one->is_pushed ? pushed : missing;
                list += (list.empty() ? "" : ", ") + one->name;
            }
            detail::fail<sequence_error>({"a step takes a gradient of each parameter, and those of ", missing,
                                          " have not been pushed, only those of ", pushed});
        }
        if (gradually_ != nullptr) {
            finish_gradually();
        } else {
            for (auto const& one : parameters_) wait(*one, "the gradient of ", one->name);
            for (detail::operation* const one : operations_) wait(*one, "the messages of a step");
            forget_step();
            update();
        }
        wake();
    }
    // Updates what the helper has left of the parameters whose gradients are there, until all are. What fails there fails again in each
    // later call, and the step has not ended: the model has a part of it.
    void finish_gradually() {
        is_finishing_ = true;
        gradstep::detail::undo_unless_done caller_computes([&] { is_finishing_ = false; });
        detail::idle_time idle;
        detail::deadline until(by_.timeout()); // since something has come
        std::vector<gradstep::detail::gradual_step::remainder> rest;
        std::vector<detail::pushed_parameter*> with_rest;
        rest.reserve(parameters_.size()); // what has been taken is not to be lost
        with_rest.reserve(parameters_.size());
        for (;; rest.clear(), with_rest.clear()) {
            detail::pushed_parameter* missing = nullptr;
            for (auto const& one : parameters_) {
                if (!one->has_gradient()) {
                    if (missing == nullptr) missing = one.get();
                } else if (auto const left = one->take_rest()) {
                    rest.push_back(*left);
                    with_rest.push_back(one.get());
                }
            }
            if (!rest.empty()) {
                auto const failure = gradstep::detail::exception_of([&] { gradually_->run_rest(rest); });
                for (auto* const one : with_rest) one->stepped(failure);
                idle.begin_anew();
                until = detail::deadline(by_.timeout());
            } else if (missing == nullptr) {
                break;
            } else {
                if (until.has_passed())
                    detail::refuse_wait(by_.rank(), "the gradient of " + missing->name, by_.timeout(),
                                        missing->missing());
                idle.pass();
            }
        }
        forget_step();
        gradually_->end();
    }
    void forget_step() {
        for (auto const& one : parameters_) one->is_pushed = false;
        taken_ = 0;
    }

    C& by_;
    char const* mode_;
    bool has_begun_ = false, has_stopped_ = false;
    std::size_t taken_ = 0;
    std::vector<std::unique_ptr<detail::pushed_parameter>> parameters_;
    std::vector<detail::operation*> operations_; // of these, and what else goes on
    gradstep::detail::name_index index_;
    std::optional<begun_gather<C>> comparison_;
    std::optional<exchange_of<C>> barrier_;
    gradstep::detail::gradual_step* gradually_ = nullptr; // where a step may be one
    std::atomic<bool> is_finishing_ = false;              // the caller waits for a gradual step
    std::optional<detail::helper_thread> helper_;
};

} // namespace GRADSTEP_ABI
} // namespace gradstep::distributed
