#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include <gradstep/distributed/detail/geo_exchange.hpp>
#include <gradstep/runtime/detail/any_table_kernels.hpp>

#include "parameter.hpp"
#include "transport.hpp"

using namespace gradstep::c;
using gradstep::detail::with_type;
namespace gd = gradstep::distributed;

namespace {

struct held_worker {
    held_worker(gradstep_transport const* transport, gd::worker_options const& options)
        : over(transport), worker(over, options) {}
    held_worker(held_worker const&) = delete;
    held_worker& operator=(held_worker const&) = delete;

    host_transport over;
    gd::worker worker;
};

// A parameter whose pending steps are applied before each exchange.
struct held_geo {
    held_geo(held_worker& by, char const* name, gradstep::any_parameter& of)
        : over(by.over), local(of), exchange(by.worker, name, pulled(by.worker, name, of).core()) {}
    static gradstep::any_parameter& pulled(gd::worker& by, char const* name, gradstep::any_parameter& to) {
        gd::detail::geo_exchange::require_weights(name, to.core());
        with_type(std::as_const(to).optimizer().storage(), [&]<class S>() {
            std::vector<S> weights(to.size());
            by.pull(name, weights);
            to.set_values(gradstep::any_span(std::as_const(to).optimizer().storage(),
                                             static_cast<void const*>(weights.data()), weights.size()));
        });
        return to;
    }

    host_transport const& over;
    gradstep::any_parameter& local;
    gd::detail::geo_exchange exchange;
};

gd::worker_options options_of(gradstep_worker_options const* options) {
    auto const from = known_part(options, gradstep_worker_options GRADSTEP_WORKER_OPTIONS_INIT, "worker_options");
    if (from.check_elements != 0 && from.check_elements != 1)
        refuse(GRADSTEP_BAD_VALUE, {"worker_options.check_elements"}, {from.check_elements, " is out of range"},
               {"0 or 1"});
    return {from.num_servers, static_cast<std::size_t>(from.max_in_flight), static_cast<std::size_t>(from.max_kept),
            from.check_elements == 1, from.job};
}

} // namespace

struct gradstep_worker : shell<held_worker> {
    static constexpr std::uint64_t living = 0x6772616473746577;
    static constexpr char const* kind = "worker";
};
struct gradstep_geo : shell<held_geo> {
    static constexpr std::uint64_t living = 0x6772616473746567;
    static constexpr char const* kind = "geo";
};

namespace {
template <class F> gradstep_status with(gradstep_worker const* worker, gradstep_error* error, F const& f) {
    return guarded(error, [&] {
        held_worker& own = shells<gradstep_worker>::get(worker, "worker");
        own.over.require_idle();
        f(own.worker);
    });
}
// f(elements) with a span of the type.
template <class Memory, class F>
void with_elements(std::int32_t dtype, Memory* data, std::uint64_t count, char const* name, F const& f) {
    require(data, name, count);
    with_type(scalar_of(dtype, "dtype"), [&]<class S>() {
        using element = std::conditional_t<std::is_const_v<Memory>, S const, S>;
        f(std::span(static_cast<element*>(data), static_cast<std::size_t>(count)));
    });
}
// f(ids) with a span of the type.
template <class F> void with_ids(void const* ids, std::int32_t dtype, std::uint64_t count, F const& f) {
    gradstep::detail::checked_ids("ids", ids_of(ids, dtype, count)).visit(f);
}
} // namespace

void* gradstep_inbox_allocate(gradstep_inbox* inbox, int32_t from, uint64_t size) {
    if (inbox == nullptr || inbox->message) return nullptr;
    try {
        inbox->memory.reserve(std::max<std::uint64_t>(size, 1)); // so that it is not null
        inbox->memory.resize(size);
    } catch (std::exception const&) {
        return nullptr;
    }
    return inbox->message.emplace(from, std::move(inbox->memory)).bytes.data();
}

gradstep_status gradstep_worker_create(const gradstep_transport* transport, const gradstep_worker_options* options,
                                       gradstep_worker** out, gradstep_error* error) {
    return guarded(error, [&] {
        require(out, "out");
        *out = shells<gradstep_worker>::add(std::make_unique<held_worker>(transport, options_of(options)));
    });
}

gradstep_status gradstep_worker_describe(const gradstep_worker* worker, gradstep_worker_info* info,
                                         gradstep_error* error) {
    return with(worker, error, [&](gd::worker const& of) {
        write_known_part(gradstep_worker_info{sizeof *info, of.has_stopped(),
                                              static_cast<std::uint64_t>(of.num_workers()), of.position(), of.applied(),
                                              of.durable()},
                         info, "gradstep_worker_info");
    });
}

gradstep_status gradstep_worker_size(gradstep_worker* worker, const char* name, uint64_t* count,
                                     gradstep_error* error) {
    return with(worker, error, [&](gd::worker& of) {
        require(name, "name");
        require(count, "count");
        *count = of.size(name);
    });
}

gradstep_status gradstep_worker_pull(gradstep_worker* worker, const char* name, int32_t dtype, void* out,
                                     uint64_t count, gradstep_error* error) {
    return with(worker, error, [&](gd::worker& of) {
        require(name, "name");
        with_elements(dtype, out, count, "out", [&](auto elements) { of.pull(name, elements); });
    });
}

gradstep_status gradstep_worker_pull_rows(gradstep_worker* worker, const char* name, const void* ids, int32_t id_dtype,
                                          uint64_t id_count, int32_t dtype, void* out, uint64_t count,
                                          gradstep_error* error) {
    return with(worker, error, [&](gd::worker& of) {
        require(name, "name");
        with_ids(ids, id_dtype, id_count, [&](auto const& keys) {
            with_elements(dtype, out, count, "out", [&](auto elements) { of.pull(name, keys, elements); });
        });
    });
}

gradstep_status gradstep_worker_push(gradstep_worker* worker, const char* name, int32_t dtype, const void* gradient,
                                     uint64_t count, gradstep_error* error) {
    return with(worker, error, [&](gd::worker& of) {
        require(name, "name");
        with_elements(dtype, gradient, count, "gradient", [&](auto elements) { of.push(name, elements); });
    });
}

gradstep_status gradstep_worker_push_rows(gradstep_worker* worker, const char* name, const void* ids, int32_t id_dtype,
                                          uint64_t id_count, int32_t dtype, const void* gradient_rows, uint64_t count,
                                          gradstep_error* error) {
    return with(worker, error, [&](gd::worker& of) {
        require(name, "name");
        with_ids(ids, id_dtype, id_count, [&](auto const& keys) {
            with_elements(dtype, gradient_rows, count, "gradient_rows",
                          [&](auto elements) { of.push(name, keys, elements); });
        });
    });
}

gradstep_status gradstep_worker_barrier(gradstep_worker* worker, gradstep_error* error) {
    return with(worker, error, [](gd::worker& of) { of.barrier(); });
}

gradstep_status gradstep_worker_go_on_from(gradstep_worker* worker, uint64_t position, gradstep_error* error) {
    return with(worker, error, [&](gd::worker& of) { of.go_on_from(position); });
}

gradstep_status gradstep_worker_stop(gradstep_worker* worker, gradstep_error* error) {
    return with(worker, error, [](gd::worker& of) { of.stop(); });
}

void gradstep_worker_release(gradstep_worker* worker) { shells<gradstep_worker>::release(worker); }

gradstep_status gradstep_geo_create(gradstep_worker* worker, const char* name, gradstep_parameter* parameter,
                                    gradstep_geo** out, gradstep_error* error) {
    return guarded(error, [&] {
        held_worker& by = shells<gradstep_worker>::get(worker, "worker");
        by.over.require_idle();
        require(name, "name");
        require(out, "out");
        auto& local = shells<gradstep_parameter>::get(parameter, "parameter").parameter();
        *out = shells<gradstep_geo>::add(std::make_unique<held_geo>(by, name, local));
    });
}

gradstep_status gradstep_geo_exchange(gradstep_geo* geo, gradstep_error* error) {
    return guarded(error, [&] {
        held_geo& own = shells<gradstep_geo>::get(geo, "geo");
        own.over.require_idle();
        own.local.flush();
        own.exchange.run();
    });
}

void gradstep_geo_release(gradstep_geo* geo) { shells<gradstep_geo>::release(geo); }
