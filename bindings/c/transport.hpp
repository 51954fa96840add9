#pragma once
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <gradstep/distributed/communicator.hpp>

#include "support.hpp"

struct gradstep_inbox {
    std::optional<gradstep::distributed::message> message = {};
    std::vector<std::byte> memory = {}; // of an earlier message
};

namespace gradstep::c {

/// A transport of the caller's, as a gradstep::distributed::messenger.
class host_transport {
public:
    explicit host_transport(gradstep_transport const* from) : host_(checked(from)) {}

    int rank() const { return host_.rank; }
    int size() const { return host_.ranks; }
    std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(host_.timeout_ms); }
    bool allows_threads() const { return host_.concurrent != 0; }
    void send(int to, std::vector<std::byte> const& bytes) const {
        calling const here(this);
        require_done("send", host_.send(host_.host, to, bytes.data(), bytes.size()));
    }
    std::optional<distributed::message> receive(std::chrono::milliseconds wait) {
        gradstep_inbox in;
        {
            std::lock_guard const lock(mutex_);
            in.memory = std::exchange(spent_, {});
        }
        calling const here(this);
        require_done("receive", host_.receive(host_.host, wait.count(), &in));
        if (!in.message) reuse(std::move(in.memory));
        return std::move(in.message);
    }
    /// Throws GRADSTEP_BAD_SEQUENCE while this thread is in a function of the transport: the worker
    /// would wait for itself.
    void require_idle() const {
        if (calling::now == this)
            refuse(GRADSTEP_BAD_SEQUENCE, {"worker"}, {"is called by a function of its transport"},
                   {"the call after it"});
    }
    void reuse(std::vector<std::byte> bytes) {
        std::lock_guard const lock(mutex_);
        if (bytes.capacity() > spent_.capacity()) spent_ = std::move(bytes);
    }

private:
    // Marks that a function of the host runs on this thread.
    class calling {
    public:
        explicit calling(host_transport const* of) : before_(std::exchange(now, of)) {}
        calling(calling const&) = delete;
        calling& operator=(calling const&) = delete;
        ~calling() { now = before_; }
        static inline thread_local host_transport const* now = nullptr;

    private:
        host_transport const* before_;
    };
    static gradstep_transport checked(gradstep_transport const* from) {
        require(from, "transport");
        auto out = known_part(from, gradstep_transport GRADSTEP_TRANSPORT_INIT, "transport");
        require(reinterpret_cast<void const*>(out.send), "transport.send");
        require(reinterpret_cast<void const*>(out.receive), "transport.receive");
        if (out.rank < 0 || out.rank >= out.ranks)
            refuse(GRADSTEP_BAD_VALUE, {"transport.rank"}, {out.rank, " is out of range"}, {"[0, ", out.ranks, ")"});
        if (out.concurrent != 0 && out.concurrent != 1)
            refuse(GRADSTEP_BAD_VALUE, {"transport.concurrent"}, {out.concurrent, " is out of range"}, {"0 or 1"});
        if (out.timeout_ms < 1)
            refuse(GRADSTEP_BAD_VALUE, {"transport.timeout_ms"}, {out.timeout_ms, " is out of range"}, {"> 0"});
        out.timeout_ms = std::min(out.timeout_ms, std::int64_t{1} << 40); // 34 years: twice that in ns is no overflow
        return out;
    }
    static void require_done(char const* what, std::int32_t returned) {
        if (returned != 0) detail::fail<distributed::rank_error>({"transport.", what}, {"returned ", returned}, {"0"});
    }

    gradstep_transport host_;
    std::mutex mutex_;
    std::vector<std::byte> spent_; // the largest
};
static_assert(distributed::messenger<host_transport>);

} // namespace gradstep::c
