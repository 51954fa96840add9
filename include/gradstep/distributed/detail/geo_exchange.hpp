#pragma once
#include <gradstep/distributed/worker.hpp>
#include <gradstep/engine/detail/dense_parameter.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// The exchanges of a local parameter with the servers (geo_parameter). It keeps the weights after
// the last one. The parameter must outlive it, and its rows must have no pending steps.
class geo_exchange {
public:
    // The parameter has the servers' weights of `name`, as pulled. It throws, as `require_weights`,
    // value_error for integers and for weights with a master copy.
    geo_exchange(worker& by, std::string name, gradstep::detail::dense_parameter& local);
    static void require_weights(std::string_view name, gradstep::detail::dense_parameter const& local);
    // Sends the change since the last exchange, and takes over the changes of the others.
    void run();

private:
    template <class S> void run_as();

    worker& worker_;
    std::string name_;
    gradstep::detail::dense_parameter& local_;
    std::vector<std::byte> snapshot_, scratch_; // elements of the parameter
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/geo_exchange.ipp>
#endif
