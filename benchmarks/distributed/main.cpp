#include <CLI/CLI.hpp>
#include <cstdio>

#include "distributed.hpp"

int main(int count, char** arguments) {
    distributed_options o;
    options lines;
    bool runs = false, machine = false;
    CLI::App app("Ranks under MPI: mpirun -n 2 gradstep_bench_distributed");
    app.add_option("--rounds", o.rounds, "rounds of each comparison")->check(CLI::Range(1, 10'000));
    app.add_option("--elements", o.elements, "parameters of the model");
    app.add_flag("--runs", runs, "instead: steps of each mode with as many processes, as JSON");
    app.add_flag("--machine", machine, "instead: what two processes of this machine can do, as JSON");
    app.add_option("--only", lines.only, "lines that contain this");
    app.add_option("--csv", lines.csv, "write the lines to this file too");
    app.add_flag("--strict", lines.strict, "fail where a line does not reach its bound");
    CLI11_PARSE(app, count, arguments);
    gradstep::distributed::mpi_session mpi;
    bool holds = true;
    mpi.run([&] {
        gradstep::distributed::mpi_communicator by;
        if (machine) print_machine(by, o);
        if (runs) print_runs(by, o);
        if (machine || runs) return;
        if (by.rank() != 0) lines.csv.clear();
        report out(lines);
        synchronous_lines(by, o, out);
        server_lines(by, o, out);
        holds = out.all_hold();
    });
    return lines.strict && !holds ? 1 : 0;
}
