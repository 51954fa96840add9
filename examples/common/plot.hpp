#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

/// A line through points.
struct curve {
    struct point {
        double x, y;
    };
    std::string name;
    std::vector<point> points;
    double width = 2; // wider ones show where a later curve lies on them
};

/// What lies along the bottom of a panel, from begin to end.
struct x_axis {
    std::string label;
    double end = 1, begin = 0;
    bool logarithmic = false; // begin > 0
};

/// Curves over one pair of axes. Those at the same place in two panels have the same colour.
struct panel {
    std::string title;
    std::vector<curve> curves;
    bool logarithmic = false;
    bool marked = false;          // a dot at each point
    std::string key;              // where the names go, in gnuplot's words ("bottom right"); empty: nowhere
    bool roomy = false;           // y from 0, and room for the names above the curves
    std::optional<x_axis> x = {}; // where it is not the figure's
};

/// What a picture shows: panels side by side, over the same x from 0 to x_end unless they say another. In several
/// rows they are small.
struct figure {
    std::string title, x_label;
    double x_end = 1;
    std::vector<panel> panels;
    std::size_t rows = 1;
};

/// A string as gnuplot reads it.
inline std::string quoted(std::string text) {
    for (std::size_t i = 0; (i = text.find('\'', i)) != text.npos; i += 2) text.insert(i, 1, '\'');
    return '\'' + text + '\'';
}

/// What to tell gnuplot about one panel.
inline std::string panel_script(panel const& p) {
    std::ostringstream script;
    for (std::size_t i = 0; i < p.curves.size(); ++i) {
        script << "$curve" << i << " << EOD\n";
        for (auto [x, y] : p.curves[i].points) script << x << ' ' << y << '\n';
        script << "EOD\n";
    }
    script << "set title " << quoted(p.title) << '\n';
    if (p.x) {
        script << "set xlabel " << quoted(p.x->label) << "\nset xrange [" << p.x->begin << ':' << p.x->end << "]\n"
               << (p.x->logarithmic ? "set" : "unset") << " logscale x\n";
    }
    if (p.logarithmic) {
        script << R"(
set logscale y
set autoscale yfix
set ytics (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 3, 4, 5)
)";
    } else {
        script << "unset logscale y\nset autoscale y\nset ytics auto\n";
    }
    if (p.roomy) script << "set yrange [0:*]\nset ytics 0.2\nset offsets 0, 0, graph 0.8, 0\n";
    if (p.key.empty()) script << "unset key\n";
    else script << "set key " << p.key << " Left reverse opaque box linecolor rgb '#d8d8d8' height 0.5 width 2\n";
    for (std::size_t i = 0; i < p.curves.size(); ++i) {
        script << (i == 0 ? "plot " : ", ") << "$curve" << i << " with " << (p.marked ? "linespoints" : "lines")
               << " linestyle " << i + 1 << " linewidth " << p.curves[i].width << " title " << quoted(p.curves[i].name);
    }
    script << '\n';
    return script.str();
}

/// What to tell gnuplot.
inline std::string plot_script(figure const& f, std::string const& png) {
    // Okabe and Ito's colours, which the colour-blind tell apart; dashed when they start over.
    std::array const colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
    std::size_t most = 0;
    for (panel const& p : f.panels) most = std::max(most, p.curves.size());

    std::ostringstream script;
    for (std::size_t i = 0; i < most; ++i) {
        script << "set style line " << i + 1 << " pointtype 7 pointsize 0.8 linecolor rgb '"
               << colours[i % colours.size()] << "' dashtype " << i / colours.size() + 1 << '\n';
    }
    bool const small = f.rows > 1;
    std::size_t const columns = (f.panels.size() + f.rows - 1) / f.rows;
    // Few colours keep a large picture a small file.
    if (small) script << "set terminal png notruecolor noenhanced size " << 420 * columns << ',' << 300 * f.rows;
    else script << "set terminal pngcairo noenhanced size " << 800 * columns << ",720";
    script << " font 'Sans," << (small ? 11 : 14) << "'\n";
    script << R"(
set grid back linetype 1 linewidth 1 linecolor rgb '#d8d8d8'
set border 3 linecolor rgb '#808080'
set tics nomirror textcolor rgb 'black'
)";
    script << "set xlabel " << quoted(f.x_label) << "\nset xrange [0:" << f.x_end << "]\n";
    script << "set output " << quoted(png) << '\n';
    auto const across = static_cast<double>(columns), down = static_cast<double>(f.rows);
    double const edge = small ? 0.06 : 0.05, below = small ? 0.18 : 0.11, above = small ? 0.25 : 0.14;
    script << "set multiplot layout " << f.rows << ',' << columns << " margins " << 0.1 / across << ','
           << 1 - edge / across << ',' << below / down << ',' << 1 - above / down << " spacing " << 0.1 / across << ','
           << 0.3 / down << " title " << quoted(f.title) << " font 'Sans:Bold,17'\n";
    for (panel const& p : f.panels) script << panel_script(p);
    script << "unset multiplot\nunset output\n";
    return script.str();
}

/// Draws with gnuplot. The picture appears whole or not at all: it is drawn under another name beside its place, then
/// renamed.
inline void plot(figure const& f, std::filesystem::path const& png) {
    struct temporary {
        std::filesystem::path path;
        ~temporary() {
            std::error_code gone;
            std::filesystem::remove(path, gone);
        }
    } const draft{png.string() + ".part"};

    std::signal(SIGPIPE, SIG_IGN); // a gnuplot that is missing or killed shows in its exit status
    std::FILE* const gnuplot = popen("gnuplot", "w");
    if (gnuplot) std::fputs(plot_script(f, draft.path).c_str(), gnuplot);
    if (!gnuplot || pclose(gnuplot) != 0 || !std::filesystem::exists(draft.path)) {
        throw std::runtime_error("The curves were not drawn: gnuplot (Debian: gnuplot-nox) is missing or failed.");
    }
    std::filesystem::rename(draft.path, png);
}
