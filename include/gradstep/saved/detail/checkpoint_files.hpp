#pragma once
#include <gradstep/saved/load_options.hpp>
#include <gradstep/saved/safetensors.hpp>
#include <gradstep/saved/saved_state.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
inline constexpr std::string_view parameter_key = "gradstep.parameter.";

class checkpoint_files {
public:
    using write_type = std::function<void(std::span<std::byte const>)>;
    using data_type = std::function<void(saved_state const&, saved_tensor const&, write_type const&)>;

    static void save(std::string const& path, std::span<saved_state const> all);
    // data(state, tensor, write) calls write(bytes) for all data of a tensor, in order.
    static void save(std::string const& path, std::span<saved_state const> all, data_type const& data);

    // Reads the descriptions, and checks that the tensors match them.
    explicit checkpoint_files(std::string const& path);

    // In the order of the names.
    std::vector<saved_state> const& states() const { return states_; }
    // The state of one parameter. Valid as long as the file is open.
    class source final : public saved_source {
    public:
        source(checkpoint_files const& files, saved_state const& state) : files_(files), state_(state) {}
        saved_state const& state() const override { return state_; }
        std::string where() const override { return files_.file_.path() + ": " + in_quotes(state_.name); }
        GRADSTEP_DEFINE void visit_policies(policy_visitor& to) const override;
        GRADSTEP_DEFINE void read(std::string_view slot, std::uint64_t offset, std::span<std::byte> to) const override;

    private:
        checkpoint_files const& files_;
        saved_state const& state_;
    };
    source of(std::string_view name) const;
    saved_state const* find(std::string_view name) const;
    // Reads all states into memory of the same names. Checks everything before it reads.
    void read_into(std::span<saved_state const> all) const;
    // The state in the file for each parameter of the program; null if the parameter keeps its
    // values.
    struct plan {
        std::vector<saved_state const*> from = {};
        load_report report = {};
        // For a state that is known to fit.
        void add(std::string const& name, bool resized) { (resized ? report.resized : report.loaded).push_back(name); }
    };
    // Throws value_error if the file lacks a name of `own` (unless the parameter is to be kept),
    // and if two names of the file map to one.
    plan match(std::span<std::string const> own, load_options const& options) const;
    [[noreturn]] void refuse_missing(std::string_view name) const;
    void require_expected(plan const& of, load_options const& options) const;
    void require_nothing_else(std::span<saved_state const> all) const;

private:
    static void require_little_endian();
    static std::string name_of(std::string_view parameter, std::string_view slot);
    static std::vector<std::uint64_t> shape_of(saved_state const& of, saved_tensor const& x);

    safetensors_reader file_;
    std::vector<saved_state> states_;                            // sorted, like the metadata
    std::vector<std::vector<safetensors_entry const*>> entries_; // the tensors of each state
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/saved/detail/checkpoint_files.ipp>
#endif
