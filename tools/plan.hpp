#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradstep::tools {

/// A keyed_table on parameter servers, and the machines that have it.
struct plan_options {
    /// The keys that have a row, over all servers; the elements of a row; the servers.
    std::uint64_t keys = 1'000'000, width = 1, servers = 1;
    /// float, double, bfloat16 or float16; the configuration's "element" says in which form.
    std::string dtype = "float";
    /// The options of the table that need memory (keyed_options).
    bool last_touches = true, touch_counts = false, row_steps = false;
    std::int64_t max_history = 0, admit_after = 1, sketch_bytes = 0;
    /// Bytes per second that a server writes to its disk and reads from it, the transport's timeout
    /// in seconds, and the bytes of memory of a server's machine (0: unknown).
    double bandwidth = 1e9, timeout = 60, memory = 0;
    /// The keys of a push (0: unknown), and worker_options.max_kept.
    std::uint64_t batch = 0, max_kept = 1024;
};

/// A part of the memory of a row.
struct row_part {
    std::string name;
    double bytes;
    bool in_file; // whether a checkpoint contains it
};

/// Why a plan does not work.
struct plan_warning {
    std::string name, text;
};

/// Sizes in bytes, times in seconds.
struct table_plan {
    std::string policies; // in words
    std::vector<row_part> parts;
    double row_bytes = 0, row_file_bytes = 0;           // the sums of the parts
    std::uint64_t rows = 0;                             // of a server, on average
    std::uint64_t history_steps = 0;                    // 0: no history
    double history_bytes = 0, history_file_bytes = 0;   // of a server
    double sketch_bytes = 0;                            // of a server
    double server_bytes = 0, file_bytes = 0, pause = 0; // of a server
    double push_bytes = 0, kept_bytes = 0;              // of a worker; 0 without `batch`
    std::vector<plan_warning> warnings;
};

/// Computes the sizes of a table with an optimizer, of which this is the JSON text. Throws
/// value_error for a wrong text, for numbers out of range, and for policies that no table has.
table_plan plan(std::string_view optimizer, plan_options const& options);
/// The same as lines of text, for a configuration in a file, or in `path` itself if that begins
/// with '{'.
std::string plan_in_words(std::string const& path, plan_options const& options);
/// A Markdown table with a line for each combination of widths, keys and servers.
std::string plan_table(std::string const& path, plan_options const& options, std::span<std::uint64_t const> widths,
                       std::span<std::uint64_t const> keys, std::span<std::uint64_t const> servers);
/// A Markdown table of the bytes of a row: a line for each rule, a column for each width.
std::string plan_every_rule(plan_options const& options, std::span<std::uint64_t const> widths);

} // namespace gradstep::tools
