#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/c/gradstep.h>

/// Servers and workers of the C library. Their calls run on threads, where Catch's macros may not
/// be used: those that must succeed throw.
namespace c_serving {

template <class F> void must(F const& call) {
    gradstep_error error = GRADSTEP_ERROR_INIT;
    if (call(&error) != GRADSTEP_OK) throw std::runtime_error(std::to_string(error.code) + ": " + error.message);
}
/// The sentence of a call that fails with this code, else "".
template <class F> std::string refusal(gradstep_status code, F const& call) {
    gradstep_error error = GRADSTEP_ERROR_INIT;
    return call(&error) == code ? error.message : "";
}

/// A transport over a messenger of C++, for the functions that take one.
template <class M> gradstep_transport transport_of(M& by) {
    gradstep_transport out = GRADSTEP_TRANSPORT_INIT;
    out.rank = by.rank();
    out.ranks = by.size();
    out.concurrent = by.allows_threads();
    out.timeout_ms = by.timeout().count();
    out.host = &by;
    out.send = [](void* host, std::int32_t to, void const* bytes, std::uint64_t size) {
        auto const* const first = static_cast<std::byte const*>(bytes);
        static_cast<M*>(host)->send(to, {first, first + size});
        return 0;
    };
    out.receive = [](void* host, std::int64_t milliseconds, gradstep_inbox* in) {
        auto const got = static_cast<M*>(host)->receive(std::chrono::milliseconds(milliseconds));
        if (!got) return 0;
        void* const to = gradstep_inbox_allocate(in, got->from, got->bytes.size());
        if (to == nullptr) return -1;
        std::memcpy(to, got->bytes.data(), got->bytes.size());
        return 0;
    };
    return out;
}

class server {
public:
    server(std::string const& config, int rank, int ranks) {
        must([&](gradstep_error* e) {
            return gradstep_server_create(config.data(), config.size(), rank, ranks, &handle_, e);
        });
    }
    server(server const&) = delete;
    server& operator=(server const&) = delete;
    ~server() { gradstep_server_release(handle_); }
    operator gradstep_server*() const { return handle_; }

    template <class M> void run(M& by) {
        auto const over = transport_of(by);
        must([&](gradstep_error* e) { return gradstep_server_run(handle_, &over, e); });
    }
    void save(std::string const& file) {
        must([&](gradstep_error* e) { return gradstep_server_save_file(handle_, file.c_str(), e); });
    }
    gradstep_server_info info() const {
        gradstep_server_info out = GRADSTEP_SERVER_INFO_INIT;
        must([&](gradstep_error* e) { return gradstep_server_describe(handle_, &out, e); });
        return out;
    }
    gradstep_table* table(char const* name) const {
        gradstep_table* out = nullptr;
        must([&](gradstep_error* e) { return gradstep_server_table(handle_, name, &out, e); });
        return out;
    }

private:
    gradstep_server* handle_ = nullptr;
};

/// A worker with the calls of gradstep::distributed::worker, of floats.
class worker {
public:
    worker(gradstep_transport const& over, int num_servers) {
        gradstep_worker_options options = GRADSTEP_WORKER_OPTIONS_INIT;
        options.num_servers = num_servers;
        must([&](gradstep_error* e) { return gradstep_worker_create(&over, &options, &handle_, e); });
    }
    worker(worker const&) = delete;
    worker& operator=(worker const&) = delete;
    ~worker() { gradstep_worker_release(handle_); }
    operator gradstep_worker*() const { return handle_; }

    void pull(char const* name, std::vector<float>& out) const {
        must([&](gradstep_error* e) {
            return gradstep_worker_pull(handle_, name, GRADSTEP_FLOAT32, out.data(), out.size(), e);
        });
    }
    void push(char const* name, std::vector<float> const& gradient) const {
        must([&](gradstep_error* e) {
            return gradstep_worker_push(handle_, name, GRADSTEP_FLOAT32, gradient.data(), gradient.size(), e);
        });
    }
    void pull(char const* name, std::vector<std::int64_t> const& ids, std::vector<float>& out) const {
        must([&](gradstep_error* e) {
            return gradstep_worker_pull_rows(handle_, name, ids.data(), GRADSTEP_INT64, ids.size(), GRADSTEP_FLOAT32,
                                             out.data(), out.size(), e);
        });
    }
    void push(char const* name, std::vector<std::int64_t> const& ids, std::vector<float> const& rows) const {
        must([&](gradstep_error* e) {
            return gradstep_worker_push_rows(handle_, name, ids.data(), GRADSTEP_INT64, ids.size(), GRADSTEP_FLOAT32,
                                             rows.data(), rows.size(), e);
        });
    }
    void barrier() const {
        must([&](gradstep_error* e) { return gradstep_worker_barrier(handle_, e); });
    }
    void stop() const {
        must([&](gradstep_error* e) { return gradstep_worker_stop(handle_, e); });
    }
    gradstep_worker_info info() const {
        gradstep_worker_info out = GRADSTEP_WORKER_INFO_INIT;
        must([&](gradstep_error* e) { return gradstep_worker_describe(handle_, &out, e); });
        return out;
    }

private:
    gradstep_worker* handle_ = nullptr;
};

/// A server as rank 0 and a worker as rank 1 on one thread: what the worker sends is handled at
/// once, by `handle`, and the answers wait for it.
class one_thread {
public:
    explicit one_thread(gradstep_server* server) {
        restart(server);
        transport_.rank = 1;
        transport_.ranks = 2;
        transport_.host = this;
        transport_.send = [](void* host, std::int32_t to, void const* bytes, std::uint64_t size) {
            return static_cast<one_thread*>(host)->send(to, bytes, size);
        };
        transport_.receive = [](void* host, std::int64_t, gradstep_inbox* in) {
            return static_cast<one_thread*>(host)->receive(in);
        };
    }
    one_thread(one_thread const&) = delete;
    one_thread& operator=(one_thread const&) = delete;
    gradstep_transport const& transport() const { return transport_; }

    std::string failure;                // of `handle`
    std::function<void()> on_send = {}; // is called for each message of the worker

    /// Another server has begun in place of the first one.
    void restart(gradstep_server* server) {
        server_ = server;
        std::uint64_t count = 0;
        must([&](gradstep_error* e) { return gradstep_server_begin(server_, &count, e); });
        take(count);
    }

private:
    void take(std::uint64_t count) {
        for (std::uint64_t k = 0; k != count; ++k) {
            gradstep_message message = GRADSTEP_MESSAGE_INIT;
            must([&](gradstep_error* e) { return gradstep_server_message(server_, k, &message, e); });
            if (message.to == 1)
                arrived_.emplace_back(0, std::string(static_cast<char const*>(message.bytes), message.size));
        }
    }
    std::int32_t send(std::int32_t to, void const* bytes, std::uint64_t size) {
        if (on_send) on_send();
        if (to == 1) {
            arrived_.emplace_back(1, std::string(static_cast<char const*>(bytes), size));
            return 0;
        }
        std::uint64_t count = 0;
        gradstep_error error = GRADSTEP_ERROR_INIT;
        if (gradstep_server_handle(server_, 1, bytes, size, &count, &error) != GRADSTEP_OK) {
            failure = error.message;
            return -1;
        }
        take(count);
        return 0;
    }
    std::int32_t receive(gradstep_inbox* in) {
        if (arrived_.empty()) return 0;
        auto const [from, bytes] = std::move(arrived_.front());
        arrived_.pop_front();
        std::memcpy(gradstep_inbox_allocate(in, from, bytes.size()), bytes.data(), bytes.size());
        return 0;
    }

    gradstep_server* server_ = nullptr;
    gradstep_transport transport_ = GRADSTEP_TRANSPORT_INIT;
    std::deque<std::pair<int, std::string>> arrived_;
};

} // namespace c_serving
