#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "distributed.hpp"

int main(int count, char** arguments) {
    distributed_options o;
    options lines;
    bool machine = false;
    std::string mode;
    CLI::App app("Ranks under MPI: mpirun -n 2 gradstep_bench_distributed");
    app.add_option("--rounds", o.rounds, "rounds of each comparison")->check(CLI::Range(1, 10'000));
    app.add_option("--elements", o.elements, "parameters of the model");
    app.add_option("--run", mode, "instead: steps of this mode with these processes, as JSON")
        ->check(CLI::IsMember({"synchronous", "sharded", "compressed", "server_synchronous", "asynchronous", "geo"}));
    app.add_flag("--machine", machine, "instead: what two processes of this machine can do, as JSON");
    add_line_options(app, lines);
    CLI11_PARSE(app, count, arguments);
    gradstep::distributed::mpi_session mpi;
    bool holds = true;
    mpi.run([&] {
        if (machine) return print_machine(o);
        if (!mode.empty()) return print_run(mode, o);
        gradstep::distributed::mpi_communicator by;
        if (by.rank() != 0) lines.json.clear();
        char engine[MPI_MAX_LIBRARY_VERSION_STRING];
        int length = 0;
        MPI_Get_library_version(engine, &length);
        std::string const version(engine, static_cast<std::size_t>(length));
        report out(lines, {{"MPI", version.substr(0, version.find(','))}});
        synchronous_lines(by, o, out);
        server_lines(by, o, out);
        holds = out.all_hold();
    });
    return lines.strict && !holds ? 1 : 0;
}
