#pragma once
#include <optional>
#include <utility>

#include "support.hpp"

namespace gradstep::c {

/// What a handle of a parameter refers to: a parameter of its own, or one of a server.
class held_parameter {
public:
    held_parameter(optimizer_configuration from, std::int32_t type, any_parameter own)
        : config(std::move(from)), dtype(type), own_(std::move(own)), parameter_(&*own_),
          pool(threads_for(config.options.threads)) {
        use(pool);
    }
    /// A parameter of a server, which outlives this.
    held_parameter(optimizer_configuration from, std::int32_t type, any_parameter* of_server)
        : config(std::move(from)), dtype(type), parameter_(of_server) {}
    held_parameter(held_parameter const&) = delete;
    held_parameter& operator=(held_parameter const&) = delete;

    /// Throws if a server owns the parameter: only the job changes its clock and rows.
    void require_own() const {
        if (!own_)
            refuse(GRADSTEP_BAD_VALUE, {"parameter"}, {"belongs to a server, which steps it"},
                   {"a parameter of your own"});
    }
    any_parameter& parameter() { return *parameter_; }
    any_parameter const& parameter() const { return *parameter_; }
    void use(std::shared_ptr<threads> const& which) {
        if (which == nullptr) return parameter_->use_callers_thread();
        parameter_->use_threads(which->reference());
    }
    /// Memory of the caller's, of the type of the values: C has no type that says whether a
    /// gradient may be written.
    any_span span(void const* data, std::uint64_t count) const {
        return {parameter().optimizer().storage(), const_cast<void*>(data), static_cast<std::size_t>(count)};
    }

    optimizer_configuration config;
    std::int32_t const dtype; // unsigned integers are stored as signed ones

private:
    std::optional<any_parameter> own_;
    any_parameter* parameter_;

public:
    std::shared_ptr<threads> pool, given = nullptr; // of the configuration, of the host
};

} // namespace gradstep::c

struct gradstep_parameter : gradstep::c::shell<gradstep::c::held_parameter> {
    static constexpr std::uint64_t living = 0x6772616473746570;
    static constexpr char const* kind = "parameter";
};
