// The safetensors format: what is written is read, what is not of the format is refused.
#include <gradstep/json/detail/json.hpp>
#include <gradstep/saved/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/file_calls.hpp"
#include "support/folder.hpp"
#include "support/refusal.hpp"

#if defined(REPLACES_FILE_CALLS)
#include <sys/wait.h>
#endif

namespace gs = gradstep;

namespace {

std::string with_length(std::string const& header, std::string const& data = "") {
    std::string out(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i) & 255);
    return out + header + data;
}
std::string refusal_of(folder const& in, std::string const& bytes) {
    write_bytes(in / "hostile", bytes);
    return refusal<gs::value_error>([&] { gs::safetensors_reader reader(in / "hostile"); });
}
template <class T> std::span<std::byte const> as_bytes(std::vector<T> const& x) { return std::as_bytes(std::span(x)); }

void write_small(std::string const& file, float first) {
    std::vector<float> const values{first, 2, 3, 4};
    gs::safetensors_writer writer(file, {{"w", "F32", {4}}}, {{"made", "once"}});
    writer.write(as_bytes(values).first(5));
    writer.write(as_bytes(values).subspan(5));
    writer.commit();
}
float first_of(std::string const& file) {
    gs::safetensors_reader const reader(file);
    float first = 0;
    REQUIRE(reader.find("w") != nullptr);
    reader.read(*reader.find("w"), 0, std::as_writable_bytes(std::span(&first, 1)));
    return first;
}

} // namespace

TEST_CASE("What a safetensors file is written from is read from it, each tensor aligned to its elements",
          "[saved][safetensors]") {
    folder const in;
    std::vector<std::uint16_t> const halves{1, 2, 3};
    std::vector<double> const doubles{0.5, -0.0};
    std::vector<float> const floats{1, 2, 3, 4, 5, 6};
    std::string const odd = "\xc3\xa4 \"quoted\"\n/\\";
    gs::safetensors_writer writer(
        in / "file", {{"halves", "BF16", {3}}, {"none", "I64", {2, 0}}, {odd, "F32", {2, 3}}, {"d", "F64", {2}}},
        {{"format", "1"}, {odd, odd}});
    for (auto const& x : writer.tensors())
        writer.write(x.name == "halves" ? as_bytes(halves)
                     : x.name == "d"    ? as_bytes(doubles)
                     : x.name == odd    ? as_bytes(floats)
                                        : std::span<std::byte const>());
    CHECK_FALSE(std::filesystem::exists(in / "file"));
    writer.commit();
    CHECK(in.names() == std::vector<std::string>{"file"});

    gs::safetensors_reader const reader(in / "file");
    CHECK(reader.metadata() == gs::safetensors_metadata{{"format", "1"}, {odd, odd}});
    REQUIRE(reader.tensors().size() == 4);
    std::vector<float> read(6);
    auto const* const x = reader.find(odd);
    REQUIRE(x != nullptr);
    CHECK(x->dtype == "F32");
    CHECK(x->shape == std::vector<std::uint64_t>{2, 3});
    reader.read(*x, 0, std::as_writable_bytes(std::span(read)));
    CHECK(read == floats);
    std::uint16_t last = 0;
    reader.read(*reader.find("halves"), 4, std::as_writable_bytes(std::span(&last, 1)));
    CHECK(last == 3);
    CHECK(reader.find("nothing") == nullptr);
    CHECK_THAT(refusal<gs::size_error>(
                   [&] { reader.read(*reader.find("halves"), 5, std::as_writable_bytes(std::span(&last, 1))); }),
               ContainsSubstring("bytes 5 to 7 of tensor \"halves\" are out of range; expected [0, 6]"));
    std::uint64_t const data = bytes_of(in / "file").size() - reader.tensors().back().end;
    CHECK(data % 64 == 0);
    CHECK(reader.find("d")->begin % 8 == 0);
    CHECK(x->begin % 4 == 0);
}

TEST_CASE("A file of another kind is refused by the name of its kind", "[saved][safetensors]") {
    using namespace std::string_literals;
    std::string const zip = "PK\x03\x04\x00\x00\x08\x08\x00\x00"s, more(200, '\x01');
    struct {
        std::string beginning, kind;
    } const cases[] = {
        {zip + "model/data.pkl", "a zip archive, as torch.save writes"},
        {zip + "weight.npy", "an .npz file of numpy"},
        {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."s, "a pickle, as old versions of torch.save write"},
        {"\x80\x05\x95\x0c\x00\x00\x00\x00\x00\x00\x00}"s, "a pickle, as old versions of torch.save write"},
        {"GGUF\x03\x00\x00\x00"s, "a GGUF file"},
        {"\x89HDF\r\n\x1a\n\x00\x00"s, "an HDF5 file"},
        {"\x93NUMPY\x01\x00v\x00{'descr': '<f4'"s, "an .npy file of numpy"},
        {"\x1f\x8b\x08\x00"s, "a gzip file"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:",
         "a pointer of Git LFS, whose file was not downloaded"},
        {"<!DOCTYPE html>", "an HTML page"},
        {"gs-state\x03\x00\x00\x00"s, "a saved state of gradstep"},
    };
    folder const in;
    for (auto const& [beginning, kind] : cases)
        for (std::string const& bytes : {beginning, beginning + more}) {
            INFO(kind);
            CHECK(refusal_of(in, bytes) == in / "hostile" + ": is " + kind + "; expected a safetensors file");
            CHECK(refusal<gs::value_error>([&] { gs::detail::parse_json(bytes); }) ==
                  "the document: is " + kind + "; expected JSON");
        }
    for (char const* const json : {"{}", "{\"weight_map\": {\"a\": \"b\"}}", "\n [1, 2, 3, 4, 5]"})
        CHECK(refusal_of(in, json) == in / "hostile" + ": is JSON; expected a safetensors file");
    // A file of the format, or of an unknown kind, is no other kind.
    CHECK_THAT(refusal_of(in, std::string(200, '\x55')),
               ContainsSubstring("is no safetensors file: the number at its "));
    std::string const good = with_length("{}" + std::string(0x7b - 2, ' '));
    write_bytes(in / "good", good); // whose first byte is {
    CHECK_NOTHROW(gs::safetensors_reader(in / "good"));
    CHECK_THAT(refusal_of(in, good.substr(0, 60)), ContainsSubstring("the header has 123 bytes; expected at most 52"));
    CHECK_THAT(refusal<gs::value_error>([&] { gs::detail::parse_json(good); }),
               ContainsSubstring("is a safetensors file"));
}

TEST_CASE("Whatever the format does not have is refused, by the name of the tensor", "[saved][safetensors]") {
    folder const in;
    std::string const data(8, 'x');
    auto const tensor = [](std::string const& shape, std::string const& offsets, std::string const& dtype = "F32") {
        return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
    };
    std::string const w = R"("w":)", half = tensor("[1]", "[0,4]"), whole = tensor("[2]", "[0,8]");
    struct { // NOLINT
        std::string header, expected;
    } const cases[] = {
        {"{" + w + tensor("[2]", "[0,8]", "F31") + "}", "tensor \"w\": the dtype \"F31\" is unknown"},
        {"{" + w + tensor("[2]", "[0,8]", "F64") + "}", "tensor \"w\": data_offsets has 8 bytes, its shape 16"},
        {"{" + w + tensor("[3]", "[0,8]") + "}", "tensor \"w\": data_offsets has 8 bytes, its shape 12"},
        {"{" + w + tensor("[]", "[0,8]") + "}", "tensor \"w\": data_offsets has 8 bytes, its shape 4"},
        {"{" + w + tensor("[4]", "[0,16]") + "}", "tensor \"w\": data_offsets = [0, 16]"},
        {"{" + w + tensor("[2]", "[8,0]") + "}", "tensor \"w\": data_offsets = [8, 0]"},
        {"{" + w + tensor("[18446744073709551615,18446744073709551615]", "[0,8]") + "}",
         "tensor \"w\": its shape has more bytes than can be counted"},
        {"{" + w + tensor("[4611686018427387906]", "[0,8]") + "}",
         "tensor \"w\": its shape has more bytes than can be counted"},
        {"{" + w + tensor("[18446744073709551616]", "[0,8]") + "}",
         "tensor \"w\": a number that is not one of 64 bits; expected whole numbers"},
        {"{" + w + tensor("[-2]", "[0,8]") + "}", "tensor \"w\": a negative number"},
        {"{" + w + tensor("[2.0]", "[0,8]") + "}",
         "tensor \"w\": a number that is not one of 64 bits; expected whole numbers"},
        {"{" + w + tensor("[[2]]", "[0,8]") + "}", "tensor \"w\": a list; expected whole numbers"},
        {"{" + w + tensor("2", "[0,8]") + "}", "tensor \"w\": a number; expected a list of whole numbers"},
        {"{" + w + tensor("[2]", "[0,8,8]") + "}", "tensor \"w\": a number; expected 2 whole numbers"},
        {"{" + w + tensor("[2]", "[8]") + "}", "tensor \"w\": data_offsets has 1 numbers"},
        {"{" + w + tensor("[2]", "{}") + "}", "tensor \"w\": an object; expected a list of whole numbers"},
        {"{" + w + tensor("null", "[0,8]") + "}", "tensor \"w\": null; expected a list of whole numbers"},
        {"{" + w + "[]}", "the header: a list; expected an object"},
        {"{" + w + half + "," + R"("v":)" + half + "}", "tensor \"v\": its data begins at byte 0, within that of"},
        {"{" + w + half + "}", "4 bytes after the last tensor"},
        {"{" + w + tensor("[1]", "[4,8]") + "}", "tensor \"w\": its data begins at byte 4, which leaves a hole"},
        {"{}", "8 bytes after the last tensor"},
        {"{" + w + half + "," + w + tensor("[1]", "[4,8]") + "}", "tensor \"w\" comes twice"},
        {"{" + w + R"({"dtype":"F32","shape":[2]}})", "tensor \"w\": data_offsets is missing"},
        {"{" + w + R"({"shape":[2],"data_offsets":[0,8]}})", "tensor \"w\": dtype is missing"},
        {"{" + w + R"({"dtype":"F32","dtype":"F32"}})", "tensor \"w\": \"dtype\" comes twice"},
        {"{" + w + R"({"offsets":[0,8]}})",
         "tensor \"w\": \"offsets\" is not known; expected dtype, shape and data_offsets"},
        {R"({"__metadata__":{"a":1},)" + w + whole + "}", "__metadata__: a number; expected text"},
        {R"({"__metadata__":{"a":{}},)" + w + whole + "}", "__metadata__: an object; expected text"},
        {R"({"__metadata__":[],)" + w + whole + "}", "the header: a list; expected an object"},
        {R"({"__metadata__":{"a":"1","a":"2"},)" + w + whole + "}", "__metadata__ has \"a\" twice"},
        {R"({"__metadata__":{},"__metadata__":{},)" + w + whole + "}", "the header has __metadata__ twice"},
        {"{\"w\xff\":" + whole + "}", "expected JSON in UTF-8"},
        {"{\"\xed\xa0\x80\":" + whole + "}", "expected JSON in UTF-8"},
        {"{" + w + whole + "}}", "expected JSON in UTF-8"},
        {"{" + w + whole + "} {", "expected JSON in UTF-8"},
        {"{" + w + whole + ",}", "expected JSON in UTF-8"},
        {"{" + w + whole, "expected JSON in UTF-8"},
        {"{\"w\":" + std::string(1'000'000, '['), "the header: a list; expected an object"},
        {" {" + w + whole + "}", "does not begin with {"},
        {"", "does not begin with {"},
        {"[]", "does not begin with {"},
    };
    for (auto const& one : cases) {
        std::string const said = refusal_of(in, with_length(one.header, data));
        CAPTURE(one.header.substr(0, 200));
        CHECK_THAT(said, ContainsSubstring(one.expected));
        CHECK_THAT(said, ContainsSubstring(in / "hostile"));
    }
    std::string const good = with_length("{" + w + whole + "}", data);
    write_bytes(in / "good", good);
    CHECK(gs::safetensors_reader(in / "good").tensors().size() == 1);
    for (std::size_t cut = 0; cut < good.size(); ++cut) refusal_of(in, good.substr(0, cut));
    CHECK_THAT(refusal_of(in, good + "x"), ContainsSubstring("1 bytes after the last tensor"));
    std::string longer = good;
    for (std::size_t i = 0; i < 8; ++i) longer[i] = '\xff';
    CHECK_THAT(refusal_of(in, longer), ContainsSubstring("expected at most 4000000000"));
    longer = good;
    longer[0] = static_cast<char>(good.size() - 7);
    CHECK_THAT(refusal_of(in, longer),
               ContainsSubstring(" bytes; expected at most " + std::to_string(good.size() - 8)));
    std::string const name(5000, 'n');
    CHECK(refusal_of(in, with_length("{\"" + name + "\":1}")).size() < 300);
}

TEST_CASE("A safetensors file is not begun with names, types and data that it cannot have", "[saved][safetensors]") {
    folder const in;
    auto const said = [&](std::vector<gs::safetensors_entry> tensors, gs::safetensors_metadata const& metadata = {}) {
        return refusal<gs::value_error>([&] { gs::safetensors_writer(in / "file", std::move(tensors), metadata); });
    };
    CHECK_THAT(said({{"w", "F31", {1}}}), ContainsSubstring("tensor \"w\": the format has no dtype \"F31\""));
    CHECK_THAT(said({{"w", "F32", {1}}, {"v", "F32", {1}}, {"w", "F64", {1}}}), ContainsSubstring("\"w\" comes twice"));
    CHECK_THAT(said({{"w\xff", "F32", {1}}}), ContainsSubstring("expected UTF-8"));
    CHECK_THAT(said({{"__metadata__", "F32", {1}}}), ContainsSubstring("another use"));
    CHECK_THAT(said({{"w", "F32", {UINT64_MAX / 4 + 1}}}), ContainsSubstring("more bytes than can be counted"));
    CHECK_THAT(said({{"v", "U8", {UINT64_MAX}}, {"w", "U8", {2}}}), ContainsSubstring("tensor \"w\": its shape has"));
    CHECK_THAT(said({}, {{"a", "\xff"}}), ContainsSubstring("is not UTF-8"));
    CHECK_THAT(refusal<gs::size_error>([&] {
                   gs::safetensors_writer writer(in / "file", {{"w", "F32", {1}}}, {});
                   writer.commit();
               }),
               ContainsSubstring("there are 0 bytes of data; expected 4, as the tensors have"));
    CHECK_THAT(refusal<gs::size_error>([&] {
                   gs::safetensors_writer writer(in / "file", {{"w", "F32", {1}}}, {});
                   writer.write(as_bytes(std::vector<float>{1, 2}));
               }),
               ContainsSubstring("there are 8 bytes of data; expected 4, as the tensors have"));
    CHECK(in.names().empty());
}

TEST_CASE("Files that the system does not give are errors with its reason", "[saved][file]") {
    folder const in;
    auto const said = [](auto const& f) { return refusal<gs::io_error, std::runtime_error>(f); };
    CHECK(said([&] { gs::safetensors_reader r(in / "none"); }) ==
          "cannot read " + in / "none" + ": No such file or directory");
    CHECK_THAT(said([&] { gs::safetensors_reader r(in / ""); }), ContainsSubstring("it is not a regular file"));
    CHECK_THAT(said([&] { write_small(in / "none/file", 1); }), ContainsSubstring("No such file or directory"));
    CHECK_THAT(said([&] { write_small(in / "", 1); }), ContainsSubstring("cannot write"));
    CHECK(in.names().empty());
}

TEST_CASE("A new file has the permissions of the one before it, and takes the place of what a link points to",
          "[saved][file]") {
    namespace fs = std::filesystem;
    folder const in;
    write_small(in / "file", 1);
    fs::permissions(in / "file", fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
    fs::create_symlink(in / "nothing", in / "hanging");
    auto const said = refusal<gs::io_error, std::runtime_error>([&] { write_small(in / "hanging", 5); });
    CHECK_THAT(said, ContainsSubstring("is a symbolic link to a file that is not there"));
    CHECK(fs::is_symlink(in / "hanging"));
    fs::remove(in / "hanging");
    fs::create_symlink(in / "file", in / "link");
    write_small(in / "link", 5);
    CHECK(fs::is_symlink(in / "link"));
    CHECK(first_of(in / "file") == 5);
    CHECK(fs::status(in / "file").permissions() ==
          (fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read));
    CHECK(in.names().size() == 2);
}

#if defined(REPLACES_FILE_CALLS)
TEST_CASE("Where a call fails that writes a file, the one before is there, and nothing else", "[saved][file]") {
    folder const in;
    write_small(in / "file", 1);
    bool failed = true;
    for (std::size_t before = 0; failed; ++before) {
        REQUIRE(before < 30);
        interrupted.by = interruption::failure;
        interrupted.calls_before = before;
        std::string said;
        try {
            write_small(in / "file", 5);
            failed = interrupted.calls_before.exchange(SIZE_MAX) == SIZE_MAX; // a failure at close does not matter
        } catch (gs::io_error const& refused) {
            said = refused.what();
        }
        interrupted.calls_before = SIZE_MAX;
        CAPTURE(before, said);
        bool const is_new = first_of(in / "file") == 5;
        // The name is the new file's before it is known whether the disk has it.
        CHECK(is_new == (said.empty() || said.find("a loss of power") != said.npos));
        if (!said.empty()) CHECK_THAT(said, ContainsSubstring("No space left on device"));
        CHECK(in.names() == std::vector<std::string>{"file"});
        write_small(in / "file", 1);
    }
}

TEST_CASE("A process that is killed at any call that writes a file leaves the old one or the new one",
          "[saved][file]") {
    folder const in;
    write_small(in / "file", 1);
    for (interruption const by : {interruption::death, interruption::half_death}) {
        bool died = true, was_new = false;
        std::size_t before = 0;
        for (; died; ++before) {
            REQUIRE(before < 30);
            pid_t const child = fork();
            if (child == 0) {
                interrupted.by = by;
                interrupted.calls_before = before;
                write_small(in / "file", 5);
                _exit(0);
            }
            int status = 0;
            REQUIRE(waitpid(child, &status, 0) == child);
            REQUIRE(WIFEXITED(status));
            died = WEXITSTATUS(status) == status_of_death;
            REQUIRE((died || WEXITSTATUS(status) == 0));
            float const first = first_of(in / "file");
            CAPTURE(before);
            CHECK((first == 1 || first == 5));
            CHECK((!was_new || first == 5)); // once it is there it stays
            was_new = first == 5;
        }
        CHECK(was_new);
        CHECK(before > 8);
        write_small(in / "file", 1);
    }
    CHECK(first_of(in / "file") == 1);
}
#endif
