#pragma once
#include <gradstep/distributed/detail/served_parameter.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// The parameters and tables of a server in the order of their names, which is the order of their
// positions in a file.
class served_parameters {
public:
    // Throws value_error for a name that one of these, or a parameter of another server, has.
    void require_new(std::string const& name) const;
    void add(std::unique_ptr<served_parameter> what);
    void add_elsewhere(std::string name) { elsewhere_.push_back(std::move(name)); }

    // By its name, or the hash of its name; nullptr if it is none of these.
    served_parameter* find(std::string_view name) const;
    served_parameter* find(std::uint64_t hash) const;
    std::size_t size() const { return all_.size(); }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.end(); }

private:
    std::vector<std::unique_ptr<served_parameter>> all_;
    std::vector<std::string> elsewhere_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/served_parameters.ipp>
#endif
