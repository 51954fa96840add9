#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/crc32c.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/core/type_id.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/gradual_step.hpp>
#include <gradstep/model.hpp>

// What goes on while a worker's caller computes: exchanges that are moved on, and steps of parameters whose gradients are there.
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

using gradstep::detail::gradual_step;
using gradstep::detail::text;
using gradstep::detail::type_id;
using gradstep::detail::type_id_of;

// What goes on while the caller computes: it is moved on by whoever holds the mutex. What fails there is thrown by each test() from
// then on, whoever it was: nobody knows where it stands.
class operation {
public:
    virtual ~operation() = default;
    // Of what has begun last.
    virtual bool advance() = 0;
    virtual std::vector<int> waits_for() const = 0;

    bool test() {
        std::lock_guard const lock(mutex);
        return go_on();
    }
    std::vector<int> missing() const {
        std::lock_guard const lock(mutex);
        return waits_for();
    }
    // On a thread that nobody hears. Whether it goes on.
    bool advance_quietly() {
        std::unique_lock const lock(mutex, std::try_to_lock);
        if (!lock) return true;
        advance_or_fail();
        return is_busy && !failure;
    }
    // Where f throws, nothing has begun.
    template <class F> void begin(F const& f) {
        std::lock_guard const lock(mutex);
        f();
        is_busy = true;
    }

protected:
    // Whether it has ended.
    bool go_on() {
        advance_or_fail();
        if (failure) std::rethrow_exception(failure);
        return !is_busy;
    }
    mutable std::mutex mutex;
    std::exception_ptr failure;
    bool is_busy = false;

private:
    void advance_or_fail() {
        if (is_busy && !failure) failure = gradstep::detail::exception_of([&] { is_busy = !advance(); });
    }
};

// The memory of a parameter of a model, whatever its updater is.
struct owned_memory {
    void const* of;
    std::string (*policies)(void const*);
    std::span<std::byte const> (*values)(void const*);
    std::string (*state_checksum)(void const*); // of what is the same on all ranks that have all of it
};
template <class Updater> owned_memory memory_of(parameter<Updater> const& of) {
    static_assert(parameter<Updater>::on_host,
                  "gradstep: ranks exchange memory of the host: give parameters on a backend of the host");
    using type = parameter<Updater>;
    return {&of,
            [](void const* at) {
                Updater const& by = static_cast<type const*>(at)->optimizer(); // on whatever backend
                return describe(by.rule()) + ", " + describe(by.regularizer()) + ", " + describe(by.schedule());
            },
            [](void const* at) { return std::as_bytes(static_cast<type const*>(at)->values()); },
            [](void const* at) {
                std::uint32_t sum = 0;
                // u and v of dgc_momentum are each trainer's own.
                if constexpr (!gradstep::detail::compresses<typename Updater::rule_type>())
                    for (char const* slot : Updater::state_names) {
                        auto const bytes = std::as_bytes(static_cast<type const*>(at)->state(std::string_view(slot)));
                        sum = gradstep::detail::crc32c(sum, bytes.data(), bytes.size());
                    }
                return text(sum);
            }};
}

// A parameter as all modes see it.
class pushed_parameter : public operation {
public:
    std::string name;
    std::size_t size;
    type_id storage;
    char const* element;
    member_options options;
    owned_memory memory; // of what the model has of it
    bool is_pushed = false;

    template <class Updater>
    pushed_parameter(std::string of, std::size_t elements, member_options const& own, parameter<Updater> const& owned)
        : name(std::move(of)), size(elements), storage(type_id_of<typename Updater::traits::storage>()),
          element(Updater::traits::name), options(own), memory(memory_of(owned)) {}

    virtual void take(void const* gradient) = 0;
    virtual named_gradient gradient() const = 0; // that the model's part of it is updated with
    virtual std::span<std::byte const> values() const { return memory.values(memory.of); }
    virtual std::string state_checksum() const { return memory.state_checksum(memory.of); }

    // A gradient is taken, whose step is `by`, where there is one: the model's part is then updated by whoever calls step_on, as soon
    // as all ranks' gradients have come, and what is left by the caller of take_rest and `stepped`.
    void begin_push(void const* gradient_memory, gradual_step* by) {
        begin([&] {
            std::size_t member = 0;
            if (by != nullptr) member = by->prepare(gradient());
            gradstep::detail::undo_unless_done not_taken([&] {
                if (by != nullptr) by->withdraw(member);
            });
            take(gradient_memory);
            not_taken.dismiss();
            if (by != nullptr) part_.emplace(*by, member, gradient().size);
        });
    }
    // Whether the gradients of all ranks have come; throws as test().
    bool has_gradient() {
        std::lock_guard const lock(mutex);
        if (failure) std::rethrow_exception(failure);
        return (part_ && part_->is_done) || go_on();
    }
    // Updates the next few elements, if that can be done now, on a thread that nobody hears. Whether it was done.
    bool step_on() {
        std::unique_lock const lock(mutex, std::try_to_lock);
        if (!lock || is_busy || failure || !part_ || part_->is_done || !part_->step.in_pieces(part_->member))
            return false;
        // So few that what other parameters wait for is moved on in time.
        constexpr std::size_t most = 16 * gradstep::detail::block_size;
        std::size_t const last = std::min(part_->elements, part_->next + most);
        part_->step.run(part_->member, part_->next, last);
        part_->next = last;
        if (last == part_->elements) end_step();
        return true;
    }
    // What is left of the step: from now on it is the caller's. Nothing where it has been taken.
    std::optional<gradual_step::remainder> take_rest() {
        std::lock_guard const lock(mutex);
        if (!part_ || part_->is_done) return {};
        part_->is_done = true;
        return part_->step.rest_of(part_->member, part_->next);
    }
    // What was left has been done, or that has failed, with a part of it done.
    void stepped(std::exception_ptr const& failed) {
        std::lock_guard const lock(mutex);
        if (failed) failure = failed;
        else end_step();
    }

protected:
    // The model's part has been updated: begins to send that, where the mode does so. Whether something is on its way.
    virtual bool publish() { return false; }
    // The update is not taken back where that fails: whatever waits for this parameter throws it.
    void publish_or_fail() {
        failure = gradstep::detail::exception_of([&] { is_busy = publish(); });
    }

private:
    // A gradual step's part that is this parameter's.
    struct part_of_step {
        gradual_step& step;
        std::size_t member, elements;
        std::size_t next = 0; // the first element that has not been updated
        bool is_done = false;

        part_of_step(gradual_step& of, std::size_t number, std::size_t size)
            : step(of), member(number), elements(size) {}
    };
    void end_step() {
        part_->is_done = true;
        publish_or_fail();
    }
    std::optional<part_of_step> part_;
};

// Integers are counts.
template <class T> inline constexpr reduction mean_of = std::is_integral_v<T> ? reduction::sum : reduction::mean;

// What a call of a helper thread's function has come to.
enum class progress { none_left, awaited, made };

// A thread that calls advance() until nothing is left, after each wake().
class helper_thread {
public:
    template <class Advance> explicit helper_thread(Advance advance) {
        thread_ = std::thread([this, advance] {
            for (std::unique_lock lock(mutex_);;) {
                woken_.wait(lock, [&] { return is_awake_ || has_ended_; });
                if (has_ended_) return;
                is_awake_ = false;
                lock.unlock();
                idle_time idle;
                while (!has_ended_) {
                    progress const now = advance();
                    if (now == progress::none_left) break;
                    if (now == progress::awaited) idle.pass();
                }
                lock.lock();
            }
        });
    }
    ~helper_thread() {
        {
            std::lock_guard const lock(mutex_);
            has_ended_ = true;
        }
        woken_.notify_one();
        thread_.join();
    }
    void wake() {
        {
            std::lock_guard const lock(mutex_);
            is_awake_ = true;
        }
        woken_.notify_one();
    }

private:
    std::mutex mutex_;
    std::condition_variable woken_;
    bool is_awake_ = false;
    std::atomic<bool> has_ended_ = false;
    std::thread thread_;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed
