#pragma once

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "training.hpp"

/// A string as gnuplot reads it.
inline std::string quoted(std::string text) {
    for (std::size_t i = 0; (i = text.find('\'', i)) != text.npos; i += 2) text.insert(i, 1, '\'');
    return '\'' + text + '\'';
}

/// What to tell gnuplot: the training loss of all runs on the left, their test accuracy on the right.
inline std::string plot_script(std::vector<result> const& results, std::string const& title, std::string const& png) {
    // Okabe and Ito's colours, which the colour-blind tell apart; dashed when they start over.
    std::array const colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
    std::ostringstream script;
    auto const data = [&](char const* name, std::size_t i, std::vector<result::point> const& curve) {
        script << '$' << name << i << " << EOD\n";
        for (auto [epoch, value] : curve) script << epoch << ' ' << value << '\n';
        script << "EOD\n";
    };
    auto const curves = [&](char const* name, char const* style) {
        for (std::size_t i = 0; i < results.size(); ++i) {
            script << (i == 0 ? "plot $" : ", $") << name << i << " with " << style << " linestyle " << i + 1
                   << " title " << quoted(results[i].name);
        }
        script << '\n';
    };

    for (std::size_t i = 0; i < results.size(); ++i) {
        data("loss", i, results[i].loss);
        data("accuracy", i, results[i].accuracy);
        script << "set style line " << i + 1 << " linewidth 2 pointtype 7 pointsize 0.8 linecolor rgb '"
               << colours[i % colours.size()] << "' dashtype " << i / colours.size() + 1 << '\n';
    }
    script << R"(
set terminal pngcairo noenhanced size 1600,720 font 'Sans,14'
set grid back linetype 1 linewidth 1 linecolor rgb '#d8d8d8'
set border 3 linecolor rgb '#808080'
set tics nomirror textcolor rgb 'black'
set xlabel 'epoch'
)";
    script << "set xrange [0:" << results[0].accuracy.size() << "]\n";
    script << "set output " << quoted(png) << '\n';
    script << "set multiplot layout 1,2 margins 0.05,0.985,0.11,0.86 spacing 0.05 title " << quoted(title)
           << " font 'Sans:Bold,17'\n";
    script << R"(
set title 'training loss (cross entropy)'
set logscale y
set autoscale yfix
set ytics (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 3, 4, 5)
unset key
)";
    curves("loss", "lines");
    script << R"(
set title 'test accuracy (%)'
unset logscale y
set autoscale y
set ytics auto
set key bottom right Left reverse opaque box linecolor rgb '#d8d8d8' height 0.5 width 2
)";
    curves("accuracy", "linespoints");
    script << "unset multiplot\nunset output\n";
    return script.str();
}

/// Draws the curves with gnuplot. The picture appears whole or not at all: it is drawn under another name beside its
/// place, then renamed.
inline void plot(std::vector<result> const& results, std::string const& title, std::filesystem::path const& png) {
    struct temporary {
        std::filesystem::path path;
        ~temporary() {
            std::error_code gone;
            std::filesystem::remove(path, gone);
        }
    } const draft{png.string() + ".part"};

    std::signal(SIGPIPE, SIG_IGN); // a gnuplot that is missing or killed shows in its exit status
    std::FILE* const gnuplot = popen("gnuplot", "w");
    if (gnuplot) std::fputs(plot_script(results, title, draft.path).c_str(), gnuplot);
    if (!gnuplot || pclose(gnuplot) != 0 || !std::filesystem::exists(draft.path)) {
        throw std::runtime_error("The curves were not drawn: gnuplot (Debian: gnuplot-nox) is missing or failed.");
    }
    std::filesystem::rename(draft.path, png);
}
