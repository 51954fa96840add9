#pragma once
/// ./dev bench distributed: programs of this folder run on every rank, and rank 0 reports.
#include <cstddef>
#include <string>

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

/// Lines of JSON for measured.py: steps of a mode, with all processes, of which the first is a
/// server in the modes that have one; and what two processes of this machine can do.
void print_run(std::string const& mode, distributed_options const& o);
void print_machine(distributed_options const& o);
