// gradstep inside a framework that has its threads already. A library must not start threads
// unasked: the framework has one for each core, and a second set would compete with it for them. So
// simd_backend{} runs on the caller's thread, and an executor hands it the threads that are there:
// here the framework's own pool, OpenMP and TBB. They drive the same step, and the bits are the
// same.
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include <gradstep/backends/openmp_executor.hpp>
#include <gradstep/backends/tbb_executor.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// What the framework has: threads that take jobs from one queue.
class framework_pool {
public:
    explicit framework_pool(std::size_t threads) {
        for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this](std::stop_token stop) { work(stop); });
    }
    template <class F> std::future<void> submit(F job) {
        std::packaged_task<void()> packaged(std::move(job));
        std::future<void> done = packaged.get_future();
        {
            std::lock_guard const lock(mutex_);
            jobs_.push_back(std::move(packaged));
        }
        ready_.notify_one();
        return done;
    }

private:
    void work(std::stop_token const& stop) {
        for (;;) {
            std::unique_lock lock(mutex_);
            if (!ready_.wait(lock, stop, [this] { return !jobs_.empty(); })) return;
            std::packaged_task<void()> job = std::move(jobs_.front());
            jobs_.pop_front();
            lock.unlock();
            job();
        }
    }

    std::mutex mutex_;
    std::condition_variable_any ready_;
    std::deque<std::packaged_task<void()>> jobs_;
    std::vector<std::jthread> threads_; // destroyed first: they use what is above
};

// 100 steps of Adam towards the minimum of the sum of (w - target)^2 / 2.
template <class Backend> std::vector<float> trained_on(Backend const& backend) {
    std::vector<float> w(200'000), g(w.size()), m(w.size()), v(w.size());
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::cosine{.rate = 0.1, .steps = 100}, backend);
    for (int t = 0; t < 100; ++t) {
        for (std::size_t i = 0; i < w.size(); ++i) g[i] = w[i] - static_cast<float>(i % 1000) / 1000;
        optimizer.next_step()(w, g, m, v);
    }
    return w;
}

int main() {
    std::vector<float> const on_one_thread = trained_on(gs::simd_backend{});
    bool equal = true;
    auto const compare = [&](char const* name, std::size_t threads, std::vector<float> const& w) {
        bool const same = std::memcmp(w.data(), on_one_thread.data(), w.size() * sizeof(float)) == 0;
        std::printf("%-21s %zu threads, %s\n", name, threads, same ? "the bits of one thread" : "OTHER BITS");
        equal = equal && same;
    };

    framework_pool pool(2);
    std::size_t parts_run = 0;
    // [callback]
    gs::callback_executor on_pool(2, [&](std::size_t parts, gs::task work) {
        std::vector<std::future<void>> done;
        for (std::size_t part = 0; part < parts; ++part) done.push_back(pool.submit([=] { work(part); }));
        for (std::future<void>& part : done) part.get();
        parts_run += parts;
    });
    // [callback]
    compare("the framework's pool:", on_pool.concurrency(), trained_on(gs::simd_backend{on_pool}));

    gs::openmp_executor on_openmp; // as many as the framework tells OpenMP
    compare("OpenMP:", on_openmp.concurrency(), trained_on(gs::simd_backend{on_openmp}));

    gs::tbb_executor on_tbb; // the arena that the caller is in
    compare("TBB:", on_tbb.concurrency(), trained_on(gs::simd_backend{on_tbb}));

    return equal && parts_run == 2 * 100 ? 0 : 1;
}
