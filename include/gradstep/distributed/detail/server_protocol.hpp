#pragma once
#include <gradstep/distributed/detail/positions.hpp>
#include <gradstep/distributed/detail/served_parameters.hpp>
#include <gradstep/distributed/server_options.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// What a server does with the messages of workers (wire.hpp), and what it answers. It applies every
// push once, in the order of the worker's positions; what does not fit is refused before anything
// changes. `server` calls `take` for each message, then runs its tasks and writes its checkpoint,
// and gets the answers from `finish`. Workers have the numbers 0, 1, ... here.
class server_protocol {
public:
    server_protocol(int rank, int size, server_options const& options);

    int rank() const { return rank_; }
    int size() const { return size_; }
    server_options const& options() const { return options_; }
    std::size_t num_workers() const { return workers_.size(); }
    std::uint32_t num_servers() const { return static_cast<std::uint32_t>(options_.num_servers); }
    std::size_t number_of(int rank) const {
        return static_cast<std::size_t>(rank) - static_cast<std::size_t>(options_.num_servers);
    }
    int rank_of(std::size_t worker) const { return static_cast<int>(worker) + options_.num_servers; }
    // Whether any worker has said hello.
    bool has_begun() const { return has_begun_; }

    // One message, up to the steps and barriers that it completes. It refuses what does not fit;
    // what fails here, it throws.
    void take(int from, std::vector<std::byte> bytes);
    // Whether a worker waits for a checkpoint.
    bool must_save() const { return save_now_; }
    // Answers those that have waited for a checkpoint, and, when all workers have stopped, all of
    // them. Returns all answers, and then what this rank must send itself for its next session.
    std::vector<outgoing> finish();
    // The memory of the messages that the last `take` has finished.
    std::vector<std::vector<std::byte>> spent() { return std::move(spent_); }

    // What the server sends when it begins; to workers that wait, to show that it is there; and to
    // all when it fails.
    std::vector<outgoing> begin();
    std::vector<outgoing> heartbeats();
    std::vector<outgoing> refuse_all(std::string_view why);

    // Whether all workers have stopped, or one has; `reopen` lets them begin again.
    bool is_finished() const;
    bool has_stopped(std::size_t worker) const { return workers_[worker].stopped; }
    void reopen();
    // Whether a worker waits for something: a pull, a barrier, the pushes of others.
    bool is_waiting(std::size_t worker) const;

    // Pushes that were applied; by how many steps, on average, parameters had moved on before them.
    std::uint64_t pushes() const { return pushes_; }
    double staleness() const { return pushes_ == 0 ? 0 : static_cast<double>(late_) / static_cast<double>(pushes_); }

    // From now on the server writes checkpoints. A checkpoint has these positions; `note_saved`
    // tells the workers.
    void write_checkpoints() { is_durable_ = true; }
    server_positions positions() const;
    void restore(server_positions const& from);
    void note_saved();
    // From now on rows can be held back from eviction (served_parameter::hold).
    void hold_rows() { may_hold_ = true; }

    served_parameters parameters;

private:
    struct pending_answer {
        std::size_t to;
        std::uint64_t request;
    };

    wire_header header(std::size_t to, wire_kind kind) const;
    void reply(std::size_t to, wire_header const& with, std::string_view text);
    void acknowledge(std::size_t to) { reply(to, header(to, wire_kind::applied), {}); }
    void release(std::size_t to, std::uint64_t request, std::uint8_t flags = 0);
    void welcome(std::size_t to);
    void refuse(int from, std::string_view why);
    void answer(served_parameter& of, std::size_t worker, wire_message const& pull);
    void refuse_answer(served_parameter const& of, std::size_t worker, wire_message const& pull);
    void answer_pull(served_parameter& of, std::size_t worker, wire_message const& pull);
    void ask_again(std::size_t worker);

    void take_message(int from, std::vector<std::byte> bytes);
    void take_hello(std::size_t worker, wire_message const& hello);
    void take_push(served_parameter& of, std::size_t worker, std::vector<std::byte> bytes, wire_message const& message);
    served_parameter& parameter_of(wire_header const& h) const;
    void merge(served_parameter& of);
    void release_barriers();

    server_options options_;
    int rank_, size_;
    std::uint64_t number_ = wire_number();
    bool has_begun_ = false, is_durable_ = false, may_hold_ = false, save_now_ = false;
    std::vector<worker_positions> workers_;
    std::vector<pending_answer> saves_; // workers that wait for a checkpoint
    std::vector<outgoing> replies_;     // to the message that is handled
    std::vector<std::vector<std::byte>> spent_;
    std::vector<std::vector<std::byte>> forwarded_, for_next_; // for the next session on this rank
    std::uint64_t request_ = 0, session_ = 0;                  // of that message
    std::uint64_t pushes_ = 0, late_ = 0;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/server_protocol.ipp>
#endif
