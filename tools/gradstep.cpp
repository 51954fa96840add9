// The program gradstep, for files.
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "export_torch.hpp"
#include "import_torch.hpp"
#include "plan.hpp"
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
        throw std::invalid_argument(std::string(option) + ": \"" + text + "\"; expected " + expected);
    return out;
}
std::int64_t count_of(char const* option, std::string const& text) {
    return number_of<std::int64_t>(option, text, "a whole number in digits, as 1000, below 2^63");
}
// A count, as 1000000 or 1e6.
std::uint64_t whole_number_of(char const* option, std::string const& text) {
    char const* const expected = "a whole number, as 1000 or 1e9, up to 2^53";
    auto const out = number_of<double>(option, text, expected);
    if (!(out >= 0 && out <= 0x1p53 && out == std::floor(out)))
        throw std::invalid_argument(std::string(option) + ": " + text + " is out of range; expected " + expected);
    return static_cast<std::uint64_t>(out);
}
std::vector<std::uint64_t> whole_numbers_of(char const* option, std::vector<std::string> const& texts) {
    std::vector<std::uint64_t> out;
    for (std::string const& text : texts) out.push_back(whole_number_of(option, text));
    return out;
}
void print(std::string const& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

} // namespace

int main(int argc, char** argv) {
    namespace tools = gradstep::tools;
    CLI::App app("Shows and converts checkpoints of gradstep (docs/how_to/checkpoints.md), and plans the servers of "
                 "large tables\n"
                 "(docs/how_to/capacity_planning.md).",
                 "gradstep");
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
    tools::plan_options planned;
    std::vector<std::string> widths{"1"}, keys{"1e6"}, servers{"1"};
    std::string bandwidth = "1e9", timeout = "60", memory = "0", max_history = "0", admit_after = "1",
                sketch_bytes = "0", batch = "0", max_kept = "1024";
    bool every_rule = false, markdown = false, no_last_touches = false;
    auto* const plan =
        app.add_subcommand("plan", "compute the memory, checkpoints and pauses of a keyed table on servers");
    plan->option_defaults()->always_capture_default();
    auto* const has_config =
        plan->add_option("CONFIG", file, "an optimizer's configuration: a file, or JSON text that begins with {");
    plan->add_option("--width", widths, "the elements of a row; several are separated by commas")->delimiter(',');
    plan->add_option("--keys", keys, "the keys that have a row, over all servers")->delimiter(',');
    plan->add_option("--servers", servers, "the number of servers")->delimiter(',');
    plan->add_option("--dtype", planned.dtype, "float, double, bfloat16 or float16");
    plan->add_option("--bandwidth", bandwidth, "the bytes per second that a server writes to its disk");
    plan->add_option("--timeout", timeout, "the timeout of the transport, in seconds");
    plan->add_option("--memory", memory, "the bytes of memory of a server's machine; 0: unknown");
    plan->add_option("--batch", batch, "the keys of a push; 0: unknown");
    plan->add_option("--max-kept", max_kept, "worker_options.max_kept");
    plan->add_option("--max-history", max_history, "keyed_options.max_history");
    plan->add_option("--admit-after", admit_after, "keyed_options.admit_after");
    plan->add_option("--sketch-bytes", sketch_bytes, "keyed_options.sketch_bytes");
    plan->add_flag("--no-last-touches", no_last_touches, "keyed_options.last_touches = false");
    plan->add_flag("--touch-counts", planned.touch_counts, "keyed_options.touch_counts = true");
    plan->add_flag("--row-steps", planned.row_steps, "keyed_options.row_steps = true");
    plan->add_flag("--markdown", markdown, "print a table, one line for each width, number of keys and of servers");
    auto* const has_every_rule =
        plan->add_flag("--every-rule", every_rule, "print the bytes of a row of every rule, instead of CONFIG's");
    has_every_rule->excludes(has_config);
    CLI11_PARSE(app, argc, argv);

    try {
        if (*plan) {
            planned.bandwidth = number_of<double>("--bandwidth", bandwidth, "a number, as 1.5e9");
            planned.timeout = number_of<double>("--timeout", timeout, "a number, as 60");
            planned.memory = number_of<double>("--memory", memory, "a number, as 64e9");
            planned.batch = whole_number_of("--batch", batch);
            planned.max_kept = whole_number_of("--max-kept", max_kept);
            planned.max_history = static_cast<std::int64_t>(whole_number_of("--max-history", max_history));
            planned.admit_after = static_cast<std::int64_t>(whole_number_of("--admit-after", admit_after));
            planned.sketch_bytes = static_cast<std::int64_t>(whole_number_of("--sketch-bytes", sketch_bytes));
            planned.last_touches = !no_last_touches;
            auto const all_widths = whole_numbers_of("--width", widths), all_keys = whole_numbers_of("--keys", keys),
                       all_servers = whole_numbers_of("--servers", servers);
            if (!every_rule && file.empty())
                throw std::invalid_argument("plan: there is no CONFIG; expected it, or --every-rule");
            bool const one = all_widths.size() == 1 && all_keys.size() == 1 && all_servers.size() == 1;
            planned.width = all_widths[0], planned.keys = all_keys[0], planned.servers = all_servers[0];
            if (every_rule) print(tools::plan_every_rule(planned, all_widths));
            else if (markdown || !one) print(tools::plan_table(file, planned, all_widths, all_keys, all_servers));
            else print(tools::plan_in_words(file, planned));
            return 0;
        }
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
