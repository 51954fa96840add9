// State blobs: whatever the bytes are, a parameter or a table takes them whole, or is as it was.
// The target puts size and checksum right, or nothing behind them would ever be read.
#include <gradstep/gradstep.hpp>

#include <gradstep/saved/blob.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "subjects.hpp"

namespace {

template <class Make> bool load(std::span<std::byte const> blob, Make const& make) {
    auto subject = make(2);
    if (!takes_whole(subject, [&](auto& x) { gs::load_state(x, blob); })) return false;
    require_same_run(subject, loaded(state(subject), make(1)));
    return true;
}

} // namespace

std::vector<std::pair<std::string, std::string>> fuzz::written_seeds() {
    return {{"parameter", state(dense(3))}, {"table", state(rows(21))}};
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    auto const blob = fuzz::sealed({data, size});
    bool const taken = load(blob, dense), taken_by_rows = load(blob, rows);
    all.count(taken || taken_by_rows);
    return 0;
}
