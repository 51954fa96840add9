#pragma once
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include <gradstep/saved/detail/open_checkpoint.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// Returns false only if the system says that there is no such file: one that cannot be seen now can
// be the job's checkpoint.
inline bool is_there(std::string const& file) {
    if (::access(file.c_str(), F_OK) == 0) return true;
    if (int const why = errno; why != ENOENT) fail<io_error>({file}, {"cannot be looked for: ", std::strerror(why)});
    return false;
}

GRADSTEP_DEFINE void server_checkpoint::save(server_protocol& of, std::string const& file) {
    std::vector<row_progress> progress(of.parameters.size()); // what is saved refers to it
    server_positions const own = of.positions();
    std::vector<saved_state> all{own.state()};
    auto next = progress.begin();
    for (auto const& one : of.parameters) {
        all.push_back(one->state(*next++));
        all.back().name = one->entry.name;
    }
    gradstep::detail::write_checkpoint(file, all);
}

GRADSTEP_DEFINE void server_checkpoint::load(server_protocol& of, std::string const& file) const {
    auto const from = gradstep::detail::open_checkpoint(file);
    server_positions read = of.positions();
    std::vector<saved_state> names{read.state()};
    for (auto const& one : of.parameters) names.emplace_back().name = one->entry.name;
    from->require_nothing_else(names);
    auto const own = from->of(server_positions::name);
    gradstep::detail::require_same(*own, names[0]);
    gradstep::detail::read_into(*own, names[0]);
    for (auto const& one : of.parameters) one->load(*from->of(one->entry.name));
    of.restore(read);
}

GRADSTEP_DEFINE void server_checkpoint::begin(server_protocol& of, std::string file, std::uint64_t every) {
    if (is_there(file)) load(of, file);
    file_ = std::move(file);
    every_ = every;
    save_own_ = &server_checkpoint::save_own;
    of.write_checkpoints();
}

GRADSTEP_DEFINE void server_checkpoint::save_own(server_protocol& of) {
    if (is_there(file_)) {
        auto const there = gradstep::detail::open_checkpoint(file_)->of(server_positions::name)->state().rule;
        if (auto const own = of.positions().rule(); there != own)
            fail<value_error>({file_}, {"is of ", there}, {own, "; give each server a file of its own"});
    }
    save(of, file_);
    pushes_saved_ = of.pushes();
    of.note_saved(); // workers can forget what this file has, and no other one
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
