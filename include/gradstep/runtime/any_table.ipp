#pragma once
#include <gradstep/checkpoint.hpp>

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME any_table::any_table(any_updater const& optimizer, std::uint64_t num_rows, std::size_t width,
                                             table_options const& options)
    : numbered_rows{(detail::require_single_rows(optimizer, optimizer.limit(), "table", "a parameter"),
                     std::make_unique<detail::any_table_kernels>(optimizer)),
                    detail::counted("num_rows", num_rows, 0),
                    static_cast<std::size_t>(detail::counted("width", width, 1)), options} {}

GRADSTEP_DEFINE_RUNTIME any_table::any_table(optimizer_configuration const& from, scalar storage,
                                             std::uint64_t num_rows, std::size_t width, table_options options)
    : any_table(any_updater(from, storage), num_rows, width, detail::options_with(from.options, std::move(options))) {}

GRADSTEP_DEFINE_RUNTIME any_updater const& any_table::optimizer() const {
    return static_cast<detail::any_table_kernels const&>(core_.kernels()).updater();
}

GRADSTEP_DEFINE_RUNTIME void any_table::use_threads(detail::executor_reference const& threads) {
    static_cast<detail::any_table_kernels&>(core_.kernels()).use_threads(threads);
}

GRADSTEP_DEFINE_RUNTIME void any_table::update(any_span ids, any_span gradient_rows, step_options const& options) {
    core_.require_trained("update");
    detail::given_ids const which = detail::checked_ids("ids", ids.now());
    detail::given_values const given = detail::checked_values(optimizer(), "gradient_rows", gradient_rows.now());
    core_.rows().check_gradients(core_.place(), given, which.size(), "ids", options);
    core_.update(which, {}, given, options);
    core_.rows().zero(given, options);
}

GRADSTEP_DEFINE_RUNTIME void any_table::update(any_span ids, any_span offsets, any_span bag_rows,
                                               step_options const& options, bag_options const& bags) {
    core_.require_trained("update");
    detail::given_ids const which = detail::checked_ids("ids", ids.now()),
                            begins = detail::checked_ids("offsets", offsets.now());
    detail::given_values const given = detail::checked_values(optimizer(), "bag_rows", bag_rows.now());
    std::size_t const count = given.size / width();
    detail::row_core& rows = core_.rows();
    rows.check_gradients(core_.place(), given, count, "bags", options);
    detail::given_bags const its = rows.bags_of(core_.place(), begins, bags, which.size());
    core_.update(which, rows.call().bags(its, which, rows.options.ignore_id, count), given, options);
    rows.zero(given, options);
}

GRADSTEP_DEFINE_RUNTIME void any_table::update(visible const& seen, any_span gradient, step_options const& options) {
    core_.require_trained("update");
    seen.require_rows(num_rows());
    detail::given_values const given = detail::checked_values(optimizer(), "gradient", gradient.now());
    core_.rows().check_gradients(core_.place(), given, seen.size(), "rows", options);
    core_.update(std::span<std::int64_t const>(seen.ids()), {seen.sources()}, given, options);
    core_.rows().zero(given, options);
}

GRADSTEP_DEFINE_RUNTIME void any_table::rows(any_span ids, any_span out) const {
    detail::given_ids const which = detail::checked_ids("ids", ids.now());
    out = out.now();
    core_.rows().check_room(core_.place(), detail::checked_room(out, optimizer().storage()), out.size, which.size());
    core_.read(which, const_cast<void*>(out.data));
}

GRADSTEP_DEFINE_RUNTIME void any_table::bags(any_span ids, any_span offsets, any_span out,
                                             bag_options const& bags) const {
    core_.read_bags(detail::pooled_rows_of(core_.rows(), core_.place(), optimizer(), ids, offsets, out, bags));
}

GRADSTEP_DEFINE_RUNTIME void any_table::averages(any_span ids, any_span out) const {
    core_.require_trained("averages");
    detail::require_average(optimizer(), "averages");
    detail::given_ids const which = detail::checked_ids("ids", ids.now());
    out = out.now();
    core_.rows().check_room(core_.place(), detail::checked_room(out, optimizer().state_type()), out.size, which.size());
    core_.read_averages(which, const_cast<void*>(out.data));
}

GRADSTEP_DEFINE_RUNTIME applied_average<any_table> any_table::apply_average() {
    core_.require_trained("apply_average");
    detail::require_average(optimizer(), "apply_average");
    core_.apply_average();
    return applied_average<any_table>(*this);
}

GRADSTEP_DEFINE_RUNTIME any_span any_table::values() {
    if (!average_is_applied()) flush();
    detail::row_column const& all = core_.joined()[0];
    return {optimizer().storage(), static_cast<void const*>(all.data), all.size};
}

GRADSTEP_DEFINE_RUNTIME void any_table::append(any_span values) {
    core_.require_trained("append");
    detail::given_values const given = detail::checked_values(optimizer(), "append: values", values.now());
    if (given.data == nullptr && given.size != 0)
        detail::fail<buffer_error>({"append"}, {"values is null"}, {given.size, " elements of memory"});
    core_.append(given.data, given.size);
}

GRADSTEP_DEFINE_RUNTIME void any_table::reset(any_span ids) {
    core_.require_trained("reset");
    core_.rows().reset(core_.place(), detail::checked_ids("ids", ids.now()));
}

GRADSTEP_DEFINE_RUNTIME void any_table::set_rows(any_span ids, any_span values) {
    core_.require_trained("set_rows");
    core_.rows().set_rows(core_.place(), detail::checked_ids("ids", ids.now()),
                          detail::checked_values(optimizer(), "set_rows: values", values.now()));
}

GRADSTEP_DEFINE_RUNTIME void any_table::save(std::string const& file) const { detail::save_file(file, *this); }

GRADSTEP_DEFINE_RUNTIME void any_table::load(std::string const& file) { detail::load_file(file, *this); }

GRADSTEP_DEFINE_RUNTIME load_report any_table::load(std::string const& file, load_options const& options) {
    return detail::load_file(file, *this, options);
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
