#pragma once
/// Parameter servers of one JSON text, which has their parameters and tables. Needs nlohmann-json
/// (gradstep::json) and compiled combinations of policies, as gradstep/runtime.hpp.
#include <gradstep/configuration/detail/text_file.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/runtime/any_keyed_table.hpp>
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/detail/state.hpp>

namespace gradstep {
template <> inline constexpr std::array enumerators<distributed::server_mode>{"synchronous", "asynchronous", "geo"};
} // namespace gradstep

namespace gradstep::distributed {
/// A dense parameter of a server: the key `parameter` beside the keys of an optimizer.
///
///     {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
///      "parameter": {"size": 4096, "initial": {"name": "normal", "mean": 0, "deviation": 0.01, "seed": 1}}}
struct served_parameter_configuration {
    optimizer_configuration optimizer;
    scalar type = scalar::float32;
    /// The number of elements. Initial values are drawn as the values of one row.
    std::uint64_t size = 0;
    initial_values initial = {};
    /// As in served_options.
    double delay_compensation = 0;
};

/// What a server evicts from a keyed table, and when: the key `evict` inside `keyed_table`.
struct served_eviction {
    /// Evict after every so many pushes that the server has applied; 0: never.
    std::int64_t every = 0;
    /// Evict rows that no update has contained for more than so many steps; 0: none.
    std::int64_t older_than = 0;
    /// Then evict the rows that were updated the longest time ago until the server has so many; 0:
    /// none.
    std::int64_t rows = 0;

    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"every", &served_eviction::every, ranges::positive_count},
                            hyperparameter{"older_than", &served_eviction::older_than, ranges::count},
                            hyperparameter{"rows", &served_eviction::rows, ranges::count}};

    void check() const {
        if (older_than == 0 && rows == 0)
            gradstep::detail::fail<value_error>({"served_eviction"}, {"evicts nothing"}, {"older_than or rows"});
    }
};

/// A server of one JSON text: the members of server_options, and under `tensors` the parameters and
/// tables by name. A tensor has the keys of an optimizer, `type`, and one of `parameter`, `table`
/// and `keyed_table` (table_configuration, keyed_table_configuration).
///
///     {"mode": "asynchronous", "num_servers": 2, "tensors": {
///         "deep": {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
///                  "parameter": {"size": 4096}},
///         "features": {"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1},
///                      "keyed_table": {"width": 8, "admit_after": 3,
///                                      "evict": {"every": 10000, "rows": 50000000}}}}}
struct server_configuration {
    /// A parameter or a table, and what the server evicts.
    struct tensor {
        std::string name;
        std::variant<served_parameter_configuration, table_configuration, keyed_table_configuration> what;
        served_eviction evict = {};
    };
    server_options options = {};
    std::vector<tensor> tensors = {};
};
} // namespace gradstep::distributed

namespace gradstep::distributed::detail::inline GRADSTEP_ISA {
using gradstep::detail::json;
using gradstep::detail::json_path;

inline server_configuration::tensor read_tensor(std::string const& name, json const& document, json_path const& at) {
    namespace own = gradstep::detail;
    own::require_object(document, at);
    constexpr std::array kinds{"parameter", "table", "keyed_table"};
    auto const number_of_kinds =
        std::ranges::count_if(kinds, [&](char const* kind) { return document.find(kind) != nullptr; });
    if (number_of_kinds != 1)
        at.refuse({number_of_kinds == 0 ? "is no tensor" : "is several tensors"},
                  {"one of the keys parameter, table and keyed_table"});
    server_configuration::tensor out{name, {}};
    if (document.find("table") != nullptr) {
        out.what = own::read_table(document, at);
    } else if (json const* const rows = document.find("keyed_table")) {
        auto of = own::read_keyed_table(document, at, {"evict"});
        json_path const inside(at, "keyed_table");
        if (json const* const evict = rows->find("evict")) {
            json_path const here(inside, "evict");
            own::require_object(*evict, here);
            if (evict->find("every") == nullptr) json_path(here, "every").refuse_missing({"a number of pushes"});
            out.evict = own::read_hyperparameters<served_eviction>(*evict, here, {});
        }
        out.what = std::move(of);
    } else {
        served_parameter_configuration of{own::read_optimizer(document, at, {"type", "parameter"})};
        if (json const* const type = document.find("type"))
            of.type = own::read_value<scalar>(*type, json_path(at, "type"), choices<scalar>());
        json_path const inside(at, "parameter");
        json const& given = *document.find("parameter");
        own::require_object(given, inside);
        own::refuse_other_keys(given, inside, {"size", "initial", "delay_compensation"});
        json const* const size = given.find("size");
        if (size == nullptr) json_path(inside, "size").refuse_missing({"the number of elements"});
        of.size = own::read_number<std::uint64_t>(*size, json_path(inside, "size"), ranges::count);
        if (json const* const initial = given.find("initial"))
            of.initial = own::read_initial(*initial, json_path(inside, "initial"));
        if (json const* const lambda = given.find("delay_compensation"))
            of.delay_compensation =
                own::read_number<double>(*lambda, json_path(inside, "delay_compensation"), ranges::non_negative);
        out.what = std::move(of);
    }
    return out;
}

// The id of a tensor's random numbers, which all servers compute: as in a model.
template <class Configuration> std::uint64_t id_of(std::string const& name, Configuration const& from) {
    return static_cast<std::uint64_t>(from.optimizer.options.id) + gradstep::detail::hash_of(name);
}
// Throws value_error for initial values that integers cannot have.
template <class S> void check_initial(initial_values const& initial, std::size_t size) {
    if constexpr (std::is_integral_v<S>) {
        double const* const x = initial.constant();
        constexpr double limit = 2.0 * static_cast<double>(std::numeric_limits<S>::max() / 2 + 1);
        if (x == nullptr || std::trunc(*x) != *x || *x < -limit || *x >= limit)
            detail::fail<value_error>(
                {"parameter.initial"},
                {x == nullptr ? gradstep::detail::text_arg("a distribution") : *x, " is no value of the type"},
                {"a whole number in its range"});
    } else {
        gradstep::detail::check_initial<S>(initial, 1, size);
    }
}
template <class S> std::vector<S> values_of(std::string const& name, served_parameter_configuration const& from) {
    auto const size = static_cast<std::size_t>(from.size);
    check_initial<S>(from.initial, size);
    std::vector<S> out;
    gradstep::detail::rethrow_as<std::exception>( // bad_alloc or length_error
        [&] { out.resize(size); },
        [&](auto const&) {
            detail::fail<memory_error>({"tensors.", name, ".parameter.size"},
                                       {"the system does not give memory for ", size, " elements"});
        });
    if constexpr (std::is_integral_v<S>) std::ranges::fill(out, static_cast<S>(*from.initial.constant()));
    else gradstep::detail::fill_rows<S>(from.initial, out.data(), 0, 1, size);
    return out;
}
inline void add_tensor(server& to, std::string const& name, served_parameter_configuration const& from) {
    any_updater const optimizer(from.optimizer, from.type);
    served_options const options{from.delay_compensation, id_of(name, from)};
    if (gradstep::detail::is_zero(from.initial)) // without memory: zeros
        return to.add(name, optimizer,
                      any_span(from.type, static_cast<void const*>(nullptr), static_cast<std::size_t>(from.size)),
                      options);
    gradstep::detail::with_type(from.type, [&]<class S>() {
        std::vector<S> const values = values_of<S>(name, from);
        to.add(name, optimizer, any_span(from.type, static_cast<void const*>(values.data()), values.size()), options);
    });
}
template <class Table, class Configuration> void add_rows(server& to, std::string const& name, Configuration from) {
    if (from.options.id == 0) from.options.id = id_of(name, from);
    to.add(name, Table(from));
}
inline void add_tensor(server& to, std::string const& name, table_configuration const& from) {
    add_rows<any_table>(to, name, from);
}
inline void add_tensor(server& to, std::string const& name, keyed_table_configuration const& from) {
    add_rows<any_keyed_table>(to, name, from);
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ISA

namespace gradstep::distributed::inline GRADSTEP_ISA {
/// Reads a server from JSON text. Throws value_error for the first mistake, with its path and the
/// allowed values.
inline server_configuration read_server(std::string_view text) {
    namespace own = gradstep::detail;
    detail::json const document = own::parse_json(text);
    detail::json_path const at;
    own::require_object(document, at);
    own::refuse_other_keys(document, at, {"mode", "num_servers", "split_from", "check_elements", "job", "tensors"},
                           "$schema");
    server_configuration out;
    auto const take = [&]<class Value>(char const* key, Value& member, auto const& allowed) {
        if (detail::json const* const found = document.find(key))
            member = own::read_value<Value>(*found, detail::json_path(at, key), allowed);
    };
    take("mode", out.options.mode, choices<server_mode>());
    take("num_servers", out.options.num_servers, ranges::positive_count);
    take("split_from", out.options.split_from, ranges::count);
    take("check_elements", out.options.check_elements, ranges::finite);
    take("job", out.options.job, ranges::count);
    detail::json_path const inside(at, "tensors");
    detail::json const* const tensors = document.find("tensors");
    if (tensors == nullptr) inside.refuse_missing({"an object of tensors by name"});
    own::require_object(*tensors, inside);
    for (auto const& [name, tensor] : tensors->members())
        out.tensors.push_back(detail::read_tensor(name, tensor, detail::json_path(inside, name)));
    return out;
}
/// Reads a server from a file. Errors begin with the file's name. Throws io_error if the system
/// cannot read it.
inline server_configuration read_server_file(std::string const& path) {
    return gradstep::detail::of_text_in(path, [](std::string_view text) { return read_server(text); });
}

/// Makes the server of a rank in a job of `size` ranks, with its parameters, its tables, and tasks
/// that evict rows. `get<gs::any_parameter>(name)`, `get<gs::any_table>(name)` and
/// `get<gs::any_keyed_table>(name)` return them. The id for random numbers is the key `id` plus a
/// hash of the name, as in a model. Throws the errors of `server`, `server::add` and the
/// constructors of tables, with the name of the tensor.
///
///     auto server = gd::make_server(gd::read_server_file("server.json"), ranks.rank(), ranks.size());
///     server.checkpoint(file, 1000);
///     server.run(ranks);
inline server make_server(server_configuration const& from, int rank, int size) {
    server out(rank, size, from.options);
    for (server_configuration::tensor const& one : from.tensors) {
        gradstep::detail::with_context(
            [&] { return "tensors." + one.name + ": "; },
            [&] {
                std::visit([&](auto const& owner) { detail::add_tensor(out, one.name, owner); }, one.what);
                if (one.evict.every == 0) return;
                gradstep::detail::check(one.evict);
                if (!out.get<any_keyed_table>(one.name).options().last_touches)
                    detail::fail<value_error>({"evict"}, {"needs the last steps of rows"}, {"last_touches"});
                auto const task = [name = one.name, evict = one.evict](server& of) {
                    any_keyed_table& rows = of.get<any_keyed_table>(name);
                    if (evict.older_than != 0) rows.evict_older_than(rows.clock().step - evict.older_than);
                    if (evict.rows != 0) rows.evict_to(static_cast<std::uint64_t>(evict.rows));
                };
                out.after_every(static_cast<std::uint64_t>(one.evict.every), task);
            });
    }
    return out;
}
} // namespace gradstep::distributed::inline GRADSTEP_ISA
