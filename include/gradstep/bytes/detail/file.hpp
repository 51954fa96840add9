#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gradstep/base/instruction_set.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The descriptor of an open file; closes it.
class descriptor {
public:
    explicit descriptor(int number) : number_(number) {}
    descriptor(descriptor const&) = delete;
    descriptor& operator=(descriptor const&) = delete;
    ~descriptor() { close(); }

    bool is_open() const { return number_ >= 0; }
    operator int() const { return number_; }
    // Returns 0, or the system's error. After EINTR the file is closed as well, on Linux and macOS.
    int close();

private:
    int number_;
};

// A file that appears completely or not at all; until then the previous one stays. Bytes are
// written to a temporary file in the same folder. commit() moves it into place once it is on the
// disk. Without commit() nothing remains. If the process is killed, it may leave the temporary
// file, NAME.NUMBER.partial, which is never read.
//
// If the name is a symbolic link, its target is replaced. The new file gets the permissions of the
// old one.
class output_file {
public:
    explicit output_file(std::string const& path);
    output_file(output_file const&) = delete;
    output_file& operator=(output_file const&) = delete;
    ~output_file() { remove_temporary(); }

    std::string const& path() const { return path_; }
    void write(std::span<std::byte const> bytes);
    void commit();

private:
    static std::string resolved(std::string const& path);
    static std::string folder_of(std::string const& path);
    // Creates a file; fails if it exists.
    static int create(std::string const& path, std::string& temporary);
    // Writes it to the disk. Returns 0, or the system's error.
    static int sync(int file);
    void remove_temporary();

    std::string path_, folder_, temporary_;
    descriptor file_;
};

// A file for reads at any offset.
class input_file {
public:
    explicit input_file(std::string path);

    std::string const& path() const { return path_; }
    std::uint64_t size() const { return size_; }
    // Reads the bytes from `offset` on, which must all be within size().
    void read(std::uint64_t offset, std::span<std::byte> to) const;

private:
    std::string path_;
    descriptor file_;
    std::uint64_t size_ = 0;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/bytes/detail/file.ipp>
#endif
