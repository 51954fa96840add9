// The program gradstep, for files.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>

#include "export_torch.hpp"
#include "import_torch.hpp"
#include "show.hpp"

namespace {

// The number in an argument, whatever the locale is; every letter of it must count.
template <class Number> Number number_of(char const* option, std::string const& text, char const* expected) {
    Number out{};
    char const* const end = text.data() + text.size();
    auto const [stop, wrong] = std::from_chars(text.data(), end, out);
    if (wrong == std::errc::result_out_of_range)
        throw std::invalid_argument(std::string(option) + ": " + text + " is out of range; expected " + expected);
    if (wrong != std::errc() || stop != end)
        throw std::invalid_argument(std::string(option) + ": \"" + text + "\" is not " + expected);
    return out;
}
std::int64_t count_of(char const* option, std::string const& text) {
    return number_of<std::int64_t>(option, text, "a whole number in digits, as 1000, below 2^63");
}
void print(std::string const& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

} // namespace

int main(int argc, char** argv) {
    namespace tools = gradstep::tools;
    CLI::App app("Checkpoints of gradstep: safetensors files, which docs/how_to/checkpoints.md explains.", "gradstep");
    app.set_version_flag("--version", GRADSTEP_PROJECT_VERSION);
    app.require_subcommand(1);

    std::string from, to, file, step, samples, epoch, rate;
    tools::import_options options;
    auto* const import = app.add_subcommand("import-torch", "make a checkpoint of a model and an optimizer of torch");
    import->add_option("IN", from, "what save_for_gradstep (docs/how_to/checkpoints.md) has written in Python")
        ->required();
    import->add_option("OUT", to, "the checkpoint; a file that is there is replaced")->required();
    import->add_option("--element", options.element,
                       "of all parameters, as \"mixed<bfloat16>\"; without it that of their dtype");
    auto* const has_step = import->add_option(
        "--step", step,
        "the steps that were taken, where the file does not have their exact number: of torch's SGD, and from "
        "2^24 on where they were counted in float32");
    auto* const has_samples = import->add_option("--samples", samples, "of the clock, for schedules by samples");
    auto* const has_epoch = import->add_option("--epoch", epoch, "of the clock, for schedules by epochs");
    tools::export_options wanted;
    auto* const out = app.add_subcommand("export-torch", "make a file for torch of a checkpoint");
    out->add_option("IN", from, "the checkpoint")->required();
    out->add_option(
           "OUT", to,
           "what load_from_gradstep (docs/how_to/checkpoints.md) reads in Python; a file that is there is replaced")
        ->required();
    out->add_option("--optimizer", wanted.optimizer,
                    "the class, as AdamW; without it the first that keeps the state of all parameters");
    auto* const has_rate = out->add_option("--rate", rate, "the learning rate, instead of that of the schedules");
    auto* const show = app.add_subcommand("show", "list what a checkpoint has");
    show->add_option("FILE", file, "the checkpoint")->required();
    CLI11_PARSE(app, argc, argv);

    try {
        if (*import) {
            if (*has_step) options.step = count_of("--step", step);
            if (*has_samples) options.samples = count_of("--samples", samples);
            if (*has_epoch) options.epoch = count_of("--epoch", epoch);
            for (std::string const& note : tools::import_torch(from, to, options)) print(note + "\n");
        }
        if (*out) {
            if (*has_rate) wanted.rate = number_of<double>("--rate", rate, "a number, as 0.001 or 1e-3");
            for (std::string const& note : tools::export_torch(from, to, wanted)) print(note + "\n");
            return 0;
        }
        print(tools::show(*import ? to : file));
        return 0;
    } catch (std::exception const& wrong) {
        std::fprintf(stderr, "gradstep: %s\n", wrong.what());
        return 1;
    }
}
