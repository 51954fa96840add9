#pragma once
#include <gradstep/distributed/communicator.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// A messenger of any type behind a virtual interface, so that workers are compiled once.
class any_messenger {
public:
    virtual ~any_messenger() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual std::chrono::milliseconds timeout() const = 0;
    virtual bool allows_threads() const = 0;
    virtual void send(int to, std::vector<std::byte> bytes) = 0;
    virtual std::optional<message> receive(std::chrono::milliseconds wait) = 0;
    virtual void reuse(std::vector<std::byte> bytes) = 0;
};
template <messenger M> class messenger_of final : public any_messenger {
public:
    explicit messenger_of(M& of) : of_(of) {}
    int rank() const override { return of_.rank(); }
    int size() const override { return of_.size(); }
    std::chrono::milliseconds timeout() const override { return of_.timeout(); }
    bool allows_threads() const override { return of_.allows_threads(); }
    void send(int to, std::vector<std::byte> bytes) override { of_.send(to, std::move(bytes)); }
    std::optional<message> receive(std::chrono::milliseconds wait) override { return of_.receive(wait); }
    void reuse(std::vector<std::byte> bytes) override { detail::reuse(of_, std::move(bytes)); }

private:
    M& of_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
