#include "background_load.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/backends/openmp_executor.hpp>

#include "measure.hpp"
#include "steps.hpp"

namespace {

using measure::call, measure::ratio, measure::samples, measure::streams;
using clock_type = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A thread for each core but one that spins while it is told to, and else sleeps.
class background_load {
public:
    background_load() {
        for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads_.emplace_back([this] { live(); });
    }
    ~background_load() {
        tell(leave);
        for (std::thread& thread : threads_) thread.join();
    }
    background_load(background_load const&) = delete;

    void are_busy(bool busy) { tell(busy ? spin : sleep); }

private:
    enum : int { sleep, spin, leave };
    void tell(int what) {
        told_ = what;
        told_.notify_all();
    }
    void live() {
        while (told_ != leave) told_.wait(sleep);
    }

    std::atomic<int> told_ = sleep;
    std::vector<std::thread> threads_;
};

// Seconds a call within 20 ms: several turns of the scheduler, who makes a thread wait for
// milliseconds when it makes one wait. Before it all threads of the variant before have fallen
// asleep, and this one's have been woken.
double seconds(call const& f, int calls_between_looks) {
    std::this_thread::sleep_for(milliseconds(5));
    f();
    auto const start = clock_type::now();
    for (double calls = 0;;) {
        for (int i = 0; i < calls_between_looks; ++i) f();
        calls += calls_between_looks;
        if (auto const time = clock_type::now() - start; time > milliseconds(20))
            return std::chrono::duration<double>(time).count() / calls;
    }
}

template <class Rule>
void lines(report& out, options const& o, background_load& others, char const* rule_name, Rule rule) {
    unsigned const threads = std::thread::hardware_concurrency();
    gs::thread_pool pool(threads);
    gs::openmp_executor openmp(threads);
    gs::constant const rate{1e-3};
    for (std::size_t n : {4 * Ki, 16 * Ki, 64 * Ki, 256 * Ki, 1 * Mi, 4 * Mi}) {
        std::string const name = std::string(rule_name) + ", " + size_text(n) + ", ";
        auto const line_name = [&](bool busy, char const* executor) {
            return name + (busy ? "under background load: " : "alone: ") + executor + " / one thread";
        };
        bool wanted = false;
        for (bool busy : {false, true})
            for (char const* executor : {"pool", "OpenMP"}) wanted |= out.wants(line_name(busy, executor));
        if (!wanted) continue;

        streams const s(n);
        std::array const variants{composed(gs::make_updater<float>(rule, rate), s),
                                  composed(gs::make_updater<float>(rule, rate, gs::simd_backend{pool}), s),
                                  composed(gs::make_updater<float>(rule, rate, gs::simd_backend{openmp}), s)};
        variants[0]();
        int const calls = static_cast<int>(10e-6 / measure::seconds(variants[0], 10)) + 1;
        std::array<std::array<samples, 3>, 2> times;
        for (std::size_t round = 0; round < static_cast<std::size_t>(o.rounds); ++round)
            for (bool busy : {false, true}) {
                others.are_busy(busy);
                for (std::size_t k = 0; k < variants.size(); ++k) {
                    std::size_t const which = (k + round) % variants.size();
                    times[busy][which].push_back(seconds(variants[which], calls));
                }
            }
        others.are_busy(false);
        for (bool busy : {false, true}) {
            auto const& [one, on_pool, on_openmp] = times[busy];
            out.line(line_name(busy, "pool"), ratio(on_pool, one), busy ? std::optional(1.3) : std::nullopt);
            out.line(line_name(busy, "OpenMP"), ratio(on_openmp, one));
        }
    }
}

} // namespace

void under_background_load(report& out, options const& o) {
    out.section("under background load: every other core is busy");
    background_load others;
    lines(out, o, others, "sgd", gs::sgd{});
    lines(out, o, others, "adam", gs::adam{});
}
