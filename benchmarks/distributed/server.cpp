// What an asynchronous server costs beyond the steps that it takes: messages of another process,
// and what holds them to be whole.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/gradstep.hpp>

#include "../measure.hpp"
#include "distributed.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr std::size_t num_rows = 1 << 18, width = 64, keys_a_push = 4096;
auto const adagrad = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.01});
using dense = gs::parameter<std::remove_const_t<decltype(adagrad)>>;
using table = gs::table<std::remove_const_t<decltype(adagrad)>, gs::touch_only>;

double thread_time() {
    std::timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// What rank 0 and rank 1 do in turn: rank 0 updates what it has in its own process; a server there
// takes as many pushes whose messages it has already; it takes those that rank 1 pushes.
class comparison {
public:
    comparison(distributed_options const& o, report& out) : rounds_(o.rounds), out_(out) {}

    // update(k) is the k-th of the updates in process, message(k, header) one of the same gradient,
    // and steps() how many pushes the server has applied.
    template <class Update, class Message, class Steps>
    void serve(gd::server& server, gd::server& in_memory, std::string const& name, int count, Update const& update,
               Message const& message, Steps const& steps) {
        auto const serve_until = [&](auto const& done) {
            while (!done())
                if (auto got = messages_.receive(std::chrono::milliseconds(100))) {
                    for (auto& reply : server.handle(got->from, std::move(got->bytes)))
                        messages_.send(reply.to, std::move(reply.bytes));
                    for (auto& memory : server.spent()) messages_.reuse(std::move(memory));
                }
        };
        gd::detail::wire_header header;
        header.rank = 1;
        header.session = 1;
        auto const tell = [&](gd::detail::wire_kind kind, std::string_view text) {
            header.kind = kind;
            in_memory.handle(1, gd::detail::wire_text(header, text));
        };
        tell(gd::detail::wire_kind::hello, gd::detail::wire_description(1, 2));
        header.parameter = gs::stable_hash(std::string_view("w"));
        header.element = gs::scalar::float32;
        tell(gd::detail::wire_kind::pull, {});
        header.kind = gd::detail::wire_kind::push;
        header.flags = gd::detail::wire_flags::unchecked;

        measure::samples alone, held, pushed;
        serve_until([&] { return steps() == 1; });        // the worker has begun
        for (int round = -1; round != rounds_; ++round) { // the first is not counted
            std::vector<std::vector<std::byte>> messages;
            for (int k = 0; k != count; ++k) {
                header.previous = header.sequence++;
                messages.push_back(message(k, header));
            }
            double begin = thread_time();
            for (int k = 0; k != count; ++k) update(k);
            double const of_alone = thread_time() - begin;
            begin = thread_time();
            for (auto& one : messages) {
                in_memory.handle(1, std::move(one));
                one = std::move(in_memory.spent().front()); // whose memory would be used again
            }
            double const of_held = thread_time() - begin;
            meet();
            auto const before = steps();
            serve_until([&] { return steps() != before; }); // from here on the worker is at work
            begin = measure::wall_time();
            serve_until([&] { return steps() == before + count; });
            double const of_pushed = measure::wall_time() - begin;
            meet();
            if (round < 0) continue;
            alone.push_back(of_alone / count);
            held.push_back(of_held / count);
            pushed.push_back(of_pushed / (count - 1));
        }
        serve_until([&] { return server.finished(); });
        out_.line(name + ", in process, us", scaled(measure::quartiles(alone), 1e6));
        out_.line(name + ", a message that is there, us", scaled(measure::quartiles(held), 1e6));
        out_.line(name + ", a message that is there / in process", measure::ratio(held, alone), 1 / 0.6);
        out_.line(name + ", pushed by a process, us", scaled(measure::quartiles(pushed), 1e6));
    }
    // push(worker, k) is the k-th of the pushes.
    template <class Pull, class Push> void work(int count, Pull const& pull, Push const& push) {
        gd::worker worker(messages_);
        pull(worker);
        push(worker, 0);
        for (int round = -1; round != rounds_; ++round) {
            meet();
            for (int k = 0; k != count; ++k) push(worker, k);
            meet();
        }
        worker.stop();
    }
    gd::mpi_communicator& messages() { return messages_; }

private:
    void meet() {
        auto together = gd::begin_barrier(messages_, 0);
        gd::finish(messages_, together, "the barrier");
    }

    gd::mpi_communicator messages_;
    int rounds_;
    report& out_;
};

std::vector<std::byte> message_of(gd::detail::wire_header const& header, std::span<std::uint64_t const> keys,
                                  std::span<float const> values) {
    gd::detail::wire_writer out(header, keys.size(), values.size());
    out.append(keys);
    out.append(values.data(), values.size_bytes());
    return out.take();
}

// As many gradients as there are pushes in a round: a new one is in no cache of the server's,
// whether it came by a message or not.
std::vector<std::vector<float>> gradients_of(int count, std::size_t elements) {
    return std::vector<std::vector<float>>(static_cast<std::size_t>(count), std::vector<float>(elements, 0.001f));
}

void dense_lines(int rank, distributed_options const& o, report& out, std::size_t elements, int count) {
    comparison ranks(o, out);
    auto const gradients = gradients_of(count, elements);
    auto const gradient = [&](int k) -> std::vector<float> const& { return gradients[static_cast<std::size_t>(k)]; };
    std::vector<float> weights(elements, 1.0f);
    if (rank == 1)
        return ranks.work(
            count, [&](gd::worker& worker) { worker.pull("w", weights); },
            [&](gd::worker& worker, int k) { worker.push("w", gradient(k)); });
    gd::server server(ranks.messages()), in_memory(ranks.messages());
    server.add("w", adagrad, weights);
    in_memory.add("w", adagrad, weights);
    dense alone(adagrad, weights);
    auto const& served = server.get<dense>("w");
    ranks.serve(
        server, in_memory, "dense, " + size_text(elements), count, [&](int k) { alone.update(gradient(k)); },
        [&](int k, auto const& header) { return message_of(header, {}, gradient(k)); },
        [&] { return served.clock().step; });
}
void row_lines(int rank, distributed_options const& o, report& out, int count) {
    comparison ranks(o, out);
    auto const gradients = gradients_of(count, keys_a_push * width);
    auto const gradient = [&](int k) -> std::vector<float> const& { return gradients[static_cast<std::size_t>(k)]; };
    std::mt19937_64 draw(1);
    std::vector<std::vector<std::uint64_t>> batches(static_cast<std::size_t>(count),
                                                    std::vector<std::uint64_t>(keys_a_push));
    for (auto& batch : batches)
        for (auto& key : batch) key = draw() % num_rows;
    auto const batch = [&](int k) { return std::span<std::uint64_t const>(batches[static_cast<std::size_t>(k)]); };
    std::vector<float> rows(keys_a_push * width);
    if (rank == 1)
        return ranks.work(
            count, [&](gd::worker& worker) { worker.pull("w", batch(0), rows); },
            [&](gd::worker& worker, int k) { worker.push("w", batch(k), gradient(k)); });
    gd::server server(ranks.messages()), in_memory(ranks.messages());
    server.add("w", table(adagrad, num_rows, width));
    in_memory.add("w", table(adagrad, num_rows, width));
    table alone(adagrad, num_rows, width);
    auto const& served = server.get<table>("w");
    ranks.serve(
        server, in_memory, "rows, " + size_text(keys_a_push) + " x 64", count,
        [&](int k) { alone.update(batch(k), gradient(k)); },
        [&](int k, auto const& header) { return message_of(header, batch(k), gradient(k)); },
        [&] { return served.clock().step; });
}

} // namespace

void server_lines(gd::mpi_communicator& by, distributed_options const& o, report& out) {
    if (by.size() != 2) return;
    out.section("a server of parameters");
    dense_lines(by.rank(), o, out, 64 * Ki, 100);
    dense_lines(by.rank(), o, out, Mi, 20);
    row_lines(by.rank(), o, out, 32);
}
