#pragma once
#include <gradstep/distributed/detail/server_protocol.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// The checkpoint of a server: its parameters and the positions of its workers (server_positions),
// of one moment. Only `save`, `load` and `begin` need what writes and reads files
// (saved/detail/open_checkpoint.hpp): programs that call none of them do not link it.
class server_checkpoint {
public:
    void save(server_protocol& of, std::string const& file); // to any file
    void load(server_protocol& of, std::string const& file) const;
    // Loads the file if it exists, and from now on saves to it when that is due: after so many
    // pushes (0: not by their number), or when a worker waits for it.
    void begin(server_protocol& of, std::string file, std::uint64_t every);
    void save_if_due(server_protocol& of) {
        bool const is_full = every_ != 0 && of.pushes() - pushes_saved_ >= every_;
        if (save_own_ != nullptr && (of.must_save() || is_full)) (this->*save_own_)(of);
    }

private:
    void save_own(server_protocol& of);

    std::string file_;
    std::uint64_t every_ = 0, pushes_saved_ = 0;
    void (server_checkpoint::*save_own_)(server_protocol&) = nullptr; // once `begin` was called
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/server_checkpoint.ipp>
#endif
