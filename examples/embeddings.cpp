// An embedding table that is trained by batches of ids: steps, pooled gradients, readers, growth,
// threads, averages, your own memory, and a checkpoint.
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/striped.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace gs = gradstep;

namespace {

bool trains() {
    // [table]
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{1e-4}, gs::constant{0.1});
    gs::table embeddings{optimizer,
                         100'000, // rows
                         16,      // elements of a row
                         gs::exact{},
                         {.initial = gs::uniform{-0.05, 0.05, 1}, .ignore_id = -1}};
    // [table]
    std::vector<float> rows(64);
    // [update]
    std::vector<std::int64_t> const ids{42, 7, 42, -1}; // 42 twice: its gradients are added; -1 is padding
    std::vector<float> gradient(ids.size() * 16, 0.01f);
    embeddings.update(ids, gradient);
    // [update]
    // [bags]
    std::vector<std::int32_t> const offsets{0, 3}; // bag 0 is ids[0] to ids[2], bag 1 the rest
    std::vector<float> const bag_gradient(2 * 16, 0.01f);
    embeddings.update(ids, offsets, bag_gradient);
    // [bags]
    // [weights]
    std::vector<float> const weights{1, 0.5f, 2, 0}; // one for each id; the last id is padding
    gs::bag_options const how{.mode = gs::bag_mode::mean, .weights = weights};
    std::vector<float> pooled(2 * 16);
    embeddings.bags(ids, offsets, pooled, how); // out[0] = (1 row(42) + 0.5 row(7) + 2 row(42)) / 3, out[1] = 0
    embeddings.update(ids, offsets, bag_gradient, {}, how);
    // [weights]
    // [read]
    std::vector<float> const row = embeddings.row(42); // a copy of one row
    std::vector<float> several(2 * 16);
    embeddings.rows(std::vector<std::int64_t>{7, 42}, several); // copies, in this order
    std::span<float const> const all = embeddings.values();     // all rows, after a catch-up of the whole table
    // [read]
    bool const read =
        row[0] == several[16] && row[0] == all[42 * 16] && pooled[16] == 0 && embeddings.clock().step == 3;
    // [grow]
    embeddings.grow(150'000);
    embeddings.reset(std::vector<std::int64_t>{7});
    // [grow]

    namespace fs = std::filesystem;
    fs::path const file = fs::temp_directory_path() / ("gradstep_embeddings_" + std::to_string(::getpid()));
    std::string const path = file;
    // [save]
    embeddings.save(path);

    gs::table resumed{optimizer, 100'000, 16, gs::exact{}};
    resumed.load(path); // the run goes on bit for bit; the table grows to 150 000 rows
    // [save]
    fs::remove(file);
    return read && resumed.num_rows() == 150'000 && resumed.row(42) == row && resumed.row(7) == embeddings.row(7);
}

bool several_threads() {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1});
    std::vector<float> const gradient(8, 1.0f);
    // [striped]
    gs::striped shared{gs::table{optimizer, 1000, 8, gs::exact{}}};
    auto const worker = [&](std::int64_t id) { shared.update(std::vector<std::int64_t>{id}, gradient); };
    std::jthread first(worker, 1), second(worker, 2);
    first.join();
    second.join();
    shared.alone([](auto& table) { table.flush(); }); // with the table to itself: flush, grow, save
    // [striped]
    return shared.row(1)[0] < 0 && shared.row(1) == shared.row(2);
}

bool own_memory() {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{1e-4}, gs::constant{0.1});
    std::vector<std::int64_t> const ids{1};
    std::vector<float> const gradient(4, 1.0f);
    std::size_t const num_rows = 10, width = 4;
    // [memory]
    gs::row_updater rows{optimizer, num_rows, width, gs::exact{}};
    std::vector<float> values(num_rows * width), sums(num_rows * width);
    std::vector<std::uint32_t> stamps(num_rows);
    auto const memory = rows.memory(values, sums, stamps); // a buffer for each state slot; stamps unless touch_only
    rows.initialize(memory);                               // state and stamps as before the first step
    rows.update(memory, ids, gradient);
    std::vector<float> out(width);
    rows.read(memory, ids, out);
    // [memory]
    rows.flush(memory);

    gs::row_updater other{optimizer, num_rows, width, gs::exact{}};
    std::vector<std::uint32_t> other_stamps(num_rows);
    std::vector<float> framework_rows(num_rows * 2 * width);
    // [records]
    std::span<float> const records = framework_rows; // 2 * width floats each: values, then adagrad's sums
    auto const strided =
        other.memory(gs::strided{records, 2 * width}, gs::strided{records.subspan(width), 2 * width}, other_stamps);
    // [records]
    other.initialize(strided);
    other.update(strided, ids, gradient);
    return out[0] < 0 && records[2 * width] == out[0];
}

bool progress() {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{1e-4}, gs::constant{0.1});
    std::vector<std::int64_t> const ids{1};
    std::vector<float> const gradient(4, 1.0f);
    gs::table table{optimizer, 10, 4, gs::exact{}};
    table.update(ids, gradient);
    // [progress]
    auto const from = table.memory(); // values, state, stamps and touches, as they are: do not flush before
    std::vector<float> const values(from.values.begin(), from.values.end());
    std::vector<float> const sums(from.state[0].begin(), from.state[0].end());
    std::vector<std::uint32_t> const stamps(from.stamps.begin(), from.stamps.end());
    gs::row_progress const progress = table.progress(); // the clock and the history, as plain numbers

    gs::table again{optimizer, 10, 4, gs::exact{}};
    auto const to = again.memory();
    std::copy(values.begin(), values.end(), to.values.begin());
    std::copy(sums.begin(), sums.end(), to.state[0].begin());
    std::copy(stamps.begin(), stamps.end(), to.stamps.begin());
    again.restore(progress); // checks that the numbers belong to such a table
    // [progress]
    table.update(ids, gradient);
    again.update(ids, gradient);
    return again.row(1) == table.row(1) && again.row(2) == table.row(2);
}

bool averages() {
    std::vector<std::int64_t> const ids{7};
    std::vector<float> const gradient(4, 1.0f);
    // [average]
    auto const optimizer = gs::make_updater<float>(gs::averaged{gs::adagrad{}, gs::ema{0.99}}, gs::constant{0.1});
    gs::table embeddings{optimizer, 1000, 4, gs::exact{}};
    embeddings.update(ids, gradient);
    std::vector<float> const average = embeddings.average(7); // a copy; averages(ids, out) reads several
    float shown = 0;
    {
        auto const applied = embeddings.apply_average(); // readers see averages until the end of the scope
        shown = embeddings.row(7)[0];
    }
    // [average]
    return shown == average[0] && shown != embeddings.row(7)[0];
}

} // namespace

int main() {
    bool const right = trains() && several_threads() && own_memory() && progress() && averages();
    std::puts(right ? "the table does what its page says" : "the table does not do what its page says");
    return right ? 0 : 1;
}
