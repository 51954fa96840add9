// A server and workers over TCP, without MPI. Start one process for each address, with its rank;
// rank 0 is the server:
//   distributed_tcp 0 127.0.0.1:5000 127.0.0.1:5001 127.0.0.1:5002 &
//   distributed_tcp 1 127.0.0.1:5000 127.0.0.1:5001 127.0.0.1:5002 &
//   distributed_tcp 2 127.0.0.1:5000 127.0.0.1:5001 127.0.0.1:5002
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/worker.hpp>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tcp.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

int main(int count, char** arguments) {
    if (count < 4) {
        std::fprintf(stderr, "Usage: distributed_tcp RANK ADDRESS ADDRESS ...\n");
        return 2;
    }
    try {
        // [main]
        int const rank = std::stoi(arguments[1]);
        tcp_messenger by(rank, {arguments + 2, arguments + count});
        std::vector<float> w(100'000), gradient(w.size());
        if (rank == 0) {
            gd::server server(by, {.check_elements = true});
            server.add("w", gs::make_updater<float>(gs::adam{}, gs::constant{0.01}), w);
            server.run(by);
        } else {
            gd::worker worker(by, {.check_elements = true});
            for (int step = 0; step != 200; ++step) {
                worker.pull("w", w);
                for (std::size_t i = 0; i != w.size(); ++i) gradient[i] = w[i] - 1; // of |w - 1|^2 / 2
                worker.push("w", gradient);
            }
            worker.barrier();
            worker.pull("w", w);
            worker.stop();
            std::printf("worker %d: w[0] = %.3f\n", rank, static_cast<double>(w[0]));
        }
        // [main]
        return 0;
    } catch (std::exception const& wrong) {
        std::fprintf(stderr, "distributed_tcp: %s\n", wrong.what());
        return 1;
    }
}
