#pragma once
/// What a run of the benchmarks is asked for, and how its lines are printed.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>

#include "measure.hpp"

inline constexpr std::size_t Ki = 1024, Mi = 1024 * 1024;

struct options {
    int rounds = 25, large_rounds = 9;
    std::size_t large = 32 * Mi;
    bool quick = false, strict = false;
    std::string section, only, csv;

    bool runs(std::string const& name) const { return section.empty() || section == name; }
};

inline std::string size_text(std::size_t n) {
    if (n % Mi == 0) return std::to_string(n / Mi) + " Mi";
    if (n % Ki == 0) return std::to_string(n / Ki) + " Ki";
    return std::to_string(n);
}

/// Prints each line as soon as it is measured and remembers whether all of them hold.
class report {
public:
    explicit report(options const& o) : only_(o.only) {
        if (o.csv.empty()) return;
        csv_.open(o.csv);
        if (!csv_) throw std::runtime_error("cannot write " + o.csv);
        csv_ << "what,measured,low,high,must_reach,verdict\n";
    }

    /// Whether a line of this name is asked for.
    bool wants(std::string const& what) const { return what.find(only_) != std::string::npos; }

    /// The heading of the lines that follow.
    void section(char const* title) { heading_ = title; }

    void line(std::string const& what, measure::statistic x, std::optional<double> bound = {}, char const* unit = "") {
        if (!wants(what)) return;
        if (heading_) std::printf("\n%-54s %8s %17s %9s\n", heading_, "measured", "quartiles", "at most");
        heading_ = nullptr;
        char const* const verdict = !bound ? "" : x.median <= *bound ? "ok" : "MISS";
        all_hold_ &= !bound || x.median <= *bound;
        std::string const limit = bound ? number(*bound) : "-";
        std::printf("%-54s %8s [%7s %7s] %9s %s %s\n", what.c_str(), number(x.median).c_str(), number(x.low).c_str(),
                    number(x.high).c_str(), limit.c_str(), unit, verdict);
        std::fflush(stdout);
        if (csv_.is_open())
            csv_ << '"' << what << "\"," << x.median << ',' << x.low << ',' << x.high << ','
                 << (bound ? number(*bound) : "") << ',' << verdict << '\n';
    }

    bool all_hold() const { return all_hold_; }

private:
    static std::string number(double x) {
        char text[32];
        std::snprintf(text, sizeof text, std::abs(x) < 10 ? "%.3f" : "%.1f", x);
        return text;
    }

    std::string only_;
    char const* heading_ = nullptr;
    std::ofstream csv_;
    bool all_hold_ = true;
};

inline measure::statistic scaled(measure::statistic x, double by) { return {x.median * by, x.low * by, x.high * by}; }
