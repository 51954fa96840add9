#pragma once
#include <algorithm>
#include <array>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::string small_file(std::string const& path) {
    std::string out;
    int const file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return out;
    std::array<char, 4096> part;
    for (ssize_t got = 0; out.size() < 1u << 16 && (got = read(file, part.data(), part.size())) > 0;)
        out.append(part.data(), static_cast<std::size_t>(got));
    close(file);
    return out;
}

GRADSTEP_DEFINE std::string_view next_word(std::string_view& text) {
    std::size_t const end = std::min(text.find_first_of(" \n"), text.size());
    std::string_view const word = text.substr(0, end);
    text.remove_prefix(std::min(text.find_first_not_of(" \n", end), text.size()));
    return word;
}

GRADSTEP_DEFINE std::uint64_t digits_of(std::string_view word) {
    std::uint64_t out = 0;
    for (char const c : word) {
        if (c < '0' || c > '9' || out > std::uint64_t(1) << 50) return 0;
        out = out * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return out;
}

GRADSTEP_DEFINE std::size_t cores_of_quota(std::string_view groups, std::string const& root) {
    std::uint64_t least = 0;
    auto const take = [&](std::uint64_t quota, std::uint64_t period) {
        if (quota == 0 || period == 0) return;
        std::uint64_t const cores = (quota + period - 1) / period;
        if (least == 0 || cores < least) least = cores;
    };
    // Reads the group at `path` and its parents. In a container, `path` can be a path outside it,
    // which is not mounted.
    auto const look = [&](std::string const& mount, std::string path, bool is_v2) {
        for (;;) {
            while (!path.empty() && path.back() == '/') path.pop_back();
            if (is_v2) {
                std::string const text = small_file(mount + path + "/cpu.max");
                std::string_view rest = text;
                std::uint64_t const quota = digits_of(next_word(rest));
                take(quota, digits_of(next_word(rest)));
            } else {
                std::string const quota = small_file(mount + path + "/cpu.cfs_quota_us");
                std::string const period = small_file(mount + path + "/cpu.cfs_period_us");
                std::string_view of_quota = quota, of_period = period;
                take(digits_of(next_word(of_quota)), digits_of(next_word(of_period)));
            }
            if (path.empty()) return;
            path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
        }
    };
    while (!groups.empty()) { // "4:cpu,cpuacct:/path" of version 1, "0::/path" of version 2
        std::size_t const end = std::min(groups.find('\n'), groups.size());
        std::string_view const line = groups.substr(0, end);
        groups.remove_prefix(std::min(end + 1, groups.size()));
        std::size_t const first = line.find(':');
        std::size_t const second = first == line.npos ? line.npos : line.find(':', first + 1);
        if (second == line.npos) continue;
        std::string const controllers(line.substr(first + 1, second - first - 1)), path(line.substr(second + 1));
        if (controllers.empty()) {
            look(root, path, true);
            look(root + "/unified", path, true); // version 2 mounted beside version 1
        } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
            look(root + "/" + controllers, path, false);
            look(root + "/cpu", path, false);
        }
    }
    return static_cast<std::size_t>(least);
}

GRADSTEP_DEFINE std::size_t cores_of_affinity() {
    std::array<unsigned long, 1024> mask{}; // of 65536 processors, the most that a kernel can have
    if (sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) == 0) {
        std::size_t count = 0;
        for (unsigned long const word : mask) count += static_cast<std::size_t>(__builtin_popcountl(word));
        if (count != 0) return count;
    }
    return static_cast<std::size_t>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::size_t available_cores() {
    std::size_t const quota = detail::cores_of_quota(detail::small_file("/proc/self/cgroup"), "/sys/fs/cgroup");
    std::size_t const cores = detail::cores_of_affinity();
    return quota == 0 ? cores : std::min(cores, quota);
}
} // namespace gradstep::inline GRADSTEP_ABI
