#pragma once

#include <csignal>

/// Ctrl-C and SIGTERM as a question that a training loop asks after each batch. A second one ends
/// the program at once.
namespace interrupt {

inline std::sig_atomic_t volatile raised = 0;

inline void listen() {
    auto const handler = [](int signal) {
        raised = 1;
        std::signal(signal, SIG_DFL);
    };
    std::signal(SIGINT, handler);
    std::signal(SIGTERM, handler);
}

inline bool requested() { return raised != 0; }

} // namespace interrupt
