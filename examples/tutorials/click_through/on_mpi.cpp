// Two servers and two workers as processes under MPI:
//   mpirun -n 4 click_through_mpi [STEPS] [FOLDER] [DIES_AT]
// With DIES_AT the first worker crashes after so many steps. Started again without it, the job goes
// on.
#include <cstdint>
#include <string>

#include <gradstep/distributed/mpi.hpp>

#include "servers.hpp"

int main(int count, char** arguments) {
    std::uint64_t const steps = count > 1 ? std::stoull(arguments[1]) : 5000;
    std::string const folder = count > 2 ? arguments[2] : ".";
    std::uint64_t const dies_at = count > 3 ? std::stoull(arguments[3]) : steps;
    // [mpi]
    gd::mpi_session mpi;
    mpi.run([&] {
        gd::mpi_communicator by;
        if (by.rank() < num_servers) serve(by, folder);
        else work(by, steps, dies_at);
    });
    // [mpi]
}
