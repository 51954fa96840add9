#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <gradstep/io/checkpoint.hpp>
#include <gradstep/io/checkpoint_file.hpp>
#include <gradstep/io/saved_state.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

class open_checkpoint_file final : public checkpoint_file {
public:
    explicit open_checkpoint_file(std::string const& path) : files_(path) {}
    std::unique_ptr<saved_source> of(std::string_view name) const override {
        return std::make_unique<checkpoint_files::source>(files_.of(name));
    }
    void require_nothing_else(std::span<saved_state const> all) const override { files_.require_nothing_else(all); }

private:
    checkpoint_files files_;
};

GRADSTEP_DEFINE std::unique_ptr<checkpoint_file> open_checkpoint(std::string const& path) {
    return std::make_unique<open_checkpoint_file>(path);
}

GRADSTEP_DEFINE void write_checkpoint(std::string const& path, std::span<saved_state const> all) {
    checkpoint_files::save(path, all);
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
