// The program gradstep, for files.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include "import_torch.hpp"
#include "show.hpp"

int main(int argc, char** argv) {
    namespace tools = gradstep::tools;
    CLI::App app("Checkpoints of gradstep: safetensors files, which docs/checkpoints.md explains.", "gradstep");
    app.set_version_flag("--version", GRADSTEP_PROJECT_VERSION);
    app.require_subcommand(1);

    std::string from, to, file;
    tools::import_options options;
    std::int64_t step = 0;
    auto* const import = app.add_subcommand("import-torch", "make a checkpoint of a model and an optimizer of torch");
    import->add_option("IN", from, "what save_for_gradstep (docs/checkpoints.md) has written in Python")->required();
    import->add_option("OUT", to, "the checkpoint; a file that is there is replaced")->required();
    import->add_option("--element", options.element,
                       "of all parameters, as \"mixed<bfloat16>\"; without it that of their dtype");
    auto* const has_step = import->add_option(
        "--step", step, "the steps that were taken: of SGD, which does not count them, and of no other");
    import->add_option("--samples", options.samples, "of the clock, for schedules by samples");
    import->add_option("--epoch", options.epoch, "of the clock, for schedules by epochs");
    auto* const show = app.add_subcommand("show", "list what a checkpoint has");
    show->add_option("FILE", file, "the checkpoint")->required();
    CLI11_PARSE(app, argc, argv);

    try {
        if (*import) {
            if (*has_step) options.step = step;
            for (std::string const& note : tools::import_torch(from, to, options)) std::printf("%s\n", note.c_str());
        }
        std::fputs(tools::show(*import ? to : file).c_str(), stdout);
        return 0;
    } catch (std::exception const& wrong) {
        std::fprintf(stderr, "gradstep: %s\n", wrong.what());
        return 1;
    }
}
