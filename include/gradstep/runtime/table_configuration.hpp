#pragma once
#include <gradstep/keyed/options.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// A table of one JSON text: the keys of an optimizer, the type of the values, and the key `table`.
///
///     {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1}, "type": "float32",
///      "table": {"rows": 1000, "width": 16, "duplicates": "mean", "max_norm": 1,
///                "initial": {"name": "uniform", "low": -0.05, "high": 0.05, "seed": 1}}}
///
/// The keys inside `table` are `rows` and `width`, which are required, `concurrent`, and the
/// members of table_options, except `id` and `on_nonfinite`, which are keys of the optimizer.
/// `initial` is a number, or `uniform` or `normal` with their members.
struct table_configuration {
    optimizer_configuration optimizer;
    scalar type = scalar::float32;
    std::uint64_t rows = 0, width = 0;
    table_options options = {};
    /// Whether several threads can call the table. The C library obeys it. In C++ use gs::striped.
    bool concurrent = false;
};

/// A keyed table of one JSON text, as table_configuration. The key is `keyed_table`. It has the
/// width, which is required, `concurrent`, and members of keyed_options.
///
///     {"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1},
///      "keyed_table": {"width": 8, "admit_after": 3, "max_rows": 50000000}}
struct keyed_table_configuration {
    optimizer_configuration optimizer;
    scalar type = scalar::float32;
    std::uint64_t width = 0;
    keyed_options options = {};
    bool concurrent = false; ///< as in table_configuration
};

/// Reads a table from JSON text: `gs::any_table embeddings{gs::read_table(text)}`. Throws
/// value_error for the first mistake, with its path and the allowed values.
table_configuration read_table(std::string_view text);
/// The same for a keyed table: `gs::any_keyed_table features{gs::read_keyed_table(text)}`.
keyed_table_configuration read_keyed_table(std::string_view text);

/// Writes the JSON text of a table, with every default. Throws value_error if `initial` is a
/// container, since a text contains no values, and for an id of 2^63 or more.
std::string to_json(table_configuration const& from, int indent = -1);
std::string to_json(keyed_table_configuration const& from, int indent = -1);
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
initial_values read_initial(json const& value, json_path const& at);
// Reads an owner of rows from the key `of` of a document. The object there can have keys besides:
// `more`.
table_configuration read_table(json const& document, json_path const& at, std::vector<std::string_view> more = {});
keyed_table_configuration read_keyed_table(json const& document, json_path const& at,
                                           std::vector<std::string_view> more = {});
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/runtime/table_configuration.ipp>
#endif
