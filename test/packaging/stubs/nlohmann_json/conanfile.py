import os

from conan import ConanFile
from conan.tools.files import mkdir


class NlohmannJson(ConanFile):
    """Debian's nlohmann-json under the names of ConanCenter's recipe."""

    name = "nlohmann_json"

    def package(self):
        mkdir(self, os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "nlohmann_json")
        self.cpp_info.set_property("cmake_target_name", "nlohmann_json::nlohmann_json")
        self.cpp_info.libdirs = self.cpp_info.bindirs = []
