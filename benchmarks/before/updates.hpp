#pragma once
/// What is compared of two revisions of the library. updates.cpp is compiled against the headers of
/// each, into a shared object that has all of them for itself: neither revision runs a function of
/// the other.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "../measure.hpp"

struct updates {
    struct rule {
        std::string name;
        std::size_t slots;
        std::function<measure::call(measure::streams const&)> step_on; // the streams from the third on are its state
    };
    struct table {
        std::function<void(std::span<std::int64_t const>, std::span<float const>)> update;
        std::function<void(std::int64_t, std::span<float>)> row;
    };

    std::vector<rule> rules;
    /// Rows of zeros under adagrad: so many, of such a width, named by a batch once each or several
    /// times.
    std::function<table(std::size_t, std::size_t)> table_of_distinct_ids, table_of_any_ids;
};

extern "C" void gradstep_updates(updates& of_this_revision);
