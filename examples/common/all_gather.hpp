#pragma once

#include <barrier>
#include <cstddef>
#include <utility>
#include <vector>

/// An all-gather between threads, as in MPI: gives each trainer the messages of all, in the order
/// of their ranks.
template <class Message> class all_gather {
public:
    explicit all_gather(std::size_t ranks) : sent_(ranks), together_(static_cast<std::ptrdiff_t>(ranks)) {}

    std::vector<Message> operator()(std::size_t rank, Message mine) {
        sent_[rank] = std::move(mine);
        together_.arrive_and_wait();
        auto const all = sent_;
        together_.arrive_and_wait(); // no trainer sends again before all have read
        return all;
    }

private:
    std::vector<Message> sent_;
    std::barrier<> together_;
};
