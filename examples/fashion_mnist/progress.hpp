#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "network.hpp"

/// A progress bar on stderr: where the run stands, its loss and accuracy, the time left until all runs are done. Where
/// stderr is no terminal there is a line for each epoch instead.
class progress {
public:
    /// `total` counts the batches of all runs.
    explicit progress(std::size_t total) : total_(total) {}

    /// One more batch is done.
    void batch(std::string const& run, std::size_t epoch, score const& now) {
        ++done_;
        if (!terminal_ || clock::now() < next_draw_) return;
        next_draw_ = clock::now() + std::chrono::milliseconds(100);
        constexpr std::size_t width = 30;
        std::size_t const filled = width * done_ / total_;
        std::fprintf(stderr, "\r[%s%s] %-8s  epoch %2zu  loss %.3f  accuracy %4.1f %%  %.0f s left\x1b[K",
                     std::string(filled, '#').c_str(), std::string(width - filled, '.').c_str(), run.c_str(), epoch,
                     now.loss, 100 * now.accuracy, seconds_left());
    }

    /// An epoch is done, and judged by the test set.
    void epoch(std::string const& run, std::size_t epoch, double loss, double test_accuracy) const {
        if (terminal_) return;
        std::fprintf(stderr, "%-8s  epoch %2zu  loss %.3f  test accuracy %4.1f %%  %3zu %% of all done, %.0f s left\n",
                     run.c_str(), epoch, loss, test_accuracy, 100 * done_ / total_, seconds_left());
    }

    /// Takes the bar away to make room for other output.
    void clear() const {
        if (terminal_) std::fputs("\r\x1b[K", stderr);
    }

private:
    using clock = std::chrono::steady_clock;

    double seconds_left() const {
        double const spent = std::chrono::duration<double>(clock::now() - start_).count();
        return spent * static_cast<double>(total_ - done_) / static_cast<double>(done_);
    }

    std::size_t total_, done_ = 0;
    clock::time_point start_ = clock::now(), next_draw_ = start_;
    bool terminal_ = isatty(STDERR_FILENO) != 0;
};
