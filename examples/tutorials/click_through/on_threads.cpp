// Two servers and two workers as threads of one process, to try the program of several machines:
//   click_through_threads [STEPS] [FOLDER]
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <gradstep/distributed/threads.hpp>

#include "servers.hpp"

int main(int count, char** arguments) {
    std::uint64_t const steps = count > 1 ? std::stoull(arguments[1]) : 5000;
    std::string const folder = count > 2 ? arguments[2] : ".";
    try {
        // [threads]
        gd::thread_ranks ranks(4);
        ranks.run([&](gd::thread_communicator& by) {
            if (by.rank() < num_servers) serve(by, folder);
            else work(by, steps, steps);
        });
        // [threads]
        return 0;
    } catch (std::exception const& wrong) {
        std::fprintf(stderr, "click_through_threads: %s\n", wrong.what());
        return 1;
    }
}
