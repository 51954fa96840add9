// Replaces, for the whole program, the calls by which files are written: tests have them fail, or
// end the process there.
#include <cerrno>
#include <cstdarg>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "support/file_calls.hpp"

interrupted_call interrupted;

#if defined(REPLACES_FILE_CALLS)
// Called before the thread sanitizer has begun. The spelling that both g++ and clang know.
#define UNWATCHED __attribute__((no_sanitize("thread")))

namespace {

enum class at_call { happens, fails };

// half(): what happens of the call before a process dies in the middle of it.
template <class Half> UNWATCHED at_call next_call(Half const& half) {
    std::size_t left = interrupted.calls_before;
    while (left != SIZE_MAX && !interrupted.calls_before.compare_exchange_weak(left, left - 1)) {
    }
    if (left != 0) return at_call::happens;
    if (interrupted.by == interruption::half_death) half();
    if (interrupted.by != interruption::failure) _exit(status_of_death);
    errno = ENOSPC;
    return at_call::fails;
}
template <class... Arguments> UNWATCHED long unless_interrupted(long call, Arguments... arguments) {
    return next_call([] {}) == at_call::fails ? -1 : syscall(call, arguments...);
}

} // namespace

extern "C" {

UNWATCHED ssize_t write(int file, void const* bytes, std::size_t count) {
    if (file > 2 && next_call([&] { syscall(SYS_write, file, bytes, count / 2); }) == at_call::fails) return -1;
    return syscall(SYS_write, file, bytes, count);
}
UNWATCHED int open(char const* path, int flags, ...) {
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        std::va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return static_cast<int>(unless_interrupted(SYS_openat, AT_FDCWD, path, flags, mode));
}
UNWATCHED int fchmod(int file, mode_t mode) noexcept {
    return static_cast<int>(unless_interrupted(SYS_fchmod, file, mode));
}
UNWATCHED int fsync(int file) { return static_cast<int>(unless_interrupted(SYS_fsync, file)); }
UNWATCHED int close(int file) { return static_cast<int>(unless_interrupted(SYS_close, file)); }
UNWATCHED int rename(char const* from, char const* to) noexcept {
    return static_cast<int>(unless_interrupted(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}
#endif
