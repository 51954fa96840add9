#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/crc32c.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/core/type_id.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/incremental_step.hpp>
#include <gradstep/distributed/operation.hpp>
#include <gradstep/model.hpp>

// Parameters whose gradients are pushed: a gradient is sent while the caller computes, and the
// parameter is updated when the gradients of all ranks have come.
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

using gradstep::detail::incremental_step;
using gradstep::detail::text;
using gradstep::detail::type_id;
using gradstep::detail::type_id_of;

// The memory of a parameter of a model, whatever its updater is.
struct memory_view {
    void const* of;
    std::string (*policies)(void const*);
    std::span<std::byte const> (*values)(void const*);
    std::string (*state_checksum)(void const*); // of what is the same on all ranks that have all of it
};
template <class Updater> memory_view memory_of(parameter<Updater> const& of) {
    static_assert(parameter<Updater>::on_host,
                  "gradstep: ranks exchange memory of the host: give parameters on a backend of the host");
    using type = parameter<Updater>;
    return {&of,
            [](void const* at) {
                Updater const& by = static_cast<type const*>(at)->optimizer(); // on whatever backend
                return describe(by.rule()) + ", " + describe(by.regularizer()) + ", " + describe(by.schedule());
            },
            [](void const* at) { return std::as_bytes(static_cast<type const*>(at)->values()); },
            [](void const* at) {
                std::uint32_t sum = 0;
                // u and v of dgc_momentum are each trainer's own.
                if constexpr (!gradstep::detail::compresses<typename Updater::rule_type>())
                    for (char const* slot : Updater::state_names) {
                        auto const bytes = std::as_bytes(static_cast<type const*>(at)->state(std::string_view(slot)));
                        sum = gradstep::detail::crc32c(sum, bytes.data(), bytes.size());
                    }
                return text(sum);
            }};
}

// A parameter as all modes see it.
class distributed_parameter : public operation {
public:
    std::string name;
    std::size_t size;
    type_id storage;
    char const* element;
    member_options options;
    memory_view memory; // of what the model has of it
    bool is_pushed = false;

    template <class Updater>
    distributed_parameter(std::string of, std::size_t elements, member_options const& own,
                          parameter<Updater> const& owned)
        : name(std::move(of)), size(elements), storage(type_id_of<typename Updater::traits::storage>()),
          element(Updater::traits::name), options(own), memory(memory_of(owned)) {}

    virtual void take(void const* gradient) = 0;
    virtual named_gradient gradient() const = 0; // that the model's part of it is updated with
    virtual std::span<std::byte const> values() const { return memory.values(memory.of); }
    virtual std::string state_checksum() const { return memory.state_checksum(memory.of); }

    // A gradient is taken, whose step is `by`, where there is one: the model's part is then updated
    // by whoever calls step_on, as soon as all ranks' gradients have come, and what is left by the
    // caller of take_rest and `stepped`.
    void begin_push(void const* gradient_memory, incremental_step* by);
    // Whether the gradients of all ranks have come; throws as test().
    bool has_gradient();
    // Updates the next few elements, if that can be done now, on a thread that nobody hears.
    // Whether it was done.
    bool step_on();
    // What is left of the step: from now on it is the caller's. Nothing where it has been taken.
    std::optional<incremental_step::remainder> take_rest();
    // What was left has been done, or that has failed, with a part of it done.
    void stepped(std::exception_ptr const& failed);

protected:
    // The model's part has been updated: begins to send that, where the mode does so. Whether
    // something is on its way.
    virtual bool publish() { return false; }
    // The update is not taken back where that fails: whatever waits for this parameter throws it.
    void publish_or_fail();

private:
    // This parameter's part of an incremental step.
    struct part_of_step {
        incremental_step& step;
        std::size_t member, elements;
        std::size_t next = 0; // the first element that has not been updated
        bool is_done = false;

        part_of_step(incremental_step& of, std::size_t number, std::size_t size)
            : step(of), member(number), elements(size) {}
    };
    void end_step();
    std::optional<part_of_step> part_;
};

// Integers are counts.
template <class T> inline constexpr reduction mean_of = std::is_integral_v<T> ? reduction::sum : reduction::mean;

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/distributed_parameter.ipp>
#endif
