// The umbrella without RTTI and without exceptions, as many frameworks build: everything works, and
// an error is told to the host's handler, or printed before the program aborts.
#include <gradstep/gradstep.hpp>
#include <gradstep/striped.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#if defined(__cpp_rtti) || defined(__cpp_exceptions)
#error "this program is compiled with -fno-rtti -fno-exceptions"
#endif

namespace gs = gradstep;

namespace {

int failures = 0;
void check(bool holds, char const* what) {
    if (holds) return;
    std::fprintf(stderr, "not so: %s\n", what);
    ++failures;
}

// What f() says on stderr in a process of its own, and how that ends: its exit code, or minus its
// signal.
struct ending {
    std::string said;
    int how;
};
template <class F> ending ending_of(F const& f) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    pid_t const child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        f();
        std::_Exit(0); // it was refused nothing
    }
    close(ends[1]);
    ending out;
    char buffer[256];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        out.said.append(buffer, static_cast<std::size_t>(n));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    out.how = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return out;
}

// f() is refused by this sentence, with a handler and without.
template <class F> void check_refused(std::string const& sentence, F const& f) {
    ending const told = ending_of([&] {
        gs::set_error_handler([](char const* what) {
            std::fprintf(stderr, "the host is told: %s", what);
            std::_Exit(7);
        });
        f();
    });
    check(told.how == 7 && told.said == "the host is told: " + sentence, sentence.c_str());
    ending const untracked = ending_of(f);
    check(untracked.how == -SIGABRT && untracked.said == sentence + "\n", sentence.c_str());
}

} // namespace

int main() {
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.125});
    auto sgd = gs::make_updater<double>(gs::sgd{}, gs::constant{0.5});
    std::vector<float> const initial(64, 1), g(64, 1);
    std::vector<double> w(64, 1), gw(64, 1), short_one(3);
    gs::model net;
    net.add("adam", gs::parameter{adam, initial});
    net.add("sgd", gs::parameter{sgd, w});
    gs::table rows{adam, 10, 4};

    // Errors of every kind, first: a process with threads does not fork.
    check_refused("gradient: has 3 elements, parameter has 64; expected the same length for all buffers of a tensor",
                  [&] { sgd.next_step()(w, short_one); });
    check_refused("momentum.mu: 2 is out of range; expected [0, 1)",
                  [] { gs::make_updater<float>(gs::momentum{.mu = 2}, gs::constant{1}); });
    check_refused("get: there is no parameter lion; expected one of adam, sgd",
                  [&] { net.get<decltype(sgd)>("lion"); });
    check_refused("get: adam: the requested type is not the type of its updater; expected the type of " +
                      gs::describe(adam),
                  [&] { net.get<decltype(sgd)>("adam"); });
    check_refused(
        "the gradient of sgd: is of another type than the parameter; expected the type that double has in memory", [&] {
            net.update({{"adam", g}, {"sgd", g}});
        });
    check_refused("callback_executor: the callback made 0 calls and ran 0 of 2 parts; expected each part once", [] {
        gs::callback_executor idle(2, [](std::size_t, gs::task) {});
        idle.run(2, gs::task([](std::size_t) {}));
    });

    sgd.next_step()(w, gw);
    check(w.front() == 0.5 && w.back() == 0.5, "a step");
    gs::thread_pool pool(2);
    gs::model on_threads{pool, {.clip_norm = 1e9, .on_nonfinite = gs::nonfinite::skip}};
    on_threads.add("adam", gs::parameter{adam, initial});
    on_threads.update({{"adam", g}});
    net.update({{"adam", g}, {"sgd", gw}});
    float const expected = net.get<decltype(adam)>("adam").values()[63];
    check(std::fabs(expected - 0.875f) < 1e-6f && on_threads.get<decltype(adam)>("adam").values()[63] == expected,
          "a model");

    std::vector<std::int64_t> const ids{3};
    std::vector<float> const row_gradient(4, 1);
    rows.update(ids, row_gradient);
    check(std::fabs(rows.row(3)[0] + 0.125f) < 1e-6f && rows.row(2)[0] == 0, "a table");
    gs::striped<decltype(rows)> shared{rows};
    shared.update(ids, row_gradient);
    shared.alone([&](auto& all) { check(all.row(3)[0] < rows.row(3)[0] - 0.1f, "a table for several writers"); });
    return failures == 0 ? 0 : 1;
}
