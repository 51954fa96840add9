// Safetensors files: what the format has not is refused, what it has is read, and a model or a
// table takes a checkpoint whole or is as it was. An input is a file, or, where it begins with {,
// the header up to the end of the line and then the data, before which the target puts the header's
// length.
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.hpp"
#include "subjects.hpp"

// A model of two parameters.
struct pair_of {
    gs::model net;
    explicit pair_of(int steps) {
        net.add("weight", dense(steps));
        net.add("\xc3\xa4/b", dense(steps + 1));
    }
    parameter_type& operator[](char const* name) { return net.get<std::remove_const_t<decltype(adam)>>(name); }
    void save(std::string const& path) { net.save(path); }
    void load(std::string const& path) { net.load(path); }
};
inline std::string state(pair_of const& x) {
    auto& all = const_cast<pair_of&>(x);
    return state(all["weight"]) + state(all["\xc3\xa4/b"]);
}
inline void step(pair_of& x) {
    step(x["weight"]);
    step(x["\xc3\xa4/b"]);
}

namespace {

// A file in memory, which has a name like others.
class memory_file {
public:
    memory_file() : file_(::memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(file_)) {
        fuzz::require(file_ >= 0, "the system gives no file in memory");
    }
    std::string const& path() const { return path_; }
    void write(std::string_view bytes) const {
        bool const written = ::ftruncate(file_, 0) == 0 &&
                             ::pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<::ssize_t>(bytes.size());
        fuzz::require(written, "the system does not write to memory");
    }

private:
    int file_;
    std::string path_;
};

std::string file_of(std::string_view input) {
    if (!input.starts_with('{')) return std::string(input);
    std::string_view const header = input.substr(0, input.find('\n'));
    std::string_view const data = input.substr(std::min(input.size(), header.size() + 1));
    std::string out(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i) & 255);
    return out.append(header).append(data);
}
std::string input_of(std::string_view file) {
    std::string_view const header = file.substr(8, file.find("}", file.rfind("data_offsets")) + 2 - 8);
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- != 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
    return std::string(header).append("\n").append(file.substr(8 + length));
}

// All that a reader says of a file is so.
void read_all(std::string const& path, std::string_view file) {
    gs::safetensors_reader const reader(path);
    std::uint64_t data = 0;
    for (gs::safetensors_entry const& x : reader.tensors()) {
        fuzz::require(reader.find(x.name) == &x, "a tensor is not found by its name");
        fuzz::require(x.begin == data && x.end >= x.begin, "the tensors do not follow each other");
        data = x.end;
    }
    fuzz::require(data <= file.size() - 8, "there is more data than the file has");
    std::string_view const bytes = file.substr(file.size() - data);
    for (gs::safetensors_entry const& x : reader.tensors()) {
        std::string got(x.end - x.begin, '\0');
        reader.read(x, 0, std::as_writable_bytes(std::span(got)));
        fuzz::require(got == bytes.substr(x.begin, got.size()), "a tensor is read from somewhere else");
        got += '\0';
        fuzz::require(!fuzz::takes([&] { reader.read(x, 0, std::as_writable_bytes(std::span(got))); }),
                      "more is read of a tensor than it has");
    }
}

template <class Make> bool load(std::string const& path, Make const& make) {
    auto subject = make(2);
    if (!takes_whole(subject, [&](auto& x) { x.load(path); })) return false;
    auto again = make(1);
    again.load(path);
    require_same_run(subject, std::move(again));
    return true;
}
template <class X> std::string saved(X x) {
    char name[] = "/tmp/gradstep_fuzz_XXXXXX";
    int const file = ::mkstemp(name);
    fuzz::require(file >= 0, "no file can be made");
    ::close(file);
    x.save(name);
    std::ifstream in(name, std::ios::binary);
    std::string const out{std::istreambuf_iterator<char>(in), {}};
    ::unlink(name);
    return out;
}

} // namespace

std::vector<std::pair<std::string, std::string>> fuzz::written_seeds() {
    std::string const parameter = saved(dense(3));
    return {{"parameter", input_of(parameter)},
            {"model", input_of(saved(pair_of(3)))},
            {"table", input_of(saved(rows(21)))},
            {"file", parameter}};
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    static memory_file const here;
    std::string const file = file_of({reinterpret_cast<char const*>(data), size});
    here.write(file);
    bool taken = false;
    if (fuzz::takes([&] { gs::safetensors_reader const opened(here.path()); })) {
        read_all(here.path(), file);
        taken = load(here.path(), dense);
        taken = load(here.path(), [](int steps) { return pair_of(steps); }) || taken;
        taken = load(here.path(), rows) || taken;
    } else {
        fuzz::require(!fuzz::takes([&] { dense(0).load(here.path()); }), "a file that is not of the format is loaded");
    }
    all.count(taken);
    return 0;
}
