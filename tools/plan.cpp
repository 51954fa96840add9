#include "plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <gradstep/configuration/detail/text_file.hpp>
#include <gradstep/distributed/detail/wire.hpp>
#include <gradstep/policy/catch_up.hpp>
#include <gradstep/policy/detail/slots.hpp>
#include <gradstep/rows/detail/missed.hpp>
#include <gradstep/rows/detail/row_columns.hpp>
#include <gradstep/rows/detail/step_matrix.hpp>
#include <gradstep/rows/table_options.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>

#include "torch_optimizers.hpp"

namespace gradstep::tools {
namespace {

// The index has from 20.6 to 22 bytes per key (keyed/detail/key_index.hpp).
constexpr double index_bytes = 22;
constexpr double most_rows = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse_plan(detail::message_part where, detail::message_part given, detail::message_part expected) {
    detail::fail<value_error>(where, given, expected);
    std::abort();
}

std::string rounded(double x) {
    std::array<char, 32> text;
    return {text.data(), std::to_chars(text.begin(), text.end(), x, std::chars_format::general, 3).ptr};
}
std::string bytes_in_words(double bytes) {
    if (bytes < 1000) return detail::joined({bytes, " bytes"});
    for (char const* const unit : {" kB", " MB", " GB", " TB"})
        if (bytes /= 1000; bytes < 999.5) return rounded(bytes) + unit;
    return rounded(bytes / 1000) + " PB";
}
std::string grouped(std::uint64_t x) {
    std::string out = std::to_string(x);
    for (std::size_t i = out.size(); i > 3; i -= 3) out.insert(i - 3, ",");
    return out;
}
std::string seconds_in_words(double seconds) {
    if (seconds < 0.1) return "below 0.1 s";
    return (seconds < 999.5 ? rounded(seconds) : grouped(static_cast<std::uint64_t>(std::round(seconds)))) + " s";
}

// ---- What a table has of each row, and of each step ----

layout const& layout_named(std::string_view dtype, element_form form) {
    std::string const name =
        form == element_form::plain
            ? std::string(dtype)
            : detail::joined({enumerators<element_form>[static_cast<std::size_t>(form)], "<", dtype, ">"});
    auto const found = std::ranges::find(layouts, name, &layout::element);
    if (found == layouts.end())
        refuse_plan({"--dtype"}, {dtype, " in the form ", enumerators<element_form>[static_cast<std::size_t>(form)]},
                    {"float, double, bfloat16 or float16, and of the last two mixed or stochastic"});
    return *found;
}
double bytes_of_dtype(std::string_view dtype) { return dtype == "F64" ? 8 : dtype == "F32" ? 4 : 2; }

// How the rows of a rule catch up, and the doubles that the history has of each step: in memory, in
// bytes, and in a file.
struct step_plan {
    detail::catch_up_form form;
    double bytes = 0, numbers = 0;
};
template <class Rule, class Regularizer> detail::catch_up_form exact_form_of(bool averages) {
    using detail::catch_up_form;
    constexpr catch_up_form form = detail::form_of_weight<Rule, Regularizer>();
    if (!averages) return form;
    if (form == catch_up_form::no_op) return catch_up_form::linear;
    constexpr bool shrinks = detail::zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::shrinks;
    return form == catch_up_form::factors ? (shrinks ? catch_up_form::refused : catch_up_form::linear) : form;
}
template <class Rule, class Regularizer> constexpr bool can_replay() {
    constexpr zero_gradient_weight weight = detail::zero_gradient_weight_of<Regularizer>();
    constexpr bool coupled = weight == zero_gradient_weight::coupled || weight == zero_gradient_weight::other;
    return (detail::state_is_unchanged<Rule>() || detail::decays_by_factors<Rule>)&&(
               detail::zero_gradient_effect_of<Rule>() != zero_gradient_effect::no_op_if_weight_unchanged ||
               weight == zero_gradient_weight::no_op) &&
           (!row_wise_rule<Rule> || !coupled);
}
// A square matrix with the numbers from which its diagonal is measured.
double matrix_numbers(double size) { return size * size + size; }
static_assert(sizeof(detail::matrix<1>) == 2 * sizeof(double) && sizeof(detail::matrix<3>) == 12 * sizeof(double));

template <class Rule, class Regularizer>
step_plan step_of(any_catch_up const& catch_up, std::size_t averages, double average_slots, bool is_double) {
    using detail::catch_up_form;
    if (std::holds_alternative<touch_only>(catch_up)) return {catch_up_form::untracked};
    if (std::holds_alternative<exact>(catch_up)) {
        catch_up_form const form = exact_form_of<Rule, Regularizer>(averages != 0);
        if (form == catch_up_form::factors) return {form, 4 * sizeof(double), 4};
        if (form != catch_up_form::linear) return {form};
        double const size = 1 + (detail::is_linear<Rule>() ? static_cast<double>(slot_count<Rule>) : 0) + average_slots;
        return {form, 2 * sizeof(double) * matrix_numbers(size), matrix_numbers(size)};
    }
    if constexpr (can_replay<Rule, Regularizer>()) {
        double const past = is_double ? sizeof(detail::past_step<Rule, Regularizer, double>)
                                      : sizeof(detail::past_step<Rule, Regularizer, float>);
        double const of_average = averages == 0 ? 0 : 2 * sizeof(double) * matrix_numbers(1 + average_slots);
        return {catch_up_form::steps, past + 2 * sizeof(double) + of_average, 1};
    } else {
        return {catch_up_form::refused};
    }
}

class planner {
public:
    planner(optimizer_configuration const& optimizer, plan_options const& options)
        : policies_(detail::policies_of_step(optimizer)), options_(options),
          layout_(layout_named(options.dtype, optimizer.options.element)) {
        check();
        out_.rows = (options.keys + options.servers - 1) / options.servers;
        std::visit([&](auto const& rule) { plan_rows(rule); }, policies_.rule);
        plan_server();
        plan_worker();
        warn();
    }
    table_plan take() { return std::move(out_); }

private:
    void check() const {
        auto const at_least_1 = [](char const* what, std::uint64_t count) {
            if (count < 1 || count > std::uint64_t{1} << 53)
                refuse_plan({what}, {count, " is out of range"}, {"1 to 2^53"});
        };
        at_least_1("--keys", options_.keys);
        at_least_1("--width", options_.width);
        at_least_1("--servers", options_.servers);
        auto const positive = [](char const* what, double x, bool or_zero) {
            if (!(or_zero ? x >= 0 : x > 0) || std::isinf(x))
                refuse_plan({what}, {x, " is out of range"}, {"a number ", or_zero ? ">= 0" : "> 0"});
        };
        positive("--bandwidth", options_.bandwidth, false);
        positive("--timeout", options_.timeout, false);
        positive("--memory", options_.memory, true);
        if (options_.admit_after < 1 || options_.admit_after > 1 << 16)
            refuse_plan({"--admit-after"}, {options_.admit_after, " is out of range"}, {"1 to 65536"});
        if (options_.touch_counts && !options_.last_touches)
            refuse_plan({"--touch-counts"}, {"needs the last touches"}, {"no --no-last-touches"});
    }

    void add(std::string name, double bytes, bool in_file = true) {
        out_.parts.push_back({std::move(name), bytes, in_file});
        out_.row_bytes += bytes;
        if (in_file) out_.row_file_bytes += bytes;
    }

    template <class Rule> void plan_rows(Rule const&) {
        std::string name;
        detail::append_policy_name<Rule>(name);
        if constexpr (detail::sends_messages<Rule> || shaped_rule<Rule> || model_wise_rule<Rule>) {
            refuse_plan({"rule ", name}, {"a table does not take it"}, {"a rule that steps each row by itself"});
        } else {
            double const width = static_cast<double>(options_.width), state = bytes_of_dtype(layout_.state);
            add("values", width * bytes_of_dtype(layout_.storage));
            for (std::size_t i = 0; i != slot_count<Rule>; ++i)
                add("state " + std::string(Rule::state_names[i]), width * state);
            if constexpr (constexpr std::size_t count = row_slot_count<Rule>; count != 0)
                for (std::size_t i = 0; i != count; ++i)
                    add("state " + std::string(Rule::row_state_names[i]) + ", one number", state);
            double average_slots = 0;
            for (any_average const& one : policies_.averages)
                std::visit(
                    [&]<class Average>(Average const&) {
                        for (char const* const slot : Average::state_names)
                            add("average " + std::string(slot), width * state);
                        average_slots += static_cast<double>(Average::state_names.size());
                        if (detail::counts_steps<Average>() && std::holds_alternative<touch_only>(policies_.catch_up))
                            refuse_plan({"average ", detail::type_name<Average>()},
                                        {"touch_only does not count the steps of inactive rows"},
                                        {"ema, or exact or replay"});
                    },
                    one);
            if (layout_.has_master) add("master copy", width * state);
            plan_history<Rule>(name, average_slots);
        }
    }

    template <class Rule> void plan_history(std::string const& rule, double average_slots) {
        auto const parts = policies_.regularizer.parts();
        bool const is_lazy = std::holds_alternative<touch_only>(policies_.catch_up);
        if (parts.size() > 1 && !is_lazy)
            refuse_plan({"regularizer"}, {"there are ", parts.size()}, {"one at most, unless catch_up is touch_only"});
        std::string const catch_up = std::visit([](auto const& one) { return name_of(one); }, policies_.catch_up);
        auto const step = [&]<class Regularizer>(Regularizer const&) {
            return step_of<Rule, Regularizer>(policies_.catch_up, policies_.averages.size(), average_slots,
                                              layout_.state == "F64");
        };
        step_plan const one = parts.empty() || is_lazy ? step(none{}) : std::visit(step, parts[0]);
        if (one.form == detail::catch_up_form::refused)
            refuse_plan({"catch_up ", catch_up}, {"the rule ", rule, " and its regularizer have no such form"},
                        {"touch_only, or what docs/how_to/embedding_tables.md lists"});
        detail::kept_columns const kept{.stamps = !is_lazy,
                                        .touches = options_.row_steps,
                                        .keys = true,
                                        .last_touches = options_.last_touches,
                                        .touch_counts = options_.touch_counts};
        std::array<detail::row_column, detail::columns_beside_state> columns;
        detail::describe_columns(kept, columns.data());
        for (detail::row_column const& x : columns)
            if (x.exists()) add(x.name, static_cast<double>(x.row_bytes()));
        add("index, about", index_bytes, false);
        if (one.numbers != 0) {
            table_options chosen;
            chosen.max_history = options_.max_history;
            bool const rounds_coarsely = bytes_of_dtype(layout_.storage) < 4 && !layout_.has_master;
            out_.history_steps = detail::history_capacity(chosen, out_.rows, rounds_coarsely);
            double const steps = static_cast<double>(out_.history_steps);
            out_.history_bytes = steps * one.bytes;
            out_.history_file_bytes = steps * one.numbers * sizeof(double);
        }
        out_.policies = detail::joined({rule, ", ", layout_.element, ", ", catch_up});
    }
    template <class Policy> static std::string name_of(Policy const&) {
        return std::string(detail::type_name<Policy>());
    }

    void plan_server() {
        // As keyed/detail/admission.hpp: four rows of counters of one or two bytes.
        if (options_.admit_after > 1) {
            std::int64_t const counter = options_.admit_after - 1 < 256 ? 1 : 2;
            out_.sketch_bytes =
                static_cast<double>(options_.sketch_bytes == 0 ? (std::int64_t{1} << 20) * counter
                                                               : options_.sketch_bytes / (4 * counter) * (4 * counter));
        }
        double const rows = static_cast<double>(out_.rows);
        out_.server_bytes = rows * out_.row_bytes + out_.history_bytes + out_.sketch_bytes;
        out_.file_bytes = rows * out_.row_file_bytes + out_.history_file_bytes + out_.sketch_bytes;
        out_.pause = out_.file_bytes / options_.bandwidth;
    }
    void plan_worker() {
        if (options_.batch == 0) return;
        double const servers = static_cast<double>(options_.servers),
                     row = 8 + static_cast<double>(options_.width) * bytes_of_dtype(layout_.storage);
        out_.push_bytes =
            servers * sizeof(distributed::detail::wire_header) + static_cast<double>(options_.batch) * row;
        out_.kept_bytes = static_cast<double>(options_.max_kept) * out_.push_bytes;
    }

    void warn() {
        double const rows = static_cast<double>(out_.rows);
        auto const servers = [&](double need, double have) {
            double const least = std::ceil(need / have * static_cast<double>(options_.servers));
            return detail::joined({"use ", grouped(static_cast<std::uint64_t>(least)), " servers or more"});
        };
        if (rows > most_rows)
            out_.warnings.push_back(
                {"rows", detail::joined({"a server has ", grouped(out_.rows),
                                         " rows, and a table at most 2,147,483,647: ", servers(rows, most_rows)})});
        if (options_.memory != 0 && out_.server_bytes > options_.memory)
            out_.warnings.push_back({"memory", detail::joined({"a server needs ", bytes_in_words(out_.server_bytes),
                                                               " and has ", bytes_in_words(options_.memory), ": ",
                                                               servers(out_.server_bytes, options_.memory)})});
        // Disks are slower at times: half of the wait is left for that.
        if (out_.pause > options_.timeout)
            out_.warnings.push_back(
                {"timeout", detail::joined({"a checkpoint pauses a server for ", seconds_in_words(out_.pause),
                                            ", and workers give it up after ", seconds_in_words(2 * options_.timeout),
                                            ", twice the timeout: take a timeout of ", seconds_in_words(out_.pause),
                                            " or more, or ", servers(out_.pause, options_.timeout).substr(5)})});
    }

    configuration policies_;
    plan_options const& options_;
    layout const& layout_;
    table_plan out_;
};

optimizer_configuration read_plan(std::string const& path) {
    if (path.starts_with('{')) return read_optimizer(path);
    return detail::of_text_in(path, [](std::string_view text) { return read_optimizer(text); });
}

} // namespace

table_plan plan(std::string_view optimizer, plan_options const& options) {
    return planner(read_optimizer(optimizer), options).take();
}

std::string plan_in_words(std::string const& path, plan_options const& options) {
    table_plan const x = planner(read_plan(path), options).take();
    std::string out = detail::joined({grouped(options.keys), " rows of ", options.width, " on ", options.servers,
                                      options.servers == 1 ? " server; " : " servers; ", x.policies,
                                      "\n\na row: ", bytes_in_words(x.row_bytes), "\n"});
    std::size_t longest = 0;
    for (row_part const& part : x.parts) longest = std::max(longest, part.name.size());
    for (row_part const& part : x.parts)
        out +=
            "    " + part.name + std::string(longest - part.name.size() + 2, ' ') + detail::joined({part.bytes}) + "\n";
    out += "\na server\n";
    auto const line = [&](std::string const& name, std::string const& value) {
        out += "    " + name + std::string(name.size() < 24 ? 24 - name.size() : 1, ' ') + value + "\n";
    };
    line("rows", grouped(x.rows));
    line("memory", bytes_in_words(x.server_bytes));
    if (x.history_steps != 0)
        line("  of it the history", bytes_in_words(x.history_bytes) + " for " + grouped(x.history_steps) + " steps");
    if (x.sketch_bytes != 0) line("  of it the sketch", bytes_in_words(x.sketch_bytes));
    line("checkpoint", bytes_in_words(x.file_bytes) + ", twice that on the disk while it is replaced");
    line("pause to write it", seconds_in_words(x.pause) + " at " + bytes_in_words(options.bandwidth) + " a second");
    if (options.batch != 0) {
        out += "\na worker\n";
        line("push", bytes_in_words(x.push_bytes) + " to all servers");
        line("kept pushes",
             "up to " + bytes_in_words(x.kept_bytes) + " (max_kept = " + grouped(options.max_kept) + ")");
    }
    if (!x.warnings.empty()) out += "\n";
    for (plan_warning const& one : x.warnings) out += "warning: " + one.text + "\n";
    return out;
}

std::string plan_table(std::string const& path, plan_options const& options, std::span<std::uint64_t const> widths,
                       std::span<std::uint64_t const> keys, std::span<std::uint64_t const> servers) {
    optimizer_configuration const optimizer = read_plan(path);
    std::string out =
        "| keys | width | servers | bytes a row | memory of a server | its checkpoint | pause | warnings |\n"
        "|---|---|---|---|---|---|---|---|\n";
    for (std::uint64_t const width : widths)
        for (std::uint64_t const count : keys)
            for (std::uint64_t const by : servers) {
                plan_options one = options;
                one.width = width, one.keys = count, one.servers = by;
                table_plan const x = planner(optimizer, one).take();
                std::string warnings;
                for (plan_warning const& w : x.warnings) warnings += (warnings.empty() ? "" : ", ") + w.name;
                out += detail::joined({"| ", grouped(count), " | ", width, " | ", by, " | ", x.row_bytes, " | ",
                                       bytes_in_words(x.server_bytes), " | ", bytes_in_words(x.file_bytes), " | ",
                                       seconds_in_words(x.pause), " | ", warnings, " |\n"});
            }
    return out;
}

std::string plan_every_rule(plan_options const& options, std::span<std::uint64_t const> widths) {
    std::string out = "| rule |", line = "|---|";
    for (std::uint64_t const width : widths) {
        out += detail::joined({" width ", width, " |"});
        line += "---|";
    }
    out += "\n" + line + "\n";
    rules::any([&]<class Rule>() {
        if constexpr (!detail::sends_messages<Rule> && !shaped_rule<Rule> && !model_wise_rule<Rule>) {
            optimizer_configuration optimizer;
            optimizer.policies.rule = Rule{};
            std::string name;
            detail::append_policy_name<Rule>(name);
            out += "| `" + name + "` |";
            for (std::uint64_t const width : widths) {
                plan_options one = options;
                one.width = width;
                out += detail::joined({" ", planner(optimizer, one).take().row_bytes, " |"});
            }
            out += "\n";
        }
        return false;
    });
    return out;
}

} // namespace gradstep::tools
