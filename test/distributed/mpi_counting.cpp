// Run by mpirun, as kill_nine.py does: workers count on servers, which write checkpoints, until
// each has counted to the end, however often the job was killed and started again. They count in a
// parameter, a table and a keyed table, which gives up what is old.
//
//     mpirun -n RANKS mpi_counting FOLDER SERVERS STEPS
//
// Each rank writes its process to FOLDER/process_RANK; each server, at the end, its sums of the
// three and how many rows it has given up to FOLDER/counts_RANK.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <unistd.h>

#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr std::size_t elements = 9000; // a shard on each of two servers
constexpr std::uint64_t num_rows = 50;
auto const of_counts = gs::make_updater<std::int64_t>(gs::add_delta{}, gs::none{}, gs::constant{1});
using keyed_counts = gs::keyed_table<std::remove_const_t<decltype(of_counts)>, gs::touch_only>;

void write(std::string const& file, std::string const& text) {
    gs::detail::output_file out(file);
    out.write(std::as_bytes(std::span(text)));
    out.commit();
}

// Rows that no step has named for a while go, and what they have counted stays, in the same
// checkpoint.
void give_up(gd::server& server) {
    std::int64_t counted = 0;
    server.get<keyed_counts>("keys").evict([&](auto const& row) {
        if (row.age < 60) return false;
        counted += row.values[0];
        return true;
    });
    server.get<keyed_counts>("given up").update(std::vector<std::uint64_t>{0}, std::vector{counted});
}
// All that was counted of keys: by rows that are there, by those that are not any more, and before
// they were.
std::int64_t counted_keys(gd::server& server) {
    auto const& table = server.get<keyed_counts>("keys");
    std::int64_t out = server.get<keyed_counts>("given up").row(0)[0];
    for (std::uint64_t const key : table.keys()) out += table.row(key)[0];
    return out + static_cast<std::int64_t>(table.counts().turned_away);
}

void serve(gd::mpi_communicator& by, std::string const& folder, int servers) {
    auto const of_rows = gs::make_updater<float>(gs::add_delta{}, gs::none{}, gs::constant{1});
    gd::server server(by, {.num_servers = servers, .split_from = elements});
    server.add("counts", of_counts, std::vector<std::int64_t>(elements));
    gs::table rows{of_rows, num_rows, 1};
    server.add("rows", rows);
    server.add("keys", keyed_counts{of_counts, 1, gs::touch_only{}, {.admit_after = 2}});
    server.add("given up", keyed_counts{of_counts, 1, gs::touch_only{}});
    server.after_every(50, give_up);
    std::string const number = std::to_string(by.rank());
    server.checkpoint(folder + "/server_" + number + ".safetensors", 20);
    server.run(by);
    std::int64_t dense = 0, sparse = 0;
    for (auto const x : server.get<std::remove_const_t<decltype(of_counts)>>("counts").values()) dense += x;
    for (auto const x : server.get<decltype(rows)>("rows").values()) sparse += static_cast<std::int64_t>(x);
    std::string const sums = std::to_string(dense) + " " + std::to_string(sparse) + " " +
                             std::to_string(counted_keys(server)) + " " +
                             std::to_string(server.get<keyed_counts>("keys").counts().evicted);
    write(folder + "/counts_" + number, sums + "\n");
}

void count(gd::mpi_communicator& by, int servers, std::uint64_t steps) {
    gd::worker worker(by, {.num_servers = servers, .max_kept = 64});
    constexpr std::uint64_t pushes = 3; // of a step
    std::uint64_t step = worker.position() / pushes;
    worker.go_on_from(pushes * step);
    std::vector<std::int64_t> counts(elements);
    std::vector<std::int64_t> const ones(elements, 1);
    std::vector<float> rows(3);
    std::vector<float> const of_rows(3, 1);
    std::vector<std::int64_t> keyed(3);
    for (; step < steps; ++step) {
        std::uint64_t const keys[] = {step % num_rows, step * 7 % num_rows, static_cast<std::uint64_t>(by.rank())};
        worker.pull("counts", counts);
        worker.push("counts", ones);
        worker.pull("rows", keys, rows);
        worker.push("rows", keys, of_rows);
        // One that always comes, one for a while, and one that each worker names once.
        std::uint64_t const hashed[] = {step % 5, 1000 + step / 20, 1'000'000 + step};
        worker.pull("keys", hashed, keyed);
        worker.push("keys", hashed, std::span(ones).first(3));
    }
    worker.stop();
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "mpi_counting FOLDER SERVERS STEPS\n");
        return 2;
    }
    std::string const folder = argv[1];
    int const servers = std::atoi(argv[2]);
    gd::mpi_session mpi;
    mpi.run([&] {
        gd::mpi_communicator by;
        write(folder + "/process_" + std::to_string(by.rank()), std::to_string(::getpid()));
        if (by.rank() < servers) serve(by, folder, servers);
        else count(by, servers, static_cast<std::uint64_t>(std::atoll(argv[3])));
    });
}
