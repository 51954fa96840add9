// Changes of keyed tables: what is decoded is encoded to the same bytes, and a replica takes them
// whole, as another one does, or is as it was.
#include <cstring>
#include <map>

#include "keyed_subjects.hpp"

namespace {

using changes_type = keyed_type::changes_type;

// What a replica that stands at this step makes of them.
bool apply(changes_type const& changes, int steps) {
    keyed_type replica = keyed(steps);
    if (!takes_whole(replica, [&](keyed_type& x) { x.apply(changes); })) return false;
    std::map<std::uint64_t, std::size_t> last; // of a key that appears several times
    for (std::size_t k = 0; k < changes.keys.size(); ++k) last[changes.keys[k]] = k;
    for (auto const& [key, k] : last) {
        fuzz::require(replica.contains(key), "a row that was sent is not there");
        auto const row = replica.row(key);
        fuzz::require(std::memcmp(row.data(), &changes.values[k * 2], 2 * sizeof(float)) == 0,
                      "a row that was sent has other values");
    }
    for (std::uint64_t const key : changes.evicted)
        fuzz::require(last.contains(key) || !replica.contains(key), "a row that is gone is still there");
    fuzz::require(changes.since != 0 || replica.num_rows() == last.size(), "all was replaced, and more is there");
    require_same_run(replica, [&] {
        keyed_type again = keyed(steps);
        again.apply(changes);
        return again;
    }());
    return true;
}

} // namespace

std::vector<std::pair<std::string, std::string>> fuzz::written_seeds() {
    keyed_type source = keyed(12);
    return {{"all", bytes_of(source.changed_since(0).encode())},
            {"all_state", bytes_of(source.changed_since(0, gs::row_content::state).encode())},
            {"all_int8", bytes_of(source.changed_since(0, gs::row_content::int8).encode())},
            {"some", bytes_of(source.changed_since(7).encode())},
            {"some_state", bytes_of(source.changed_since(7, gs::row_content::state).encode())}};
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    auto const bytes = fuzz::sealed({data, size});
    changes_type changes;
    bool taken = fuzz::takes([&] { changes = changes_type::decode(bytes); });
    if (taken) {
        // Rows in 8 bits have other scales once they are decoded.
        auto const again = changes.encode();
        fuzz::require(changes.content == gs::row_content::int8 ? again.size() == bytes.size() : again == bytes,
                      "changes are encoded otherwise than they came");
        bool const by_old = apply(changes, 10), by_new = apply(changes, 0);
        taken = by_old || by_new;
    }
    all.count(taken);
    return 0;
}
