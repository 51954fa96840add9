// Every rank saves a file for each step, and the job resumes from the newest step of which all
// files exist. Here, the two ranks are threads.
//   distributed_resume [FOLDER]
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/threads.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr std::int64_t steps = 100, every = 10;

void train(gd::thread_communicator& by, std::string const& folder) {
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.02});
    gd::sharded worker(by);
    worker.add("w", adam, std::vector<float>(10'000));
    // [resume]
    auto const file = [&](std::int64_t step, int rank) {
        return folder + "/model-" + std::to_string(step) + "-" + std::to_string(rank) + ".safetensors";
    };
    std::int64_t step = steps;
    auto const all_have = [&] {
        for (int rank = 0; rank != by.size(); ++rank)
            if (!std::filesystem::exists(file(step, rank))) return false;
        return true;
    };
    while (step > 0 && !all_have()) step -= every;
    if (step > 0) worker.model().load(file(step, by.rank()));
    // [resume]
    if (by.rank() == 0) std::printf("begins after step %lld\n", static_cast<long long>(step));
    while (step != steps) {
        auto const w = worker.pull<float>("w");
        std::vector<float> gradient(w.begin(), w.end());
        for (float& x : gradient) x -= 1;
        worker.push("w", gradient);
        worker.pull<float>("w"); // the step is taken
        if (++step % every != 0) continue;
        worker.model().save(file(step, by.rank()));
        std::filesystem::remove(file(step - 2 * every, by.rank()));
    }
    if (by.rank() == 0) std::printf("w[0] = %.4f\n", static_cast<double>(worker.pull<float>("w")[0]));
    worker.stop();
}

} // namespace

int main(int count, char** arguments) {
    std::string const folder = count > 1 ? arguments[1] : ".";
    gd::thread_ranks ranks(2);
    ranks.run([&](gd::thread_communicator& by) { train(by, folder); });
}
