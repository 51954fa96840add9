#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gradstep/saved/safetensors.hpp>

#include "support/catch.hpp"

/// A file with something of it replaced: `change` gets the entries and the metadata of a good one.
template <class Change> void rewrite(std::string const& from, std::string const& to, Change const& change) {
    gradstep::safetensors_reader const reader(from);
    auto entries = reader.tensors();
    auto metadata = reader.metadata();
    std::vector<std::byte> data;
    for (auto const& x : entries) {
        data.resize(x.end);
        reader.read(x, 0, std::span(data).subspan(x.begin));
    }
    change(entries, metadata);
    gradstep::safetensors_writer writer(to, entries, metadata);
    data.resize(writer.tensors().empty() ? 0 : writer.tensors().back().end);
    writer.write(data);
    writer.commit();
}
inline void replace(std::string& in, std::string const& what, std::string const& by) {
    REQUIRE(in.find(what) != in.npos);
    in.replace(in.find(what), what.size(), by);
}
