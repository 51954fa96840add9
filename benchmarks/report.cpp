#include "report.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <xsimd/xsimd.hpp>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

using nlohmann::json;

namespace {

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, std::abs(x) < 10 ? "%.3f" : "%.1f", x);
    return text;
}

} // namespace

void add_line_options(CLI::App& app, options& o) {
    app.add_option("--only", o.only, "only lines whose name contains this");
    app.add_option("--json", o.json, "add the lines to this file, too, as objects of JSON");
    app.add_flag("--strict", o.strict, "exit with 1 if a line misses its bound");
}

std::string compiler() {
#if defined(__clang__)
    return __VERSION__;
#else
    return std::string("g++ ") + __VERSION__;
#endif
}

report::report(options const& o, std::map<std::string, std::string> about) : only_(o.only) {
    if (o.json.empty()) return;
    json_.open(o.json, std::ios::app);
    about.emplace("compiler", compiler());
    about.emplace("instruction set", xsimd::default_arch::name());
    about.emplace("xsimd", std::to_string(XSIMD_VERSION_MAJOR) + "." + std::to_string(XSIMD_VERSION_MINOR) + "." +
                               std::to_string(XSIMD_VERSION_PATCH));
    json_ << json{{"about", about}} << std::endl;
    if (!json_) throw std::runtime_error("cannot write " + o.json);
}

void report::line(std::string const& what, measure::statistic x, std::optional<double> at_most, char const* unit) {
    if (!wants(what)) return;
    if (heading_) std::printf("\n%-54s %8s %17s %9s\n", heading_, "measured", "quartiles", "at most");
    heading_ = nullptr;
    char const* const verdict = !at_most ? "" : x.median <= *at_most ? "ok" : "MISS";
    all_hold_ &= !at_most || x.median <= *at_most;
    std::printf("%-54s %8s [%7s %7s] %9s %s %s\n", what.c_str(), number(x.median).c_str(), number(x.low).c_str(),
                number(x.high).c_str(), at_most ? number(*at_most).c_str() : "-", unit, verdict);
    std::fflush(stdout);
    if (!json_.is_open()) return;
    json line = {{"section", section_}, {"what", what},   {"measured", x.median},
                 {"low", x.low},        {"high", x.high}, {"unit", unit}};
    if (at_most) line.update({{"at_most", *at_most}, {"verdict", verdict}});
    json_ << line << std::endl; // at once: a program that fails later leaves what it has measured
}
