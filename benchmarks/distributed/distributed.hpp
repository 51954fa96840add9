#pragma once
/// ./dev bench distributed: programs of this folder run on every rank, and rank 0 reports.
#include <cstddef>

#include <gradstep/distributed/mpi.hpp>

#include "../report.hpp"

struct distributed_options {
    int rounds = 25;
    std::size_t elements = 4 * Mi;
};

/// Synchronous modes beside computation and MPI's own all-reduce.
void synchronous_lines(gradstep::distributed::mpi_communicator& by, distributed_options const& o, report& out);

/// An asynchronous server beside the same updates without messages: of two ranks.
void server_lines(gradstep::distributed::mpi_communicator& by, distributed_options const& o, report& out);

/// One line of JSON for each mode, for measured.py: its steps with as many processes; and one of the machine, with two processes.
void print_runs(gradstep::distributed::mpi_communicator& by, distributed_options const& o);
void print_machine(gradstep::distributed::mpi_communicator& by, distributed_options const& o);
