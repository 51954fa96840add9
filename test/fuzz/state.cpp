// State blobs: whatever the bytes are, a parameter or a table takes them whole, or is as it was. The target puts size and
// checksum right, or nothing behind them would ever be read.
#include <gradstep/gradstep.hpp>

#include <gradstep/io/state.hpp>

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
    std::string const before = state(subject);
    if (!fuzz::takes([&] { gs::load_state(subject, blob); })) {
        fuzz::require(state(subject) == before, "it was refused, and has changed");
        return false;
    }
    require_same_run(subject, [&] {
        auto again = make(1);
        std::string const saved = state(subject);
        gs::load_state(again, std::as_bytes(std::span(saved)));
        return again;
    }());
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
