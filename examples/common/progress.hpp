#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "text.hpp"

/// A progress bar on stderr: where the program stands, and the time left until all is done. Where
/// stderr is no terminal there are only the lines of `milestone`.
class progress {
public:
    /// `total` counts the units of work of the whole program.
    explicit progress(std::size_t total) : total_(std::max<std::size_t>(1, total)) {}

    /// `units` more are done. `status()` is the text beside the bar; it is asked for only when the
    /// bar is drawn.
    template <class Status> void advance(std::size_t units, Status const& status) {
        done_ = std::min(total_, done_ + units);
        if (!terminal_ || clock::now() < next_draw_) return;
        next_draw_ = clock::now() + std::chrono::milliseconds(100);
        constexpr std::size_t width = 30;
        std::size_t const filled = width * done_ / total_;
        std::fprintf(stderr, "\r[%s%s] %s  %.0f s left\x1b[K", std::string(filled, '#').c_str(),
                     std::string(width - filled, '.').c_str(), status().c_str(), seconds_left());
    }

    /// Something worth a line in a log is done.
    void milestone(std::string const& text) const {
        if (terminal_) return;
        std::fprintf(stderr, "%s  %3zu %% of all done, %.0f s left\n", text.c_str(), 100 * done_ / total_,
                     seconds_left());
    }

    /// Takes the bar away to make room for other output.
    void clear() const {
        if (terminal_) std::fputs("\r\x1b[K", stderr);
    }

private:
    using clock = std::chrono::steady_clock;

    double seconds_left() const {
        if (done_ == 0) return 0;
        double const spent = std::chrono::duration<double>(clock::now() - start_).count();
        return spent * static_cast<double>(total_ - done_) / static_cast<double>(done_);
    }

    std::size_t total_, done_ = 0;
    clock::time_point start_ = clock::now(), next_draw_ = start_;
    bool terminal_ = isatty(STDERR_FILENO) != 0;
};
