// State blobs of keyed tables: whatever the bytes are, a table takes them whole, or is as it was,
// and finds each of its keys.
#include "keyed_subjects.hpp"

namespace {

bool load(std::span<std::byte const> blob) {
    keyed_type subject = keyed(5);
    if (!takes_whole(subject, [&](keyed_type& x) { gs::load_state(x, blob); })) return false;
    auto const keys = subject.keys();
    fuzz::require(keys.size() == subject.num_rows(), "there are keys without rows");
    for (std::uint64_t const key : keys) fuzz::require(subject.contains(key), "a key is not found");
    require_same_run(subject, loaded(state(subject), keyed(1)));
    return true;
}

} // namespace

std::vector<std::pair<std::string, std::string>> fuzz::written_seeds() {
    return {{"young", state(keyed(3))}, {"old", state(keyed(40))}};
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    all.count(load(fuzz::sealed({data, size})));
    return 0;
}
