#pragma once
// MPI 3 removed its C++ interface; headers that still have it do not compile without warnings.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstdio>

#include <gradstep/base/error.hpp>
#include <gradstep/distributed/communicator.hpp>

namespace gradstep::distributed {
/// A call of MPI failed. The message has the name of the call and MPI's error text.
struct mpi_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "mpi_failed"; }
};
} // namespace gradstep::distributed

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
inline void check_mpi(int result, char const* call) {
    if (result == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(result, text, &length);
    fail<mpi_error>({call}, {std::string_view(text, static_cast<std::size_t>(length))});
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

namespace gradstep::distributed::inline GRADSTEP_ABI {
/// Initialises MPI (MPI_Init_thread) and finalises it in the destructor. You do not need it if your
/// program initialises MPI itself. If an exception destroys the session, it calls MPI_Abort, which
/// ends the whole job; otherwise the other ranks would wait for this one. `run` prints the error
/// first.
class mpi_session {
public:
    /// Initialises MPI. Throws mpi_error if MPI is already initialised, or cannot be initialised.
    mpi_session() : exceptions_(std::uncaught_exceptions()) {
        int provided = 0, initialized = 0;
        detail::check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
        if (initialized != 0)
            detail::fail<mpi_error>({"mpi_session"}, {"MPI has been initialised already"},
                                    {"a program without MPI_Init; leave the session out"});
        detail::check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    }
    ~mpi_session() {
        if (std::uncaught_exceptions() > exceptions_) MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Finalize();
    }
    mpi_session(mpi_session const&) = delete;
    mpi_session& operator=(mpi_session const&) = delete;

    /// Calls f(), the body of main. If f throws, prints the rank and the error to stderr, and ends
    /// the job.
    template <class F> void run(F const& f) const {
        gradstep::detail::rethrow_as<std::exception>(f, [](std::exception const& thrown) {
            int rank = 0;
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            std::fprintf(stderr, "rank %d: %s\n", rank, thrown.what());
            std::fflush(stderr);
            MPI_Abort(MPI_COMM_WORLD, 1);
        });
    }

private:
    int exceptions_;
};
} // namespace gradstep::distributed::inline GRADSTEP_ABI
