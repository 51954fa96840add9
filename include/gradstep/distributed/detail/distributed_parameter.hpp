#pragma once
#include <gradstep/bytes/detail/crc32c.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/detail/incremental_step.hpp>
#include <gradstep/distributed/detail/operation.hpp>
#include <gradstep/model.hpp>

// Parameters of workers: a gradient is exchanged while the caller computes, and the parameter is
// updated when the gradients of all ranks have arrived.
namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
using gradstep::detail::dense_parameter;
using gradstep::detail::incremental_step;
using gradstep::detail::text;
using gradstep::detail::type_id;

// Calls f<S>() with the type of the values of a parameter of a model, whose policies are types or
// chosen at run time.
template <class Parameter, class F> void with_type_of_values(Parameter& of, F const& f) {
    using optimizer = std::remove_cvref_t<decltype(of.optimizer())>;
    if constexpr (requires { typename optimizer::traits; }) {
        static_assert(Parameter::on_host,
                      "gradstep: distributed: the parameter is on a device; expected a backend of the host");
        f.template operator()<typename optimizer::traits::storage>();
    } else {
        gradstep::detail::with_type(of.core().facts().storage, f);
    }
}

// The interface of a parameter for all modes.
class distributed_parameter : public operation {
public:
    std::string name;
    std::size_t size;
    type_id storage;
    char const* element;
    tensor_options options;
    dense_parameter const& in_model; // of a mode with shards, the own one
    bool is_pushed = false;

    distributed_parameter(std::string of, std::size_t elements, tensor_options const& own, dense_parameter const& part)
        : name(std::move(of)), size(elements), storage(part.storage_type()), element(part.facts().element),
          options(own), in_model(part) {}

    virtual void take(void const* gradient) = 0;
    virtual named_gradient gradient() const = 0; // for the update of the part in the model
    virtual std::span<std::byte const> values() const { return in_model.values_on_host(); }
    // The policies, and what else of the parameter itself decides on a step.
    std::string policies() const;
    // The checksum of the state that is equal on all ranks.
    GRADSTEP_DEFINE virtual std::string state_checksum() const;

    // Begins to exchange a gradient. With an incremental step `by`, calls of step_on update the
    // part in the model as soon as the gradients of all ranks have arrived, and the caller of
    // take_rest and `stepped` updates the rest.
    void begin_push(void const* gradient_memory, incremental_step* by);
    // Whether the gradients of all ranks have arrived. Throws the errors of test().
    bool has_gradient();
    // For the helper thread: updates the next elements, if that is possible now. Returns whether it
    // was.
    bool step_on();
    // Returns the rest of the step, which the caller must then run. Nothing if it was already
    // taken.
    std::optional<incremental_step::remainder> take_rest();
    // The caller has run the rest, or failed with an exception.
    void stepped(std::exception_ptr const& failed);

protected:
    // Called after the part in the model was updated: starts to send it, if the mode does that.
    // Returns whether an exchange is pending.
    virtual bool publish() { return false; }
    // Stores an exception of `publish` for calls that wait for this parameter. The update stays.
    void publish_or_fail();

private:
    // The part of an incremental step that belongs to this parameter.
    struct part_of_step {
        incremental_step& step;
        std::size_t task, elements;
        std::size_t next = 0; // the first element that has not been updated
        bool is_done = false;

        part_of_step(incremental_step& of, std::size_t number, std::size_t size)
            : step(of), task(number), elements(size) {}
    };
    void end_step();
    std::optional<part_of_step> part_;
};

// Integers are counts.
template <class T> inline constexpr reduction mean_of = std::is_integral_v<T> ? reduction::sum : reduction::mean;
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/distributed_parameter.ipp>
#endif
