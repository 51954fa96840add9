#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <limits>
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
    std::string key;              // position of the names: `below`, or gnuplot's words ("bottom right"); empty: none
    bool roomy = false;           // y from 0, and room for the names above the curves
    std::optional<x_axis> x = {}; // if it is not the figure's
    std::string y_label = {};     // with its unit
};

/// The key of a panel whose names stand in a row under all panels, outside the curves.
inline char const below[] = "below";

/// What a picture shows: panels side by side, over the same x from 0 to x_end unless they give another. In several
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

/// The title of an axis, which says if its scale is logarithmic.
inline std::string axis_title(std::string const& label, bool logarithmic) {
    return quoted(logarithmic && !label.empty() ? label + " (log scale)" : label);
}

/// Round numbers in the range of a panel's curves. Others would widen the space for the axis.
inline std::string logarithmic_tics(panel const& p) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (curve const& c : p.curves)
        for (auto [x, y] : c.points) least = std::min(least, y), most = std::max(most, y);
    std::array const near_1{0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0};
    bool const is_narrow = least >= 0.1 && most <= 10;
    std::ostringstream tics;
    auto const add = [&](double y) {
        if (y >= least && y <= most) tics << (tics.view().empty() ? "" : ", ") << y;
    };
    if (is_narrow) std::ranges::for_each(near_1, add);
    else
        for (int power = -12; power <= 12; ++power)
            for (int digit : {1, 2, 5}) add(digit * std::pow(10.0, power));
    return tics.str();
}

/// How large a picture is, as a page shows it, and its margins: in pixels.
struct picture_layout {
    double width, height, left, right, top, bottom, across, down; // `across` and `down` separate the panels
    std::vector<curve> named_below;                               // the curves whose names stand below the panels
    double name_width = 0, names_in_a_row = 1;

    explicit picture_layout(figure const& f, std::size_t columns) {
        auto const n = static_cast<double>(columns), m = static_cast<double>(f.rows);
        if (f.rows > 1) { // small panels
            width = 420 * n, height = 300 * m;
            left = 42, right = 25, top = 75, bottom = 54, across = 42, down = 90;
        } else {
            width = columns == 1 ? 700 : 450 * n, height = 400;
            left = 84, right = 26, top = 70, bottom = 55, across = 92, down = 0;
        }
        if (std::ranges::all_of(f.panels, [](panel const& p) { return p.title.empty(); })) top -= 25, height -= 25;
        auto const naming = std::ranges::find(f.panels, below, &panel::key);
        if (naming == f.panels.end()) return;
        named_below = naming->curves;
        for (curve const& c : named_below)
            name_width = std::max(name_width, 55 + 8 * static_cast<double>(c.name.size()));
        names_in_a_row = std::clamp(std::floor(width / name_width), 1.0, static_cast<double>(named_below.size()));
        double const space = 12 + 20 * std::ceil(static_cast<double>(named_below.size()) / names_in_a_row);
        bottom += space, height += space;
    }

    /// What to tell gnuplot about the names below the panels: it has no key across several panels.
    std::string names_script() const {
        std::ostringstream script;
        for (std::size_t i = 0; i < named_below.size(); ++i) {
            double const row = std::floor(static_cast<double>(i) / names_in_a_row);
            double const column = static_cast<double>(i) - row * names_in_a_row;
            double const x = (width - names_in_a_row * name_width) / 2 + column * name_width + 10;
            double const y = (bottom - 65 - 20 * row) / height;
            script << "set arrow from screen " << x / width << ',' << y << " to screen " << (x + 25) / width << ',' << y
                   << " nohead linestyle " << i + 1 << " linewidth 2\nset label " << quoted(named_below[i].name)
                   << " at screen " << (x + 31) / width << ',' << y << " left\n";
        }
        return script.str();
    }
};

/// What to tell gnuplot about one panel.
inline std::string panel_script(panel const& p) {
    std::ostringstream script;
    for (std::size_t i = 0; i < p.curves.size(); ++i) {
        script << "$curve" << i << " << EOD\n";
        for (auto [x, y] : p.curves[i].points) script << x << ' ' << y << '\n';
        script << "EOD\n";
    }
    script << "set title " << quoted(p.title) << "\nset ylabel " << axis_title(p.y_label, p.logarithmic) << '\n';
    if (p.x) {
        script << "set xlabel " << axis_title(p.x->label, p.x->logarithmic) << "\nset xrange [" << p.x->begin << ':'
               << p.x->end << "]\n"
               << (p.x->logarithmic ? "set" : "unset") << " logscale x\n";
    }
    if (p.logarithmic) {
        script << "set logscale y\nset autoscale yfix\nset ytics (" << logarithmic_tics(p) << ")\n";
    } else {
        script << "unset logscale y\nset autoscale y\nset ytics auto\n";
    }
    if (p.roomy) script << "set yrange [0:*]\nset ytics 0.2\nset offsets 0, 0, graph 0.8, 0\n";
    if (p.key.empty() || p.key == below) script << "unset key\n";
    else script << "set key " << p.key << " Left reverse opaque box linecolor rgb '#d8d8d8' height 0.5 width 2\n";
    for (std::size_t i = 0; i < p.curves.size(); ++i) {
        script << (i == 0 ? "plot " : ", ") << "$curve" << i << " with " << (p.marked ? "linespoints" : "lines")
               << " linestyle " << i + 1 << " linewidth " << p.curves[i].width << " title " << quoted(p.curves[i].name);
    }
    script << '\n';
    return script.str();
}

/// What to tell gnuplot to draw `file`, as SVG or as PNG.
inline std::string plot_script(figure const& f, std::string const& file, bool svg) {
    // Okabe and Ito's colours, which the colour-blind tell apart; dashed when they start over.
    std::array const colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
    std::size_t most = 0;
    for (panel const& p : f.panels) most = std::max(most, p.curves.size());

    std::ostringstream script;
    for (std::size_t i = 0; i < most; ++i) {
        script << "set style line " << i + 1 << " pointtype 7 pointsize 0.6 linecolor rgb '"
               << colours[i % colours.size()] << "' dashtype " << i / colours.size() + 1 << '\n';
    }
    bool const small = f.rows > 1;
    std::size_t const columns = (f.panels.size() + f.rows - 1) / f.rows;
    picture_layout const on(f, columns);
    if (svg) {
        script << "set terminal svg noenhanced background '#ffffff' size " << on.width << ',' << on.height
               << " font 'sans-serif," << (small ? 11 : 13) << "'\n";
    } else if (small) { // few colours keep a large picture a small file
        script << "set terminal png notruecolor noenhanced size " << on.width << ',' << on.height
               << " font 'Sans,11'\n";
    } else { // twice as many pixels as a page shows, for sharp letters
        script << "set terminal pngcairo noenhanced size " << 2 * on.width << ',' << 2 * on.height
               << " font 'Sans,10' fontscale 2 linewidth 2 pointscale 2\n";
    }
    script << R"(
set grid back linetype 1 linewidth 1 linecolor rgb '#d8d8d8'
set border 3 linecolor rgb '#808080'
set tics nomirror textcolor rgb 'black'
)";
    script << "set xlabel " << quoted(f.x_label) << "\nset xrange [0:" << f.x_end << "]\n";
    script << "set output " << quoted(file) << '\n';
    script << "set multiplot layout " << f.rows << ',' << columns << " margins " << on.left / on.width << ','
           << 1 - on.right / on.width << ',' << on.bottom / on.height << ',' << 1 - on.top / on.height << " spacing "
           << on.across / on.width << ',' << on.down / on.height << " title " << quoted(f.title) << " font '"
           << (svg ? "sans-serif" : "Sans") << ":Bold,"
           << (small ? 17
               : svg ? 15
                     : 12)
           << "'\n";
    script << on.names_script();
    for (panel const& p : f.panels) {
        script << panel_script(p);
        if (&p == &f.panels.front()) script << "unset arrow\nunset label\n"; // the names below stand there now
    }
    script << "unset multiplot\nunset output\n";
    return script.str();
}

/// Draws with gnuplot: an SVG if the file's name ends in .svg, else a PNG. The picture appears whole or not at all: it
/// is drawn under another name beside the file, then renamed.
inline void plot(figure const& f, std::filesystem::path const& file) {
    struct temporary {
        std::filesystem::path path;
        ~temporary() {
            std::error_code gone;
            std::filesystem::remove(path, gone);
        }
    } const draft{file.string() + ".part"};

    std::signal(SIGPIPE, SIG_IGN); // a gnuplot that is missing or killed shows in its exit status
    std::FILE* const gnuplot = popen("gnuplot", "w");
    if (gnuplot) std::fputs(plot_script(f, draft.path, file.extension() == ".svg").c_str(), gnuplot);
    if (!gnuplot || pclose(gnuplot) != 0 || !std::filesystem::exists(draft.path)) {
        throw std::runtime_error("The curves were not drawn: gnuplot (Debian: gnuplot-nox) is missing or failed.");
    }
    std::filesystem::rename(draft.path, file);
}
