#pragma once

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <gradstep/distributed/communicator.hpp>

// A transport over TCP for servers and workers. Every rank has a connection to every other one.
// On it, a message is its length in 8 bytes, then its bytes. Nothing is encrypted, and every rank
// that connects is trusted: use it in a network that you trust.

// [class]
class tcp_messenger {
public:
    // addresses[r] is the address of rank r, as "10.0.0.1:5000". Waits for all ranks, up to the
    // timeout.
    tcp_messenger(int rank, std::vector<std::string> const& addresses,
                  std::chrono::milliseconds timeout = gradstep::distributed::default_timeout)
        : rank_(rank), timeout_(timeout), peers_(addresses.size()) {
        connect_all(addresses);
        for (std::size_t r = 0; r != peers_.size(); ++r)
            if (peers_[r]) begin(static_cast<int>(r), *peers_[r]);
    }
    // Sends what is left, and waits until the other ranks end too, up to the timeout. A socket that
    // is closed earlier discards what the other rank has not read.
    ~tcp_messenger() {
        {
            std::lock_guard const lock(mutex_);
            closing_ = true;
        }
        changed_.notify_all();
        for (auto const& p : peers_) {
            if (!p) continue;
            p->sender.join();
            p->receiver.join();
            ::close(p->socket);
        }
    }
    tcp_messenger(tcp_messenger const&) = delete;
    tcp_messenger& operator=(tcp_messenger const&) = delete;

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(peers_.size()); }
    std::chrono::milliseconds timeout() const { return timeout_; }
    bool allows_threads() const { return true; }
    void send(int to, std::vector<std::byte> bytes) {
        std::lock_guard const lock(mutex_);
        if (to == rank_) inbox_.push_back({rank_, std::move(bytes)});
        else peers_.at(static_cast<std::size_t>(to))->outbox.push_back(std::move(bytes));
        changed_.notify_all();
    }
    std::optional<gradstep::distributed::message> receive(std::chrono::milliseconds wait) {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, wait, [&] { return !inbox_.empty(); })) return {};
        std::optional out(std::move(inbox_.front()));
        inbox_.pop_front();
        return out;
    }

private:
    static constexpr std::uint64_t largest_message = std::uint64_t{1} << 32;
    struct peer {
        int socket;
        std::deque<std::vector<std::byte>> outbox;
        std::thread sender, receiver;
    };
    // One thread sends, so that `send` never waits. One receives at all times, so that the other
    // rank can always send.
    void begin(int from, peer& p) {
        p.sender = std::thread([this, &p] {
            for (std::unique_lock lock(mutex_);;) {
                changed_.wait(lock, [&] { return !p.outbox.empty() || closing_; });
                if (p.outbox.empty()) break;
                auto const bytes = std::move(p.outbox.front());
                p.outbox.pop_front();
                lock.unlock();
                std::uint64_t const length = bytes.size();
                bool const sent = write(p.socket, &length, sizeof length) && write(p.socket, bytes.data(), length);
                lock.lock();
                if (!sent) break; // the other rank has died: it will be missed after the timeout
            }
            ::shutdown(p.socket, SHUT_WR);
        });
        p.receiver = std::thread([this, from, &p] {
            for (std::uint64_t length = 0; read(p.socket, &length, sizeof length) && length <= largest_message;) {
                std::vector<std::byte> bytes(length);
                if (!read(p.socket, bytes.data(), length)) break;
                std::lock_guard const lock(mutex_);
                inbox_.push_back({from, std::move(bytes)});
                changed_.notify_all();
            }
        });
    }
    // [class]
    static bool write(int socket, void const* from, std::size_t bytes) {
        for (auto const* at = static_cast<char const*>(from); bytes != 0;) {
            auto const sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
            if (sent <= 0) return false;
            at += sent, bytes -= static_cast<std::size_t>(sent);
        }
        return true;
    }
    // False at the end of the connection, and after a timeout while this rank ends.
    bool read(int socket, void* to, std::size_t bytes) {
        for (auto* at = static_cast<char*>(to); bytes != 0;) {
            auto const got = ::recv(socket, at, bytes, 0);
            if (got > 0) at += got, bytes -= static_cast<std::size_t>(got);
            else if (got == 0 || (errno != EAGAIN && errno != EINTR)) return false;
            else if (std::lock_guard const lock(mutex_); closing_) return false;
        }
        return true;
    }

    // Connects to the ranks before this one, and accepts those after it. A rank that connects says
    // its number first.
    void connect_all(std::vector<std::string> const& addresses) {
        auto const own = static_cast<std::uint32_t>(rank_);
        struct closed_at_end {
            int socket;
            ~closed_at_end() { ::close(socket); }
        } const listener{open(addresses.at(own), [](int s, sockaddr const* a) {
            int const yes = 1;
            ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
            return ::bind(s, a, sizeof(sockaddr_in)) == 0 && ::listen(s, SOMAXCONN) == 0;
        })};
        for (std::uint32_t r = 0; r != own; ++r) {
            add(r,
                open(addresses[r], [](int s, sockaddr const* a) { return ::connect(s, a, sizeof(sockaddr_in)) == 0; }));
            write(peers_[r]->socket, &own, sizeof own);
        }
        for (std::size_t n = own + 1; n != peers_.size(); ++n) {
            int const s = ::accept(listener.socket, nullptr, nullptr);
            std::uint32_t other = 0;
            if (s < 0 || !read(s, &other, sizeof other) || other <= own || other >= peers_.size() || peers_[other])
                throw std::system_error(errno, std::generic_category(), "tcp_messenger: a rank has not connected");
            add(other, s);
        }
    }
    void add(std::size_t r, int socket) {
        peers_[r] = std::make_unique<peer>();
        peers_[r]->socket = socket;
        int const yes = 1;
        ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    // A socket with which use(socket, address) succeeds. It tries again until the timeout: the
    // other rank can begin later.
    template <class Use> int open(std::string const& address, Use const& use) const {
        auto const colon = address.find(':');
        sockaddr_in to{};
        to.sin_family = AF_INET;
        bool const is_valid =
            colon != address.npos && ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) == 1;
        if (is_valid) to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
        for (auto const until = std::chrono::steady_clock::now() + timeout_;;) {
            int const s = ::socket(AF_INET, SOCK_STREAM, 0);
            timeval const wait{timeout_.count() / 1000, timeout_.count() % 1000 * 1000};
            ::setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait); // accepted sockets inherit it
            if (is_valid && use(s, reinterpret_cast<sockaddr const*>(&to))) return s;
            int const why = is_valid ? errno : EINVAL;
            ::close(s);
            if (!is_valid || std::chrono::steady_clock::now() > until)
                throw std::system_error(why, std::generic_category(), "tcp_messenger: " + address);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }

    int rank_;
    std::chrono::milliseconds timeout_;
    std::mutex mutex_; // of what is below, and of outboxes
    std::condition_variable changed_;
    std::deque<gradstep::distributed::message> inbox_;
    bool closing_ = false;
    std::vector<std::unique_ptr<peer>> peers_; // null for this rank
};

static_assert(gradstep::distributed::messenger<tcp_messenger>);
