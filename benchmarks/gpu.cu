// Measures in one run on a GPU: the bandwidth of updates beside a copy, many tensors in one call
// beside a single tensor of as many elements, row-wise rules and norms, and tables beside the
// traffic of their rows.
//
//     nvcc -std=c++20 -O3 -arch=sm_90 -Iinclude benchmarks/gpu.cu -o gpu && ./gpu
//
// `--only bandwidth`, `many`, `whole` or `tables` measures one part. Rounds are interleaved; a
// number is the median over the rounds of the ratio within a round. Columns "must be" are bounds.
#include <gradstep/all.hpp>
#include <gradstep/thrust.hpp>
#include <gradstep/thrust/table.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gs = gradstep;

namespace {

void require(cudaError_t status) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "gpu: %s\n", cudaGetErrorString(status));
    std::exit(1);
}

double median(std::vector<double> x) {
    std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
    return x[x.size() / 2];
}

class stopwatch {
public:
    explicit stopwatch(cudaStream_t stream) : stream_(stream) {
        require(cudaEventCreate(&begin_));
        require(cudaEventCreate(&end_));
    }
    // Seconds of one of `repeats` calls, on the device's clock.
    double time(std::function<void()> const& call, int repeats) {
        require(cudaEventRecord(begin_, stream_));
        for (int i = 0; i < repeats; ++i) call();
        require(cudaEventRecord(end_, stream_));
        require(cudaEventSynchronize(end_));
        float milliseconds = 0;
        require(cudaEventElapsedTime(&milliseconds, begin_, end_));
        return milliseconds * 1e-3 / repeats;
    }

private:
    cudaStream_t stream_;
    cudaEvent_t begin_{}, end_{};
};

// Adam by hand, for comparison: a thread moves 16 bytes of each buffer at once. n is a multiple of
// 4.
__global__ void adam_by_hand(float4* w, float4 const* g, float4* m, float4* v, std::size_t n, float rate,
                             float v_scale) {
    std::size_t const i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n / 4) return;
    float4 a = w[i], b = m[i], c = v[i];
    float4 const d = g[i];
    auto const one = [=](float& x, float y, float& s, float& r) {
        s = fmaf(0.9f, s, 0.1f * y);
        r = fmaf(0.999f, r, 0.001f * y * y);
        x = fmaf(-rate, s / fmaf(v_scale, sqrtf(r), 1e-8f), x);
    };
    one(a.x, d.x, b.x, c.x), one(a.y, d.y, b.y, c.y), one(a.z, d.z, b.z, c.z), one(a.w, d.w, b.w, c.w);
    w[i] = a, m[i] = b, v[i] = c;
}

struct variant {
    std::string name;
    std::size_t bytes; // an element
    std::function<void()> call;
};

// One step of an updater on device memory of its own, `offset` elements off the alignment.
template <class Element = float, class... Policies>
variant update(std::string name, std::size_t n, std::size_t offset, cudaStream_t stream, Policies... policies) {
    auto optimizer = gs::make_updater<Element>(policies..., gs::constant{1e-3},
                                               gs::thrust_backend{thrust::cuda::par_nosync.on(stream)});
    using updater = decltype(optimizer);
    using storage = typename updater::traits::storage;
    auto weight = std::make_shared<thrust::device_vector<storage>>(n + offset, storage(1.0f));
    auto gradient = std::make_shared<thrust::device_vector<storage>>(n + offset, storage(0.01f));
    auto state = std::make_shared<std::array<thrust::device_vector<float>, updater::slots>>();
    for (auto& slot : *state) slot.assign(n + offset, 0.0f);
    auto const step = optimizer.next_step();
    return {std::move(name), updater::bytes_per_element, [=] {
                auto const part = [=](auto& v) { return std::span(thrust::raw_pointer_cast(v.data()) + offset, n); };
                std::apply([&](auto&... slot) { step(part(*weight), part(*gradient), part(slot)...); }, *state);
            }};
}

variant by_hand(std::size_t n, cudaStream_t stream) {
    auto const memory = std::make_shared<std::array<thrust::device_vector<float>, 4>>();
    for (auto& x : *memory) x.assign(n, 0.01f);
    return {"adam by hand", 28, [=] {
                auto const at = [&](std::size_t k) {
                    return reinterpret_cast<float4*>(thrust::raw_pointer_cast((*memory)[k].data()));
                };
                auto const blocks = static_cast<unsigned>((n / 4 + 255) / 256);
                adam_by_hand<<<blocks, 256, 0, stream>>>(at(0), at(1), at(2), at(3), n, 1e-3f, 1.0f);
            }};
}

// Each variant's time divided by the first variant's time, round by round: medians.
std::vector<double> beside_first(std::vector<variant> const& all, cudaStream_t stream, int repeats) {
    stopwatch watch(stream);
    int const rounds = 15;
    std::vector<std::vector<double>> ratio(all.size());
    for (int round = -1; round < rounds; ++round) { // the first one warms up
        double const first = watch.time(all[0].call, repeats);
        for (std::size_t v = 0; v < all.size(); ++v) {
            double const here = v == 0 ? first : watch.time(all[v].call, repeats);
            if (round >= 0) ratio[v].push_back(here / first);
        }
    }
    std::vector<double> out;
    for (auto& each : ratio) out.push_back(median(each));
    return out;
}

// Microseconds that a call keeps the host, with nothing else to do for the device.
double host_time(std::function<void()> const& call, cudaStream_t stream) {
    std::vector<double> each;
    for (int round = 0; round < 51; ++round) {
        require(cudaStreamSynchronize(stream));
        auto const begin = std::chrono::steady_clock::now();
        call();
        each.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    require(cudaStreamSynchronize(stream));
    return median(each);
}

// `count` tensors of `each` elements, by one call of a step, or as parameters of a model.
template <class Rule>
variant many(std::string name, Rule rule, std::size_t count, std::size_t each, cudaStream_t stream) {
    auto optimizer =
        gs::make_updater<float>(rule, gs::constant{1e-3}, gs::thrust_backend{thrust::cuda::par_nosync.on(stream)});
    using updater = decltype(optimizer);
    constexpr std::size_t buffers = 2 + updater::slots;
    auto const memory = std::make_shared<std::vector<thrust::device_vector<float>>>();
    memory->reserve(count * buffers);
    auto const slices = std::make_shared<std::vector<gs::slice<updater>>>();
    for (std::size_t k = 0; k < count; ++k) {
        for (std::size_t b = 0; b < buffers; ++b) memory->emplace_back(each, 0.01f);
        auto const at = [&](std::size_t b) {
            return std::span(thrust::raw_pointer_cast((*memory)[k * buffers + b].data()), each);
        };
        [&]<std::size_t... I>(std::index_sequence<I...>) { slices->push_back({at(0), at(1), at(2 + I)...}); }
        (std::make_index_sequence<updater::slots>{});
    }
    return {std::move(name), updater::bytes_per_element, [=, step = optimizer.next_step()] {
                static_cast<void>(memory); // what the slices refer to
                step(*slices);
            }};
}
template <class Rule>
variant model(std::string name, Rule rule, std::size_t count, std::size_t each, cudaStream_t stream) {
    auto const optimizer =
        gs::make_updater<float>(rule, gs::constant{1e-3}, gs::thrust_backend{thrust::cuda::par_nosync.on(stream)});
    auto const net = std::make_shared<gs::model>();
    auto const gradients = std::make_shared<std::vector<thrust::device_vector<float>>>();
    gradients->reserve(count);
    auto const names = std::make_shared<std::vector<std::string>>();
    for (std::size_t k = 0; k < count; ++k) {
        gradients->emplace_back(each, 0.01f);
        names->push_back("tensor " + std::to_string(k));
    }
    std::vector<gs::named_gradient> given;
    for (std::size_t k = 0; k < count; ++k) {
        net->add((*names)[k], gs::parameter{optimizer, (*gradients)[k]});
        given.push_back({(*names)[k], (*gradients)[k]});
    }
    return {std::move(name), optimizer.bytes_per_element, [=] {
                static_cast<void>(names); // what `given` refers to
                static_cast<void>(gradients);
                net->update(given);
            }};
}

void many_tensors(cudaStream_t stream) {
    std::puts("\n| many tensors | time / one call of as many elements | must be at most | host, us a call "
              "|\n|---|---|---|---|");
    auto const lines = [&](std::string const& name, auto rule) {
        for (auto const& [count, each] : {std::pair<std::size_t, std::size_t>{1000, 1000}, {100, 100'000}}) {
            std::string const size = std::to_string(count) + " x " + std::to_string(each);
            std::vector<variant> const all = {update("one", count * each, 0, stream, rule),
                                              many("tensors", rule, count, each, stream),
                                              model("model", rule, count, each, stream)};
            auto const ratio = beside_first(all, stream, 50);
            for (std::size_t v = 0; v < all.size(); ++v)
                std::printf("| %s, %s, %s | %.2f | %s | %.0f |\n", name.c_str(), size.c_str(), all[v].name.c_str(),
                            ratio[v], v == 1 ? "1.30" : "", host_time(all[v].call, stream));
        }
    };
    lines("sgd", gs::sgd{});
    lines("adam", gs::adam{});
}

void whole_tensors(cudaStream_t stream) {
    std::size_t const n = std::size_t(1) << 26;
    auto const gradient = std::make_shared<thrust::device_vector<float>>(n, 0.01f);
    gs::thrust_backend const backend{thrust::cuda::par_nosync.on(stream)};
    std::vector<variant> const all = {
        update("adam", n, 0, stream, gs::adam{}),
        update("lamb, which looks at a tensor before it moves it", n, 0, stream, gs::lamb{}),
        update("lars", n, 0, stream, gs::lars{}),
        {"global_norm", 4, [=] { gs::global_norm(backend, *gradient); }}};
    auto const ratio = beside_first(all, stream, 3);
    std::printf("\n| %zu elements | time / adam | by bytes |\n|---|---|---|\n", n);
    char const* const by_bytes[] = {"1.00", "1.57", "1.00", "0.14"}; // lamb reads w, g, m and v twice, lars w and g
    for (std::size_t v = 0; v < all.size(); ++v)
        std::printf("| %s | %.2f | %s |\n", all[v].name.c_str(), ratio[v], by_bytes[v]);
}

// The traffic of the rows of adagrad and nothing else: a thread moves 16 bytes of each buffer. A
// row has `quarters` of them.
__global__ void move_rows(float4* w, float4* s, float4 const* g, std::int64_t const* ids, std::size_t quarters,
                          std::size_t n) {
    std::size_t const i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    std::size_t const at = static_cast<std::size_t>(ids[i / quarters]) * quarters + i % quarters;
    auto const larger = [](float4 a, float4 b) {
        return make_float4(fmaxf(a.x, b.x), fmaxf(a.y, b.y), fmaxf(a.z, b.z), fmaxf(a.w, b.w));
    };
    float4 const d = g[i];
    w[at] = larger(w[at], d);
    s[at] = larger(s[at], d);
}

void tables(cudaStream_t stream) {
    std::size_t const batches = 8, ids = 65'536;
    std::puts("\n| a batch of 65536 rows of adagrad | time / moving these rows |\n|---|---|");
    for (std::size_t const width : {std::size_t(16), std::size_t(64)}) {
        std::size_t const num_rows = (std::size_t(1) << 27) / width;
        std::mt19937_64 random(1);
        std::vector<std::int64_t> rows(num_rows);
        std::iota(rows.begin(), rows.end(), 0);
        std::shuffle(rows.begin(), rows.end(), random);
        using batch = thrust::device_vector<std::int64_t>;
        auto const distinct = std::make_shared<std::vector<batch>>(), repeated = std::make_shared<std::vector<batch>>();
        for (std::size_t b = 0; b < batches; ++b) {
            auto const first = rows.begin() + static_cast<std::ptrdiff_t>(b * ids);
            distinct->emplace_back(first, first + static_cast<std::ptrdiff_t>(ids));
            std::vector<std::int64_t> some(ids); // each id about four times
            for (auto& id : some) id = first[static_cast<std::ptrdiff_t>(random() % (ids / 4))];
            repeated->emplace_back(some.begin(), some.end());
        }
        auto const gradient = std::make_shared<thrust::device_vector<float>>(ids * width, 0.01f);
        auto const weight = std::make_shared<thrust::device_vector<float>>(num_rows * width, 0.01f);
        auto const state = std::make_shared<thrust::device_vector<float>>(num_rows * width, 0.01f);
        auto const next = [=](auto const& of, std::shared_ptr<std::size_t> const& at) -> batch const& {
            return (*of)[(*at)++ % batches];
        };
        auto const table = [&](std::string name, auto const& of, gs::duplicates duplicates) {
            auto const made = gs::make_updater<float>(gs::adagrad{}, gs::constant{1e-3},
                                                      gs::thrust_backend{thrust::cuda::par_nosync.on(stream)});
            using type = decltype(gs::table{made, num_rows, width, gs::touch_only{}, gs::table_options{}});
            auto const rows_of = std::make_shared<type>(made, num_rows, width, gs::touch_only{},
                                                        gs::table_options{.initial = 0.0, .duplicates = duplicates});
            return variant{std::move(name), 0,
                           [=, at = std::make_shared<std::size_t>(0)] { rows_of->update(next(of, at), *gradient); }};
        };
        std::vector<variant> const all = {
            {"moved by hand", 0,
             [=, at = std::make_shared<std::size_t>(0)] {
                 auto const groups = [](auto const& x) {
                     return reinterpret_cast<float4*>(thrust::raw_pointer_cast(x->data()));
                 };
                 std::size_t const n = ids * width / 4;
                 move_rows<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(
                     groups(weight), groups(state), groups(gradient),
                     thrust::raw_pointer_cast(next(distinct, at).data()), width / 4, n);
             }},
            table("a table, distinct rows that are not compared", distinct, gs::duplicates::assume_unique),
            table("a table, distinct rows that are added up", distinct, gs::duplicates::sum),
            table("a table, each row four times, added up", repeated, gs::duplicates::sum)};
        auto const ratio = beside_first(all, stream, static_cast<int>(batches));
        for (std::size_t v = 0; v < all.size(); ++v)
            std::printf("| %zu x %zu: %s | %.2f |\n", num_rows, width, all[v].name.c_str(), ratio[v]);
    }
}

void bandwidth(cudaStream_t stream) {
    // A step's traffic is bytes_per_element * n; the limit is the device's own copy of buffers that
    // move as many bytes.
    for (std::size_t const n : {std::size_t(1) << 20, std::size_t(1) << 24, std::size_t(1) << 28}) {
        std::vector<variant> const variants = {
            update("sgd", n, 0, stream, gs::sgd{}),
            update("momentum", n, 0, stream, gs::momentum{}),
            update("adagrad", n, 0, stream, gs::adagrad{}),
            update("adam", n, 0, stream, gs::adam{}),
            by_hand(n, stream),
            update("adam, misaligned by one", n, 1, stream, gs::adam{}),
            update("adam + l2 + clip", n, 0, stream, gs::adam{}, gs::all_of{gs::l2{1e-4}, gs::clip_value{1.0}}),
            update("ftrl", n, 0, stream, gs::ftrl{.l1 = 0.1, .l2 = 0.1}),
            update<gs::bfloat16>("sgd bfloat16", n, 0, stream, gs::sgd{}),
            update<gs::bfloat16>("adam bfloat16", n, 0, stream, gs::adam{}),
            update<gs::mixed<gs::bfloat16>>("adam mixed<bfloat16>", n, 0, stream, gs::adam{}),
        };
        thrust::device_vector<char> from(n * 14), to(n * 14); // a copy of them moves as much as an adam step
        auto const copy = [&] {
            require(cudaMemcpyAsync(thrust::raw_pointer_cast(to.data()), thrust::raw_pointer_cast(from.data()), n * 14,
                                    cudaMemcpyDeviceToDevice, stream));
        };
        require(cudaDeviceSynchronize());

        stopwatch watch(stream);
        int const rounds = 15, repeats = static_cast<int>(std::max<std::size_t>(3, (std::size_t(1) << 26) / n));
        std::vector<std::vector<double>> rates(variants.size()), ratio(variants.size());
        std::vector<double> copied;
        for (int round = -1; round < rounds; ++round) { // the first one warms up
            double const limit = 28.0 * static_cast<double>(n) / watch.time(copy, repeats);
            if (round >= 0) copied.push_back(limit);
            for (std::size_t v = 0; v < variants.size(); ++v) {
                double const traffic = static_cast<double>(variants[v].bytes * n);
                double const here = traffic / watch.time(variants[v].call, repeats);
                if (round < 0) continue;
                rates[v].push_back(here);
                ratio[v].push_back(here / limit);
            }
        }
        std::printf(
            "\n%zu elements; copy %.0f GB/s\n| update | bytes an element | GB/s | of the copy | must be at least |\n"
            "|---|---|---|---|---|\n",
            n, median(copied) * 1e-9);
        for (std::size_t v = 0; v < variants.size(); ++v)
            std::printf("| %s | %zu | %.0f | %.2f | %s |\n", variants[v].name.c_str(), variants[v].bytes,
                        median(rates[v]) * 1e-9, median(ratio[v]),
                        variants[v].name == "adam" && n == std::size_t(1) << 28 ? "0.95" : "");
    }
}

} // namespace

int main(int count, char const* const* arguments) {
    std::string const only = count == 3 && std::string(arguments[1]) == "--only" ? arguments[2] : "";
    std::pair<char const*, void (*)(cudaStream_t)> const parts[] = {
        {"bandwidth", bandwidth}, {"many", many_tensors}, {"whole", whole_tensors}, {"tables", tables}};
    auto const is_wanted = [&](auto const& part) { return only.empty() || only == part.first; };
    if ((count != 1 && only.empty()) || std::ranges::none_of(parts, is_wanted)) {
        std::fprintf(stderr, "gpu: expected no argument, or --only with bandwidth, many, whole or tables\n");
        return 2;
    }
    cudaDeviceProp device{};
    require(cudaGetDeviceProperties(&device, 0));
    cudaStream_t stream{};
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::setvbuf(stdout, nullptr, _IOLBF, 0); // a line at once, also to a file
    std::printf("%s, %d multiprocessors, L2 %d MiB\n", device.name, device.multiProcessorCount,
                device.l2CacheSize >> 20);
    for (auto const& part : parts)
        if (is_wanted(part)) part.second(stream);
}
