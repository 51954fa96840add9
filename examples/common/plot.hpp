#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
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

/// A part of the x axis that is shaded, with its name at the top.
struct band {
    double begin, end;
    std::string name;
};

/// Curves over one pair of axes. Those at the same place in two panels have the same colour.
struct panel {
    std::string title;
    std::vector<curve> curves;
    bool logarithmic = false;
    bool marked = false; // a dot at each point
    std::string key;     // position of the names: `below`, `above`, or gnuplot's words ("bottom right"); empty: none
    std::optional<double> y_end = {}; // y from 0 to here, instead of the range of the curves
    std::optional<x_axis> x = {};     // if it is not the figure's
    std::string y_label = {};         // with its unit
    std::vector<band> bands = {};
};

/// The key of a panel whose names stand in a row under all panels, outside the curves.
inline char const below[] = "below";
/// The key of a panel whose names stand in lines between its title and its curves.
inline char const above[] = "above";

/// What a picture shows: panels side by side, over the same x from 0 to x_end unless they give
/// another. In several rows they are small, and share the titles of their axes.
struct figure {
    std::string title, x_label;
    double x_end = 1;
    std::vector<panel> panels;
    std::size_t rows = 1;
    std::string note = {}; // a line under the title
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
            for (int digit : {1, 2, 5})
                if (digit == 1 || most / least < 1000) add(digit * std::pow(10.0, power));
    return tics.str();
}

/// The size of small panels, in pixels.
inline constexpr double small_width = 160, small_height = 115;

/// How large a picture is, as a page shows it, and its margins: in pixels.
struct picture_layout {
    double width, height, left, right, top, bottom, across, down; // `across` and `down` separate the panels
    std::vector<curve> named_below;                               // the curves whose names stand below the panels
    double name_width = 0, names_in_a_row = 1;

    explicit picture_layout(figure const& f, std::size_t columns) {
        auto const n = static_cast<double>(columns), m = static_cast<double>(f.rows);
        if (f.rows > 1) { // small panels
            std::size_t names = 0;
            for (panel const& p : f.panels)
                if (p.key == above) names = std::max(names, p.curves.size());
            double const head = 20 + 15 * static_cast<double>(names); // the title and the names of a panel
            left = 62, right = 20, top = 34 + head, bottom = 46, across = 36, down = 30 + head;
            width = left + small_width * n + across * (n - 1) + right,
            height = top + small_height * m + down * (m - 1) + bottom;
        } else {
            width = columns == 1 ? 700 : 450 * n, height = 400;
            left = 84, right = 26, top = 70, bottom = 55, across = 92, down = 0;
        }
        if (!f.note.empty()) top += 20, height += 20;
        if (std::ranges::all_of(f.panels, [](panel const& p) { return p.title.empty(); })) top -= 25, height -= 25;
        auto const naming = std::ranges::find(f.panels, below, &panel::key);
        if (naming == f.panels.end()) return;
        named_below = naming->curves;
        for (curve const& c : named_below)
            name_width = std::max(name_width, 55 + 8 * static_cast<double>(c.name.size()));
        auto const names = static_cast<double>(named_below.size());
        double const lines = std::ceil(names / std::max(1.0, std::floor(width / name_width)));
        names_in_a_row = std::ceil(names / lines); // as many in each row
        bottom += 12 + 20 * lines, height += 12 + 20 * lines;
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
                   << " nohead linestyle " << i + 1 << " linewidth " << named_below[i].width << "\nset label "
                   << quoted(named_below[i].name) << " at screen " << (x + 31) / width << ',' << y << " left\n";
        }
        return script.str();
    }
};

/// What to tell gnuplot about one panel.
inline std::string panel_script(panel const& p, bool small, char const* bold) {
    std::ostringstream script;
    for (std::size_t i = 0; i < p.curves.size(); ++i) {
        script << "$curve" << i << " << EOD\n";
        for (auto [x, y] : p.curves[i].points) script << x << ' ' << y << '\n';
        script << "EOD\n";
    }
    if (p.x) {
        script << "set xlabel " << axis_title(p.x->label, p.x->logarithmic) << "\nset xrange [" << p.x->begin << ':'
               << p.x->end << "]\n"
               << (p.x->logarithmic ? "set" : "unset") << " logscale x\n";
    }
    if (p.logarithmic) {
        script << "set logscale y\nset format y '%g'\nset autoscale yfix\nset ytics (" << logarithmic_tics(p) << ")\n";
    } else {
        script << "unset logscale y\nset format y '% h'\nset autoscale y\nset ytics auto\n";
    }
    if (p.y_end) script << "set yrange [0:" << *p.y_end << "]\nset ytics " << *p.y_end / 2 << '\n';
    if (p.key.empty() || p.key == below) {
        script << "unset key\n";
    } else if (p.key == above) {
        script << "set key at graph 0, graph 1.02 left bottom Left reverse samplen 1.2 spacing 0.83 nobox font ',11'\n";
    } else {
        script << "set key " << p.key << " Left reverse opaque box linecolor rgb '#d8d8d8' height 0.5 width 2\n";
    }
    if (small) { // over the names
        double const names = p.key == above ? static_cast<double>(p.curves.size()) : 0;
        script << "set label " << quoted(p.title) << " at graph 0, graph " << 1 + (15 + 15 * names) / small_height
               << " left font '" << bold << "'\n";
    } else {
        script << "set title " << quoted(p.title) << " offset 0, -0.5\n";
    }
    script << "set ylabel " << axis_title(p.y_label, p.logarithmic) << " offset 1, 0\n";
    for (band const& b : p.bands) {
        script << "set object rectangle from " << b.begin << ", graph 0 to " << b.end
               << ", graph 1 behind fillcolor rgb '#eaeef2' fillstyle solid noborder\nset label " << quoted(b.name)
               << " at " << b.begin << ", graph 0.95 left offset 0.5, 0\n";
    }
    for (std::size_t i = 0; i < p.curves.size(); ++i) {
        script << (i == 0 ? "plot " : ", ") << "$curve" << i << " with " << (p.marked ? "linespoints" : "lines")
               << " linestyle " << i + 1 << " linewidth " << p.curves[i].width << " title " << quoted(p.curves[i].name);
    }
    script << "\nunset object\nunset label\nunset arrow\n";
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
        script << "set terminal svg noenhanced size " << on.width << ',' << on.height << " font 'sans-serif,"
               << (small ? 12 : 13) << "'\n";
    } else { // twice as many pixels as a page shows, for sharp letters
        script << "set terminal pngcairo noenhanced size " << 2 * on.width << ',' << 2 * on.height << " font 'Sans,"
               << (small ? 9 : 10) << "' fontscale 2 linewidth 2 pointscale 2\n";
    }
    script << R"(
set grid back linetype 1 linewidth 1 linecolor rgb '#d8d8d8'
set border 3 linecolor rgb '#808080'
set tics nomirror textcolor rgb 'black'
)";
    if (small) script << "set xtics " << f.x_end / 2 << '\n'; // no room for more
    script << "set xlabel offset 0, 0.6\nset xlabel " << quoted(f.x_label) << "\nset xrange [0:" << f.x_end << "]\n";
    script << "set output " << quoted(file) << '\n';
    script << "set multiplot layout " << f.rows << ',' << columns << " margins " << on.left / on.width << ','
           << 1 - on.right / on.width << ',' << on.bottom / on.height << ',' << 1 - on.top / on.height << " spacing "
           << on.across / on.width << ',' << on.down / on.height << " title " << quoted(f.title) << " font '"
           << (svg ? "sans-serif:Bold,15" : "Sans:Bold,12") << "'\n";
    script << on.names_script();
    if (!f.note.empty())
        script << "set label " << quoted(f.note) << " at screen 0.5, screen " << 1 - 44 / on.height << " center\n";
    for (std::size_t i = 0; i < f.panels.size(); ++i) {
        panel p = f.panels[i];
        if (small) { // titles of axes at the left and at the bottom only
            if (i % columns != 0) p.y_label.clear();
            script << "set xlabel " << quoted(i + columns < f.panels.size() ? "" : f.x_label) << '\n';
        }
        script << panel_script(p, small, svg ? "sans-serif:Bold" : "Sans:Bold");
    }
    script << "unset multiplot\nunset output\n";
    return script.str();
}

/// An SVG of gnuplot's with a transparent background, and colours for the reader's light or dark
/// theme.
inline std::string themed(std::string_view drawn, std::string const& title) {
    std::string out;
    out.reserve(drawn.size() + 2000);
    for (std::size_t at = 0; at < drawn.size();) { // `rgb(  0, 114, 178)` becomes `#0072b2`
        std::size_t const next = std::min(drawn.find("rgb(", at), drawn.size());
        out += drawn.substr(at, next - at);
        at = next;
        if (at == drawn.size()) break;
        std::size_t const end = drawn.find(')', at) + 1;
        std::array<int, 3> colour{};
        std::string const numbers(drawn.substr(at, end - at));
        if (std::sscanf(numbers.c_str(), "rgb(%d,%d,%d)", &colour[0], &colour[1], &colour[2]) == 3) {
            std::array<char, 8> hex{};
            std::snprintf(hex.data(), hex.size(), "#%02x%02x%02x", colour[0] & 255, colour[1] & 255, colour[2] & 255);
            out += hex.data();
        } else {
            out += numbers;
        }
        at = end;
    }
    auto const replace = [&out](std::string_view from, std::string_view to) {
        for (std::size_t at = 0; (at = out.find(from, at)) != out.npos; at += to.size())
            out.replace(at, from.size(), to);
    };
    replace("font-family=\"sans-serif:Bold\"", "font-family=\"sans-serif\" font-weight=\"bold\"");
    replace(" stroke-width=\"1.00\" stroke-linecap=\"butt\" stroke-linejoin=\"miter\"", ""); // SVG's defaults
    replace(".00,", ","), replace(".00 ", " ");
    replace("<g fill=\"none\" color=\"black\" stroke=\"currentColor\">\n</g>\n", "");
    std::string escaped;
    for (char const c : title) escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);

    std::ostringstream style;
    auto const recoloured = [&style](std::string_view from, std::string_view to) {
        for (std::string_view attribute : {"stroke", "fill", "color"})
            style << "  [" << attribute << "=\"" << from << "\"] { " << attribute << ": " << to << " }\n";
    };
    style << "<title>" << escaped << "</title>\n<style>\ntext { fill: #1f2328 }\n"
          << "@media (prefers-color-scheme: dark) {\n  text { fill: #e6edf3 }\n";
    constexpr std::array<std::array<std::string_view, 2>, 12> dark{{{"#0072b2", "#409be0"},
                                                                    {"#d55e00", "#f0803c"},
                                                                    {"#009e73", "#2ec59a"},
                                                                    {"#cc79a7", "#dd96bf"},
                                                                    {"#e69f00", "#e8ad30"},
                                                                    {"#56b4e9", "#a5dcff"},
                                                                    {"#000000", "#e6edf3"},
                                                                    {"black", "#e6edf3"},
                                                                    {"#d8d8d8", "#30363d"},
                                                                    {"#808080", "#848d97"},
                                                                    {"#eaeef2", "#262c34"},
                                                                    {"#ffffff", "#0d1117"}}};
    for (auto const& [from, to] : dark)
        if (out.find('"' + std::string(from) + '"') != out.npos ||
            out.find('\'' + std::string(from) + '\'') != out.npos)
            recoloured(from, to);
    style << "}\n</style>";
    replace("<title>Gnuplot</title>", style.str());
    return out;
}

/// Draws with gnuplot: an SVG if the file's name ends in .svg, else a PNG. The picture appears
/// whole or not at all: it is drawn under another name beside the file, then renamed.
inline void plot(figure const& f, std::filesystem::path const& file) {
    struct temporary {
        std::filesystem::path path;
        ~temporary() {
            std::error_code gone;
            std::filesystem::remove(path, gone);
        }
    } const draft{file.string() + ".part"};
    bool const svg = file.extension() == ".svg";

    std::signal(SIGPIPE, SIG_IGN); // a gnuplot that is missing or killed shows in its exit status
    std::FILE* const gnuplot = popen("gnuplot", "w");
    if (gnuplot) std::fputs(plot_script(f, draft.path, svg).c_str(), gnuplot);
    if (!gnuplot || pclose(gnuplot) != 0 || !std::filesystem::exists(draft.path)) {
        throw std::runtime_error("The curves were not drawn: gnuplot (Debian: gnuplot-nox) is missing or failed.");
    }
    if (svg) {
        std::ifstream drawn(draft.path, std::ios::binary);
        std::string const text(std::istreambuf_iterator<char>(drawn), {});
        std::ofstream out(draft.path, std::ios::binary | std::ios::trunc);
        if (!(out << themed(text, f.title)).flush())
            throw std::runtime_error("The curves were not written: " + draft.path.string());
    }
    std::filesystem::rename(draft.path, file);
}
