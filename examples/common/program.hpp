#pragma once

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "interrupt.hpp"

/// What the programs return, besides 0.
namespace exit_code {
constexpr int failed = 1, bad_data = 2, interrupted = 130;
}

/// Data that is missing, cut short or wrong; what() is one sentence that names the file and what is
/// wrong with it.
struct data_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What `run()` returns; an exception is told on stderr and becomes an exit code.
template <class Run> int guarded(Run const& run) {
    int code = exit_code::failed;
    try {
        return run();
    } catch (data_error const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        code = exit_code::bad_data;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
    }
    return interrupt::requested() ? exit_code::interrupted : code;
}

/// A check for CLI11: empty if the file can be made where it is wanted, and what is wrong
/// otherwise.
inline std::string has_folder(std::string const& file) {
    return std::filesystem::is_directory(std::filesystem::absolute(file).parent_path()) ? ""
                                                                                        : "its folder does not exist";
}

/// Whether none of these options was given, so that what comes out is known.
template <class App> bool as_delivered(App const& app, std::initializer_list<char const*> options) {
    return std::ranges::all_of(options, [&](char const* option) { return app.count(option) == 0; });
}
