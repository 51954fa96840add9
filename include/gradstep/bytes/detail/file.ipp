#pragma once
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gradstep/base/error.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Repeats a system call while signals interrupt it.
template <class Call> auto uninterrupted(Call const& call) {
    auto result = call();
    while (result < 0 && errno == EINTR) result = call();
    return result;
}

// No system handles more in one call, and macOS rejects more.
inline constexpr std::size_t most_bytes_of_a_call = std::size_t{1} << 30;

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_file(char const* what, std::string const& path, int code) {
    throw_error<io_error>(message({"cannot ", what, " ", path}, {std::generic_category().message(code)}), code);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_kind(char const* what, std::string const& path, bool folder) {
    throw_error<io_error>(message({"cannot ", what, " ", path}, {"it is not a regular file"}),
                          folder ? EISDIR : EINVAL);
}

GRADSTEP_DEFINE int descriptor::close() {
    if (!is_open()) return 0;
    int const number = number_;
    number_ = -1;
    return ::close(number) == 0 || errno == EINTR ? 0 : errno;
}

GRADSTEP_DEFINE output_file::output_file(std::string const& path)
    : path_(resolved(path)), folder_(folder_of(path_)), file_(create(path_, temporary_)) {
    rollback_guard remove([&] { remove_temporary(); });
    struct ::stat before {};
    if (::stat(path_.c_str(), &before) == 0) {
        if (!S_ISREG(before.st_mode)) refuse_kind("write", path_, S_ISDIR(before.st_mode));
        if (::fchmod(file_, before.st_mode & 07777) != 0) refuse_file("write", temporary_, errno);
    }
    remove.dismiss();
}

GRADSTEP_DEFINE void output_file::write(std::span<std::byte const> bytes) {
    while (!bytes.empty()) {
        auto const written =
            uninterrupted([&] { return ::write(file_, bytes.data(), std::min(bytes.size(), most_bytes_of_a_call)); });
        if (written <= 0) refuse_file("write", path_, written < 0 ? errno : ENOSPC);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

GRADSTEP_DEFINE void output_file::commit() {
    if (int const code = sync(file_); code != 0) refuse_file("write", path_, code);
    if (int const code = file_.close(); code != 0) refuse_file("write", path_, code);
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) refuse_file("write", path_, errno);
    temporary_.clear();
    // Now the folder contains the name; after this it is on the disk.
    descriptor folder(uninterrupted([&] { return ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    int const code = folder.is_open() ? sync(folder) : errno;
    if (code != 0 && code != EINVAL) // from file systems that cannot sync folders
        refuse_file("be sure that a loss of power spares the new file", path_, code);
}

GRADSTEP_DEFINE std::string output_file::resolved(std::string const& path) {
    struct free_it {
        char* name;
        ~free_it() { std::free(name); }
    } const real{::realpath(path.c_str(), nullptr)};
    struct ::stat link {};
    if (real.name == nullptr && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode))
        throw_error<io_error>(message({"cannot write ", path}, {"it is a symbolic link to a file that is not there"}),
                              ENOENT);
    return real.name != nullptr ? std::string(real.name) : path;
}

GRADSTEP_DEFINE std::string output_file::folder_of(std::string const& path) {
    auto const slash = path.rfind('/');
    return slash == path.npos ? "." : path.substr(0, slash + 1);
}

GRADSTEP_DEFINE int output_file::create(std::string const& path, std::string& temporary) {
    static std::atomic<std::uint64_t> count = 0;
    for (int attempt = 0;; ++attempt) {
        std::timespec now{};
        std::timespec_get(&now, TIME_UTC);
        auto const number =
            static_cast<std::uint64_t>(::getpid()) << 40 ^ static_cast<std::uint64_t>(now.tv_nsec) << 10 ^ count++;
        temporary = joined({path, ".", number, ".partial"});
        int const file =
            uninterrupted([&] { return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
        if (file >= 0) return file;
        if (errno != EEXIST || attempt == 100) refuse_file("write", path, errno);
    }
}

GRADSTEP_DEFINE int output_file::sync(int file) {
#if defined(F_FULLFSYNC)
    if (::fcntl(file, F_FULLFSYNC) == 0) return 0; // macOS: fsync leaves it in the disk's cache
#endif
    return uninterrupted([&] { return ::fsync(file); }) == 0 ? 0 : errno;
}

GRADSTEP_DEFINE void output_file::remove_temporary() {
    if (temporary_.empty()) return;
    file_.close();
    ::unlink(temporary_.c_str());
    temporary_.clear();
}

GRADSTEP_DEFINE input_file::input_file(std::string path)
    : path_(std::move(path)), // O_NONBLOCK: otherwise opening a pipe waits for a writer
      file_(uninterrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); })) {
    if (!file_.is_open()) refuse_file("read", path_, errno);
    struct ::stat status {};
    if (::fstat(file_, &status) != 0) refuse_file("read", path_, errno);
    if (!S_ISREG(status.st_mode)) refuse_kind("read", path_, S_ISDIR(status.st_mode));
    size_ = static_cast<std::uint64_t>(status.st_size);
}

GRADSTEP_DEFINE void input_file::read(std::uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
        auto const got = uninterrupted([&] {
            return ::pread(file_, to.data(), std::min(to.size(), most_bytes_of_a_call), static_cast<off_t>(offset));
        });
        if (got < 0) refuse_file("read", path_, errno);
        if (got == 0)
            fail<io_error>(
                {"cannot read ", path_},
                {"it ends at byte ", offset, ", and had more when it was opened: another process writes to it"});
        to = to.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
