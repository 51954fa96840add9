/// Our side of rows.py, as a shared library for ctypes, and the comparison with FBGEMM's generated
/// kernel, which needs no Python: it is called here through its symbol in fbgemm.so.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/table.hpp>

#include "../rows_workload.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace gs = gradstep;

namespace {

constexpr double learning_rate = 0.01, epsilon = 1e-10;

template <class Rule> auto make_table(Rule rule, std::size_t num_rows, std::size_t width, gs::duplicates duplicates) {
    return gs::table{gs::make_updater<float>(rule, gs::constant{learning_rate}, gs::simd_backend{}),
                     num_rows,
                     width,
                     gs::touch_only{},
                     {.initial = 0.0, .duplicates = duplicates}};
}

/// A table whose rule Python chooses.
struct any_table {
    std::function<void(std::span<std::int64_t const>, std::span<float const>)> update;
    std::function<void(std::int64_t, std::span<float>)> row;
    std::size_t width;
};

template <class Rule> any_table* new_table(Rule rule, std::size_t num_rows, std::size_t width) {
    using table = decltype(make_table(rule, num_rows, width, gs::duplicates::sum));
    auto const t = std::make_shared<table>(make_table(rule, num_rows, width, gs::duplicates::sum));
    return new any_table{[t](auto ids, auto gradient) { t->update(ids, gradient); },
                         [t](auto id, auto out) { t->row(id, out); }, width};
}

// FBGEMM's generator of a kernel (width of a row, whether its state is one number, how many rows to
// prefetch ahead, whether there is weight decay), and the kernel: rows, elements of w, w, gradient,
// state, ids, epsilon, rate (it adds rate * g / root), and what belongs to weight decay. It returns
// how many rows it has done, and fewer than there are if an id is out of range.
template <class Id>
using fbgemm_kernel = std::function<int(int, std::uint64_t, float*, float const*, float*, Id const*, float, float,
                                        float, double const*, std::int64_t)>;
template <class Id> using fbgemm_generator = fbgemm_kernel<Id> (*)(int, bool, int, bool);
template <class Id> constexpr char const* fbgemm_symbol = nullptr;
template <>
constexpr char const* fbgemm_symbol<std::int32_t> =
    "_ZN6fbgemm21GenerateSparseAdaGradIiEENS_22SparseAdaGradSignatureIT_E4TypeEibib";
template <>
constexpr char const* fbgemm_symbol<std::int64_t> =
    "_ZN6fbgemm21GenerateSparseAdaGradIlEENS_22SparseAdaGradSignatureIT_E4TypeEibib";

template <class Id> fbgemm_kernel<Id> fbgemm_adagrad(char const* library, std::size_t width) {
    void* const loaded = dlopen(library, RTLD_NOW);
    if (!loaded) throw std::runtime_error(dlerror());
    auto const generate = reinterpret_cast<fbgemm_generator<Id>>(dlsym(loaded, fbgemm_symbol<Id>));
    if (!generate) throw std::runtime_error(dlerror());
    constexpr int default_prefetch = 16;
    return generate(static_cast<int>(width), false, default_prefetch, false);
}

/// FBGEMM's step on its own weights and state, in the same kind of memory as gradstep's tables.
template <class Id> struct fbgemm_table {
    fbgemm_kernel<Id> kernel;
    std::size_t width;
    rows::array w, state;

    fbgemm_table(char const* library, std::size_t num_rows, std::size_t row_width)
        : kernel(fbgemm_adagrad<Id>(library, row_width)), width(row_width), w(num_rows * width),
          state(num_rows * width) {}

    void update(std::span<Id const> ids, std::span<float const> gradient) {
        int const done =
            kernel(static_cast<int>(ids.size()), w.size(), w.data(), gradient.data(), state.data(), ids.data(),
                   static_cast<float>(epsilon), static_cast<float>(-learning_rate), 0.0f, nullptr, 0);
        if (static_cast<std::size_t>(done) != ids.size()) throw std::runtime_error("FBGEMM refused a row");
    }
    void row(Id id, std::span<float> out) const {
        std::copy_n(w.begin() + static_cast<std::ptrdiff_t>(id) * static_cast<std::ptrdiff_t>(width), width,
                    out.begin());
    }
};

template <class Id> struct batch {
    std::vector<Id> ids;
    rows::array const* gradient;
};

template <class Table, class Id>
measure::call steps(Table& table, std::vector<batch<Id>> const& batches, std::size_t first) {
    return [&table, &batches, next = first]() mutable {
        auto const& [ids, gradient] = batches[next++ % batches.size()];
        table.update(std::span<Id const>(ids), std::span<float const>(*gradient));
    };
}

template <class Table, class Id> void require_equal(Table const& a, fbgemm_table<Id> const& b, batch<Id> const& some) {
    std::vector<float> x(b.width), y(b.width);
    for (Id const id : some.ids) {
        a.row(id, x);
        b.row(id, y);
        for (std::size_t k = 0; k < b.width; ++k)
            if (!(std::abs(x[k] - y[k]) <= 1e-6f))
                throw std::runtime_error("FBGEMM and the table differ in row " + std::to_string(id));
    }
}

template <class Id>
std::vector<measure::samples> race_fbgemm(char const* library, std::size_t num_rows, std::size_t width,
                                          std::size_t size, int rounds) {
    auto const w = rows::distinct(num_rows, width, size);
    std::vector<batch<Id>> batches;
    for (rows::batch const& b : w.batches) batches.push_back({{b.ids.begin(), b.ids.end()}, &b.gradient});

    fbgemm_table<Id> theirs(library, num_rows, width);
    auto ours = make_table(gs::adagrad{.epsilon = epsilon}, num_rows, width, gs::duplicates::assume_unique);
    auto const their_step = steps(theirs, batches, 0), our_step = steps(ours, batches, 0);
    for (std::size_t b = 0; b < batches.size(); ++b) { // all pages are touched once
        their_step();
        our_step();
    }
    require_equal(ours, theirs, batches.front());
    return measure::interleave({steps(theirs, batches, 0), steps(ours, batches, batches.size() / 2)}, rounds);
}

/// f(), or `failed` with the reason on stderr: nothing may be thrown into Python.
template <class F, class Result> Result guarded(Result failed, F const& f) noexcept {
    try {
        return f();
    } catch (std::exception const& problem) {
        std::fprintf(stderr, "peers/rows: %s\n", problem.what());
        return failed;
    }
}

} // namespace

/// A table of zeros that sums duplicates, with the rule "adagrad" or "adam"; null if that fails. It
/// lives until the end.
EXPORT void* peers_new_table(char const* rule, std::size_t num_rows, std::size_t width) {
    return guarded(static_cast<any_table*>(nullptr), [&] {
        std::string const name = rule;
        if (name == "adagrad") return new_table(gs::adagrad{.epsilon = epsilon}, num_rows, width);
        if (name == "adam") return new_table(gs::adam{}, num_rows, width);
        throw std::runtime_error("no rule " + name);
    });
}

EXPORT int peers_update(void* table, std::int64_t const* ids, std::size_t count, float const* gradient) {
    auto const& t = *static_cast<any_table*>(table);
    return guarded(1, [&] { return t.update(std::span(ids, count), std::span(gradient, count * t.width)), 0; });
}

EXPORT int peers_row(void* table, std::int64_t id, float* out) {
    auto const& t = *static_cast<any_table*>(table);
    return guarded(1, [&] { return t.row(id, std::span(out, t.width)), 0; });
}

/// count x size ids with a Zipf distribution.
EXPORT int peers_zipf(std::size_t num_rows, std::size_t size, std::size_t count, double exponent, std::int64_t* out) {
    return guarded(1, [&] {
        for (batches::ids const& batch : batches::zipf(num_rows, size, count, exponent))
            out = std::ranges::copy(batch, out).out;
        return 0;
    });
}

/// Seconds of `rounds` steps of FBGEMM's kernel and of gradstep on distinct ids of 32 or 64 bits.
EXPORT int peers_race_fbgemm(char const* library, int id_bits, std::size_t num_rows, std::size_t width,
                             std::size_t size, int rounds, double* theirs, double* ours) {
    return guarded(1, [&] {
        auto const race = id_bits == 32 ? race_fbgemm<std::int32_t> : race_fbgemm<std::int64_t>;
        auto const times = race(library, num_rows, width, size, rounds);
        std::ranges::copy(times[0], theirs);
        std::ranges::copy(times[1], ours);
        return 0;
    });
}
