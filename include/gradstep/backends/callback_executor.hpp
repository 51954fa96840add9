#pragma once
#include <memory>

#include <gradstep/base/error.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// Hands the parts to your application's own pool: `host(parts, work)` must call work(0) to
/// work(parts - 1) once each, and return when all calls have ended.
///
/// If the host throws, its exception reaches the caller of the step. If it returns and has left a
/// part out or has asked for a part twice, the caller gets an executor_error. In both cases the
/// elements of the parts that ran have had the step once and in full, and all other elements are
/// unchanged. If there is no memory for one flag per part, all parts run on the caller's thread.
/// Copies share the host.
class callback_executor {
public:
    /// `concurrency` is the number of parts that a call is split into. `host` is any callable
    /// host(parts, work) with a std::size_t and a task. Throws value_error if `concurrency` is 0,
    /// or if `host` is a null pointer or an empty function.
    template <class Host>
    requires(std::invocable<Host&, std::size_t, task> || std::same_as<Host, std::nullptr_t>)
        callback_executor(std::size_t concurrency, Host host)
        : concurrency_(concurrency) {
        if (concurrency == 0)
            detail::fail<value_error>({"callback_executor: concurrency"}, {"0 is out of range"},
                                      {ranges::positive_count.text});
        if constexpr (requires { host == nullptr; })
            if (host == nullptr)
                detail::fail<value_error>({"callback_executor"}, {"the callback is empty"},
                                          {"a function of (parts, work)"});
        if constexpr (!std::same_as<Host, std::nullptr_t>) {
            host_ = std::make_shared<Host>(std::move(host));
            call_ = [](void* object, std::size_t parts, task work) { (*static_cast<Host*>(object))(parts, work); };
        }
    }

    std::size_t concurrency() const { return concurrency_; }

    void run(std::size_t parts, task work) const {
        std::unique_ptr<std::atomic<bool>[]> const started(new (std::nothrow) std::atomic<bool>[parts]());
        // The step has begun: it must not throw now.
        if (started == nullptr) return serial_executor{}.run(parts, work);
        std::atomic<std::size_t> calls = 0, done = 0;
        // Ignores a part that is requested again or that does not exist: the step would be applied
        // twice.
        auto const once = [&](std::size_t part) {
            calls.fetch_add(1);
            if (part >= parts || started[part].exchange(true)) return;
            work(part);
            done.fetch_add(1);
        };
        call_(host_.get(), parts, task(once, work.bytes()));
        if (calls != parts || done != parts)
            detail::fail<executor_error>(
                {"callback_executor"},
                {"the callback made ", calls.load(), " calls and ran ", done.load(), " of ", parts, " parts"},
                {"each part once"});
    }

private:
    std::size_t concurrency_;
    std::shared_ptr<void> host_;
    void (*call_)(void*, std::size_t, task) = nullptr;
};
} // namespace gradstep::inline GRADSTEP_ABI
