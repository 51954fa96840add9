#pragma once
/// What a run of the benchmarks is asked for, and how its lines are printed; benchmarks/lines.py is
/// the same for those in Python.
#include <cstddef>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "measure.hpp"

namespace CLI {
class App;
}

inline constexpr std::size_t Ki = 1024, Mi = 1024 * 1024;

struct options {
    int rounds = 25, large_rounds = 9;
    std::size_t large = 32 * Mi;
    bool quick = false, strict = false;
    std::string section, only, json;

    bool runs(std::string const& name) const { return section.empty() || section == name; }
};

/// What all programs take that print lines: --only, --json, --strict.
void add_line_options(CLI::App& app, options& o);

inline std::string size_text(std::size_t n) {
    if (n % Mi == 0) return std::to_string(n / Mi) + " Mi";
    if (n % Ki == 0) return std::to_string(n / Ki) + " Ki";
    return std::to_string(n);
}

/// The compiler of this program, with its version.
std::string compiler();

/// Prints each line as soon as it is measured and remembers whether all of them hold.
///
/// With options::json they are added to that file too, an object of JSON each: "section", "what",
/// "measured", "low" and "high" (the quartiles), "unit" ("" for a ratio); "at_most" and "verdict"
/// ("ok" or "MISS") where there is a bound. Before them comes {"about": {...}}, what the program
/// was compiled by and runs with, by name: the compiler, xsimd, its instruction set, and `about`.
/// What has been measured is in the file when a program fails.
class report {
public:
    explicit report(options const& o, std::map<std::string, std::string> about = {});

    /// Whether a line of this name is asked for.
    bool wants(std::string const& what) const { return what.find(only_) != std::string::npos; }

    /// The heading of the lines that follow.
    void section(char const* title) { section_ = heading_ = title; }

    void line(std::string const& what, measure::statistic x, std::optional<double> at_most = {}, char const* unit = "");

    bool all_hold() const { return all_hold_; }

private:
    std::string only_, section_;
    char const* heading_ = nullptr;
    std::ofstream json_;
    bool all_hold_ = true;
};

inline measure::statistic scaled(measure::statistic x, double by) { return {x.median * by, x.low * by, x.high * by}; }
