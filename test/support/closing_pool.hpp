#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <gradstep/backends/callback_executor.hpp>

/// A pool of a host's that closes: a call is run to its end, and throws then.
class closing_pool {
public:
    closing_pool() = default;
    closing_pool(closing_pool const&) = delete;
    closing_pool& operator=(closing_pool const&) = delete;

    gradstep::callback_executor threads{2, [this](std::size_t parts, gradstep::task work) {
                                            for (std::size_t part = 0; part < parts; ++part) work(part);
                                            if (until_closed_-- == 0) throw std::runtime_error("the pool is closed");
                                        }};

    /// Whether f() throws where the pool closes after so many calls; it is open again afterwards.
    template <class F> bool stops(std::size_t after, F const& f) {
        until_closed_ = after;
        bool stopped = false;
        try {
            f();
        } catch (std::runtime_error const&) {
            stopped = true;
        }
        until_closed_ = SIZE_MAX;
        return stopped;
    }

private:
    std::size_t until_closed_ = SIZE_MAX;
};
