#pragma once
#include <deque>

#include <gradstep/base/detail/type_id.hpp>
#include <gradstep/distributed/detail/wire.hpp>
#include <gradstep/engine/detail/kernels.hpp>
#include <gradstep/keyed/options.hpp>
#include <gradstep/saved/saved_state.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
using gradstep::detail::saved_state;

// The text that all servers must have alike for a parameter: its policies, and the options that
// decide on its elements or on the row of a key.
std::string policies_text(gradstep::detail::saved_policies of, double delay_compensation, std::uint64_t id);
std::string policies_text(gradstep::detail::saved_policies of, table_options const& options);
std::string policies_text(gradstep::detail::saved_policies of, keyed_options const& options);

// Whether the rule of an updater is add_delta.
bool is_add_delta(gradstep::detail::updater_facts const& of);

// A parameter or table of a server, whatever its type is, with what the workers have sent for it.
// The server checks each message by `require_fits` before it changes anything. served.hpp has the
// class for each type of parameter.
class served_parameter {
public:
    struct queued { // the push of a worker that waits for the pushes of the others
        std::uint64_t position;
        std::vector<std::byte> bytes;
        wire_message message;
    };
    struct deferred { // a pull that waits until the worker's own pushes are in the weights
        std::size_t worker;
        std::vector<std::byte> bytes;
        wire_message message;
    };

    served_parameter(wire_entry of, std::size_t workers);
    virtual ~served_parameter() = default;
    served_parameter(served_parameter const&) = delete;
    served_parameter& operator=(served_parameter const&) = delete;

    // Checks a pull or push of a worker. Throws value_error and sequence_error.
    void require_fits(std::size_t worker, wire_message const& message, int server, std::uint32_t num_servers) const;
    // A worker begins anew.
    void forget(std::size_t worker);

    // Copies the elements of these rows, or all elements, to memory of so many bytes.
    virtual void read(std::span<std::uint64_t const> keys, std::byte* to) const = 0;
    // A worker computes its next gradient from what it has pulled, until it pushes. `may_hold`:
    // whether `hold` can be called.
    virtual void has_pulled(std::size_t worker, std::span<std::uint64_t const> keys, bool may_hold) = 0;
    virtual void has_pushed(std::size_t, std::span<std::uint64_t const>) {}
    virtual void has_left(std::size_t worker) = 0;
    // From `hold` to `release` the table evicts no row that a worker has pulled and not pushed
    // since.
    virtual void hold() {}
    virtual void release() {}
    // One step by the gradient of a worker; one by the mean of the gradients of several, in this
    // order. Throws before anything is written.
    virtual void update(std::size_t worker, wire_message const& gradient) = 0;
    virtual void update(std::span<wire_message const> gradients) = 0;

    virtual saved_state state(row_progress& at) const = 0;
    virtual void load(gradstep::detail::saved_source const& from) = 0;
    // The address of the parameter or table, if it has this type.
    virtual void* as(gradstep::detail::type_id type) = 0;

    wire_entry const entry;
    std::uint64_t const hash;             // of its name
    std::vector<std::uint64_t> applied;   // for each worker: the position of its last push that was applied
    std::vector<char> pulled;             // whether each worker has pulled it
    std::vector<std::uint64_t> pulled_at; // after how many steps, for the last time
    std::uint64_t steps = 0;              // by pushes, since this server began
    std::vector<std::deque<queued>> pushes;
    std::vector<deferred> pulls;
};

// A dense parameter, or this server's shard of it. With delay compensation it keeps what each
// worker has pulled last.
class served_tensor : public served_parameter {
public:
    void read(std::span<std::uint64_t const> keys, std::byte* to) const final;
    void has_pulled(std::size_t worker, std::span<std::uint64_t const> keys, bool may_hold) final;
    void has_left(std::size_t worker) final;

protected:
    served_tensor(wire_entry of, std::size_t workers, double compensation);
    virtual std::span<std::byte const> values() const = 0;
    double compensation() const { return compensation_; }
    // The weights that the worker has pulled last; none if it has pulled none, or the server
    // compensates no delay.
    std::span<std::byte const> pulled_by(std::size_t worker) const;

private:
    double compensation_;
    std::vector<std::vector<std::byte>> weights_of_; // of each worker
};

// Rows by their keys: gs::table, whose keys are ids, and gs::keyed_table, which can evict rows. For
// the latter it keeps the keys of each worker's pulls until the worker pushes them.
class served_rows : public served_parameter {
public:
    void has_pulled(std::size_t worker, std::span<std::uint64_t const> keys, bool may_hold) final;
    void has_pushed(std::size_t worker, std::span<std::uint64_t const> keys) final;
    void has_left(std::size_t worker) final;
    void hold() final;
    void release() final;
    void update(std::size_t worker, wire_message const& gradient) final;
    void update(std::span<wire_message const> gradients) final;

protected:
    served_rows(wire_entry of, std::size_t workers, bool can_evict);
    // One step by these rows, each of the table's width.
    virtual void step(std::span<std::uint64_t const> keys, std::span<std::byte const> rows, double gradient_scale) = 0;
    virtual void hold_rows(std::span<std::uint64_t const>) {}
    virtual void release_rows(std::span<std::uint64_t const>) {}

private:
    // For each worker: several threads, or groups of features, can each have read batches before
    // the gradient of one is sent.
    static constexpr std::size_t most_pulls = 16;

    bool can_evict_;
    std::vector<std::deque<std::vector<std::uint64_t>>>
        pulled_keys_; // for each worker: the keys of its pulls, the oldest first
    std::vector<std::uint64_t> held_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/served_parameter.ipp>
#endif
