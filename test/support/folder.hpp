#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

/// A folder of its own, which is gone at the end of the scope.
class folder {
public:
    folder() {
        std::string name = std::filesystem::temp_directory_path() / "gradstep_test_XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made: " + name);
        path_ = name;
    }
    folder(folder const&) = delete;
    folder& operator=(folder const&) = delete;
    ~folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    /// The name of a file in it.
    std::string operator/(std::string const& name) const { return (path_ / name).string(); }
    /// The names of what is in it.
    std::vector<std::string> names() const {
        std::vector<std::string> out;
        for (auto const& entry : std::filesystem::directory_iterator(path_))
            out.push_back(entry.path().filename().string());
        return out;
    }

private:
    std::filesystem::path path_;
};

inline std::string bytes_of(std::string const& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_bytes(std::string const& file, std::string const& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
}
